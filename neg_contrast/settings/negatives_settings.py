"""Keys of the hard negatives: where they come from, and how they are drawn."""

import dataclasses

from neg_contrast.settings import keys, source_list

FORMATS = ('dpr', 'tevatron', 'flag_embedding', 'triplets')
"""Files that a pool can be written as."""


def _if_named(*names: str) -> keys.Where:
  return keys.Where(
      f'`sources` name {" or ".join(f"`{name}`" for name in names)}',
      lambda section: any(name in section.names for name in names),
  )


_IF_SAMPLED = _if_named('sampled')
_IF_TRAINED = _if_named('coarse', 'fine')
_IF_JUDGED = keys.Where('there is a `judge`', lambda section: section.judge)


def _of(where, default, allowed=None, counts=False):
  """A key that is read there alone."""
  return keys.key(default, allowed, counts=counts, read=where)


def _drawn(default, allowed=None):
  """A key of `sampled`, which counts with it."""
  return _of(_IF_SAMPLED, default, allowed, counts=_IF_SAMPLED)


_SYNCHRONOUS, _ASYNCHRONOUS = 'synchronous', 'asynchronous'


@dataclasses.dataclass(frozen=True)
class NegativesConfig(source_list.NamedSources, keys.Section):
  """Hard negatives, beside the other rows of the batch (Lu et al., section 4).

  What a pool is made of counts by the identity of the pool.

  Attributes:
    sources: where they come from, each `NAME:N`, or `NAME+NAME:N` for N of
      the union; none: the other rows of the batch only. N for each query:
      `corpus`: drawn uniformly from the corpus. `gold`: the same of the
      positives of other queries. `retrieved`: found in the whole corpus by each
      step, with `model.freeze=passage`. `sampled`: drawn from the corpus by the
      current model, again in each epoch. `given`: judged not relevant in the
      data. `bm25`: top passages of BM25, with `evaluation.bm25_k1` and
      `bm25_b`. `context`: other passages of the document of the example's
      positive, or the half of it without the answer if there is no other.
      `coarse` and `fine`: nearest passages by a dual encoder of few or many
      features, trained for it. `model`: nearest passages by `checkpoint`.
      `run`: first passages of `runs`. `pool`: what `pool` has. What one of
      these lacks is drawn from the others of them that list passages (all from
      `given` on). N for the batch, as candidates of all its queries:
      `shared_corpus`: passages drawn uniformly from the corpus at each step,
      and encoded once. `queue`: positives of earlier batches, with the vectors
      of then: a multiple of `data.batch_size` (cross-batch memory, Wang et al.,
      2020). They cost no encoding and get no gradient.
    pool_size: M, passages of a source that they are drawn from, of `context`
      the nearest to the positive; with N of one source, these are its top N,
      the same at every step.
    depth: candidates of a source that are kept for a query, with rank and
      score, so that filters can change without mining again.
    hard_percent: part of the N `sampled` negatives that is hard: drawn in
      proportion to exp(score); the rest is uniform (Zhang and Stratos, section
      6.3: Hard 100, Mixed-p, Random 0).
    greedy: take the passages with the highest scores as hard ones instead.
    refresh_epochs: passes over the examples between draws of `sampled`.
    refresh_steps: steps after which the mined pool is made again by the model
      as it is (ANCE, Xiong et al., 2021): candidates of `coarse`, `fine` and
      `model` are replaced by its nearest passages; all filters apply. 0: never.
    refresh: who makes it again: `synchronous`, the training itself, which waits
      for it; or `asynchronous`, another program (configs/refresh.py) by the
      checkpoints, of which the training takes what is ready then.
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
    margin_by: whose scores both margins compare: those of the `retriever` that
      a passage comes from, or the probabilities of the `judge`, which every
      source has (TopK-PercPos of NV-Retriever, Moreira et al., 2024, is
      `relative_margin`=0.05 by the scores of another model).
    drop_answers: sources whose passages with an answer are dropped.
    drop_duplicates: of passages with equal title and text, keep the best.
    judge: a trained cross-encoder (a workdir, or a folder or hub name of one
      label) whose calibrated probabilities decide which mined candidates are
      negatives; empty: nobody judges. Verdicts are kept in `mined_dir`.
    judge_below: candidates of at least this probability are dropped (RocketQA,
      Qu et al., 2021).
    judge_above: those above this are believed positives.
    judge_relabel: believed positives are trained on as positives (RLHN, Thakur
      et al., 2025), and are negatives of no source; else they are left out.
    pool: a pool made by `job=mine` to train with, such as workdirs/mine/pool;
      its own filters count then, and of the keys above only `sources`, which
      name what it has, or `pool`; with a `judge` all filters apply again.
    mined_dir: folder of trained miners and mined candidates, kept for reuse.
    momentum: decay of an average of the passage tower that encodes the
      positives again, for the queue, such as 0.999 (MoCo, He et al., 2020); 0:
      it takes their vectors as they are.
    formats: other libraries' files that `job=mine` and `job=judge` write the
      pool as: `dpr`, `tevatron`, `flag_embedding`, `triplets`
      (sentence-transformers).
  """

  section = 'negatives'

  sources: tuple[str, ...] = keys.key((), each=source_list.FORM)
  pool_size: int = keys.key(
      100, keys.at_least(1), counts=_if_named('context')
  )
  depth: int = keys.key(200, keys.from_to(1, 10**6), counts=False)
  hard_percent: float = _drawn(100.0, keys.from_to(0, 100))
  greedy: bool = _drawn(False)
  refresh_epochs: float = _drawn(1.0, keys.above(0))
  refresh_steps: int = keys.key(0, keys.at_least(0), counts=keys.Changed())
  refresh: str = keys.key(
      _SYNCHRONOUS, keys.one_of(_SYNCHRONOUS, _ASYNCHRONOUS),
      counts=keys.Changed(),
  )
  checkpoint: str = keys.key('', counts=False)
  runs: tuple[str, ...] = _of(_if_named('run'), ())
  coarse_dim: int = _of(_if_named('coarse'), 25, keys.at_least(1))
  fine_dim: int = _of(_if_named('fine'), 512, keys.at_least(1))
  miner_init: str = _of(_IF_TRAINED, '')
  miner_steps: int = _of(_IF_TRAINED, 0, keys.at_least(0))
  miner_seed: int | None = _of(_IF_TRAINED, None, keys.from_to(0, 2**32 - 1))
  miner_epochs: float = _of(_IF_TRAINED, 0.0, keys.at_least(0))
  first_rank: int = keys.key(1, keys.at_least(1), counts=False)
  last_rank: int = keys.key(0, keys.at_least(0), counts=False)
  margin: float | None = keys.key(None, counts=False)
  relative_margin: float | None = keys.key(None, counts=False)
  margin_by: str = keys.key(
      'retriever', keys.one_of('retriever', 'judge'), counts=False
  )
  drop_answers: tuple[str, ...] = keys.key(
      ('bm25',), each=keys.one_of(source_list.MINED), counts=False
  )
  drop_duplicates: bool = keys.key(True, counts=False)
  judge: str = keys.key('', counts=False)
  judge_below: float = _of(_IF_JUDGED, 0.1, keys.above_at_most(0, 1))
  judge_above: float = _of(_IF_JUDGED, 0.9, keys.above_at_most(0, 1))
  judge_relabel: bool = keys.key(False, counts=False)
  pool: str = keys.key('', counts=False)
  mined_dir: str = keys.key('workdirs/mined', counts=False)
  momentum: float = keys.key(
      0.0, keys.at_least_below(0, 1), counts=keys.Changed()
  )
  formats: tuple[str, ...] = keys.key(
      (), each=keys.one_of(*FORMATS), counts=False,
      read=keys.jobs('mine', 'judge'),
  )

  @property
  def is_asynchronous(self) -> bool:
    """Whether another program makes the pool again."""
    return self.refresh == _ASYNCHRONOUS

  def __post_init__(self):
    """Checks ranges and that the keys agree."""
    super().__post_init__()
    self._check_names()
    if self.is_asynchronous and not self.refresh_steps:
      raise self.error('refresh_steps', 'is needed by refresh=asynchronous: '
                       'steps after which the newest pool is taken')
    if 'run' in self.names and not (self.runs or self.pool):
      raise self.error('runs', 'is needed by source "run": a TREC run file, '
                       "such as ('bm25.trec',)")
    if self.momentum and not self.queue:
      raise self.error('momentum', 'fills a queue; name one in '
                       'negatives.sources, such as queue:4096')
    number = sum(entry.count for entry in self.listed)
    if self.pool_size < number:
      raise self.error('pool_size', keys.at_least(number).rule)
    if self.judge_below > self.judge_above:
      raise self.error('judge_below', 'must be at most negatives.judge_above='
                       f'{self.judge_above}')
    if self.judge_relabel and not self.judge:
      raise self.error('judge_relabel', 'is of what a judge believes positive; '
                       'name one in negatives.judge')
    margins = {self.margin, self.relative_margin} - {None}
    if self.margin_by == 'judge' and not (self.judge and margins):
      raise self.error('margin_by', 'compares probabilities of a judge; name '
                       'one in negatives.judge, and set negatives.margin or '
                       'negatives.relative_margin, such as 0.05')
    self._check_ranks()

  def _check_names(self) -> None:
    """Raises SettingError where sources are unknown, or don't go together."""
    known = keys.one_of(source_list.DRAWN, source_list.MINED,
                        source_list.SHARED, source_list.POOL)
    for entry in self.entries:
      for name in entry.names:
        if not known.holds(name):
          raise self.error('sources', f'"{name}" {known.rule}')
        if self.names.count(name) > 1:
          raise self.error('sources', f'"{name}" stands there twice')
        if len(entry.names) > 1 and entry not in self.listed:
          raise self.error('sources', f'"{entry}" is a union, and these are of '
                           f'{", ".join(source_list.MINED.names)}; name the '
                           'others apart')
    if source_list.POOL in self.names and not self.pool:
      raise self.error('pool', 'is needed by source "pool": a pool that '
                       'job=mine made, such as workdirs/mine/pool')
    if self.count_of('retrieved') and len(self.own) > 1:
      raise self.error('sources', 'steps encode no passages of a query beside '
                       '"retrieved"; leave the others out')

  def _check_ranks(self) -> None:
    """Raises SettingError where depth and window of ranks disagree."""
    last, most = self.last_rank or self.depth, f'negatives.depth={self.depth}'
    if self.depth < (size := self.pool_size):
      raise self.error('depth', f'must be at least negatives.pool_size={size}')
    if self.first_rank > self.depth:
      raise self.error('first_rank', f'must be at most {most}')
    if not self.first_rank <= last <= self.depth:
      raise self.error('last_rank', 'must lie between first_rank='
                       f'{self.first_rank} and {most}, or be 0')
