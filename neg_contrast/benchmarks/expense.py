"""What the trainings and encodings of a plan take: steps, tokens, FLOP, bytes.

By the formulas of `--compile_only` (`training/costs.py`), without a compiler:
FLOP are those of matrix products on tokens that are no padding.
"""

import dataclasses
import math
from typing import Any

import jax
import numpy as np

from neg_contrast.data import examples, statistics
from neg_contrast.data import peek as peek_lib
from neg_contrast.models import (
  dual_encoder,
  loading,
  t5_config,
)
from neg_contrast.retrieval import vector_table
from neg_contrast.stage1 import pair_folder
from neg_contrast.training import (
  costs,
  generator_runs,
  reranker_runs,
  run_artifacts,
  run_settings,
)

_STOP_DEPTH = 100  # Of BM25, for each tune query; see `training/stop_rows.py`.
_KEPT = 2  # Checkpoints of a training: the best and the latest.
_MOMENTS = {'adam': 2.0, 'adamw': 2.0, 'adafactor': 0.01}  # By parameter.
_FLOAT = 4


@dataclasses.dataclass(frozen=True)
class Lengths:
  """Tokens of the texts of a data set, as a model reads them.

  Attributes:
    query: of some queries; None: there are none.
    passage: of some passages; None: there are none.
  """

  query: statistics.Lengths | None
  passage: statistics.Lengths | None

  @property
  def spread(self) -> tuple[np.ndarray, np.ndarray]:
    """`[texts] int64` each, tokens of queries and of passages as they are cut.
    """
    query, passage = (np.zeros(0, np.int64) if one is None
                      else peek_lib.spread(one)
                      for one in (self.query, self.passage))
    return query, passage


@dataclasses.dataclass(frozen=True)
class Model:
  """What is known of a model without its weights.

  Attributes:
    shape: `EncoderSpec` or `T5Config`.
    parameters: how many.
  """

  shape: Any
  parameters: int

  def flops(self, lengths: np.ndarray) -> float:
    """Operations of a forward pass over texts, on average for one.

    Args:
      lengths: `[texts] int`, tokens of each.
    """
    if not len(lengths):
      return 0.0
    if isinstance(self.shape, dual_encoder.EncoderSpec):
      return costs.encoder_flops(self.shape, lengths) / len(lengths)
    return 2.0 * self.parameters * float(np.mean(lengths))


def model_of(shape: Any) -> Model:
  """A model by its shapes."""
  if isinstance(shape, t5_config.T5Config):
    inner = shape.num_heads * shape.d_kv
    feed = (3 if shape.gated else 2) * shape.d_model * shape.d_ff
    layers = shape.num_layers * (4 * shape.d_model * inner + feed)
    more = shape.num_decoder_layers * (8 * shape.d_model * inner + feed)
    return Model(shape, shape.vocab_size * shape.d_model + layers + more)
  leaves = jax.tree.leaves(loading.shape_of(shape))
  return Model(shape, sum(math.prod(leaf.shape) for leaf in leaves))


@dataclasses.dataclass(frozen=True)
class Expense:
  """What an artifact takes.

  Attributes:
    what: a line about it.
    steps: of training.
    tokens: that a model reads.
    flops: operations.
    bytes: on disk.
    is_sure: whether its tokens were counted by the model's tokenizer.
  """

  what: str
  steps: int = 0
  tokens: float = 0.0
  flops: float = 0.0
  bytes: float = 0.0
  is_sure: bool = True


def examples_of(
    run: run_artifacts.Run, found: peek_lib.Peek
) -> peek_lib.Count:
  """How many examples a training has.

  Args:
    run: the training.
    found: its data with judgements of people.
  """
  train_split = run.config.data.train_split
  if not isinstance(run.data, pair_folder.Pairs):
    split = found.splits[train_split]
    if run.config.loss.example_weights != examples.EQUAL:
      return split.positives
    return peek_lib.Count(split.positives.number + split.weightless.number,
                          split.positives.is_exact)
  made, asked = run.data.count(), found.splits.get(train_split)
  if made is not None:
    return peek_lib.Count(made)
  return peek_lib.Count(run.data.most(
      found.passages.number, asked.queries.number if asked else 0
  ), is_exact=False)


