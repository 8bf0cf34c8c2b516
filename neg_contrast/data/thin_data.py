"""What is too little of a data set for a training, in words. Pure."""

import dataclasses
import math

MANY_PASSES = 20
"""Passes over the examples from which on a training learns them by heart."""
FEW_TUNE, FEW_TEST = 20, 50
"""Queries below which a metric is mostly chance."""
MUCH_CUT = 0.1
"""Part of the sequences that are cut, from which on that is said."""


@dataclasses.dataclass(frozen=True)
class Sizes:
  """What a training has.

  Attributes:
    examples: to train on.
    batch_size: of a step.
    steps: of the training.
    tune_queries: that it is tuned and stopped by; None: it is not.
    is_stopped: whether it may stop early by them.
    warmup_steps: of the learning rate.
    is_tune_known: whether the tune queries were counted.
  """

  examples: int
  batch_size: int
  steps: int
  tune_queries: int | None = None
  is_stopped: bool = False
  warmup_steps: int = 0
  is_tune_known: bool = True


def of_training(sizes: Sizes) -> list[str]:
  """What is too little for a training, and what to do, a sentence each."""
  found = []
  if sizes.batch_size > sizes.examples:
    most = 2 ** int(math.log2(max(2, sizes.examples)))
    found.append(
        f'data.batch_size={sizes.batch_size} is more than the '
        f'{sizes.examples:,} examples: a batch holds some of them twice, and '
        f'they are no negatives of each other. Choose at most {most}, or '
        'bring more questions'
    )
  passes = sizes.steps * sizes.batch_size / max(1, sizes.examples)
  if passes >= MANY_PASSES:
    stop = '' if sizes.is_stopped else (
        ', or let it stop early (evaluation.eval_steps, evaluation.patience)')
    found.append(
        f'{sizes.steps:,} steps pass {passes:.0f} times over '
        f'{sizes.examples:,} examples: it learns them by heart. 1 to 10 passes '
        f'are usual (optim.epochs, optim.steps){stop}'
    )
  if 2 * sizes.warmup_steps > sizes.steps:
    found.append(
        f'optim.warmup_steps={sizes.warmup_steps} of {sizes.steps:,} steps: '
        'the learning rate rises for most of the training. A tenth is usual: '
        f'{max(1, sizes.steps // 10)}'
    )
  few = sizes.tune_queries
  if few is not None and few < FEW_TUNE:
    found.append(
        f'the tune split has {"" if sizes.is_tune_known else "about "}'
        f'{questions(few)}: the checkpoint is chosen by '
        f'steps of {100 / max(1, few):.0f} % in accuracy, which is chance. '
        'Raise data.tune_fraction, name a larger data.tune_split, or bring '
        'more questions'
    )
  return found


def of_evaluation(split: str, queries: int) -> list[str]:
  """What is too little to measure a model by.

  Args:
    split: of the queries.
    queries: how many there are.
  """
  if queries >= FEW_TEST:
    return []
  # 95 % of a share of 1/2, the widest.
  half = 100 * 1.96 * math.sqrt(0.25 / max(1, queries))
  return [f'the split "{split}" has {questions(queries)}: its accuracy is '
          f'known to within ±{min(half, 50):.0f} points, and small differences '
          'say nothing']


def of_lengths(
    role: str, sequences: int, cut: int, limit: int, longest: int
) -> list[str]:
  """What the cut of sequences loses.

  Args:
    role: `query` or `passage`.
    sequences: how many were counted.
    cut: how many of them are longer than the limit.
    limit: tokens that they are cut to.
    longest: tokens of the longest.
  """
  if not sequences or cut < MUCH_CUT * sequences:
    return []
  remedy = (f'raise model.{role}_length if the model takes more'
            + ('; or split documents into passages first (configs/split.py)'
               if role == 'passage' else ''))
  kind = 'queries' if role == 'query' else 'passages'
  return [f'{cut / sequences:.0%} of the {kind} are longer than '
          f'{limit} tokens and are cut (up to {longest:,}): {remedy}']


def questions(count: int) -> str:
  """A number of queries in words."""
  return f'{count:,} {"query" if count == 1 else "queries"}'
