"""Beam prepares and tokenizes to the same bytes as this program alone."""

import gzip
import json
import types

import numpy as np
import pytest

pytest.importorskip(
    'apache_beam', reason='Apache Beam is not installed: the extra [beam]')

from neg_contrast import beams, errors
from neg_contrast.data import (
    beam_corpus,
    beam_queries,
    beam_tokens,
    pair_writer,
    pieces,
    preparation,
    synthetic_pairs,
    tfds_records,
    tokenized,
)
from neg_contrast.data import tokenizer as tokenizer_lib
from neg_contrast.retrieval import (
    beam_bm25,
    bm25,
    bm25_folder,
    bm25_postings,
)
from tests import beam_runs, corpora, dies_once, tiny
from tests.data.test_parallel import files_of, write_beir

IN_THREADS = beam_runs.IN_THREADS


@pytest.fixture
def small(monkeypatch):
  """All is cut small."""
  monkeypatch.setattr(pieces, 'PIECE_BYTES', 700)
  monkeypatch.setattr(beam_corpus, '_PART_ROWS', 7)
  monkeypatch.setattr(tfds_records, 'ROWS_PER_SHARD', 9)
  yield
  beams.choose('local')


@pytest.fixture
def beam(monkeypatch, small):
  """A function that chooses the DirectRunner, in threads of this process."""
  beam_runs.without_helper(monkeypatch)
  return lambda: beams.choose('direct', IN_THREADS)


def prepare_both(spec, folder, beam, skip=True):
  """The files that this program makes, and those that Beam makes."""
  local = preparation.prepare(spec, folder / 'local', skip)
  beam()
  made = preparation.prepare(spec, folder / 'beam', skip)
  return files_of(local.folder), files_of(made.folder)


def test_the_same_bytes_with_skipped_and_repeated_records(tmp_path, beam):
  spec = write_beir(tmp_path / 'data')
  local, made = prepare_both(spec, tmp_path, beam)
  assert len([name for name in made if name.startswith('passages/')]) > 4
  assert local == made
  counts = json.loads(made['manifest.json'])['counts']
  assert counts['repeated'] and counts['skipped']['duplicate_id'] == 1


def write_psgs(folder, rows=20):
  """DPR's table; some texts are quoted and go on over many lines."""
  folder.mkdir()
  with open(folder / 'psgs_w100.tsv', 'w') as f:
    f.write('id\ttext\ttitle\n')
    for n in range(rows):
      text = f'"a ""quoted"" text {n}' + '\n\nand more lines' * 30 + '"'
      f.write(f'{n}\t{text if n % 13 == 5 else f"text {n}"}\tTitle {n // 7}\n')
  return f'dpr:{folder}'


def test_rows_that_go_on_over_pieces(tmp_path, beam, monkeypatch):
  monkeypatch.setattr(pieces, 'PIECE_BYTES', 300)
  local, made = prepare_both(write_psgs(tmp_path / 'data'), tmp_path, beam)
  assert local == made


def test_worlds_and_gzipped_files(tmp_path, beam):
  folder = tmp_path / 'data' / 'documents'
  folder.mkdir(parents=True)
  for world in ('b', 'a'):
    (folder / f'{world}.json').write_text(''.join(
        json.dumps({'document_id': f'{world}{n}', 'title': f'T{n}',
                    'text': f'text {n}'}) + '\n' for n in range(20)))
  (folder.parent / 'mentions').mkdir()
  (folder.parent / 'mentions' / 'train.json').write_text(json.dumps({
      'mention_id': 'm', 'context_document_id': 'a0', 'label_document_id': 'a1',
      'corpus': 'a', 'text': 'text', 'start_index': 0, 'end_index': 0,
      'category': 'LOW'}) + '\n')
  local, made = prepare_both(f'zeshel:{folder.parent}', tmp_path, beam)
  assert local == made and 'passage_worlds.npy' in made
  spec = corpora.write_beir(tmp_path / 'gz', {f'p{n}': f't {n}'
                                              for n in range(30)})
  corpus = tmp_path / 'gz' / 'corpus.jsonl'
  (tmp_path / 'gz' / 'corpus.jsonl.gz').write_bytes(
      gzip.compress(corpus.read_bytes()))
  corpus.unlink()
  beams.choose('local')
  local, made = prepare_both(spec, tmp_path / 'of_gz', beam)
  assert local == made


