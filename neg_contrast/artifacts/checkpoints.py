"""Checkpoints of a run: the latest and the best, saved asynchronously.

`checkpoints/<step>` holds `params`, `optimizer` and `progress`, and `memory` if
there is any. A process that dies while saving leaves the one before untouched.
Several processes write one checkpoint, each what its devices hold, and any
number of them reads it.

Each of these has a file of checksums, which becomes visible with the
checkpoint and is verified before anything is read. TensorStore alone does not
see most flipped bits in arrays, and gives other weights.
"""

import contextlib
import dataclasses
import functools
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from orbax.checkpoint import checkpoint_managers

from neg_contrast import errors, hosts, sharding
from neg_contrast.artifacts import (
  checkpoint_checksums,
  checkpoint_copies,
  checkpoint_errors,
  checkpoint_handlers,
  places,
  unfinished_checkpoints,
)

FOLDER = 'checkpoints'

_OPENINGS = 5  # Tries, each a fresh look at the folder.


@dataclasses.dataclass
class Progress:
  """What a resumed run must know beside the state.

  Attributes:
    best_step: step of the best evaluation, -1 before any.
    best_value: its criterion on the tune split.
    evaluations_without_better: since the best one.
    evaluation: metrics of the last evaluation.
    evaluated_step: its step.
    finished: training is over, by steps or by early stopping.
    criterion: the metric that says which is best; empty: nothing was evaluated.
  """

  best_step: int = -1
  best_value: float = -1.0
  evaluations_without_better: int = 0
  evaluation: dict[str, float] = dataclasses.field(default_factory=dict)
  evaluated_step: int = -1
  finished: bool = False
  criterion: str = ''


@dataclasses.dataclass
class _KeepBest(checkpoint_managers.PreservationPolicy):
  """Keeps the checkpoint that the progress calls best."""

  step: int = -1

  def should_preserve(self, checkpoints, *, context):
    del context
    return [checkpoint.step == self.step for checkpoint in checkpoints]


_ITEMS = 'params', 'optimizer', 'progress', 'memory'
_MEMORY = _ITEMS[-1]  # Not all runs have any.
_AVERAGE = 'average'  # In it: what is read in the place of parameters.


@contextlib.contextmanager
def writing(workdir: pathlib.Path) -> Iterator['Checkpoints']:
  """Checkpoints that a training saves; all of them are on disk at the end.

  Args:
    workdir: of the run.

  Raises:
    UserError: one can't be saved, or is damaged.
  """
  hosts.on_first(functools.partial(
      unfinished_checkpoints.remove, workdir / FOLDER))
  opened = Checkpoints(workdir, writes=True)
  try:
    yield opened
  except BaseException:
    with contextlib.suppress(Exception):  # The first says more.
      opened.close()
    raise
  opened.close()


@contextlib.contextmanager
def reading(workdir: pathlib.Path) -> Iterator['Checkpoints']:
  """Checkpoints of a run that were saved before."""
  opened = _open(workdir)
  try:
    yield opened
  finally:
    opened.close()


def _open(workdir: pathlib.Path) -> 'Checkpoints':
  """Opens them to read, though a training may replace them meanwhile.

  Orbax lists the steps, and then looks at each: one may be gone by then.
  """
  for _ in range(_OPENINGS - 1):
    with contextlib.suppress(FileNotFoundError):
      return Checkpoints(workdir)
  return Checkpoints(workdir)


