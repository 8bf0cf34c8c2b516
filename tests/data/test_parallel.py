"""Workers prepare and tokenize to the same bytes as one process."""

import gzip
import json
import pathlib
import shutil
import time

import hypothesis
import pytest
from hypothesis import strategies as st

from neg_contrast import errors, hosts, workers
from neg_contrast.artifacts import places
from neg_contrast.data import (
    corpus_writer,
    packed_records,
    preparation,
    records,
    sources,
    token_store,
    tokenized,
)
from neg_contrast.data import tokenizer as tokenizer_lib
from neg_contrast.data.formats import dpr, line_blocks
from tests import corpora, processes, tiny


@pytest.fixture
def cut(monkeypatch):
  """Sets the number of cores, and cuts files small."""
  def set_to(cores, block=300):
    monkeypatch.setattr(line_blocks, '_BLOCK', block)
    monkeypatch.setattr(corpus_writer, '_ALONE_BYTES', 100)
    monkeypatch.setattr(token_store, '_BATCHES_ALONE', 1)
    monkeypatch.setattr(token_store, '_BATCH', 5)
    monkeypatch.setattr(hosts, 'usable_cores', lambda: cores)
  return set_to


def files_of(folder: pathlib.Path):
  return {str(path.relative_to(folder)): path.read_bytes()
          for path in sorted(folder.rglob('*')) if path.is_file()}


def write_beir(folder):
  """Awkward lines, of which some can't be used."""
  rows = [json.dumps({
      '_id': f'p{n % 40}', 'title': f'T{n % 40 % 3}',
      'text': f'word{n % 40} ü\u2028',
      'metadata': {'document_id': f'd{n % 40 // 4}'},
  }, ensure_ascii=False) for n in range(60)]
  rows[7], rows[20], rows[31] = '{"_id": "x"', '', '{"_id": "e", "text": " "}'
  rows[44] = '{"_id": "p3", "text": "another"}'
  rows[50] = '{"_id": "p50", "text": "\\ud800"}'
  folder.mkdir()
  (folder / 'corpus.jsonl').write_bytes(
      b'\xef\xbb\xbf' + '\r\n'.join(rows[:30]).encode()
      + b'\n\n  \n' + '\n'.join(rows[30:]).encode())
  return f'beir:{folder}'


def write_zeshel(folder):
  return corpora.write_worlds(folder, {
      'b': {f'b{n}': f'word{n} and more' for n in range(20)},
      'a': {f'a{n}': f'word{n} and less' for n in range(20)},
  }, [('m0', 'b3', 0, 'b4'), ('m1', 'a3', 0, 'a4')])


def write_dpr(folder):
  """Fields of several lines, and quotes that are not closed."""
  rows = ['title\tid\ttext'] + [
      f'T\t{n}\t"word{n} ""so""' + '\n\nand\tmore' * (n % 5) + '"'
      for n in range(40)]
  rows[9] = 'T\t8\t"never closed'
  rows[25] = '"T"x\t24\tquote in the middle'
  folder.mkdir()
  (folder / 'psgs.tsv.gz').write_bytes(gzip.compress('\n'.join(rows).encode()))
  return f'dpr:{folder}'


