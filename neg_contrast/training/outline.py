"""A training step without its arrays, for `--compile_only`."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Int

from neg_contrast import losses
from neg_contrast.batches import batcher
from neg_contrast.data import examples, random_texts, sequences
from neg_contrast.data.side_features import feature_table, side_feature
from neg_contrast.models import dual_encoder, text_spec
from neg_contrast.settings import config as config_lib
from neg_contrast.training import costs, run_settings


@dataclasses.dataclass(frozen=True)
class Outline:
  """What a training step is made of, and how much of it is needed.

  Attributes:
    what: of what model, in words.
    params: ShapeDtypeStructs.
    loss: what is minimised, by the groups that a device encodes at once.
    batch: arrays; their values mean nothing.
    stats: of the batch.
    padded_tokens: what it would be without packing, every sequence filled up to
      the longest allowed.
    features: of an embedding; 0: there are none.
    useful_flops: operations of the step on tokens that are no padding, each
      with its own sequence only, nothing computed twice.
    local_layers: part of the transformer's layers that attend within a window.
  """

  what: str
  params: Any
  loss: Callable[[int], losses.Loss]
  batch: Any
  stats: batcher.BatchStats
  padded_tokens: int
  features: int
  useful_flops: float
  local_layers: float = 0.0


@dataclasses.dataclass(frozen=True)
class Lengths:
  """Texts of a batch of which nothing is known but their lengths.

  The first passages are the queries' positives, then come their negatives, then
  what all queries share.

  Attributes:
    queries: `[batch] int64` tokens.
    passages: `[batch * (1 + N) + C] int64` tokens.
    shared: C.
  """

  queries: Int[np.ndarray, ' batch']
  passages: Int[np.ndarray, ' passages']
  shared: int = 0

  def batcher_arguments(
      self, has_chances: bool = False, has_teacher: bool = False,
      features: tuple[side_feature.SideFeature, ...] = (),
  ) -> dict[str, Any]:
    """What batchers of pairs take of the data.

    Args:
      has_chances: whether batches say how likely each negative was drawn.
      has_teacher: whether they hold a teacher's scores.
      features: beside text, of which no text has any.
    """
    size = len(self.queries)
    rows = np.arange(size, dtype=np.int32)
    owned = np.arange(size, len(self.passages) - self.shared, dtype=np.int32)
    negatives = owned.reshape(size, len(owned) // size)
    chances = np.zeros(negatives.shape, np.float32) if has_chances else None
    return {
        'examples': examples.Examples(
            rows, rows, examples.Positives(np.stack([rows, rows], 1), size)
        ),
        'draw': lambda *_: batcher.Drawn(
            negatives, np.zeros_like(negatives), chances
        ),
        'teacher': _no_scores if has_teacher else None,
        'query_tokens': lambda rows: blank(self.queries[rows], features),
        'passage_tokens': lambda rows, cuts: blank(
            self.passages[rows], features),
    }

  def draw_shared(self, step: int) -> Int[np.ndarray, ' shared']:
    """The passages that all queries share, at any step."""
    del step
    count = len(self.passages)
    return np.arange(count - self.shared, count, dtype=np.int32)

  def useful_flops(
      self, spec: dual_encoder.EncoderSpec, trained_part: float,
      negatives: config_lib.NegativesConfig,
  ) -> float:
    """Operations of a step: forward, and gradients of what has them.

    Args:
      spec: of a tower.
      trained_part: of the operations, which have gradients.
      negatives: the sources.
    """
    return (2 + trained_part) * costs.encoder_flops(
        spec, np.concatenate([self.queries, self.passages])
    ) + 3 * costs.score_flops(
        len(self.queries), len(self.passages) + negatives.queue,
        spec.dim * spec.score.query_vectors * spec.score.passage_vectors,
    ) + bool(negatives.momentum) * costs.encoder_flops(
        spec, self.passages[:len(self.queries)]
    )


def lengths_of(
    settings: run_settings.RunSettings, text: text_spec.TextSpec
) -> Lengths:
  """Lengths as `data.expected_*` has them."""
  data, count = settings.data, settings.negatives.per_query
  shared = settings.negatives.shared_corpus
  return Lengths(
      random_texts.lengths(
          data.batch_size, data.expected_query_tokens, text.query_length
      ),
      random_texts.lengths(
          data.batch_size * (1 + count) + shared, data.expected_passage_tokens,
          text.passage_length,
      ),
      shared,
  )


def blank(
    lengths: Int[np.ndarray, ' sequences'],
    features: tuple[side_feature.SideFeature, ...] = (),
) -> sequences.Sequences | sequences.Featured:
  """Sequences of given lengths, that have none of the features."""
  tokens = sequences.Sequences(
      np.zeros(max(lengths), np.int32), np.zeros_like(lengths), lengths
  )
  if not features:
    return tokens
  none = [one.keep([None]) for one in features]
  return sequences.Featured(
      tokens, feature_table.FeatureTable.of(features, none),
      np.zeros(len(lengths), np.int32),
  )


def describe(name: str, params: Any) -> str:
  """A model in words, by its name and its ShapeDtypeStructs."""
  count = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(params))
  return f'{name}, {count:,} parameters'


def _no_scores(
    query_rows: np.ndarray, rows: np.ndarray
) -> np.ndarray:
  """The shape of a teacher's scores."""
  del query_rows
  return np.zeros(rows.shape, np.float32)
