"""`retrieved`: what each step finds in the whole corpus, with its queries.

Zhan et al., "Learning To Retrieve", 2020 (LTRe). The vectors of passages don't
change, so that they are made once and lie on the devices.
"""

import numpy as np

from neg_contrast import errors
from neg_contrast.batches import batcher
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.negatives.sources import source
from neg_contrast.settings import config as config_lib


class Retrieved(source.Source):
  """Draws nothing: steps find the nearest passages in a table."""

  in_steps = True

  def __init__(self, material: source.Material):
    """Checks that queries search the whole corpus.

    Raises:
      UserError: each searches its own world.
    """
    super().__init__(material)
    if material.dataset.prepared.manifest.get('worlds'):
      raise errors.UserError(
          f'{errors.key("negatives.sources")}: "retrieved" searches all '
          'passages, and here a query has candidates of its own world alone; '
          'choose "sampled", which draws from these'
      )

  @staticmethod
  def names(
      settings: config_lib.NegativesConfig, pool: pool_lib.Pool | None
  ) -> tuple[str, ...]:
    """One."""
    del settings, pool
    return ('retrieved',)

  def draw(
      self, step: int, numbers: np.ndarray, query_rows: np.ndarray
  ) -> batcher.Drawn:
    """No column: the step adds them."""
    del step, numbers
    return batcher.Drawn(*np.full((2, len(query_rows), 0), -1, np.int32))
