"""The training of a question generator: passage in, gold question out."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from absl import logging

from neg_contrast import errors, losses, sharding
from neg_contrast.batches import question_batches
from neg_contrast.batches import row_length as row_length_lib
from neg_contrast.data import examples, random_texts, sequences, tokenized
from neg_contrast.losses import question_cross_entropy
from neg_contrast.models import by_name as model_lib
from neg_contrast.models import generator, t5, t5_config
from neg_contrast.training import costs, run, run_settings, shown_questions
from neg_contrast.training import criterion as criterion_lib
from neg_contrast.training import outline as outline_lib

_MOST_TUNED = 1024  # Examples of the tune split that the loss is measured on.


class GeneratorTraining(run.Training):
  """Trains a T5 on gold pairs, by teacher forcing (Lu et al., section 4.1)."""

  criterion = criterion_lib.LOSS
  sharding_rules = sharding.GENERATOR_RULES

  def _save_description(self) -> None:
    generator.save_description(self.model, self.workdir)

  def _params(self):
    return {'generator': self.model.params}

  def _loss(self, chunk_groups: int) -> losses.Loss:
    return self._loss_of(self.model.config, chunk_groups)

  def _loss_of(
      self, shape: t5_config.T5Config, chunk_groups: int
  ) -> losses.Loss:
    """What is minimised, for a model of some shape."""
    del chunk_groups  # The config refuses any.
    return question_cross_entropy.make_loss(
        model_lib.make_t5(shape, self._config.model),
        self._config.loss.label_smoothing,
    )

  def outline(self):
    """The step, without weights and data."""
    config, data = self._config, self._config.data
    shape, text = generator.shape_by_name(config.model.init, config.model)
    sources = random_texts.lengths(
        data.batch_size, data.expected_passage_tokens, text.passage_length
    )
    targets = random_texts.lengths(
        data.batch_size, data.expected_query_tokens, text.question_length
    )
    batch, stats = self._batcher(
        shape, text,
        count=data.batch_size,
        source_tokens=lambda numbers: outline_lib.blank(sources[numbers]),
        question_tokens=lambda numbers: outline_lib.blank(
            targets[numbers] - 1
        ),
    )(0)
    params = {'generator': t5.shape_of(shape)}
    return outline_lib.Outline(
        what=outline_lib.describe(config.model.init, params),
        params=params,
        loss=functools.partial(self._loss_of, shape),
        batch=batch,
        stats=stats,
        padded_tokens=(data.batch_size
                       * (text.passage_length + text.question_length)),
        features=0,
        useful_flops=3 * costs.question_flops(shape, sources, targets),
    )

  def _make_batch(self):
    pairs = examples.make_examples(
        self._dataset.prepared, self._dataset.train_and_tune[0]
    )
    if not pairs.count_alike and (
        self._config.loss.example_weights != examples.EQUAL
    ):
      logging.warning(
          'the data weighs its examples; a question generator learns from all '
          'alike (%s=%s says that this is meant)',
          errors.key('loss.example_weights'), examples.EQUAL,
      )
    batcher, model = self._batcher_of(pairs), self.model
    if not self._config.data.row_length:
      batcher = batcher.with_fitted_rows(
          model.text.passage_length, model.text.question_length,
          model.config.even_row_length,
          run_settings.total_steps(self._config, len(pairs)),
      )
    self.row_lengths = batcher.row_lengths
    return batcher, len(pairs)

  def _batcher_of(
      self, pairs: examples.Examples
  ) -> question_batches.QuestionBatcher:
    model, questions = self.model, self._texts['query'].texts
    length = model.text.question_length - 1  # The end is yet to come.
    return self._batcher(
        model.config, model.text,
        count=len(pairs),
        source_tokens=functools.partial(self._sources, pairs),
        question_tokens=lambda numbers: questions.take(
            pairs.query_rows[numbers]).cut(0, length),
        held=functools.partial(sharding.held, mesh=self._mesh),
    )

  def _batcher(
      self, shape: t5_config.T5Config, text: generator.TextSpec, **data: Any
  ) -> question_batches.QuestionBatcher:
    """Makes batches of some data, as the settings say."""
    config = self._config
    return question_batches.QuestionBatcher(
        batch_size=config.data.batch_size,
        groups=config.data.groups,
        row_lengths=row_lengths(config, text),
        start_id=shape.decoder_start_id,
        end_id=shape.eos_id,
        seed=config.seed,
        **data,
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
          f'which {errors.key("synthetic.with_answer")}=True reads; leave '
          'that out'
      )
    return query.answers[0]

  def _tune(self) -> Callable[[Any], dict[str, float]]:
    """Loss and token accuracy on the tune split; shows some questions."""
    pairs = examples.make_examples(
        self._dataset.prepared, self._dataset.train_and_tune[1]
    )
    batcher, size = self._batcher_of(pairs), self._config.data.batch_size
    some = np.linspace(0, len(pairs) - 1, min(len(pairs), _MOST_TUNED),
                       dtype=int)
    module = model_lib.make_t5(self.model.config, self._config.model)

    @jax.jit
    def measure_batch(params, batch):
      logits = question_cross_entropy.question_logits(
          module, params, batch, None
      )
      is_target = batch.target_segments > 0
      return *question_cross_entropy.token_cross_entropy(
          logits, batch.target_ids, is_target
      ), is_target.sum()

    count = self._config.synthetic.shown
    shown = some[:: max(1, len(some) // max(1, count))][:count]
    show = shown_questions.make_show(
        self._config, self.workdir, self.model, self._dataset.prepared,
        self._sources(pairs, shown), pairs.query_rows[shown],
        pairs.positive_rows[shown],
    )

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


def row_lengths(
    config: run_settings.RunSettings, text: generator.TextSpec
) -> dict[str, int]:
  """Row lengths where nothing is known of the data."""
  wide = config.data.row_length or row_length_lib.default(text.passage_length)
  return question_batches.row_lengths(
      max(wide, text.passage_length), text.passage_length,
      text.question_length,
  )
