"""Half passages are kept by pair, in parts that are made once."""

import re
import shutil

import numpy as np
import pytest

from neg_contrast import errors, hosts
from neg_contrast.artifacts import artifact, folders, plan
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.jobs.common import declared_draws
from neg_contrast.negatives import half_table, sources
from neg_contrast.settings import config as config_lib
from tests import test_hosts, tiny


def make_table(folder, **overrides):
  """Of a corpus where every other document has one passage alone."""
  artifact.forget()
  config = config_lib.parse(tiny.make_config(folder, **{
      'negatives__sources': ('context:2',), 'negatives__mined_dir':
      str(folder / 'mined'), **overrides}))
  data = dataset_lib.data_of(config.data)
  (role, made), = declared_draws.drawn_from(config, data, data)
  assert role == 'halves'
  return made


def write_alone(folder):
  """Documents of one passage, and one of two; two questions a passage."""
  tiny.write_beir(folder / 'data', documents=8, per_document=1)
  corpus = folder / 'data' / 'corpus.jsonl'
  corpus.write_text(corpus.read_text().replace('"d1"', '"d0"'))
  queries = folder / 'data' / 'queries.jsonl'
  more = queries.read_text().replace('"_id": "q', '"_id": "other')
  queries.write_text(queries.read_text() + more)
  qrels = folder / 'data' / 'qrels' / 'train.tsv'
  lines = qrels.read_text().splitlines()[1:]
  qrels.write_text(qrels.read_text() + ''.join(
      f'other{line[1:]}\n' for line in lines))


@pytest.fixture(scope='module')
def root(tmp_path_factory):
  root = tmp_path_factory.mktemp('halves')
  write_alone(root)
  return root


def test_positives_without_neighbours_have_a_half(root, monkeypatch):
  monkeypatch.setattr(half_table, '_PAIRS_AT_ONCE', 7)
  made = make_table(root)
  assert not made.is_made()
  plan.run([made])
  halves, dataset = made.load(), made.data.load()
  judged = dataset.prepared.judgements('train')
  is_pair = judged.grades > 0
  queries, rows = judged.query_rows[is_pair], judged.passage_rows[is_pair]
  lines = halves.lines_of(queries, rows)
  documents = dataset.documents
  is_alone = np.array([(documents == documents[row]).sum() == 1
                       for row in rows])
  assert 0 < is_alone.sum() < len(rows) and len(queries) == 12
  np.testing.assert_array_equal(lines >= 0, is_alone)
  assert (halves.spans[lines[is_alone], 0] == rows[is_alone]).all()
  for query, (row, begin, end) in zip(
      queries[is_alone], halves.spans[lines[is_alone]], strict=True):
    # The answer is the first word.
    words = dataset.prepared.passages[int(row)].text.split()
    assert (begin, end) == (len(words) // 2, len(words)), query
  assert (halves.lines_of(queries, rows + 1) == -1).all()


def test_a_lost_part_is_made_again_alone(root, monkeypatch, tmp_path):
  monkeypatch.setattr(half_table, '_PAIRS_AT_ONCE', 7)
  shutil.copytree(root, tmp_path / 'copy')
  overrides = {'negatives__mined_dir': str(tmp_path / 'copy' / 'mined')}
  made = make_table(root, **overrides)
  plan.run([made])
  places = sorted((tmp_path / 'copy').glob('mined/halves/*/*-of-*'))
  assert len(places) > 2 and made.is_made()
  times = lambda: [place.stat().st_mtime_ns for place in places]
  before, halves = times(), made.load()
  shutil.rmtree(places[1])
  made = make_table(root, **overrides)
  assert not made.is_made()
  plan.run([made])
  assert [one == two for one, two in zip(before, times(), strict=True)] == [
      number != 1 for number in range(len(places))]
  np.testing.assert_array_equal(made.load().keys, halves.keys)
  np.testing.assert_array_equal(made.load().spans, halves.spans)
  damaged = places[2] / 'spans.npy'
  damaged.write_bytes(damaged.read_bytes()[:-1] + b'x')
  with pytest.raises(errors.UserError, match='spans.npy: damaged.*Remove'):
    make_table(root, **overrides).load()


def make_together(root, mined):
  """Makes the table as a process that waits for all before its first part."""
  write, made = half_table.HalfTable._write, []

  def write_part(self, place, halves):
    if not made:
      hosts.meet()
    made.append(place)
    write(self, place, halves)

  half_table._PAIRS_AT_ONCE = 7
  half_table.HalfTable._write = write_part
  plan.run([make_table(root, negatives__mined_dir=mined)])
  print('parts', len(made), flush=True)


def test_processes_make_the_bytes_of_one(root, monkeypatch, tmp_path):
  monkeypatch.setattr(half_table, '_PAIRS_AT_ONCE', 7)
  alone, divided = tmp_path / 'alone', tmp_path / 'divided'
  plan.run([make_table(root, negatives__mined_dir=str(alone))])
  told = test_hosts.outputs_of(test_hosts.start(
      3, 1, ('halves', root, divided)))
  bytes_in = lambda folder: {
      path.relative_to(folder): path.read_bytes()
      for path in folder.rglob('*.npy')}
  assert bytes_in(alone) == bytes_in(divided)
  counts = [int(re.search(r'^parts (\d+)$', text, re.M)[1]) for text in told]
  assert min(counts) > 0  # Each has made some.
  assert 2 * sum(counts) == len(bytes_in(divided))


def test_what_counts_for_identity(root):
  code = lambda **overrides: folders.sha256_json(
      make_table(root, **overrides).identity)
  assert code() == code(
      negatives__sources=('context:1',), negatives__pool_size=7)
  assert len({code(), code(data__document='title'),
              code(evaluation__bm25_k1=0.5),
              code(evaluation__answer_rule='regex')}) == 4


def test_only_what_draws_context_asks_for_it(root):
  def needed(**overrides):
    config = config_lib.parse(tiny.make_config(root, **overrides))
    data = dataset_lib.data_of(config.data)
    return dict(declared_draws.drawn_from(config, data, data))

  for listed in (('given:2',), ('corpus:2',), ()):
    assert not needed(negatives__sources=listed)
  assert set(needed(negatives__sources=('bm25+context:2',))) == {'halves'}
  assert not needed(negatives__sources=('context:2',), negatives__pool='some')
  assert sources.SOURCES['context'].needs is not sources.Source.needs
