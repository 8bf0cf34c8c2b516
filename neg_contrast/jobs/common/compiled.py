"""Programs that the runs of one command share."""

import pathlib

import jax

_SECONDS = 0.5  # What takes less is compiled again.


def keep(workdir: pathlib.Path) -> None:
  """Compiles each program once for all runs, and keeps it in the workdir."""
  jax.config.update('jax_compilation_cache_dir', str(workdir / 'compiled'))
  jax.config.update('jax_persistent_cache_min_compile_time_secs', _SECONDS)
