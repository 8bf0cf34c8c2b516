"""Recommends hard negatives: the hardest of which few enough are false."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from neg_contrast.mining import strategies
from neg_contrast.mining.false_negatives import (
  BUCKETS,
  LEAST_QUERIES,
  Estimate,
  Evidence,
  Judging,
  false_share,
  hits_beyond_chance,
  mean,
)
from neg_contrast.settings import source_list

MARGINS = (None, 0.0, 0.05, 0.1)
"""Relative margins to choose from: they fit BM25 scores and dot products alike.
0.05 is the best of NV-Retriever (Moreira et al. 2024, section 4: "TopK-PercPos
95%")."""

FALSE_LIMIT = 0.1
"""Of the candidates of a bucket in use, so many may be false. One that is as
good as its positive has a softmax share of 0.5, other hard ones of about 0.1:
at 10% a third of what they teach is wrong."""

SURE_HITS = 0.5
"""Answer hits are dropped if so many of them are beyond chance: there are
candidates enough, so that losing some good ones costs little."""

HARDER = 2.0
"""A hard negative's softmax share exceeds that of a random passage by this
factor: other rows of the batch are random passages and cost nothing. Both are
measured where the judge prefers the positive: a share near 1 says more of the
query than of the passage."""

SERVED = 0.8
"""A source has a candidate for so many of the queries."""


@dataclasses.dataclass(frozen=True)
class Recommendation:
  """What to set in `config.negatives`.

  Attributes:
    members: sources to use; none: random negatives are the better ones.
    first_rank: of the window.
    last_rank: of the window; 0: none.
    relative_margin: None: none.
    drop_answers: sources whose candidates with an answer are to be dropped.
    push: member -> mean softmax share of its negatives.
    false: member -> estimate for its first bucket in use.
    refused: source -> why it is no member.
  """

  members: tuple[str, ...]
  first_rank: int
  last_rank: int
  relative_margin: float | None
  drop_answers: tuple[str, ...]
  push: Mapping[str, float]
  false: Mapping[str, Estimate]
  refused: Mapping[str, str]

  @property
  def sources(self) -> tuple[str, ...]:
    """As the config has them: two of the union."""
    return (f'{"+".join(self.members)}:2',) if self.members else ()


def recommend(
    sources: Mapping[str, Evidence],
    random: Evidence,
    judging: Judging,
    scale: float,
    pool_size: int,
) -> Recommendation:
  """Chooses sources, window and margin: one setting for all sources.

  Under a setting, a source may serve if in each of its buckets in the window
  false negatives are at most `FALSE_LIMIT` at the upper end of the interval, if
  the first of these buckets is `HARDER` than random, and if it has candidates
  for `SERVED` of the queries. Of all settings, the one whose sources have the
  largest sum of softmax shares wins; of equals, the one without margin and with
  the widest window.

  Args:
    sources: the evidence of each.
    random: the same of random passages.
    judging: how false ones are told.
    scale: factor on scores in the loss.
    pool_size: negatives of a source that are drawn from.
  """
  chooser = _Chooser(
      sources, judging, scale, pool_size,
      HARDER * mean(random.push(scale), random.exists & random.is_below),
  )
  options = []
  for margin in MARGINS:
    for first, _ in BUCKETS:
      faults = {name: chooser.fault(name, margin, first) for name in sources}
      members = tuple(name for name in sources if not faults[name])
      push = {name: chooser.push(name, margin, first) for name in members}
      options.append((sum(push.values()), margin, first, push, faults))
  best = max(options, key=lambda option: option[0])  # Of equals the first.
  _, margin, first, push, faults = best
  return Recommendation(
      tuple(push), first, chooser.last_rank(tuple(push), margin, first), margin,
      tuple(name for name in push if name in chooser.drops), push,
      {name: chooser.first_estimate(name, margin, first) for name in push},
      {name: fault for name, fault in faults.items() if fault},
  )


class _Chooser:
  """What a source is like under a setting; estimates are made once."""

  def __init__(self, sources, judging, scale, pool_size, least_push):
    self._sources, self._judging = sources, judging
    self._scale, self._pool_size = scale, pool_size
    self._least_push = least_push
    self._made: dict[tuple[str, float | None, int], Estimate] = {}
    # What a training draws without a pool is not filtered.
    self.drops = {name for name, evidence in sources.items()
                  if name not in source_list.DRAWN.names
                  and hits_beyond_chance(evidence) >= SURE_HITS}

  def fault(self, name: str, margin: float | None, first: int) -> str:
    """Why a source can't serve; empty if it can."""
    for begin, end in self._buckets(name, first):
      estimate = self._estimate(name, margin, begin, end)
      if estimate.queries >= LEAST_QUERIES and estimate.high > FALSE_LIMIT:
        return (f'up to {estimate.high:.0%} may be false at ranks {begin} to '
                f'{end}')
    keep = self._survivors(name, margin, first)
    served = float(keep.any(axis=1).mean())
    if served < SERVED:
      return f'has candidates for only {served:.0%} of the queries'
    if self._is_easy(name, self._kept(
        name, margin, *self._buckets(name, first)[0]
    )):
      return 'hardly harder than random passages'
    return ''

  def push(self, name: str, margin: float | None, first: int) -> float:
    """The mean softmax share of a source's negatives."""
    return mean(self._sources[name].push(self._scale),
                self._survivors(name, margin, first))

  def last_rank(
      self, members: Sequence[str], margin: float | None, first: int
  ) -> int:
    """The end of the last bucket in which any is hard enough; 0: all are."""
    ranked = [name for name in members if strategies.is_ranked(name)]
    depth = max((self._sources[name].exists.shape[1] for name in ranked),
                default=0)
    ends = [
        end for name in ranked for begin, end in self._buckets(name, first)
        if not self._is_easy(name, self._kept(name, margin, begin, end))
    ]
    return max(ends) if ends and max(ends) < depth else 0

  def first_estimate(
      self, name: str, margin: float | None, first: int
  ) -> Estimate:
    """Of the false ones in the first bucket in use."""
    return self._estimate(name, margin, *self._buckets(name, first)[0])

  def _is_easy(self, name, keep):
    evidence = self._sources[name]
    push = mean(evidence.push(self._scale), keep & evidence.is_below)
    return not push >= self._least_push  # Also where nothing is left.

  def _buckets(self, name, first):
    """Those in use; a window is for what is ranked by a search."""
    first = first if strategies.is_ranked(name) else 1
    depth = self._sources[name].exists.shape[1]
    return [(begin, end) for begin, end in BUCKETS if first <= begin <= depth
            ] or [BUCKETS[0]]

  def _estimate(self, name, margin, begin, end) -> Estimate:
    margin = margin if strategies.is_ranked(name) else None
    key = name, margin, begin
    if key not in self._made:
      evidence = self._sources[name]
      self._made[key] = false_share(
          evidence, evidence.within(begin, end) & evidence.below(margin),
          self._judging, name in self.drops,
      )
    return self._made[key]

  def _kept(self, name, margin, begin, end):
    evidence = self._sources[name]
    keep = evidence.within(begin, end)
    if strategies.is_ranked(name):
      keep = keep & evidence.below(margin)
    return keep & ~evidence.answer if name in self.drops else keep

  def _survivors(self, name, margin, first):
    """The pool: the best `pool_size` of the window."""
    first = self._buckets(name, first)[0][0]
    keep = self._kept(name, margin, first, np.iinfo(np.int32).max)
    return keep & (np.cumsum(keep, axis=1) <= self._pool_size)