def test_mistakes_are_those_of_one_process(tmp_path, beam):
  spec = write_beir(tmp_path / 'data')
  with pytest.raises(errors.UserError) as alone:
    preparation.prepare(spec, tmp_path / 'local', False)
  beam()
  with pytest.raises(errors.UserError) as divided:
    preparation.prepare(spec, tmp_path / 'beam', False)
  assert str(divided.value) == str(alone.value)
  assert ':8: ' in str(alone.value)
  repeated = corpora.write_beir(tmp_path / 'twice', {})
  (tmp_path / 'twice' / 'corpus.jsonl').write_text(''.join(
      json.dumps({'_id': f'p{n % 30}', 'text': f't{n % 30 + n // 31}'}) + '\n'
      for n in range(32)))
  messages = []
  for runner in ('local', 'direct'):
    beams.choose(runner, IN_THREADS if runner == 'direct' else '')
    with pytest.raises(errors.UserError, match='with another content') as e:
      preparation.prepare(repeated, tmp_path / runner, False)
    messages.append(str(e.value))
  assert messages[0] == messages[1]


def reader_dies(patch):
  """A worker of Beam is killed while it reads, the first time."""
  reader = beam_corpus.packed_records.PassageReader
  patch.setattr(beam_corpus, 'packed_records', types.SimpleNamespace(
      PassageReader=lambda *args: dies_once.DiesAt(
          reader(*args), '"(p25|d12p3)"')))


@pytest.mark.usefixtures('small')
def test_a_killed_worker_leaves_no_trace(tmp_path, monkeypatch):
  """Two processes of Beam; one is killed while it reads.

  Threads do the rest, which test_beam_bucket.py has done by processes.
  """
  spec = corpora.write_beir(tmp_path / 'data', {
      f'p{n}': f'text {n}' for n in range(60)})
  flag = tmp_path / 'died'
  monkeypatch.setenv('DIES_ONCE', str(flag))
  local = files_of(preparation.prepare(spec, tmp_path / 'l', False).folder)
  reader_dies(monkeypatch)
  run = beams.run

  def go_on_in_threads():
    assert flag.exists()
    beam_runs.without_helper(monkeypatch)
    beams.choose('direct', IN_THREADS)

  beam_runs.after_the_first(monkeypatch, go_on_in_threads)
  beams.choose('direct', '--direct_num_workers=2')
  made = files_of(preparation.prepare(spec, tmp_path / 'b', False).folder)
  assert beams.run is run and made == local


@pytest.mark.parametrize('role', ['passage', 'query'])
def test_tokens_have_the_same_bytes(tmp_path, beam, monkeypatch, role):
  monkeypatch.setattr(beam_tokens, '_PART_ROWS', 7)
  tiny.write_tokenizer(tmp_path / 't')
  tokenizer = tokenizer_lib.load_tokenizer(str(tmp_path / 't'))
  spec = corpora.write_beir(
      tmp_path / 'data', {f'p{n}': f'what is {n}' for n in range(30)},
      {f'q{n}': f'what is {n} of {n}' for n in range(20)},
      test={f'q{n}': {'p1': 1} for n in range(20)})
  made = []
  for runner in ('local', 'direct'):
    corpus = preparation.prepare(spec, tmp_path / runner, False)
    beams.choose(runner, IN_THREADS if runner == 'direct' else '')
    tokenized.store_of(corpus, role, tokenizer)
    made.append(files_of(corpus.folder / 'tokens'))
  assert made[0] == made[1] and len(made[0]) >= 5


