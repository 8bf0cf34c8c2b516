"""One of several processes on this machine; `main` does one task after another.

Where it is found and what it does are in the environment and the arguments that
`test_hosts.py` gives it.
"""

import contextlib
import hashlib
import json
import os
import pathlib
import runpy
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from neg_contrast import errors, hosts, jobs, sharding
from neg_contrast.artifacts import (
  bucket_turns,
  checkpoints,
  leases,
  parts,
  places,
)
from neg_contrast.data import pair_files, tfds_records
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.jobs.common import same_command
from neg_contrast.mining import pool_files
from neg_contrast.mining.strategies import bm25_negatives, strategy
from neg_contrast.models import t5_config
from neg_contrast.retrieval import bm25_folder, bm25_search, searched
from neg_contrast.settings import config as config_lib
from neg_contrast.stage1 import pretext_pairs, round_trip
from neg_contrast.training import state as state_lib
from tests import left_out, tiny


def make_state(fsdp: bool, seed: int = 0) -> state_lib.TrainState:
  """A state of arrays on the mesh of all devices; leaves of all kinds."""
  rng = np.random.default_rng(seed)

  def draw(*shape: int):
    return rng.standard_normal(shape).astype(np.float32)

  params = {'encoder': {'shared': {'bert': {
      'layers': {
          'attention': {
              name: {'kernel': draw(2, 256, 256), 'bias': draw(2, 256)}
              for name in ('query', 'key', 'value', 'output')
          },
          'intermediate': {'kernel': draw(2, 256, 512), 'bias': draw(2, 512)},
          'output': {'kernel': draw(2, 512, 256), 'bias': draw(2, 256)},
      },
      'embeddings': {'word': {'embedding': draw(65, 256)}},
  }}}}
  state = state_lib.TrainState(
      np.int32(seed), params, {'mu': params, 'count': np.int32(7)}
  )
  mesh = sharding.make_mesh(config_lib.MeshConfig(model=2))
  return sharding.put(
      state, sharding.parameter_shardings(state, mesh, fsdp=fsdp)
  )


def digest(state: state_lib.TrainState) -> str:
  """Of all bytes, wherever they lie."""
  code = hashlib.sha256()
  for leaf in jax.tree.leaves(sharding.local(state)):
    code.update(np.ascontiguousarray(leaf).tobytes())
  return code.hexdigest()


def restore(workdir: pathlib.Path, fsdp: bool) -> state_lib.TrainState:
  """What was saved as step 3, on this mesh."""
  like = jax.tree.map(
      lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=a.sharding),
      make_state(fsdp, seed=1),
  )
  opened = checkpoints.Checkpoints(workdir, writes=True)
  state, progress = opened.restore(like, 3)
  opened.close()
  assert progress.best_step == 2
  return state


def _restore(workdir: str, layout: str) -> None:
  state = restore(pathlib.Path(workdir), layout == 'fsdp')
  print('digest', digest(state), flush=True)


def _save(workdir: str) -> None:
  opened = checkpoints.Checkpoints(places.path(workdir), writes=True)
  state = make_state(fsdp=True, seed=3)
  opened.save(state, checkpoints.Progress(best_step=2))
  opened.close()
  print('digest', digest(state), flush=True)


def _train(folder: str, workdir: str, settings: Mapping[str, Any]) -> None:
  tiny.train_only(pathlib.Path(folder), pathlib.Path(workdir), **settings)


def _command(*flags: str) -> None:
  """The command line."""
  from neg_contrast import main

  sys.argv = ['main', *flags]
  try:
    main._run()
  except SystemExit as e:
    if e.code:
      raise


def use_small_parts(change: Callable[[Any, str, Any], None] = setattr) -> None:
  """Lets tiny data be divided."""
  for where, name, value in (
      (strategy.Strategy, 'queries_at_once', 16),
      (bm25_negatives.Bm25, 'queries_at_once', 16),
      (bm25_search, 'QUERIES_AT_ONCE', 4),
      (searched, '_PART_SCORES', 1),
      (pool_files, 'QUERIES_AT_ONCE', 8),
      (pretext_pairs, '_DOCUMENTS_AT_ONCE', 2),
      (pair_files, '_FILES_AT_ONCE', 1),
      (tfds_records, 'ROWS_PER_SHARD', 16),
      (round_trip, '_QUESTIONS_AT_ONCE', 12),
  ):
    change(where, name, value)


def _job(config: str, workdir: str) -> None:
  """The job of a config file, with the T5 of the tests."""
  from tests.jobs import test_stage1

  use_small_parts()
  t5_config.T5_SIZES['t5-nano'] = test_stage1.NANO
  tiny.run(
      jobs.make_job, runpy.run_path(config)['get_config'](),
      places.path(workdir),
  )


def _pairs(config: str) -> None:
  """The pairs of stage 1 of a config file."""
  from tests.jobs import test_stage1

  use_small_parts()
  test_stage1.make_pairs(runpy.run_path(config)['get_config']())


def _halves(folder: str, mined: str) -> None:
  """The half passages of a folder of data."""
  from tests.negatives import test_half_table

  test_half_table.make_together(pathlib.Path(folder), mined)


