"""Which candidates are no negatives, and why.

Filters work on the candidates of one source, in a fixed order; the first that
drops a candidate is noted.
"""

import dataclasses
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


@dataclasses.dataclass(frozen=True)
class Beliefs:
  """What a judge says of some queries.

  Attributes:
    probabilities: `[queries, depth] float32` that a candidate is a positive;
      nan: it was not judged.
    positives: `[queries] float32`, the highest probability of a query's known
      positives; nan: it has none.
  """

  probabilities: Float[np.ndarray, 'queries depth']
  positives: Float[np.ndarray, ' queries']


def drop(
    source: str,
    found: candidates_lib.Candidates,
    groups: Int[np.ndarray, 'queries depth'],
    positive_groups: Int[np.ndarray, 'queries positives'],
    config: config_lib.NegativesConfig,
    has_answer: Answers,
    beliefs: Beliefs | None = None,
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
    beliefs: of the judge; None: there is none.

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
  if beliefs is not None:
    drop_where('judge_above', beliefs.probabilities > config.judge_above)
    drop_where('judge_below', beliefs.probabilities >= config.judge_below)
  scores, own = found.scores, found.positive_scores[:, None]
  is_scored = strategies.is_ranked(source)
  if is_scored:
    ranks = np.arange(1, found.rows.shape[1] + 1)[None, :]
    last = config.last_rank or len(ranks[0])
    drop_where('rank', (ranks < config.first_rank) | (ranks > last))
  if beliefs is not None and config.margin_by == 'judge':
    scores, own, is_scored = (
        beliefs.probabilities, beliefs.positives[:, None], True
    )
  if has_margin(config) and is_scored:
    drop_where('unscored', ~np.isfinite(own))  # -inf: was not searched.
    if config.margin is not None:
      drop_where('margin', scores > own - config.margin)
    if config.relative_margin is not None:
      drop_where('relative_margin',
                 scores > own - config.relative_margin * np.abs(own))
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
