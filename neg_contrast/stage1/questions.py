"""Questions for every passage of a corpus, written shard by shard.

What is written for a passage depends on the seed and on its id, and a shard's
batches on the passages of the shard: a run that was interrupted ends with the
same questions. Another number of devices, or other batches, change the last
bits of scores, and so now and then a question.
"""

import dataclasses
import functools
import hashlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from neg_contrast import beams, errors, progress
from neg_contrast.artifacts import artifact, folders, places
from neg_contrast.data import records, synthetic_pairs, tokenized
from neg_contrast.models import by_name as model_lib
from neg_contrast.models import generator as generator_lib
from neg_contrast.models import question_writer
from neg_contrast.settings import config as config_lib
from neg_contrast.stage1 import question_shards


@dataclasses.dataclass(frozen=True)
class Questions(question_shards.ShardedQuestions):
  """Generated questions of a corpus.

  Attributes:
    data: the corpus.
    generator: loads as a `Generator`.
    config: how many questions, how they are decoded, and where they go.
    model: how the generator is computed.
    seed: of all random choices.
  """

  kind = 'questions'
  name = 'questions'
  data: artifact.Artifact
  generator: artifact.Artifact
  config: config_lib.SyntheticConfig
  model: config_lib.ModelConfig
  seed: int

  def describe(self) -> str:
    """How many, and where."""
    return (f'{self.config.per_passage} of every passage in '
            f'{self.config.dir}/questions')

  def needs(self) -> dict[str, artifact.Artifact]:
    """Passages, and who asks."""
    return {'corpus': self.data, 'generator': self.generator}

  def settings(self) -> dict[str, Any]:
    """Those of decoding, and what changes the last bits."""
    config = self.config
    decoding = {'method': config.method, 'per_passage': config.per_passage}
    decoding |= {key: getattr(config, key) for key in {
        'sample': ('temperature', 'top_k', 'top_p'),
        'beam': ('beams', 'length_penalty'),
    }.get(config.method, ())}
    return {
        'decoding': decoding,
        'seed': self.seed,
        'dtype': str(np.dtype(model_lib.compute_dtype(self.model))),
        'shard_passages': config.shard_passages,
    }

  @property
  def shards(self) -> question_shards.Shards:
    """Where they lie; what they are made from is made."""
    code = folders.sha256_json(self.identity)[:12]
    dataset = self.data.load()
    return question_shards.shards_of(
        places.path(self.config.dir) / 'questions' / f'{dataset.name}-{code}',
        len(dataset.prepared.passages), self.config.shard_passages,
    )

  @property
  def written(self) -> 'Questions':
    """These."""
    return self

  def counts(self) -> dict[str, float]:
    """Of passages, questions written, dropped and kept; seconds, padding."""
    totals: dict[str, float] = {}
    shards = self.shards
    for number in range(len(shards)):
      for key, value in shards.manifest(number)['counts'].items():
        totals[key] = totals.get(key, 0) + value
    totals['padding'] = 1 - totals.pop('tokens') / totals.pop('all_tokens')
    return totals

  def build(self) -> None:
    """Writes the shards that are missing.

    Raises:
      UserError: the generator reads answers.
    """
    model = self.generator.load()
    if model.text.with_answer:
      with errors.at(self.generator.place):
        raise errors.UserError(
            f'{model.name}: was trained to read an answer, and the passages of '
            'a corpus come without. Train one with '
            f'--{errors.key("synthetic.with_answer")}=False'
        )
    shards = self.shards
    if not beams.is_chosen():
      shards.make_missing(self.maker())
    elif missing := sorted(set(range(len(shards))) - set(shards.made())):
      # Made once, here: the workers tokenize nothing.
      tokenized.store_of(
          self.data.load().prepared, 'passage', model.tokenizer)
      beams.run('writing questions', [beams.Inferred(
          functools.partial(self.maker, is_for_part=True), missing)])
      if gone := set(range(len(shards))) - set(shards.made()):
        raise errors.UserError(
            f'{shards.place(min(gone))}: not there after workers wrote it; all '
            'must see that folder (in a bucket, or on a common disk). The same '
            'command writes what is missing'
        )

  def maker(self, is_for_part: bool = False) -> Callable[[int], None]:
    """Writes a shard by its number, unless another process has by now.

    Args:
      is_for_part: it writes few of them, see `token_store.make_token_store`.
    """
    return _ShardMaker(self, is_for_part)

  def writer(
      self, model: generator_lib.Generator
  ) -> question_writer.QuestionWriter:
    """What decodes with the generator."""
    return question_writer.QuestionWriter(
        model, self.model, question_writer.settings_of(
            self.config, model.text.question_length
        ), self.config.batch_passages, self.seed,
    )


class _ShardMaker:
  """Writes shards with a generator that is loaded once."""

  def __init__(self, questions: Questions, is_for_part: bool):
    """Loads the generator, and opens the tokens of the passages."""
    self._model = questions.generator.load()
    self._shards, self._identity = questions.shards, questions.identity
    self._prepared = questions.data.load().prepared
    self._texts = tokenized.store_of(
        self._prepared, 'passage', self._model.tokenizer,
        is_for_part=is_for_part)
    self._writer = questions.writer(self._model)
    self._params = self._writer.put(self._model.params)
    # Counted here from now on, not looked up.
    self._done = _passages_of(self._shards)
    self._on_progress = progress.Ticker(
        'writing questions', len(self._prepared.passages), before=self._done
    )

  def __call__(self, shard: int) -> None:
    """Writes a shard, unless it is there."""
    with folders.only_one(self._shards.place(shard)):
      if not self._shards.is_made(shard):
        self._write(shard)

  def _write(self, shard: int) -> None:
    assert self._identity is not None
    began, rows = time.monotonic(), np.array(self._shards.rows(shard))
    passages = [self._prepared.passages[row] for row in rows]
    found: list[list[str]] = [[] for _ in rows]
    tokens = all_tokens = 0
    for written in self._writer(
        self._params,
        self._model.sources(
            self._texts.titles.take(rows), self._texts.texts.take(rows)),
        [_seed_of(passage.id) for passage in passages],
    ):
      for place, questions in zip(written.numbers, written.questions,
                                  strict=True):
        found[place] = questions
      tokens += written.useful_tokens
      all_tokens += written.processed_tokens
      self._done += len(written.numbers)
      self._on_progress(self._done)
    if self._shards.is_made(shard):  # By a copy of a task of Beam.
      return
    write_shard(self._shards, shard, self._identity, passages, found, {
        'seconds': time.monotonic() - began, 'tokens': tokens,
        'all_tokens': all_tokens,
    })


def _passages_of(shards: question_shards.Shards) -> int:
  """Passages of the shards that are there."""
  return sum(len(shards.rows(number)) for number in shards.made())


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
