"""Which operations devices spend their time on, as JAX's profiler sees them."""

import collections
import pathlib
import re
import shutil
from collections.abc import Callable, Iterator

import jax

FOLDER = 'profile'  # Of a workdir: what xprof and TensorBoard show.
_LONGEST = 60  # Characters of a name.
# Operations that only last as long as those inside them.
_WRAPPERS = {'while', 'call', 'conditional', 'async'}


def busiest(
    work: Callable[[], object], folder: pathlib.Path, count: int
) -> dict[str, float]:
  """Does some work under the profiler.

  Args:
    work: what is done.
    folder: for the trace, which stays there; that of another one goes.
    count: how many operations are told.

  Returns:
    The operations that took longest, alike ones together, with their part of
    the time of all, by how long they took; none if the profiler saw none.
  """
  options = jax.profiler.ProfileOptions()
  options.python_tracer_level = 0
  shutil.rmtree(folder, ignore_errors=True)
  with jax.profiler.trace(folder, profiler_options=options):
    work()
  spent: dict[str, float] = collections.defaultdict(float)
  for path in folder.glob('**/*.xplane.pb'):
    for name, nanoseconds in _operations(path):
      spent[name] += nanoseconds
  total, names = sum(spent.values()), sorted(spent, key=spent.__getitem__)
  return {name: spent[name] / total for name in names[: -count - 1 : -1]}


def _operations(path: pathlib.Path) -> Iterator[tuple[str, float]]:
  """Kind and nanoseconds of every operation that ran."""
  for plane in jax.profiler.ProfileData.from_file(str(path)).planes:
    for line in plane.lines:
      # TPUs have a line of their own for them; elsewhere they say what they do.
      is_own = plane.name.startswith('/device:TPU') and line.name == 'XLA Ops'
      for event in line.events:
        stats = dict(event.stats)
        if is_own or 'hlo_op' in stats:
          # Of `%fusion.12 = ...` and of `fusion.12`: `fusion`.
          told = str(stats.get('hlo_op', event.name))
          kind = re.split(r'[ =]', told.lstrip('%'))[0]
          kind = re.sub(r'([._](\d+|clone|remat\d*))+$', '', kind)
          if kind.split('-')[0] not in _WRAPPERS:
            yield _named(kind, event.name), event.duration_ns


def _named(kind: str, event: str) -> str:
  """With the library's function, where that is all that an operation is."""
  if kind.startswith(('custom-call', 'custom_call', 'cublas', 'cudnn', '__')):
    kind = f'{kind}: {event}'
  return kind if len(kind) <= _LONGEST else f'{kind[: _LONGEST - 1]}…'
