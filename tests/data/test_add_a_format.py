"""A format is one file and one line: data/README.md, followed."""

import pathlib

import pytest

from neg_contrast import errors, jobs
from neg_contrast.artifacts import plan
from neg_contrast.data import records, sources
from neg_contrast.data.formats import line_blocks
from neg_contrast.settings import config as config_lib
from tests import tiny


class Lines:
  """A passage a line: id, tab, text. Queries are the first words of some."""

  splits = ('train',)

  def __init__(self, place, invalid):
    self.files = (pathlib.Path(place),)
    self._invalid = invalid

  def _rows(self):
    for number, line in line_blocks.numbered_lines(self.files[0]):
      name, tab, text = line.partition('\t')
      if tab:
        yield name, text
      else:
        self._invalid.report('broken_record', f'{self.files[0]}:{number}',
                             'has no tab')

  def passages(self):
    for name, text in self._rows():
      yield records.Passage(name, '', text, '', str(self.files[0]))

  def queries(self):
    for name, text in self._rows():
      yield records.Query(f'q-{name}', ' '.join(text.split()[:2]))

  def judgements(self, split):
    for name, _ in self._rows():
      yield records.Judgement(f'q-{name}', name, 1)


FORMAT = records.SourceFormat('lines:data/it.lines', Lines, names=('*.lines',))


@pytest.fixture
def source(monkeypatch, tmp_path):
  monkeypatch.setitem(sources.FORMATS, FORMAT.scheme, FORMAT)
  path = tmp_path / 'it.lines'
  path.write_bytes('a\tword1 word2 é\r\nb\tword3 word4\n'.encode())
  return path


def make(tmp_path, spec):
  config = tiny.make_config(tmp_path, job='split')
  config.data.source = spec
  return jobs.make_job(config_lib.parse(config), tmp_path / 'work')


def test_a_line_is_enough(source, tmp_path, capsys):
  job = make(tmp_path, f'lines:{source}')
  assert f'data       lines:{source} prepared' in plan.describe(job.targets())
  (tmp_path / 'work').mkdir()
  plan.run(job.targets())
  job.finish()
  assert '2 documents, 2 passages' in capsys.readouterr().out
  corpus = (tmp_path / 'work' / 'corpus' / 'corpus.jsonl').read_text('utf-8')
  assert '"word1 word2 é"' in corpus


def test_errors_offer_it_and_recognise_its_files(source, tmp_path):
  said = plan.describe(make(tmp_path, 'nonsense:x').targets())
  assert '[MISSING] data' in said and 'lines:data/it.lines' in said
  said = plan.describe(make(tmp_path, str(source)).targets())
  assert f'lines:{source}' in said
  source.write_text('no tab here\n')
  (tmp_path / 'work').mkdir()
  with pytest.raises(errors.UserError, match='it.lines:1: has no tab'):
    plan.run(make(tmp_path, f'lines:{source}').targets())