class Checkpoints:
  """Saves and restores; keeps the latest and the best."""

  def __init__(self, workdir: pathlib.Path, writes: bool = False):
    """Opens the folder `checkpoints` in `workdir`.

    Args:
      workdir: of the run.
      writes: whether to make the folder, and save to it; all processes do that
        together. Else this one reads, and the others need not.
    """
    self._folder = (workdir / FOLDER).absolute()
    self._copies = checkpoint_copies.Copies(self._folder, writes)
    self._best = _KeepBest()
    self._orbax_folder = places.for_orbax(self._folder)
    self._manager = _manager(self._orbax_folder, self._best, writes)

  def latest_step(self) -> int | None:
    """The newest finished checkpoint."""
    return self._copies.latest(self._manager.latest_step())

  def save(self, state: Any, progress: Progress) -> None:
    """Starts to save a `TrainState`, but for what is frozen in it.

    Returns when it may be donated.

    On CPU an array handed over to be written may share its memory with the
    state, which the next step overwrites: so a copy is handed over.

    Raises:
      UserError: this one, or the one before, can't be written; the one before
        that is untouched.
    """
    step = int(state.step)
    if step == self._manager.latest_step():
      return
    copy = jax.tree.map(jnp.copy, state.replace(frozen={}))
    memory = {_MEMORY: ocp.args.StandardSave(copy.memory)}
    self._best.step = progress.best_step
    with checkpoint_errors.saying_unwritten(self._folder):
      self._copies.wait()
      saved = self._manager.save(
          step,
          args=ocp.args.Composite(
              params=ocp.args.StandardSave(copy.params),
              optimizer=ocp.args.StandardSave(copy.opt_state),
              progress=ocp.args.JsonSave(dataclasses.asdict(progress)),
              **(memory if copy.memory else {}),
          ),
      )
    if not saved:
      raise RuntimeError(f'checkpoint {step} was not saved')
    self._copies.put_when(self._manager.wait_until_finished)

  def restore(self, like: Any, step: int) -> tuple[Any, Progress]:
    """Restores a whole state, on any number of devices and processes.

    Args:
      like: abstract `TrainState` (shapes, dtypes, shardings) to restore into.
      step: a saved step.

    Raises:
      UserError: shapes or names differ, or a file is damaged.
    """
    with checkpoint_errors.refusing_damage(self._folder, step):
      items = _ITEMS if like.memory else _ITEMS[:-1]
      self._verify(step, items, divides=True)
      _check_shapes(
          self._folder / str(step), self._saved(step, 'params'), like.params,
      )
      restored = self._manager.restore(step, args=ocp.args.Composite(
          params=ocp.args.StandardRestore(like.params),
          optimizer=ocp.args.StandardRestore(like.opt_state),
          progress=ocp.args.JsonRestore(),
          **({_MEMORY: ocp.args.StandardRestore(like.memory)}
             if like.memory else {}),
      ))
      progress = Progress(**restored.progress)
    state = like.replace(
        step=sharding.put(np.int32(step), like.step.sharding),
        params=restored.params,
        opt_state=restored.optimizer,
        memory=restored.memory if like.memory else {},
    )
    self._best.step = progress.best_step
    return state, progress

  def restore_params(
      self, name: str, like: Any, step: int, averaged: bool = True
  ) -> Any:
    """Restores a model's parameters only, as host arrays.

    Args:
      name: `encoder` (the towers), `generator` or `reranker`.
      like: abstract parameters.
      step: a saved step.
      averaged: whether an average of them, where there is one, counts as
        trained.

    Raises:
      UserError: shapes or names differ, or a file is damaged.
    """
    with checkpoint_errors.refusing_damage(self._folder, step):
      return self._restore_params(name, like, step, averaged)

  def _restore_params(self, name, like, step, averaged):
    self._verify(step, ('params',))
    item, saved = 'params', self._saved(step, 'params')
    if name not in saved:
      raise errors.UserError(
          f'{self._folder}: holds {" and ".join(sorted(saved))} and no {name}; '
          'it is the workdir of another kind of model'
      )
    read = lambda restored: restored[name]
    wanted = {name: like}
    if averaged and (self._folder / str(step) / _MEMORY).exists():
      self._copies.bring(step, (_MEMORY,))
      memory = self._saved(step, _MEMORY)
      if _AVERAGE in memory:
        self._verify(step, (_MEMORY,))
        item, saved = _MEMORY, memory
        read = lambda restored: restored[_AVERAGE][name]
        wanted = {_AVERAGE: {**memory[_AVERAGE], name: like}}
    target = {**jax.tree.map(
        lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype),
        {key: value or {} for key, value in saved.items()},
    ), **wanted}
    _check_shapes(self._folder / str(step), saved, target)
    device = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
    target = jax.tree.map(
        lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=device),
        target,
    )
    restored = self._manager.restore(step, args=ocp.args.Composite(**{
        item: ocp.args.StandardRestore(target)
    }))
    return jax.tree.map(np.asarray, read(restored[item]))

  def selected_step(self) -> int:
    """The step that counts as trained: the best, or the latest if none is.

    Raises:
      UserError: nothing was saved.
    """
    latest = self.latest_step()
    if latest is None:
      raise errors.UserError(
          f'{self._folder}: holds no finished checkpoint; train first'
      )
    best = self.progress(latest).best_step
    return latest if best < 0 else best

  def progress(self, step: int) -> Progress:
    """What was known at a saved step.

    Raises:
      UserError: a file is damaged.
    """
    with checkpoint_errors.refusing_damage(self._folder, step):
      self._verify(step, ('progress',))
      restored = self._manager.restore(
          step, args=ocp.args.Composite(progress=ocp.args.JsonRestore())
      )
      return Progress(**restored.progress)

  def wait(self) -> None:
    """Returns when everything is on disk.

    Raises:
      UserError: a checkpoint can't be written.
    """
    with checkpoint_errors.saying_unwritten(self._folder):
      self._copies.wait()
      self._manager.wait_until_finished()

  def close(self) -> None:
    """Waits and lets go; raises as `wait` does."""
    with checkpoint_errors.saying_unwritten(self._folder):
      self._copies.wait()
      self._manager.close()

  def _saved(self, step: int, item: str) -> Any:
    """Names, shapes and types of what an item holds."""
    return checkpoint_handlers.metadata(self._orbax_folder / str(step) / item)

  def _verify(
      self, step: int, items: Sequence[str], divides: bool = False
  ) -> None:
    checkpoint_checksums.verify(
        self._copies.bring(step, items), _ITEMS, items, divides
    )


