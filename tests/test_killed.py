"""kill -9 during each stage that processes divide: nothing is made twice.

Other such tests: writing questions (jobs/test_stage1.py), filters by two
processes (mining/test_interrupted.py), tables of vectors
(retrieval/test_embeddings.py), preparing and tokenizing
(data/test_parallel.py), refreshes and draws by the model
(negatives/test_refresh.py), training (jobs/test_train.py, test_hosts.py).
"""

import dataclasses
import fnmatch
import functools
import importlib.util
import os
import pathlib
import re
import shutil
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from neg_contrast import hosts
from neg_contrast.artifacts import artifact, folders, plan
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import tfds_records
from neg_contrast.jobs.common import (
  declared_draws,
  declared_pairs,
  declared_pools,
)
from neg_contrast.mining import candidates, pool_files
from neg_contrast.mining.strategies import bm25_negatives, strategy
from neg_contrast.negatives import half_table
from neg_contrast.retrieval import bm25_folder, bm25_search, searched
from neg_contrast.settings import config as config_lib
from neg_contrast.stage1 import pretext_pairs, questions, round_trip
from tests import hosts_worker, processes, tiny

PASSAGES = 210  # A file of vectors has 64 at least.


@dataclasses.dataclass(frozen=True)
class Nobody(artifact.InMemory):
  """In the place of a generator, whose questions the test writes."""

  kind = 'nobody'
  name = 'nobody'

  def describe(self):
    return 'nobody'


class Stages:
  """All that is made of a corpus and a model, each stage by itself."""

  def __init__(self, root: pathlib.Path, folder: pathlib.Path):
    """Makes nothing yet.

    Args:
      root: holds the corpus and the model.
      folder: gets what is made.
    """
    self.config = config_lib.parse(tiny.make_config(
        root, model__query_length=24, model__passage_length=40,
        data__prepared_dir=str(folder / 'prepared'),
        negatives__mined_dir=str(folder / 'mined'),
        negatives__sources=('bm25+model:2',),
        negatives__checkpoint=str(root / 'model'), negatives__depth=20,
        negatives__pool_size=10, synthetic__dir=str(folder / 'synthetic'),
        synthetic__shard_passages=60, synthetic__round_trip_rank=2,
        index__table_rows=64, index__shard_rows=60, index__chunk_tokens=1,
    ))
    self.data = dataset_lib.data_of(self.config.data)
    self._model, self._folder = str(root / 'model'), folder

  def bm25(self) -> None:
    """Postings."""
    self._make(self._bm25)

  def rankings(self) -> None:
    """What BM25 finds for all queries."""
    self._bm25.load().search_rows(np.arange(PASSAGES, dtype=np.int32), 5)

  def vectors(self) -> None:
    """The encoded corpus."""
    self._make(self._round_trip('exact').index.vectors)

  def rankings_by_vectors(self) -> None:
    """What exact search finds for all queries."""
    index = self._round_trip('exact').index
    searched.search_dense(
        index.search, self.data.load(), index.vectors.load(),
        self._folder / 'retrieval', np.arange(PASSAGES, dtype=np.int32),
    )

  def scann(self) -> None:
    """The index of the encoded corpus."""
    self._make(self._round_trip('scann').index)

  def mined_by_bm25(self) -> None:
    """Candidates, by one process after another."""
    self._make(self._pool.sources[0])

  def mined_by_model(self) -> None:
    """Candidates, by a search of all processes together."""
    self._make(self._pool.sources[1])

  def pool(self) -> None:
    """Candidates, filtered."""
    self._make(self._pool)

  def halves(self) -> None:
    """Halves of passages whose document has no other."""
    negatives = dataclasses.replace(
        self.config.negatives, sources=('context:2',), checkpoint='')
    (_, made), = declared_draws.drawn_from(dataclasses.replace(
        self.config, negatives=negatives), self.data, self.data)
    self._make(made)

  def pairs(self) -> None:
    """Pairs of stage 1."""
    crops = dataclasses.replace(
        self.config.synthetic, pairs='crops', round_trip_rank=0)
    self._make(declared_pairs.training_data(
        dataclasses.replace(self.config, synthetic=crops), self.data))

  def round_trip_by_bm25(self) -> None:
    """Questions that BM25 finds the passage of."""
    self._make(self._round_trip(''))

  def round_trip_by_model(self) -> None:
    """Questions that a search of all processes together finds."""
    self._make(self._round_trip('exact'))

  def questions(self) -> None:
    """Writes questions, in the place of a generator."""
    written = self._round_trip('').questions
    prepared = self.data.load().prepared
    for number in range(len(written.shards)):
      rows = written.shards.rows(number)
      questions.write_shard(
          written.shards, number, written.identity,
          passages := [prepared.passages[row] for row in rows],
          [[' '.join(passage.text.split()[begin:begin + 4]) for begin in (0, 9)]
           for passage in passages], {},
      )

  def _make(self, one: artifact.Artifact) -> None:
    folders.make_folder(self._folder / 'work')
    plan.run([one])

  @property
  def _bm25(self) -> bm25_search.Bm25:
    return bm25_search.bm25_of(self.config.evaluation, self.data)

  @property
  def _pool(self) -> Any:
    return declared_pools.negatives(
        self.config, self._folder / 'work', self.data, self.data
    )

  def _round_trip(self, index: str) -> round_trip.RoundTrip:
    """By a kind of index of a model's vectors; '': by BM25."""
    config = dataclasses.replace(
        self.config, index=dataclasses.replace(
            self.config.index, kind=index or 'auto'),
        synthetic=dataclasses.replace(
            self.config.synthetic,
            round_trip_checkpoint=self._model if index else ''),
    )
    made = declared_pairs.questions(config, self.data, Nobody())
    assert isinstance(made, round_trip.RoundTrip)
    return made