def _search_together() -> None:
  """The same bytes, by devices and by cores, as by one process."""
  from neg_contrast.retrieval import mesh_search
  from tests.retrieval import test_mesh_search

  vecs, queries, ranks = test_mesh_search.random_vecs()
  mesh = sharding.make_common_mesh(config_lib.MeshConfig())
  assert mesh.size == jax.device_count()
  for on_devices, block_rows in ((False, 64), (True, 64), (False, 4096)):
    found = mesh_search.MeshSearch(  # In one block, the first process has all.
        vecs, ranks, mesh, block_rows, on_devices=on_devices
    ).search(queries, 9)
    print('found', on_devices, block_rows, test_mesh_search.digest(found),
          flush=True)
  for is_iid in (False, True):
    print('drawn', is_iid, draws_digest(mesh, is_iid), flush=True)


def draws_digest(mesh: Any, is_iid: bool) -> str:
  """Of what is drawn of a corpus that lies over a mesh."""
  from neg_contrast.negatives import sampled, sampling
  from neg_contrast.retrieval import mesh_search
  from tests.retrieval import test_mesh_search

  vecs, queries, _ = test_mesh_search.random_vecs()
  rows = np.arange(len(vecs), dtype=np.int32)
  drawn = sampled.draw(
      mesh_search.MeshSearch(vecs, rows, mesh, 64), rows, rows,
      sampling.mixed(5, 100), sampling.draw_key(0, 0), queries,
      np.arange(len(queries), dtype=np.int32)[:, None], is_iid=is_iid,
  )
  return hashlib.sha256(
      b''.join(drawn[name].tobytes() for name in sorted(drawn))).hexdigest()


def _use_hosts() -> None:
  """What `hosts.py` promises, as seen by each."""
  index = jax.process_index()
  calls = []
  assert hosts.on_first(lambda: calls.append(index) or 5) is True
  assert hosts.on_first(lambda: 0) is False
  assert calls == ([0] if index == 0 else [])
  assert hosts.are_together()
  hosts.on_first(lambda: calls.append(hosts.are_together()))
  assert calls == ([0, False] if index == 0 else [])
  told = hosts.from_first({'a': 0.1 + index, 'b': 1 / 3})
  assert told == {'a': 0.1, 'b': 1 / 3}
  assert hosts.from_all(f'é {index}') == ['é 0', 'é 1']
  same_command.check(config_lib.Config(seed=3), {'sweep': 'seed=0,1'})
  try:
    same_command.check(config_lib.Config(seed=index), {'sweep': 'seed=0,1'})
  except errors.UserError as e:
    print('differs:', e, flush=True)
  rows = np.arange(6, dtype=np.float32).reshape(2, 3)[:index] + index
  assert hosts.gather(rows).tolist() == [[1, 2, 3]]
  assert hosts.gather(np.array([index == 1])).tolist() == [False, True]
  mesh = sharding.make_mesh(config_lib.MeshConfig())
  assert sharding.held(8, mesh).tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]][index]
  _search_together()
  shares = hosts.gather(np.array(hosts.share_of(5), np.int32))
  assert shares.tolist() == [0, 1, 2, 3, 4]

  def fail() -> None:
    raise KeyError('as planned')

  try:
    hosts.on_first(fail)
  except Exception as e:
    print('failed', repr(e), flush=True)


def _take_turns(address: str) -> None:
  """One process at a time is at a place, and others are told when it leaves."""
  place = places.path(address)
  for _ in range(2):
    with bucket_turns.turn(place) as is_ours:
      assert is_ours and not (place / 'inside').exists()
      (place / 'inside').write_text('one')
      (place / 'inside').unlink()
  hosts.meet()  # Else the first may wait for others, in its next turn.
  with (bucket_turns.turn(place) if hosts.is_first()
        else contextlib.nullcontext()):
    hosts.meet()
    if not hosts.is_first():
      with bucket_turns.turn(place, wait=False) as is_ours:
        assert not is_ours
    hosts.meet()
  hosts.meet()
  if jax.process_index() == 1:
    with bucket_turns.turn(place, wait=False) as is_ours:
      assert is_ours


def _be_refused(workdir: str) -> None:
  """Another program has the lease."""
  leases.RENEW_SECONDS = 0.4
  try:
    with leases.program(places.path(workdir)):
      print('taken', flush=True)
  except errors.UserError as e:
    print('refused:', e, flush=True)


def _count_words(folder: str) -> None:
  """Of a prepared corpus, in small shards; by helpers alone, one of each."""

  def wait(places_of_parts, is_made, make) -> None:
    del make
    while not all(map(is_made, range(len(places_of_parts)))):
      time.sleep(0.2)

  changes = ((hosts, 'usable_cores', lambda: 2), (parts, 'make_all', wait))
  before = [getattr(where, name) for where, name, _ in changes]
  for where, name, value in changes:
    setattr(where, name, value)
  bm25_folder.make(prepared_lib.Prepared(places.path(folder)), 8)
  for (where, name, _), value in zip(changes, before, strict=True):
    setattr(where, name, value)


TASKS = {'turns': _take_turns, 'refused': _be_refused, 'count': _count_words,
         'save': _save, 'restore': _restore, 'train': _train,
         'hosts': _use_hosts, 'command': _command, 'job': _job,
         'pairs': _pairs, 'halves': _halves, 'search': _search_together}


def main() -> None:
  """Meets the others, and does `[[task, *arguments], ...]`, given as json."""
  left_out.everything()
  jax.distributed.initialize(
      os.environ['COORDINATOR'], int(os.environ['PROCESSES']),
      int(os.environ['PROCESS']),
      heartbeat_timeout_seconds=int(os.environ['HEARTBEAT']),
  )
  for task, *arguments in json.loads(sys.argv[1]):
    TASKS[task](*arguments)
