"""Pairs of synthetic queries as data: each query once, and no set of ids."""

import functools
import gc
import tracemalloc

import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.artifacts import folders, kept_parts
from neg_contrast.data import (
  pair_files,
  pair_writer,
  synthetic_pairs,
  tfds_records,
)
from neg_contrast.data import prepared as prepared_lib
from tests import corpora

PASSAGES = {f'p{n}': f'text {n}' for n in range(4)}
PAIRS = [('who', 'p2'), ('what', 'p0'), ('who', 'p1'), ('who', 'p2'),
         ('ünd', 'p3'), ('what', 'p3')]


def make_base(folder):
  source = corpora.write_beir(folder / 'data', PASSAGES)
  return corpora.data_of(folder, source).load().prepared


def write(base, folder, pairs):
  with open(folder / 'pairs.jsonl', 'w', encoding='utf-8') as f:
    for pair in pairs:
      synthetic_pairs.write_pair(f, *pair)
  return corpora.write_pairs(base, [folder / 'pairs.jsonl'], folder / 'made')


def test_equal_questions_are_one_with_several_positives(tmp_path):
  made = write(make_base(tmp_path), tmp_path, PAIRS)
  assert [query.text for query in made.queries] == ['who', 'what', 'ünd']
  assert [query.id for query in made.queries] == [
      synthetic_pairs.query_id(text) for text in ('who', 'what', 'ünd')]
  judgements = made.judgements(synthetic_pairs.SPLIT)
  assert judgements.query_rows.tolist() == [0, 0, 1, 1, 2]
  assert judgements.passage_rows.tolist() == [1, 2, 0, 3, 3]
  assert judgements.is_example.all() and not len(judgements.unjudged)
  assert synthetic_pairs.read_cuts(made) is None
  assert made.manifest['counts']['repeated'] == 0  # Nothing is written twice.


def test_cuts_are_those_of_the_first_of_equal_pairs(tmp_path):
  made = write(make_base(tmp_path), tmp_path, [
      ('who', 'p2'), ('what', 'p0', (1, 2, 0)), ('what', 'p0', (3, 4, 1))])
  cuts = synthetic_pairs.read_cuts(made)
  assert cuts.tolist() == [[0, -1, 1], [1, 2, 0]]
  assert cuts.dtype == np.int32


def test_ids_stay_what_they_were():
  assert synthetic_pairs.query_id('who') == (
      'synthetic-6ed0337140bd32b4adc5')
  codes = np.frombuffer(synthetic_pairs.code('who'), np.uint8)[None]
  assert synthetic_pairs.ids_of(codes).tobytes() == (
      b'synthetic-6ed0337140bd32b4adc5')


def contents(folder):
  """Arrays, ids and questions; and the fingerprint of all."""
  made = prepared_lib.Prepared(folder)
  return [path.read_bytes() for path in sorted(folder.iterdir())
          if path.suffix in ('.npy', '.bin', '.sqlite')
          ], list(map(str, made.queries)), made.fingerprint


@pytest.mark.parametrize(('where', 'name'), [
    (pair_files.PairFiles, '_read'), (pair_writer.PairWriter, '_sort'),
    (pair_writer.PairWriter, '_write_records'),
    (tfds_records, 'finish'),
])
def test_an_interruption_loses_one_part(tmp_path, monkeypatch, where, name):
  """Of reading, of sorting, of writing, and before all is joined."""
  base, files = make_base(tmp_path), []
  for number in range(7):
    files.append(tmp_path / f'{number}.jsonl')
    with open(files[-1], 'w') as f:
      for n in range(5):
        synthetic_pairs.write_pair(
            f, f'what is {number * n % 11}', f'p{n % 4}', (1, n, n % 2),
            f'p{number % 4}')
  monkeypatch.setattr(
      prepared_lib, 'CORPUS', prepared_lib.QUERIES)  # To be read alone.
  corpora.write_pairs(base, files, tmp_path / 'whole')
  monkeypatch.setattr(pair_files, '_FILES_AT_ONCE', 2)
  monkeypatch.setattr(tfds_records, 'ROWS_PER_SHARD', 3)
  original, calls = getattr(where, name), []

  def call(*args):
    calls.append(name)
    if len(calls) == (2 if name in ('_read', '_write_records') else 1):
      raise KeyboardInterrupt
    return original(*args)

  monkeypatch.setattr(where, name, call)
  with pytest.raises(KeyboardInterrupt):
    corpora.write_pairs(base, files, tmp_path / 'made')
  corpora.write_pairs(base, files, tmp_path / 'made')
  assert len(calls) == 1 + {'_read': 4, '_sort': 1, '_write_records': 4,
                            'finish': 1}[name]
  assert contents(tmp_path / 'made') == contents(tmp_path / 'whole')


def peaks(base, folder, pairs):
  """Bytes that Python and NumPy hold at most: in what processes divide, while
  parts are joined, which takes a buffer of 1 MiB, and after that. Of as many
  files: what is written of a file leaves garbage."""
  in_file = pairs // 50
  begins = range(0, pairs, in_file)
  files = [folder / f'{begin:04d}.jsonl' for begin in begins]
  for begin, path in zip(begins, files, strict=True):
    with open(path, 'w') as f:
      for n in range(begin, begin + in_file):
        synthetic_pairs.write_pair(f, f'what is the name of {n}', f'p{n % 4}')
  writer = pair_writer.PairWriter(
      base, [functools.partial(type(path), path) for path in files],
      lambda name, count: kept_parts.KeptParts(folder / 'parts' / name, count))
  join, found = writer._join_records, []

  def note():
    found.append(tracemalloc.get_traced_memory()[1])
    tracemalloc.reset_peak()

  def join_and_note(*args):
    made = join(*args)
    note()
    return made

  writer._join_records = join_and_note
  seldom = gc.get_threshold()  # Here garbage would count as held.
  gc.collect()
  gc.set_threshold(700, 10, 10)
  tracemalloc.start()
  writer.prepare()
  note()
  with folders.writing(folder / 'made', manifest := {},
                       format=prepared_lib.QUERIES) as made:
    writer.write(made, manifest)
  note()
  tracemalloc.stop()
  gc.set_threshold(*seldom)
  assert manifest['counts']['queries'] == pairs
  return np.array(found)


def test_no_object_is_kept_of_a_pair(tmp_path):
  """About 65, 70 and 103 bytes of each are held at a time, all in arrays. An
  id alone has 63 as bytes and 79 as a text, and 8 to 52 more in a list or a
  set."""
  base, few = make_base(tmp_path), 1000
  found = []
  for pairs in (100, few, 4 * few):  # The first loads what is loaded once.
    (tmp_path / str(pairs)).mkdir()
    found.append(peaks(base, tmp_path / str(pairs), pairs))
  assert (found[2] > 60 * 4 * few).all()  # NumPy's arrays are counted.
  growth = (found[2] - found[1]) / (3 * few)
  assert (growth < [75, 80, 115]).all(), growth


def test_pairs_that_can_not_be_stored_are_named(tmp_path):
  base = make_base(tmp_path)
  for pair, message in ((('who', 'p9'), 'passage "p9", which .* does not have'),
                        ((' ', 'p0'), 'a query of "p0" has no text')):
    with pytest.raises(errors.UserError, match=f'pairs.jsonl: .*{message}'):
      write(base, tmp_path, [('what', 'p1'), pair])