_ROUND_TRIP = '*-round-trip-*/?????-of-?????'
STAGES = {  # Name -> method, and what its parts are called.
    'postings of bm25': ('bm25', 'bm25/*/postings-?????.bin'),
    'rankings of bm25': ('rankings', 'bm25_rankings/*/?????-of-?????'),
    'vectors': ('vectors', 'passages-?????.npy'),
    'rankings by vectors': ('rankings_by_vectors',
                            'retrieval/rankings/*/?????-of-?????'),
    'scann': ('scann', 'scann-*/shard-?????'),
    'mined by bm25': ('mined_by_bm25', 'candidates/?????-of-?????'),
    'mined by a model': ('mined_by_model', 'candidates/?????-of-?????'),
    'pool': ('pool', 'dropped_by/?????-of-?????'),
    'halves': ('halves', 'halves/*/?????-of-?????'),
    'pretexts': ('pairs', 'pretexts/?????-of-?????'),
    'pairs': ('pairs', 'pairs/?????-of-?????'),
    'records of pairs': ('pairs', 'records/?????-of-?????'),
    'round trip by bm25': ('round_trip_by_bm25', _ROUND_TRIP),
    'round trip by a model': ('round_trip_by_model', _ROUND_TRIP),
}
if importlib.util.find_spec('scann') is None:  # There is none for macOS.
  del STAGES['scann']


def use_small_parts(change: Callable[[Any, str, Any], None] = setattr) -> None:
  """Lets every stage have three parts or more, all made by this process."""
  hosts_worker.use_small_parts(change)
  for where, name, value in (
      (strategy.Strategy, 'queries_at_once', 32),
      (bm25_negatives.Bm25, 'queries_at_once', 32),
      (candidates, '_ON_MESH', 1),
      (pool_files, 'QUERIES_AT_ONCE', 32),
      (bm25_search, 'QUERIES_AT_ONCE', 60),
      (searched, '_PART_SCORES', 60 * PASSAGES),
      (half_table, '_PAIRS_AT_ONCE', 60),
      (bm25_folder, 'make',
       functools.partial(bm25_folder.make, shard_rows=60)),
      (pretext_pairs, '_DOCUMENTS_AT_ONCE', 20),
      (tfds_records, 'ROWS_PER_SHARD', 200),
      (hosts, 'usable_cores', lambda: 1),  # Helpers take a second to start.
  ):
    change(where, name, value)


def is_part(path: Any, pattern: str) -> bool:
  return fnmatch.fnmatch(str(path), f'*/{pattern}') and (
      '.locks' not in pathlib.Path(path).parts)


