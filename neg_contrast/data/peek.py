"""A look at a data set before it is prepared: how much there is, how long.

A prepared corpus is counted; of another source the first records are read, for
some seconds at most.
"""

import dataclasses
import functools
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from neg_contrast import errors
from neg_contrast.data import (
  dataset,
  examples,
  inputs,
  records,
  sources,
  statistics,
  token_store,
  tokenized,
)
from neg_contrast.data import tokenizer as tokenizer_lib
from neg_contrast.data.sequences import listed
from neg_contrast.settings import config as config_lib

_SECONDS = 3.0
_SAMPLE = 512  # Texts whose tokens are counted.
_TOKENS_PER_WORD = 1.4  # 100 words of English have 140 tokens of BERT's.


@dataclasses.dataclass(frozen=True)
class Count:
  """How many there are.

  Attributes:
    number: of them, or of those that were read.
    is_exact: whether these are all.
  """

  number: int
  is_exact: bool = True

  def __str__(self) -> str:
    return f'{"" if self.is_exact else "at least "}{self.number:,}'


@dataclasses.dataclass(frozen=True)
class Split:
  """What a split holds.

  Attributes:
    queries: with a judgement.
    positives: judgements that are trained on.
    weightless: of weight 0, which `loss.example_weights=equal` trains on, too.
  """

  queries: Count
  positives: Count
  weightless: Count = Count(0)


@dataclasses.dataclass(frozen=True)
class Peek:
  """What is known of a data set.

  Attributes:
    passages: how many.
    splits: by name; `None` is the part that tuning and early stopping see.
    texts: (title, text) of some passages.
    questions: some queries.
    bytes: of the source's files.
    is_prepared: whether the counts are those of the prepared corpus.
  """

  passages: Count
  splits: dict[str | None, Split]
  texts: tuple[tuple[str, str], ...]
  questions: tuple[str, ...]
  bytes: int
  is_prepared: bool


def look(
    config: config_lib.DataConfig, splits: tuple[str, ...], needs_tuning: bool
) -> Peek:
  """Looks at a data set.

  Args:
    config: names it.
    splits: those that are needed; the first one is trained on.
    needs_tuning: whether a part is needed that tuning sees.

  Raises:
    UserError: a split is not there, or holds nothing; or a record can't be
      used.
  """
  data = dataset.data_of(config)
  if data.is_made():
    return _of_prepared(data, splits, needs_tuning)
  return _of_source(config, splits, needs_tuning)


def _of_prepared(
    data: dataset.Data, splits: tuple[str, ...], needs_tuning: bool
) -> Peek:
  loaded = data.load()
  prepared = loaded.prepared
  found: dict[str | None, Split] = {}
  for split in splits:
    judged = prepared.judgements(split)
    if needs_tuning and split == data.config.train_split:
      judged, tune = loaded.train_and_tune
      found[None] = _split_of(tune)
    found[split] = _split_of(judged)
  texts = [prepared.passages[row] for row in _some(len(prepared.passages))]
  questions = [prepared.queries[row] for row in _some(len(prepared.queries))]
  return Peek(
      Count(len(prepared.passages)), found,
      tuple((one.title, one.text) for one in texts),
      tuple(one.text for one in questions),
      sum(one['size'] for one in prepared.manifest['files']), True,
  )


def _split_of(judgements: Any) -> Split:
  given, equal = (int(examples.are_trained(judgements, weigh).sum())
                  for weigh in (examples.GIVEN, examples.EQUAL))
  return Split(
      Count(len(judgements.queries)), Count(given), Count(equal - given))


def _some(count: int) -> list[int]:
  return np.unique(
      np.linspace(0, count - 1, min(count, _SAMPLE)).astype(int)
  ).tolist() if count else []


