"""Programs that the runs of one command share."""

import pathlib

import jax

from neg_contrast.artifacts import places

_SECONDS = 0.5  # What takes less is compiled again.


def keep(workdir: pathlib.Path) -> None:
  """Compiles each program once for all runs, and keeps it in the workdir."""
  folder = places.on_disk(workdir / 'compiled')
  jax.config.update('jax_compilation_cache_dir', str(folder))
  jax.config.update('jax_persistent_cache_min_compile_time_secs', _SECONDS)


def keep_none() -> None:
  """Keeps no program from now on: a plan makes nothing."""
  jax.config.update('jax_enable_compilation_cache', False)
