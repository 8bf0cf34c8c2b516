"""How much of a batch a training encodes at once, and what that takes."""

from collections.abc import Callable

from absl import logging
from jax.sharding import Mesh

from neg_contrast import errors, sharding
from neg_contrast.losses import gradient_cache
from neg_contrast.training import run_settings

AUTOMATIC = -1
_GIB = 2**30


def make_chunks(
    config: run_settings.RunSettings, chunk_groups: int, mesh: Mesh
) -> gradient_cache.Chunks | None:
  """The chunks of a batch on a mesh; None: it is encoded at once.

  Args:
    config: settings of the run.
    chunk_groups: groups that each device encodes at once; 0: all it holds.
    mesh: the mesh.
  """
  shards = mesh.shape['data']
  if chunk_groups * shards in (0, config.data.groups):
    return None
  return gradient_cache.Chunks(
      chunk_groups, shards, lambda copies: sharding.place_copies(copies, mesh)
  )


def check(config: run_settings.RunSettings, mesh: Mesh) -> None:
  """Refuses chunks that the groups of a device can't be cut into.

  Raises:
    UserError: `model.chunk_groups` is no divisor of them.
  """
  wanted, held = config.model.chunk_groups, _groups_held(config, mesh)
  if wanted > 0 and wanted not in _divisors(held):
    raise errors.UserError(
        f'{errors.key("model.chunk_groups")}={wanted}: must divide the {held} '
        f'groups that each device holds (data.groups={config.data.groups}, '
        f'{mesh.shape["data"]} devices share the batch): one of '
        f'{", ".join(map(str, _divisors(held)))}; or {AUTOMATIC}, the most '
        'that fits the memory, or 0, all of them'
    )


def choose(
    config: run_settings.RunSettings,
    mesh: Mesh,
    bytes_of: Callable[[int], int | None],
    limit: int,
) -> int:
  """The most groups at once whose step fits a device's memory.

  Args:
    config: settings of the run.
    mesh: the mesh.
    bytes_of: compiles the step of a number of groups, and says what it takes
      on a device; None: the compiler refused.
    limit: bytes it may take.

  Raises:
    UserError: none fits.
  """
  for groups in reversed(_divisors(_groups_held(config, mesh))):
    used = bytes_of(groups)
    if used is not None and used <= limit:
      break
    logging.info(
        'model.chunk_groups=%d: the step takes %s and may take %.2f GiB on a '
        'device', groups,
        'too much' if used is None else f'{used / _GIB:.2f}', limit / _GIB,
    )
  else:
    raise errors.UserError(
        f'{errors.key("model.chunk_groups")}={AUTOMATIC}: not even one group '
        f'at once fits the {limit / _GIB:.2f} GiB that a step may take on a '
        'device. Make groups smaller with more of them '
        f'({errors.key("data.groups")}), or set '
        f'{errors.key("model.remat")}=full or a smaller '
        f'{errors.key("data.batch_size")}; or try '
        f'{errors.key("model.chunk_groups")}=1 nevertheless'
    )
  logging.info(
      'model.chunk_groups=%d chosen: the step takes %.2f of the %.2f GiB that '
      'it may on a device', groups, used / _GIB, limit / _GIB,
  )
  return groups


def log_memory(
    config: run_settings.RunSettings,
    chunks: gradient_cache.Chunks,
    features: int,
) -> None:
  """Says what a step with a gradient cache needs, beside parameters."""
  batch, negatives = config.data.batch_size, config.negatives.per_query
  others = config.negatives.shared_corpus + config.negatives.queue
  sizes = gradient_cache.loss_bytes(
      batch, negatives, features, chunks.shards, others
  )
  logging.info(
      'gradient cache: %d chunks, of %d groups on each device. Beside '
      'parameters and optimizer a device needs the activations of one chunk, '
      'and at most %d x %d x %d x 4 bytes = %.3f GiB of embeddings and '
      '%d x %d x %d x 4 / %d bytes = %.3f GiB of scores',
      config.data.groups // chunks.groups // chunks.shards, chunks.groups,
      gradient_cache.EMBEDDING_ARRAYS, batch * (2 + negatives) + others,
      features, sizes.embeddings / _GIB,
      gradient_cache.SCORE_ARRAYS, batch, batch * (1 + negatives) + others,
      chunks.shards, sizes.scores / _GIB,
  )


def _groups_held(config: run_settings.RunSettings, mesh: Mesh) -> int:
  return config.data.groups // mesh.shape['data']


def _divisors(number: int) -> list[int]:
  return [n for n in range(1, number + 1) if number % n == 0]
