"""The interface of candidates that all queries of a batch share.

They are columns behind those of the batch. Losses mask the known positives of
each query among them, and copies of these, like anywhere else.
"""

import abc

import numpy as np

from neg_contrast.settings import config as config_lib


class Shared(abc.ABC):
  """Says which passages a step encodes for all its queries."""

  def __init__(self, count: int, seed: int, among: np.ndarray | int):
    """Draws nothing yet.

    Args:
      count: columns.
      seed: of the run.
      among: `[rows] int32`, the passages of the queries' worlds; or how many
        there are in all.
    """
    self._count, self._seed, self._among = count, seed, among

  @staticmethod
  def check(negatives: config_lib.NegativesConfig, batch_size: int) -> None:
    """Refuses a number of columns that can't be.

    Args:
      negatives: the sources.
      batch_size: queries of a step.

    Raises:
      SettingError: with the remedy.
    """
    del negatives, batch_size

  @abc.abstractmethod
  def draw(self, step: int) -> np.ndarray:
    """`[passages] int32`, what a step encodes; -1: none.

    Args:
      step: of training.
    """