def _of_source(
    config: config_lib.DataConfig, splits: tuple[str, ...], needs_tuning: bool
) -> Peek:
  invalid = records.InvalidRecords(config.on_invalid == 'skip')
  source = sources.open_source(config.source, invalid, config.answer_words)
  for key, split in _keys(config, splits):
    if split not in source.splits:
      *others, last = source.splits or ('none at all',)
      raise errors.UserError(
          f'{errors.key(f"data.{key}")}="{split}": {config.source} has no such '
          f'split, but {", ".join(others)}{" and " if others else ""}{last}'
      )
  parts = 1 + bool(splits) + len(splits)
  taken = functools.partial(_taken, seconds=_SECONDS / parts)
  texts, passages = taken(source.passages(), lambda one: (one.title, one.text))
  questions, _ = taken(source.queries() if splits else iter(()),
                       lambda one: one.text)
  found: dict[str | None, Split] = {}
  for split in splits:
    rows, judged = taken(
        source.judgements(split), lambda one: (
            one.query_id, one.grade > 0 and one.is_example, one.weight > 0),
        sample=None,
    )
    weighed = [has_weight for _, is_positive, has_weight in rows
               if is_positive]
    if judged.is_exact and split == config.train_split and not weighed:
      raise errors.UserError(
          f'{config.source}: no judgement of the training split "{split}" has '
          'a grade above 0, so there is nothing to train on'
      )
    found[split] = Split(
        Count(len({name for name, *_ in rows}), judged.is_exact),
        Count(sum(weighed), judged.is_exact),
        Count(len(weighed) - sum(weighed), judged.is_exact),
    )
  if needs_tuning:
    found |= _apart(config, found)
  return Peek(passages, found, tuple(texts), tuple(questions),
              sum(path.stat().st_size for path in source.files), False)


def _keys(
    config: config_lib.DataConfig, splits: tuple[str, ...]
) -> Iterator[tuple[str, str]]:
  """The key that names each split."""
  for split in splits:
    keys = [key for key in ('train_split', 'test_split', 'split', 'tune_split')
            if getattr(config, key) == split]
    yield keys[0] if keys else 'split', split


def _apart(
    config: config_lib.DataConfig, found: dict[str | None, Split]
) -> dict[str | None, Split]:
  """The train split without what is set apart for tuning, and that."""
  if config.tune_split:
    return {None: found[config.tune_split]}
  train, part = found[config.train_split], config.tune_fraction
  counts = train.queries, train.positives, train.weightless
  return {
      None: Split(*(Count(round(one.number * part), False) for one in counts)),
      config.train_split: Split(*(
          Count(one.number - math.floor(one.number * part), False)
          for one in counts
      )),
  }


def _taken(
    found: Iterator[Any], what: Callable[[Any], Any], seconds: float,
    sample: int | None = _SAMPLE,
) -> tuple[list[Any], Count]:
  """What the first records hold, and how many there are.

  Args:
    found: records.
    what: record -> what is kept of it.
    seconds: from the first one on, after which no more are read.
    sample: most that are kept; None: all that were read.
  """
  kept, count, until = [], 0, math.inf
  for one in found:
    until = min(until, time.monotonic() + seconds)
    if sample is None or count < sample:
      kept.append(what(one))
    count += 1
    if not count % 64 and time.monotonic() > until:
      return kept, Count(count, is_exact=next(found, None) is None)
  return kept, Count(count)


def lengths(
    texts: tuple[tuple[str, str], ...],
    tokenizer: tokenizer_lib.Tokenizer | None,
    max_length: int,
    prefix: str = '',
    title_end: str = '',
) -> statistics.Lengths:
  """Tokens of input sequences, uncut, by a model's tokenizer.

  Args:
    texts: (title, text) of some; not none.
    tokenizer: of the model; None: words are counted, as if of English.
    max_length: tokens that a sequence is cut to.
    prefix: put before each.
    title_end: token put between title and text; empty: [SEP].
  """
  if tokenizer is None:
    titles, bodies = (
        listed(np.zeros(round(_TOKENS_PER_WORD * len(text.split())), np.int32)
               for text in column)
        for column in zip(*texts, strict=True)
    )
    return statistics.measure_lengths(tokenized.TokenizedTexts(
        token_store.TokenStore(titles, bodies),
        inputs.Template((0,), (0,), (0,)), max_length, (),
    ))
  return statistics.measure_lengths(tokenized.tokenize_in_memory(
      list(texts), tokenizer, max_length, prefix, title_end
  ))


def spread(found: statistics.Lengths) -> np.ndarray:
  """`[sequences] int64`, tokens of each sequence as it is cut."""
  return np.minimum(
      np.repeat(np.arange(len(found.counts)), found.counts), found.cut
  )


