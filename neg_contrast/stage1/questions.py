"""Questions for every passage of a corpus, written shard by shard.

What is written for a passage depends on the seed and on its id, and a shard's
batches on the passages of the shard: a run that was interrupted ends with the
same questions. Another number of devices, or other batches, change the last
bits of scores, and so now and then a question.
"""

import functools
import hashlib
import pathlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from neg_contrast import errors, progress
from neg_contrast.artifacts import folders, plan
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import records, synthetic_pairs, tokenized
from neg_contrast.models import by_name as model_lib
from neg_contrast.models import generator as generator_lib
from neg_contrast.models import question_writer
from neg_contrast.settings import config as config_lib
from neg_contrast.stage1 import question_shards, round_trip

_FORMAT = 1  # Of what is written; in the identity.
MakeWriter = Callable[
    [generator_lib.Generator], question_writer.QuestionWriter
]


class Questions:
  """Generated questions of a corpus."""

  def __init__(
      self,
      settings: config_lib.SyntheticConfig,
      model: config_lib.ModelConfig,
      seed: int,
      dataset: Callable[[], dataset_lib.Dataset],
      generator: Callable[[], generator_lib.Generator],
      writer: MakeWriter,
      missing: Callable[[], str | None],
      filter_by: round_trip.RoundTrip | None = None,
  ):
    """Reads nothing yet.

    Args:
      settings: how many questions, and how they are decoded.
      model: gives the compute type.
      seed: of all random choices.
      dataset: makes the data whose passages are asked about.
      generator: makes the generator; not called before a step runs or is looked
        at.
      writer: makes what decodes with a generator.
      missing: says what the generator lacks.
      filter_by: drops questions; None: no filter.
    """
    self._settings, self._model, self._seed = settings, model, seed
    self._dataset, self._make_generator = dataset, generator
    self._make_writer, self._missing = writer, missing
    self._round_trip = filter_by

  def steps(self) -> list[plan.Step]:
    """Writing; and filtering, only where config asks for it."""
    settings, round_trip = self._settings, self._round_trip
    steps = [plan.Step(
        'questions', f'{settings.per_passage} of every passage in '
        f'{settings.dir}/questions', lambda: self._shards.are_made(),
        missing=self._missing, share=self._write,
    )]
    if round_trip is not None:
      steps.append(plan.Step(
          'round trip', f'questions that {round_trip.by} finds the passage of '
          f'in the top {settings.round_trip_rank}', self.is_made,
          missing=round_trip.missing,
          share=lambda: round_trip.filter(self._shards, self._identity),
      ))
    return steps

  @property
  def identity(self) -> dict[str, Any]:
    """What the questions depend on."""
    if self._round_trip is None:
      return self._identity
    return {**self._identity, 'round_trip': self._round_trip.identity}

  def is_made(self) -> bool:
    """Whether all are there, filtered where they should be."""
    return self._shards.are_made() and self._kept.are_made()

  def files(self) -> list[pathlib.Path]:
    """Files of pairs, see `data/synthetic_pairs.py`; raises if one is damaged.
    """
    return self._kept.files()

  def counts(self) -> dict[str, float]:
    """Of passages, questions written, dropped and kept; seconds, padding."""
    totals: dict[str, float] = {}
    for number in range(len(self._shards)):
      for key, value in self._shards.manifest(number)['counts'].items():
        totals[key] = totals.get(key, 0) + value
    totals['padding'] = 1 - totals.pop('tokens') / totals.pop('all_tokens')
    if self._round_trip is not None:
      totals['round_trip'] = sum(
          self._kept.manifest(number)['kept']
          for number in range(len(self._kept))
      )
    return totals

  @property
  def folder(self) -> pathlib.Path:
    """Of all shards, before any filter."""
    return self._shards.folder

  @functools.cached_property
  def _shards(self) -> question_shards.Shards:
    code = folders.sha256_json(self._identity)[:12]
    name = f'{self._dataset().name}-{code}'
    return question_shards.Shards(
        pathlib.Path(self._settings.dir) / 'questions' / name,
        len(self._dataset().prepared.passages), self._settings.shard_passages,
    )

  @property
  def _kept(self) -> question_shards.Shards:
    """Those that are used: filtered ones, if there is a filter."""
    return (self._shards if self._round_trip is None
            else self._round_trip.shards(self._shards))

  @functools.cached_property
  def _generator(self) -> generator_lib.Generator:
    made = self._make_generator()
    if made.text.with_answer:
      raise errors.UserError(
          f'{made.name}: was trained to read an answer, and the passages of a '
          'corpus come without. Train one with '
          '--config.synthetic.with_answer=False'
      )
    return made

  @functools.cached_property
  def _identity(self) -> dict[str, Any]:
    settings = self._settings
    decoding = {'method': settings.method, 'per_passage': settings.per_passage}
    decoding |= {key: getattr(settings, key) for key in {
        'sample': ('temperature', 'top_k', 'top_p'),
        'beam': ('beams', 'length_penalty'),
    }.get(settings.method, ())}
    return {
        'format': _FORMAT,
        'corpus': self._dataset().prepared.manifest['corpus_fingerprint'],
        'generator': self._generator.fingerprint,
        'decoding': decoding,
        'seed': self._seed,
        'dtype': str(np.dtype(model_lib.compute_dtype(self._model))),
        'shard_passages': settings.shard_passages,
    }

  def _write(self) -> None:
    model, prepared = self._generator, self._dataset().prepared
    texts = tokenized.store_of(prepared, 'passage', model.tokenizer)
    writer, shards = self._make_writer(model), self._shards
    params = writer.put(model.params)
    there = lambda: sum(len(shards.rows(shard)) for shard in range(len(shards))
                        if shards.is_made(shard))
    on_progress = progress.Ticker(
        'writing questions', len(prepared.passages), before=there()
    )

    def make(shard: int) -> None:
      done = there()
      began, rows = time.monotonic(), np.array(shards.rows(shard))
      passages = [prepared.passages[row] for row in rows]
      found: list[list[str]] = [[] for _ in rows]
      tokens = all_tokens = 0
      for written in writer(
          params,
          model.sources(texts.titles.take(rows), texts.texts.take(rows)),
          [_seed_of(passage.id) for passage in passages],
      ):
        for place, questions in zip(written.numbers, written.questions,
                                    strict=True):
          found[place] = questions
        tokens += written.useful_tokens
        all_tokens += written.processed_tokens
        done += len(written.numbers)
        on_progress(done)
      write_shard(shards, shard, self._identity, passages, found, {
          'seconds': time.monotonic() - began, 'tokens': tokens,
          'all_tokens': all_tokens,
      })

    shards.make_missing(make)