@pytest.mark.usefixtures('small')
def test_shards_of_bm25_have_the_same_bytes(tmp_path, monkeypatch):
  corpus = preparation.prepare(corpora.write_beir(
      tmp_path / 'data', {f'p{n}': f'word{n} and {n % 7}' for n in range(50)}
  ), tmp_path / 'prepared', False)
  bm25_folder.make(corpus, shard_rows=16)
  folder = bm25_folder.folder_of(corpus)
  local = files_of(folder)
  folder.rename(tmp_path / 'local')
  beams.choose('direct', IN_THREADS)
  # Beam makes all of them, and nothing is left to this process.
  monkeypatch.setattr(bm25_postings, 'write', None)
  bm25_folder.make(corpus, shard_rows=16)
  assert files_of(folder) == local and len(local) >= 9


def test_candidates_are_merged_by_our_rule_of_ties(tmp_path, beam):
  rng = np.random.default_rng(0)  # Few words: many scores are equal.
  words = np.array(['red', 'green', 'blue', 'stone'])
  corpus = preparation.prepare(corpora.write_beir(tmp_path / 'data', {
      f'p{n}': ' '.join(rng.choice(words, 3)) for n in range(60)
  }), tmp_path / 'prepared', False)
  bm25_folder.make(corpus, shard_rows=16)
  queries = ['red stone', 'no word of it', *rng.choice(words, 6)]
  alone = bm25.Bm25Index(
      bm25_folder.open_shards(corpus), corpus.tie_ranks
  ).search(queries, 25)
  beam()
  (tmp_path / 'scratch').mkdir()
  found = beam_bm25.search(corpus, queries, 25, 0.9, 0.4, tmp_path / 'scratch')
  assert (np.diff(alone.scores[0]) == 0).sum() > 3
  np.testing.assert_array_equal(found.rows, alone.rows)
  np.testing.assert_array_equal(found.scores, alone.scores)


@pytest.mark.usefixtures('small')
def test_equal_questions_are_found_as_by_one_process(tmp_path, monkeypatch):
  monkeypatch.setattr(beam_queries, '_PART_PAIRS', 5)
  rng = np.random.default_rng(0)
  numbers = rng.integers(0, 30, 80)
  files = [np.array([list(synthetic_pairs.code(f'what is {n}'))
                     for n in some], np.uint8).reshape(-1, 10)
           for some in np.split(numbers, [13, 13, 60])]
  alone = pair_writer.equal_queries(np.concatenate(files))
  paths = []
  for number, codes in enumerate(files):
    paths.append(tmp_path / f'codes-{number}.npy')
    np.save(paths[-1], codes)
  beams.choose('direct', IN_THREADS)
  (tmp_path / 'scratch').mkdir()
  divided = beam_queries.equal_queries(paths, tmp_path / 'scratch')
  assert not (tmp_path / 'scratch').exists()
  for one, other in zip(alone, divided, strict=True):
    np.testing.assert_array_equal(one, other)
    assert one.dtype == other.dtype


@pytest.mark.parametrize('size', [1, 2, 3, 10, 100])
def test_pieces_hold_every_line_once(tmp_path, size):
  path = tmp_path / 'lines'
  path.write_bytes(b'\xef\xbb\xbfab\n\n\r\nc\nlast without an end')
  whole = pieces.divide([path], size)
  counts = list(map(pieces.count_lines, whole))
  firsts = pieces.first_lines(whole, counts)
  blocks = [block for piece, first in zip(whole, firsts, strict=True)
            for block in pieces.blocks(piece, first)]
  assert b''.join(block.data for block in blocks) == (
      b'ab\n\n\r\nc\nlast without an end')
  assert blocks[-1].is_last and not any(one.is_last for one in blocks[:-1])
  number = 1
  for block in blocks:
    assert block.first == number
    number += block.data.count(b'\n')