def of_training(
    run: run_artifacts.Run, examples: int, found: peek_lib.Peek,
    lengths: Lengths, model: Model, is_sure: bool = True,
) -> Expense:
  """What a training takes, with its evaluations on the tune split.

  Args:
    run: the training.
    examples: how many it has.
    found: its data with judgements of people.
    lengths: of these, by its tokenizer.
    model: what is trained.
    is_sure: whether the lengths are.
  """
  config = run.config
  steps = run_settings.total_steps(config, examples)
  query, passage = lengths.spread
  texts = config.data.batch_size * (1 + config.negatives.per_query) + (
      config.negatives.shared_corpus)
  is_pair = isinstance(run, reranker_runs.RerankerRun)
  if is_pair:  # Each passage is read together with its query.
    query_texts, pair = texts, _joined(query, passage)
    step_flops = texts * model.flops(pair)
  else:
    query_texts = config.data.batch_size
    step_flops = query_texts * model.flops(query) + texts * model.flops(passage)
  tokens = query_texts * _mean(query) + texts * _mean(passage)
  times, tuned_tokens, tuned_flops = _tuning(
      run, steps, found, query, passage, model
  )
  encoded, encoded_flops = _refreshed(config, steps, found, passage, model)
  state = 1 + _MOMENTS[config.optim.optimizer] + bool(config.optim.ema)
  trained = 0.02 if config.model.lora_rank else 1.0
  return Expense(
      f'{run.title} in {run.workdir}: {steps:,} steps of '
      f'{config.data.batch_size:,} queries (about {examples:,} examples), '
      f'about {tokens:,.0f} tokens a step' + (
          f'; evaluated {times:,} {"time" if times == 1 else "times"}'
          if times else ''),
      steps, steps * tokens + tuned_tokens + encoded,
      3 * steps * step_flops + tuned_flops + encoded_flops,
      _KEPT * state * trained * _FLOAT * model.parameters, is_sure,
  )


def _tuning(run, steps, found, query, passage, model):
  """Evaluations on the tune split: how many, their tokens and FLOP."""
  every, config = run.config.evaluation.eval_steps, run.config
  if not every:
    return 0, 0.0, 0.0
  times = math.ceil(steps / every)
  asked = found.splits[None].queries.number if None in found.splits else 0
  if isinstance(run, generator_runs.GeneratorRun):
    tokens = asked * (_mean(query) + _mean(passage))
    return times, times * tokens, times * 2.0 * model.parameters * tokens
  if isinstance(run, reranker_runs.RerankerRun):
    pairs = asked * run.candidates.judged.config.depth
    both = _joined(query, passage)
    return (times, times * pairs * _mean(both),
            times * pairs * model.flops(both))
  searched = min(found.passages.number,
                 config.evaluation.stop_corpus_passages + _STOP_DEPTH * asked)
  return (
      times,
      times * (searched * _mean(passage) + asked * _mean(query)),
      times * (searched * model.flops(passage) + asked * model.flops(query)),
  )


def _refreshed(config, steps, found, passage, model):
  """Passages that are encoded again while it trains: tokens and FLOP."""
  every = config.negatives.refresh_steps
  if not every or config.negatives.is_asynchronous:
    return 0.0, 0.0
  count = ((steps - 1) // every) * found.passages.number
  return count * _mean(passage), count * model.flops(passage)


def of_embeddings(
    name: str, found: peek_lib.Peek, lengths: Lengths, model: Model,
    dtype: str, is_sure: bool = True,
) -> Expense:
  """What the vectors of a corpus take.

  Args:
    name: of whose they are.
    found: the corpus.
    lengths: of its texts.
    model: that encodes them.
    dtype: in which they are kept.
    is_sure: whether the lengths are.
  """
  count, passage = found.passages.number, lengths.spread[1]
  features = (model.shape.features('passage') if isinstance(
      model.shape, dual_encoder.EncoderSpec) else 0)
  row = vector_table.Layout(count, features, dtype).row_bytes
  return Expense(
      f'vectors of {count:,} passages by {name}', 0, count * _mean(passage),
      count * model.flops(passage), count * row, is_sure,
  )


def of_data(found: peek_lib.Peek) -> Expense:
  """What a prepared corpus takes, with its tokens and the words of BM25.

  Twice the size of its files: that of the texts again, and about as much for
  tokens and words.
  """
  return Expense('', bytes=2.0 * found.bytes)


def _mean(lengths: np.ndarray) -> float:
  return float(np.mean(lengths)) if len(lengths) else 0.0


def _joined(query: np.ndarray, passage: np.ndarray) -> np.ndarray:
  """Tokens of pairs."""
  return passage + round(_mean(query)) if len(query) else passage
