"""How far NCE is from the cross-entropy, for a model and held-out queries.

Zhang and Stratos, "Understanding Hard Negatives in Noise Contrastive
Estimation", Appendix C. `job=nce_bias` and the log of a training measure alike,
but that the log knows a learned scale (`loss.learn_scale`), a parameter too.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from neg_contrast import sharding
from neg_contrast.batches import packed, packing
from neg_contrast.batches import row_length as row_length_lib
from neg_contrast.bias import labels, score_bias
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import sequences
from neg_contrast.losses import dual_encoder_loss, gradient_cache
from neg_contrast.models import by_name, dual_encoder, loading
from neg_contrast.negatives import sampling
from neg_contrast.settings import config as config_lib

_CHUNK_TOKENS = 2048  # Encoded at once: BERT-base's activations are 1.3 GB.


class BiasMeter:
  """Measures any parameters of a model on a label space, on one device.

  Attributes:
    mesh: of that device.
    space: what is measured on.
    texts: its queries and labels, packed, on that device; for `scores`.
  """

  def __init__(
      self,
      settings: config_lib.NceConfig,
      scale: float,
      dataset: dataset_lib.Dataset,
      model: loading.Model,
      space: labels.LabelSpace,
      compute: config_lib.ModelConfig,
      row_length: int,
  ):
    """Packs the texts.

    Args:
      settings: kinds and numbers of negatives, and draws.
      scale: factor on the scores, unless the parameters hold a learned one.
      dataset: of the labels.
      model: whose parameters will be measured.
      space: what they are measured on.
      compute: how towers are computed, such as `dtype` and `attention`.
      row_length: tokens of a packed row that attention is chosen for; 0: as
        few as the texts need.
    """
    self._settings, self._scale = settings, scale
    self._spec, self.space = model.spec, space
    self.mesh = sharding.make_mesh(
        config_lib.MeshConfig(), jax.local_devices()[:1]
    )
    self._place = sharding.replicated(self.mesh)
    # Dropout at rate 0 rather than none, for what makes gradients cheap.
    self._encoder = by_name.make_module(
        dataclasses.replace(model.spec, transformer=dataclasses.replace(
            model.spec.transformer, hidden_dropout=0.0, attention_dropout=0.0
        )), compute, row_length, self.mesh, is_training=True,
    )
    texts = {}
    for role, rows in (('query', space.query_rows),
                       ('passage', space.passage_rows)):
      tokens = dataset.tokenize(model, role).tokens(rows)
      texts[role] = _pack(tokens, model.text.length(role))
    self.texts = jax.device_put(texts, self._place)

  def scores(self, params: Any, texts: Any) -> Float[Array, 'queries labels']:
    """Scaled scores of all labels, without dropout.

    Args:
      params: of a `TrainState`.
      texts: `self.texts`; an argument, lest they be compiled in.
    """
    vecs = {}
    for role, (one, slots) in texts.items():
      by_group = gradient_cache.encode(
          self._encoder.clone(role=role),
          dual_encoder.tower(params['encoder'], role), one, jax.random.key(0),
          gradient_cache.Chunks(1),
      )
      vecs[role] = by_group.reshape(-1, by_group.shape[-1])[slots]
    scale = dual_encoder_loss.scale_of(params, self._scale)
    return scale * self._spec.score(vecs['query'], vecs['passage'])

  def draw(
      self, scores: Float[Array, 'queries labels'], percent: int,
      key: Key[Array, ''],
  ) -> Int[Array, 'queries negatives']:
    """Labels of K - 1 negatives of each query; -1: none.

    Args:
      scores: `[queries, labels] float32`, scaled.
      percent: of the negatives that are hard.
      key: see `sampling.draw_key`.
    """
    space = self.space
    usable = space.is_label.copy()
    usable[space.gold, space.gold] = False
    chosen = sampling.mixed(self._settings.negatives, percent)
    return sampling.draw(key, space.query_rows, scores, usable, chosen).rows

  def measure(
      self, params: Any, key: Key[Array, '']
  ) -> dict[str, dict[str, Any]]:
    """Bias and gradients at some parameters.

    Args:
      params: of a `TrainState`, which this process has whole.
      key: of the draws, see `sampling.draw_key`.

    Returns:
      `model`: `labels.facts_of`, and `loss` and norm of the `gradient` of the
      cross-entropy. `kinds`: kind of negatives -> norm of the `bias`, and of
      the `gradient` of NCE; its `cosine` with that of the cross-entropy;
      `loss`; `effective_negatives`; `missed_mass`; `score_error`, the standard
      error of all draws as a part of the bias, in the scores.
    """
    scores, exact, kinds = self._compute(
        jax.device_put(params, self._place), self.texts, key
    )
    return jax.tree.map(float, {
        'model': {**labels.facts_of(np.asarray(scores), self.space), **exact},
        'kinds': kinds,
    })

  @functools.cached_property
  def _compute(self) -> Callable[[Any, Any, Any], Any]:
    """(θ, texts, key) -> scores, and what `measure` says of both losses."""
    space, settings = self.space, self._settings

    def compute(params, texts, key):
      scores, vjp = jax.vjp(lambda params: self.scores(params, texts), params)
      keys = jax.random.split(key, settings.draws)
      found = {
          sampling.kind_of(percent): score_bias.score_bias(
              scores, space.gold, space.is_label,
              functools.partial(self.draw, scores, percent), keys,
          ) for percent in settings.percents
      }
      exact = next(iter(found.values()))
      products = score_bias.gradient_products(vjp, jnp.stack(
          [exact.cross_entropy, *(one.mean for one in found.values())]
      ))
      kinds = {}
      for number, (name, one) in enumerate(found.items(), start=1):
        norms = score_bias.norms_of(products[np.ix_([0, number], [0, number])])
        halves = one.bias[0] - one.bias[1]
        kinds[name] = {
            'bias': norms.bias,
            'gradient': norms.nce, 'cosine': norms.cosine, 'loss': one.nce_loss,
            'effective_negatives': one.effective_negatives,
            'missed_mass': one.missed_mass,
            'score_error': jnp.linalg.norm(halves) / 2
                           / jnp.linalg.norm(one.mean),
        }
      return scores, {'loss': exact.cross_entropy_loss,
                      'gradient': jnp.sqrt(products[0, 0])}, kinds

    return jax.jit(compute)


def _pack(
    tokens: sequences.AnySequences, longest: int
) -> tuple[packed.PackedSequences, Int[np.ndarray, ' sequences']]:
  """Small groups, in the rows that take less padding; and the slots."""
  groups = -(-int(tokens.lengths.sum()) // _CHUNK_TOKENS)
  layout = min(
      (packing.plan(tokens.lengths, groups, row_length)
       for row_length in (longest, row_length_lib.default(longest))),
      key=lambda layout: layout.tokens,
  )
  return packing.fill(layout, tokens), layout.flat_slot
