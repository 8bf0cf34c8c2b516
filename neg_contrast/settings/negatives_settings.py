"""Keys of the hard negatives: where they come from, and how they are drawn."""

import dataclasses

from neg_contrast.settings import keys

DRAWN = keys.Table('negatives.sources', 'SOURCES')
"""What is drawn for each example while training, without a pool."""

MINED = keys.Table('mining.strategies', 'STRATEGIES')
"""Strategies that `job=mine` lists for every query; what is not in `DRAWN` too
is drawn from a pool of that."""

DENSE = keys.Table('mining.strategies', 'DENSE')
"""Those of `MINED` that a dual encoder finds."""

FORMATS = ('dpr', 'tevatron', 'flag_embedding', 'triplets')
"""Files that a pool can be written as."""

_IF_SAMPLED = keys.When('strategy', 'sampled')


@dataclasses.dataclass(frozen=True)
class NegativesConfig(keys.Section):
  """Hard negatives, beside the other rows of the batch (Lu et al., section 4).

  What a pool is made of counts by the identity of the pool.

  Attributes:
    strategy: where they come from. `random`: the other rows of the batch only.
      `corpus`: drawn uniformly from the corpus. `gold`: the same of the
      positives of other queries. `retrieved`: found in the whole corpus by each
      step, with `model.freeze=passage`. `sampled`: drawn from the
      corpus by the current model, again in each epoch. `given`: judged not
      relevant in the data. `bm25`: top passages of BM25, with
      `evaluation.bm25_k1` and `bm25_b`. `context`: other passages of the
      document of the example's positive, or the half of it without the answer
      if there is no other. `coarse` and `fine`: nearest passages by a dual
      encoder of few or many features, trained for it. `model`: nearest passages
      by `checkpoint`. `run`: first passages of `runs`. `mixed`: all `members`.
    per_query: N, hard negatives drawn for a query at each step.
    pool_size: M, passages of a source that they are drawn from, of `context`
      the nearest to the positive; with N of one source, these are its top N,
      the same at every step.
    depth: candidates of a source that are kept for a query, with rank and
      score, so that filters can change without mining again.
    members: strategies that `mixed` takes the union of.
    hard_percent: part of the N `sampled` negatives that is hard: drawn in
      proportion to exp(score); the rest is uniform (Zhang and Stratos, section
      6.3: Hard 100, Mixed-p, Random 0).
    greedy: take the passages with the highest scores as hard ones instead.
    refresh_epochs: passes over the examples between draws of `sampled`.
    refresh_steps: steps after which the mined pool is made again by the model
      as it is (ANCE, Xiong et al., 2021): candidates of `coarse`, `fine` and
      `model` are replaced by its nearest passages; all filters apply. 0: never.
    quotas: how many of the N each member gives, as far as it has so many;
      empty: N are drawn uniformly from the union.
    checkpoint: the model that `model` mines with; empty: `checkpoint` of the
      top level.
    runs: files that `run` reads: TREC run files, and files of Zeshel's
      tfidf_candidates, for different queries.
    coarse_dim: features of the coarse miner.
    fine_dim: features of the fine miner. A projection wider than its encoder
      has no higher rank than the encoder's width.
    miner_init: what coarse and fine start from; empty: `model.init`.
    miner_steps: steps that coarse and fine train; 0: as `optim` says.
    miner_seed: seed of coarse and fine, so that runs with different seeds share
      them; None: that of the run.
    miner_epochs: passes of coarse and fine over the gold pairs, where `optim`
      is that of a stage 1 with more pairs; 0: as `optim` says.
    first_rank: retrieved passages of better rank are dropped.
    last_rank: retrieved passages of worse rank are dropped; 0: none.
    margin: retrieved passages are dropped that score above the positive's score
      less this (dot products, BM25 scores, or scores of `runs`); a run's all,
      where it does not rank the positive.
    relative_margin: `margin` as a part of the positive's absolute score.
    drop_answers: sources whose passages with an answer are dropped.
    drop_duplicates: of passages with equal title and text, keep the best.
    pool: a pool made by `job=mine` to train with, such as workdirs/mine/pool;
      its own sources and filters count then, and of the keys above only
      `per_query` and `quotas` (with `members` as the pool has them).
    mined_dir: folder of trained miners and mined candidates, kept for reuse.
    shared_corpus: C, passages drawn uniformly from the corpus at each step, and
      encoded once, that all queries of the batch have as candidates.
    queue: Q, positives of earlier batches whose vectors all queries have as
      candidates: a multiple of `data.batch_size` (cross-batch memory, Wang et
      al., 2020). They cost no encoding and get no gradient.
    momentum: decay of an average of the passage tower that encodes the
      positives again, for the queue, such as 0.999 (MoCo, He et al., 2020); 0:
      it takes their vectors as they are.
    formats: other libraries' files that `job=mine` writes the pool as: `dpr`,
      `tevatron`, `flag_embedding`, `triplets` (sentence-transformers).
  """

  section = 'negatives'

  strategy: str = keys.key(
      'random', keys.one_of(DRAWN, 'mixed', MINED)
  )
  per_query: int = keys.key(0, keys.at_least(0))
  pool_size: int = keys.key(
      100, keys.at_least(1), counts=keys.When('strategy', 'context')
  )
  depth: int = keys.key(200, counts=False)
  members: tuple[str, ...] = keys.key(
      ('coarse', 'fine', 'bm25', 'context'), each=keys.one_of(MINED),
      counts=keys.When('strategy', 'mixed'),
  )
  hard_percent: float = keys.key(
      100.0, keys.from_to(0, 100), counts=_IF_SAMPLED
  )
  greedy: bool = keys.key(False, counts=_IF_SAMPLED)
  refresh_epochs: float = keys.key(1.0, keys.above(0), counts=_IF_SAMPLED)
  refresh_steps: int = keys.key(0, keys.at_least(0), counts=keys.Changed())
  quotas: tuple[int, ...] = keys.key(())
  checkpoint: str = keys.key('', counts=False)
  runs: tuple[str, ...] = keys.key((), counts=False)
  coarse_dim: int = keys.key(25, keys.at_least(1), counts=False)
  fine_dim: int = keys.key(512, keys.at_least(1), counts=False)
  miner_init: str = keys.key('', counts=False)
  miner_steps: int = keys.key(0, keys.at_least(0), counts=False)
  miner_seed: int | None = keys.key(None, keys.at_least(0), counts=False)
  miner_epochs: float = keys.key(0.0, keys.at_least(0), counts=False)
  first_rank: int = keys.key(1, keys.at_least(1), counts=False)
  last_rank: int = keys.key(0, keys.at_least(0), counts=False)
  margin: float | None = keys.key(None, counts=False)
  relative_margin: float | None = keys.key(None, counts=False)
  drop_answers: tuple[str, ...] = keys.key(
      ('bm25',), each=keys.one_of(MINED), counts=False
  )
  drop_duplicates: bool = keys.key(True, counts=False)
  pool: str = keys.key('', counts=False)
  mined_dir: str = keys.key('workdirs/mined', counts=False)
  shared_corpus: int = keys.key(0, keys.at_least(0), counts=keys.Changed())
  queue: int = keys.key(0, keys.at_least(0), counts=keys.Changed())
  momentum: float = keys.key(
      0.0, keys.at_least_below(0, 1), counts=keys.Changed()
  )
  formats: tuple[str, ...] = keys.key(
      (), each=keys.one_of(*FORMATS), counts=False
  )

  @property
  def sources(self) -> tuple[str, ...]:
    """The strategies that list passages; of `mixed` its members."""
    if self.strategy == 'mixed':
      return self.members
    return (self.strategy,) if self.strategy in MINED.names else ()

  @property
  def drawn(self) -> tuple[str, ...]:
    """Those of `sources` that a training draws from without a pool."""
    return () if self.pool else tuple(
        name for name in self.sources if name in DRAWN.names
    )

  @property
  def pooled(self) -> tuple[str, ...]:
    """Those of `sources` that a training draws from a pool of."""
    return tuple(name for name in self.sources if name not in self.drawn)

  @property
  def dense(self) -> tuple[str, ...]:
    """Those of `pooled` that `refresh_steps` replaces."""
    return tuple(name for name in self.pooled if name in DENSE.names)

  def __post_init__(self):
    """Checks ranges and that the keys agree."""
    super().__post_init__()
    if not self.members or len(set(self.members)) < len(self.members):
      raise self.error('members', 'names at least one strategy, and each once')
    if 'run' in self.sources and not (self.runs or self.pool):
      raise self.error('runs', 'is needed by strategy "run": a TREC run file, '
                       "such as ('bm25.trec',)")
    if self.strategy == 'sampled' and self.per_query < 1:
      raise self.error('per_query', keys.at_least(1).rule)
    if self.sources and not self.pooled and self.strategy == 'mixed':
      raise self.error('members', 'names what has a pool too; for context '
                       'negatives alone choose negatives.strategy="context"')
    if self.momentum and not self.queue:
      raise self.error('momentum', 'fills a queue; set negatives.queue, such '
                       'as 4096')
    if self.sources and self.pool_size < self.per_query:
      raise self.error('pool_size', keys.at_least(self.per_query).rule)
    self._check_ranks()
    self._check_quotas()

  def _check_ranks(self) -> None:
    """Raises SettingError where depth and window of ranks disagree."""
    if self.depth < self.pool_size:
      raise self.error('depth', 'must be at least '
                       f'negatives.pool_size={self.pool_size}')
    last = self.last_rank or self.depth
    if not self.first_rank <= last <= self.depth:
      raise self.error(
          'last_rank', f'lies between first_rank={self.first_rank} and '
          f'depth={self.depth}; or is 0'
      )

  def _check_quotas(self) -> None:
    """Raises SettingError where quotas do not fit members and number."""
    if self.quotas and self.strategy != 'mixed':
      raise self.error('quotas', 'is for strategy "mixed"; '
                       f'negatives.strategy is "{self.strategy}"')
    if self.quotas and (
        len(self.quotas) != len(self.members) or min(self.quotas) < 0
        or sum(self.quotas) != self.per_query
    ):
      raise self.error(
          'quotas', f'gives each of members={self.members} a number, and they '
          f'add up to per_query={self.per_query}'
      )