def write_shard(
    shards: question_shards.Shards,
    number: int,
    identity: dict[str, Any],
    passages: Sequence[records.Passage],
    found: Sequence[Sequence[str]],
    counts: dict[str, float],
) -> None:
  """Keeps what is neither empty nor said of the passage before.

  Args:
    shards: to add to.
    number: of the shard.
    identity: what the questions depend on.
    passages: of the shard.
    found: questions of each.
    counts: kept in the manifest, with those of the questions.
  """
  counts |= {'passages': len(passages), 'written': sum(map(len, found)),
             'empty': 0, 'repeated': 0, 'kept': 0}
  with shards.writing(number, {'identity': identity, 'counts': counts}) as f:
    for passage, questions in zip(passages, found, strict=True):
      before = set()
      for question in questions:
        question = ' '.join(question.split())
        kind = ('empty' if not any(map(str.isalnum, question)) else
                'repeated' if question.casefold() in before else 'kept')
        counts[kind] += 1
        before.add(question.casefold())
        if kind == 'kept':
          synthetic_pairs.write_pair(f, question, passage.id)


def _seed_of(passage_id: str) -> int:
  """32 bits of a passage's id."""
  digest = hashlib.blake2b(passage_id.encode(), digest_size=4).digest()
  return int.from_bytes(digest, 'little')
