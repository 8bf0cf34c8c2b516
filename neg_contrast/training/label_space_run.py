"""The training of a dual encoder on a whole label space at every step.

Zhang and Stratos, "Understanding Hard Negatives in Noise Contrastive
Estimation", Appendix C, measures gradients at parameters that were trained so.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from neg_contrast import losses, sharding
from neg_contrast.artifacts import artifact
from neg_contrast.batches import batcher
from neg_contrast.losses import candidate_softmax as candidates_lib
from neg_contrast.negatives import sampling
from neg_contrast.settings import config as config_lib
from neg_contrast.training import encoder_run, recipe, run_settings

CROSS_ENTROPY, RANDOM = 'cross_entropy', 'random'


class LabelSpaceTraining(encoder_run.DualEncoderTraining):
  """Trains on all queries of a label space, on one device, without dropout."""

  def __init__(
      self,
      config: run_settings.RunSettings,
      workdir: pathlib.Path,
      given: recipe.Given,
      identity: dict[str, Any] | None,
      meter: artifact.Artifact,
      negatives: str,
  ):
    """Reads nothing yet.

    Args:
      config: settings of the run.
      workdir: of its checkpoints and logs.
      given: what it is made from.
      identity: what the trained parameters depend on.
      meter: loads as the `BiasMeter` that makes the scores of a label space.
      negatives: `cross_entropy`: all labels; `random`: `nce.negatives` of
        them, others at every step.
    """
    super().__init__(
        dataclasses.replace(
            config,
            data=dataclasses.replace(
                config.data, batch_size=max(2, config.nce.queries), groups=1
            ),
            model=dataclasses.replace(config.model, chunk_groups=0),
            loss=dataclasses.replace(config.loss, learn_scale=False),
            mesh=config_lib.MeshConfig(),
            evaluation=dataclasses.replace(config.evaluation, eval_steps=0),
            nce=dataclasses.replace(config.nce, log_steps=0),
        ), workdir, given, identity,
        sharding.make_mesh(config_lib.MeshConfig(), jax.local_devices()[:1]),
    )
    self._of_labels, self._negatives_kind = meter, negatives

  def _warn_of_little(self, ready):
    """Says nothing: a label space is small by design."""

  def _loss(self, chunk_groups: int) -> losses.Loss:
    del chunk_groups
    meter = self._of_labels.load()

    def loss_fn(params, batch, key):
      """Mean over queries of the cross-entropy among candidates."""
      del key
      candidates = batch['candidates']
      own = jnp.take_along_axis(
          meter.scores(params, batch['texts']), jnp.maximum(candidates, 0),
          axis=1,
      )
      loss = candidates_lib.candidate_softmax(own, candidates >= 0)
      best = jnp.where(candidates[:, 1:] >= 0, own[:, 1:], -jnp.inf).max(axis=1)
      return jnp.mean(loss), {'accuracy': jnp.mean(own[:, 0] > best)}

    return loss_fn

  def _make_batch(self):
    meter, candidates = self._of_labels.load(), self._candidates()
    texts = jax.tree.map(np.asarray, meter.texts)
    segments = [packed.segment_ids for packed, _ in texts.values()]
    stats = batcher.BatchStats(
        useful_tokens=int(sum((one > 0).sum() for one in segments)),
        processed_tokens=sum(one.size for one in segments),
    )
    return lambda step: (
        {'texts': texts, 'candidates': np.asarray(candidates(step))}, stats
    ), len(meter.space.query_rows)

  def _candidates(self) -> Callable[[int], Any]:
    """Step -> `[queries, candidates]` labels to train with, the gold first."""
    meter, seed = self._of_labels.load(), self._config.seed
    gold, is_label = meter.space.gold, meter.space.is_label
    if self._negatives_kind == CROSS_ENTROPY:
      others = np.where(is_label, np.arange(is_label.shape[1]), -1)
      others[gold, gold] = -1
      everything = np.concatenate([gold[:, None], others], axis=1)
      return lambda step: everything.astype(np.int32)
    draw = functools.partial(meter.draw, jnp.zeros(is_label.shape), 0)
    return lambda step: jnp.concatenate(
        [gold[:, None], draw(sampling.draw_key(seed, step))], axis=1
    )

  def _tune(self):
    return lambda params: {}  # Nothing is stopped early.
