"""Which candidates are no negatives, and why.

Filters work on the candidates of one source, in a fixed order; the first that
drops a candidate is noted.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped, UInt8

from neg_contrast.mining import candidates as candidates_lib
from neg_contrast.mining import strategies
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.settings import config as config_lib

Answers = Callable[[Bool[np.ndarray, 'queries depth']],
                   Bool[np.ndarray, 'queries depth']]
"""Which of the marked candidates hold an answer."""


def drop(
    source: str,
    found: candidates_lib.Candidates,
    groups: Int[np.ndarray, 'queries depth'],
    positive_groups: Int[np.ndarray, 'queries positives'],
    config: config_lib.NegativesConfig,
    has_answer: Answers,
    probabilities: Float[np.ndarray, 'queries depth'] | None = None,
) -> UInt8[np.ndarray, 'queries depth']:
  """Runs every filter over the candidates of a source.

  Args:
    source: its name.
    found: the candidates.
    groups: `[queries, depth] int`, of equal passages; those of padding are not
      looked at.
    positive_groups: `[queries, positives] int32` of all known positives.
    config: which filters, and their limits.
    has_answer: looks answers up; called once at most.
    probabilities: `[queries, depth] float32` that a candidate is a positive;
      nan: it was not judged. None: there is no judge.

  Returns:
    `[queries, depth] uint8`, places in `pool.DROPPED_BY`; padding has 0.
  """
  dropped = np.zeros(found.rows.shape, np.uint8)
  exists = found.rows >= 0

  def drop_where(name: str, condition: Bool[np.ndarray, '...']) -> None:
    dropped[exists & (dropped == 0) & condition] = pool_lib.code(name)

  is_positive = np.zeros(exists.shape, bool)
  for column in positive_groups.T:
    is_positive |= groups == column[:, None]
  drop_where('positive', is_positive)
  if probabilities is not None:
    drop_where('judge_above', probabilities > config.judge_above)
    drop_where('judge_below', probabilities >= config.judge_below)
  if strategies.is_ranked(source):
    ranks = np.arange(1, found.rows.shape[1] + 1)[None, :]
    last = config.last_rank or len(ranks[0])
    drop_where('rank', (ranks < config.first_rank) | (ranks > last))
    own = found.positive_scores[:, None]
    if has_margin(config):
      drop_where('unscored', np.isnan(own))
    if config.margin is not None:
      drop_where('margin', found.scores > own - config.margin)
    if config.relative_margin is not None:
      drop_where('relative_margin',
                 found.scores > own - config.relative_margin * np.abs(own))
  if source in config.drop_answers:
    drop_where('answer', has_answer(exists & (dropped == 0)))
  if config.drop_duplicates:
    drop_where('duplicate', repeated(groups, exists & (dropped == 0)))
  survivors = np.cumsum(exists & (dropped == 0), axis=1)
  drop_where('pool_size', survivors > config.pool_size)
  return dropped


def has_margin(config: config_lib.NegativesConfig) -> bool:
  """Whether candidates are compared with the positive's score."""
  return config.margin is not None or config.relative_margin is not None


def repeated(
    values: Shaped[np.ndarray, 'queries depth'],
    usable: Bool[np.ndarray, 'queries depth'],
) -> Bool[np.ndarray, 'queries depth']:
  """Which usable values stand further left, usable, in the same line."""
  lines, columns = np.nonzero(usable)
  order = np.lexsort((columns, values[lines, columns], lines))
  lines, columns = lines[order], columns[order]
  ours = values[lines, columns]
  again = np.zeros(len(lines), bool)
  again[1:] = (lines[1:] == lines[:-1]) & (ours[1:] == ours[:-1])
  result = np.zeros(values.shape, bool)
  result[lines[again], columns[again]] = True
  return result