def _manager(folder: Any, best: Any, writes: bool) -> ocp.CheckpointManager:
  """Orbax's own, which keeps the latest and the best."""
  return ocp.CheckpointManager(
      folder,
      handler_registry=checkpoint_handlers.registry(
          arrays=('params', 'optimizer', _MEMORY), json=('progress',)),
      options=ocp.CheckpointManagerOptions(
          preservation_policy=checkpoint_managers.AnyPreservationPolicy(
              [checkpoint_managers.LatestN(1), best]),
          cleanup_tmp_directories=True,
      ) if writes else ocp.CheckpointManagerOptions(
          create=False,
          multiprocessing_options=ocp.options.MultiprocessingOptions(
              primary_host=jax.process_index(),
              active_processes={jax.process_index()},
          ),
      ),
  )


def _check_shapes(folder: pathlib.Path, saved: Any, like: Any) -> None:
  """Refuses arrays of other names, shapes or types.

  Args:
    folder: of the checkpoint.
    saved: what it says of its arrays.
    like: what the model needs.

  Raises:
    UserError: names one that differs.
  """
  have = {name: (tuple(a.shape), jnp.dtype(a.dtype))
          for name, a in _flat(saved).items()}
  want = {name: (tuple(a.shape), jnp.dtype(a.dtype))
          for name, a in _flat(like).items()}
  for name in sorted(have.keys() | want.keys()):
    if have.get(name) != want.get(name):
      raise errors.UserError(
          f'{folder}: the checkpoint does not fit the model: {name} is '
          f'{_describe(have.get(name))} there and {_describe(want.get(name))} '
          'here. Use the model settings it was trained with, or another '
          f'{errors.flag("workdir")}'
      )


def _flat(tree: Any) -> dict[str, Any]:
  leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
  return {jax.tree_util.keystr(path): leaf for path, leaf in leaves}


def _describe(shape_dtype: tuple[tuple[int, ...], Any] | None) -> str:
  if shape_dtype is None:
    return 'missing'
  shape, dtype = shape_dtype
  return f'{dtype}{list(shape)}'