def write_msmarco(folder):
  folder.mkdir()
  (folder / 'collection.tsv').write_text('pid\tpassage\n' + ''.join(
      f'{n}\tword{n} of "it"\n' * (1 + n // 29) for n in range(30)) + 'x\n')
  return f'msmarco:{folder}'


@pytest.mark.parametrize('write, skipped', [
    (write_beir, {'broken_record': 2, 'empty_passage': 1, 'duplicate_id': 1}),
    (write_zeshel, {}),
    (write_dpr, {'broken_record': 2}),
    (write_msmarco, {'broken_record': 1}),
])
def test_a_corpus_has_the_same_bytes(tmp_path, cut, write, skipped):
  spec = write(tmp_path / 'data')
  whole = preparation.prepare(spec, tmp_path / 'whole', True)
  assert whole.manifest['counts']['skipped'] == skipped
  for cores in (1, 3):
    cut(cores)
    made = preparation.prepare(spec, tmp_path / f'{cores}', True)
    assert files_of(made.folder) == files_of(whole.folder)


def test_the_first_bad_line_is_the_one_reported(tmp_path, cut):
  spec = write_beir(tmp_path / 'data')
  messages = set()
  for cores in (1, 3):
    cut(cores)
    with pytest.raises(errors.UserError, match=r'corpus\.jsonl:8: ') as failed:
      preparation.prepare(spec, tmp_path / f'{cores}', False)
    messages.add(str(failed.value))
    assert not files_of(tmp_path / f'{cores}').keys() - {
        f'.locks/{path.name}' for path in (tmp_path / f'{cores}').rglob('*')}
  assert len(messages) == 1


@pytest.mark.parametrize('end, message', [
    (b'{"_id": "\xff"}', r'not UTF-8 after line 90 '),
    (None, r'broken after line \d+: .*Get the file again'),
])
def test_bytes_that_are_broken_are_named_by_all(tmp_path, cut, end, message):
  data = b''.join(b'{"_id": "%d", "text": "%d"}\n' % (n, n ** 99)
                  for n in range(1, 91))
  (tmp_path / 'd').mkdir()
  (tmp_path / 'd' / 'corpus.jsonl').write_bytes(
      data + end if end else gzip.compress(data)[:-2000])
  messages = set()
  for cores in (1, 2):
    cut(cores)
    with pytest.raises(errors.UserError, match=message) as failed:
      preparation.prepare(f'beir:{tmp_path / "d"}', tmp_path / 'out', True)
    messages.add(str(failed.value))
  assert len(messages) == 1


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
  return tmp_path_factory.mktemp('quoted')


PIECES = st.sampled_from(['"', '""', '\t', '\n', '\r\n', 'a', 'ü', '\t"', '"\t',
                          '"\n', '1\tx\ty\n'])


@hypothesis.given(st.lists(PIECES, max_size=60), st.integers(1, 30))
@hypothesis.settings(deadline=None, max_examples=100)
def test_quoted_rows_are_the_same_in_blocks(folder, pieces, block):
  (folder / 'psgs.tsv').write_bytes(('0\tx\ty\n' + ''.join(pieces)).encode())
  invalid = records.InvalidRecords(skip=True)
  source: dpr.Dpr = sources.open_source(f'dpr:{folder}', invalid)
  whole = [(passage, passage.where) for passage in source.passages()]
  expected = invalid.counts.copy()
  invalid.counts.clear()
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(line_blocks, '_BLOCK', block)
    found = []
    for part in workers.in_order(
        lambda block: (list(source.passages_of(block)), block.unread),
        line_blocks.read_blocks(folder / 'psgs.tsv'), 1, 1,
        lambda before, block: line_blocks.with_unread(before[1], block)):
      found += [(passage, passage.where) for passage in part[0]]
  assert found == whole
  assert invalid.counts >= expected  # Blocks that were read again count twice.


def test_long_texts_are_not_held_together():
  passages = [records.Passage(str(n), '', 'x' * 100_000) for n in range(30)]
  lists = list(packed_records.in_lists(
      map(packed_records.pack_passage, passages)))
  assert [len(some) for some in lists] == [3] * 10 + [0]


@pytest.mark.parametrize('role', ['passage', 'query'])
def test_tokens_have_the_same_bytes(tmp_path, cut, role):
  spec = write_zeshel(tmp_path / 'data')
  tiny.write_tokenizer(tmp_path / 't')
  tokenizer = tokenizer_lib.load_tokenizer(str(tmp_path / 't'))
  made = {}
  for cores in (0, 1, 3):
    if cores:
      cut(cores)
    corpus = preparation.prepare(spec, tmp_path / str(cores), False)
    store = tokenized.store_of(corpus, role, tokenizer)
    made[cores] = files_of(corpus.folder / 'tokens')
    assert len(store) == (40 if role == 'passage' else 2)
  assert made[0] == made[1] == made[3]


_PREPARING = '''
import pathlib, sys
from neg_contrast import hosts
from neg_contrast.data import corpus_writer, preparation
from neg_contrast.data.formats import line_blocks
hosts.usable_cores = lambda: 2
line_blocks._BLOCK, corpus_writer._ALONE_BYTES = 3000, 1
preparation.prepare(sys.argv[1], pathlib.Path(sys.argv[2]), False)
'''


def test_killed_preparing_ends_the_same(tmp_path):
  """kill -9 while workers read; the same command starts again."""
  passages = {f'p{n}': f'text {n} ' * 20 for n in range(4000)}
  spec = corpora.write_beir(tmp_path / 'data', passages)
  whole = preparation.prepare(spec, tmp_path / 'whole', False)
  arguments = spec, tmp_path / 'killed'
  process = processes.Process(_PREPARING, arguments)
  scratch = places.scratch(tmp_path / 'killed' / whole.folder.name)
  ids = scratch / 'passages.ids.bin'
  while not (ids.exists() and ids.stat().st_size):  # Of 22,890 bytes.
    assert process.poll() is None
    time.sleep(0.001)
  process.kill()
  assert process.wait(30) < 0 and scratch.exists()
  assert not preparation.is_prepared(spec, tmp_path / 'killed', False)
  assert processes.run(processes.Process(_PREPARING, arguments)).returncode == 0
  made = preparation.prepare(spec, tmp_path / 'killed', False)
  assert not scratch.exists()
  assert files_of(made.folder) == files_of(whole.folder)


_TOKENIZING = '''
import pathlib, sys
from neg_contrast import hosts
from neg_contrast.data import preparation, token_store, tokenized, tokenizer
hosts.usable_cores = lambda: 2
token_store._BATCHES_ALONE, token_store._BATCH = 1, 50
folder = pathlib.Path(sys.argv[1])
prepared = preparation.prepare(
    f'beir:{folder / "data"}', folder / 'prepared', False)
tokenized.store_of(prepared, 'passage',
                   tokenizer.load_tokenizer(str(folder / 't')))
'''


def test_killed_tokenizing_ends_the_same(tmp_path):
  """kill -9 while workers tokenize; the same command starts again."""
  passages = {f'p{n}': f'{tiny.WORDS[n % 7]} ' * 20 for n in range(4000)}
  spec = corpora.write_beir(tmp_path / 'data', passages)
  tiny.write_tokenizer(tmp_path / 't')
  prepared = preparation.prepare(spec, tmp_path / 'prepared', False)
  process = processes.Process(_TOKENIZING, [tmp_path])
  begun = lambda: [path for path in prepared.folder.rglob('text_ids.bin')
                   if path.stat().st_size]
  while not begun():
    assert process.poll() is None, process.communicate()
    time.sleep(0.001)
  process.kill()
  assert process.wait(30) < 0
  scratch, = begun()
  assert scratch.parent.suffix == '.partial'  # It was not whole.
  again = processes.run(processes.Process(_TOKENIZING, [tmp_path]))
  assert again.returncode == 0, again.stderr
  assert not scratch.exists()
  made = files_of(prepared.folder / 'tokens')
  shutil.rmtree(prepared.folder / 'tokens')
  tokenized.store_of(prepared, 'passage',
                     tokenizer_lib.load_tokenizer(str(tmp_path / 't')))
  assert made == files_of(prepared.folder / 'tokens')
