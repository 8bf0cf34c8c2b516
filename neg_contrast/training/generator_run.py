"""The training of a question generator: passage in, gold question out."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from absl import logging

from neg_contrast import errors, hosts, sharding
from neg_contrast.artifacts import folders
from neg_contrast.batches import packing, question_batches
from neg_contrast.data import examples, sequences, tokenized
from neg_contrast.losses import softmax
from neg_contrast.models import by_name as model_lib
from neg_contrast.models import decoding, generator, question_writer
from neg_contrast.settings import config as config_lib
from neg_contrast.training import run
from neg_contrast.training import step as step_lib

SHOWN_FOLDER = 'questions_shown'  # Of a workdir: what was written at each step.
_MOST_TUNED = 1024  # Examples of the tune split that the loss is measured on.


class GeneratorTraining(run.Training):
  """Trains a T5 on gold pairs, by teacher forcing (Lu et al., section 4.1)."""

  criterion = 'loss'
  sharding_rules = sharding.GENERATOR_RULES

  @functools.cached_property
  def model(self) -> generator.Generator:
    """What it starts from."""
    config = self._config
    return generator.from_pretrained(
        config.model.init, config.model, config.synthetic.with_answer,
        config.seed,
    )

  @functools.cached_property
  def trained(self) -> generator.Generator:
    """What came out: the selected checkpoint."""
    return model_lib.load_generator_workdir(self.workdir)

  def _save_description(self) -> None:
    generator.save_description(self.model, self.workdir)

  def _params(self):
    return {'generator': self.model.params}

  def _loss(self, chunk_groups: int) -> step_lib.Loss:
    del chunk_groups  # The config refuses any.
    return step_lib.question_loss(
        self._module, self._config.loss.label_smoothing
    )

  @property
  def _module(self):
    return model_lib.make_t5(self.model.config, self._config.model)

  def _make_batch(self):
    pairs = examples.make_examples(
        self._dataset.prepared, self._dataset.train_and_tune[0]
    )
    return self._batcher(pairs), len(pairs)

  def _batcher(
      self, pairs: examples.Examples
  ) -> question_batches.QuestionBatcher:
    config, model = self._config, self.model
    questions = self._texts['query'].texts
    length = model.text.question_length - 1  # The end is yet to come.
    return question_batches.QuestionBatcher(
        count=len(pairs),
        source_tokens=functools.partial(self._sources, pairs),
        question_tokens=lambda numbers: questions.take(
            pairs.query_rows[numbers]).cut(0, length),
        batch_size=config.data.batch_size,
        groups=config.data.groups,
        row_lengths=row_lengths(config, model.text),
        start_id=model.config.decoder_start_id,
        end_id=model.config.eos_id,
        seed=config.seed,
        held=functools.partial(sharding.held, mesh=self._mesh),
    )

  @functools.cached_property
  def _texts(self):
    """Token ids of passages and queries."""
    return {role: tokenized.store_of(self._dataset.prepared, role,
                                     self.model.tokenizer)
            for role in ('passage', 'query')}

  def _sources(
      self, pairs: examples.Examples, numbers: np.ndarray
  ) -> sequences.Chained:
    rows, passages = pairs.positive_rows[numbers], self._texts['passage']
    answers = []
    if self.model.text.with_answer:
      answers = list(map(self._answer, pairs.query_rows[numbers].tolist()))
    return self.model.sources(
        passages.titles.take(rows), passages.texts.take(rows), answers
    )

  def _answer(self, row: int) -> str:
    """The first answer of a query."""
    query = self._dataset.prepared.queries[row]
    if not query.answers:
      raise errors.UserError(
          f'{self._config.data.source}: query "{query.id}" has no answer, '
          'which config.synthetic.with_answer=True reads; leave that out'
      )
    return query.answers[0]

  def _tune(self) -> Callable[[Any], dict[str, float]]:
    """Loss and token accuracy on the tune split; shows some questions."""
    pairs = examples.make_examples(
        self._dataset.prepared, self._dataset.train_and_tune[1]
    )
    batcher, size = self._batcher(pairs), self._config.data.batch_size
    some = np.linspace(0, len(pairs) - 1, min(len(pairs), _MOST_TUNED),
                       dtype=int)
    module = self._module

    @jax.jit
    def measure_batch(params, batch):
      logits = step_lib.question_logits(module, params, batch, None)
      is_target = batch.target_segments > 0
      return *softmax.token_cross_entropy(
          logits, batch.target_ids, is_target
      ), is_target.sum()

    show = self._show(pairs, some[:: max(1, len(some) // max(
        1, self._config.synthetic.shown))][:self._config.synthetic.shown])

    def measure(params):
      totals = np.zeros(3)
      for first in range(0, len(some), size):
        batch, _ = batcher.pack(some[first : first + size])
        batch = sharding.put(
            batch, sharding.batch_shardings(batch, self._mesh)
        )
        loss, accuracy, count = map(
            float, measure_batch(params['generator'], batch)
        )
        totals += count * np.array([loss, accuracy, 1])
      show(params['generator'])
      loss, accuracy = (totals[:2] / totals[2]).tolist()
      return {'loss': loss, 'token_accuracy': accuracy}

    return measure

  def _show(
      self, pairs: examples.Examples, numbers: np.ndarray
  ) -> Callable[[Any], None]:
    """Parameters -> a few greedy questions, logged and kept."""
    prepared, text = self._dataset.prepared, self.model.text
    folder = self.workdir / SHOWN_FOLDER
    writer = question_writer.QuestionWriter(
        self.model, self._config.model,
        decoding.Decoding('greedy', max_tokens=text.question_length),
        self._config.synthetic.batch_passages, self._config.seed,
    )
    sources = self._sources(pairs, numbers)

    def show(params):
      params = sharding.local(params)
      if not hosts.is_first():
        return
      params = writer.put(jax.tree.map(np.asarray, params))
      rows = []
      for written in writer(params, sources, range(len(sources))):
        for place, (question,) in zip(
            written.numbers, written.questions, strict=True
        ):
          query = prepared.queries[int(pairs.query_rows[numbers[place]])]
          passage = prepared.passages[int(pairs.positive_rows[numbers[place]])]
          logging.info('wrote "%s" where people asked "%s"', question,
                       query.text)
          rows.append({'passage_id': passage.id, 'passage': passage.text,
                       'written': question, 'gold': query.text})
      folders.make_folder(folder)
      count = len(list(folder.glob('*.json')))
      folders.write_json(folder / f'{count:05d}.json', rows)

    return show


def row_lengths(
    config: config_lib.Config, text: generator.TextSpec
) -> dict[str, int]:
  """Tokens that a packed row holds, of sources and of targets."""
  wide = max(config.data.row_length or packing.default_row_length(
      text.passage_length), text.passage_length)
  return {
      'source': wide,
      'target': -(-text.question_length * wide // text.passage_length),
  }