def note_parts(
    pattern: str,
    change: Callable[[Any, str, Any], None] = setattr,
    stop_at: int = 0,
) -> list[pathlib.Path]:
  """Notes each part that gets its name, which makes it whole.

  Args:
    pattern: ends the paths of parts.
    change: `setattr`, or that of a monkeypatch.
    stop_at: the first part whose name waits for ever; 0: none.

  Returns:
    Paths of parts, in order; grows.
  """
  parts: list[pathlib.Path] = []
  replace = os.replace

  def note(source: Any, path: Any) -> None:
    if is_part(path, pattern):
      parts.append(pathlib.Path(path))
      if len(parts) == stop_at:
        print('stopped', flush=True)
        time.sleep(3600)
    replace(source, path)

  change(os, 'replace', note)
  return parts


def files_of(folder: pathlib.Path) -> dict[pathlib.Path, bytes]:
  return {path.relative_to(folder): path.read_bytes()
          for path in sorted(folder.rglob('*'))
          if path.is_file() and '.locks' not in path.parts}


def parts_in(folder: pathlib.Path, pattern: str) -> set[pathlib.Path]:
  return {path for path in folder.rglob('*') if is_part(path, pattern)}


def copy_before(
    whole: pathlib.Path, folder: pathlib.Path, later: set[pathlib.Path]
) -> None:
  """Copies all files but some, and no folder without a file."""
  for path in files_of(whole).keys() - later:
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(whole / path, folder / path)


@pytest.fixture(autouse=True)
def small(monkeypatch):
  use_small_parts(monkeypatch.setattr)


@pytest.fixture(scope='module')
def whole(tmp_path_factory):
  """Of all stages without an interruption: their root, files and parts.

  Returns:
    The folder of the corpus and the model, with all that is made in `whole`;
    method -> the files that it makes; stage -> how many parts it has.
  """
  root = tmp_path_factory.mktemp('killed')
  tiny.write_sentences(root / 'data', documents=PASSAGES // 3)
  corpus = root / 'data' / 'corpus.jsonl'
  corpus.write_text(re.sub(  # The first of each document is one by itself.
      r'"_id": "(d\d+)p0"(.*)"document_id": "\1"',
      r'"_id": "\1p0"\2"document_id": "\1-0"', corpus.read_text()
  ))
  tiny.write_model(root / 'model')
  stages, made, parts = Stages(root, root / 'whole'), {}, {}
  with pytest.MonkeyPatch.context() as patch:
    use_small_parts(patch.setattr)
    stages.questions()
    for method, _ in STAGES.values():
      if method not in made:
        before = files_of(root / 'whole')
        with pytest.MonkeyPatch.context() as noting:
          named = note_parts('*', noting.setattr)
          getattr(stages, method)()
        made[method] = files_of(root / 'whole').keys() - before.keys()
        parts |= {stage: sum(is_part(path, pattern) for path in named)
                  for stage, (its_method, pattern) in STAGES.items()
                  if its_method == method}
  return root, made, parts


_STOPPED = '''
import pathlib, sys
from tests import test_killed
root, folder, method, pattern = sys.argv[1:]
test_killed.use_small_parts()
test_killed.note_parts(pattern, stop_at=2)
getattr(test_killed.Stages(pathlib.Path(root), pathlib.Path(folder)), method)()
'''


@pytest.mark.parametrize('stage', STAGES)
def test_a_killed_stage_goes_on(whole, tmp_path, monkeypatch, stage):
  """Killed when one part is whole and the next one has no name yet."""
  (root, made, parts), (method, pattern) = whole, STAGES[stage]
  folder = tmp_path / 'work'
  copy_before(root / 'whole', folder, made[method])
  before = parts_in(folder, pattern)
  process = processes.Process(_STOPPED, [root, folder, method, pattern])
  is_stopped = 'stopped\n' in process.lines()
  process.kill()
  assert is_stopped, process.communicate(30)
  process.wait(30)
  kept = parts_in(folder, pattern) - before
  assert len(kept) == 1
  again = note_parts(pattern, monkeypatch.setattr)
  getattr(Stages(root, folder), method)()
  assert len(again) > 1 and not kept & set(again)
  assert len(again) == len(set(again)) == parts[stage] - 1
  assert files_of(folder) == files_of(root / 'whole')
