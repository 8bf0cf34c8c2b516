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
from neg_contrast.batches import batcher
from neg_contrast.bias import labels
from neg_contrast.bias import meter as meter_lib
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.losses import candidates as candidates_lib
from neg_contrast.models import loading
from neg_contrast.negatives import sampling
from neg_contrast.settings import config as config_lib
from neg_contrast.training import encoder_run, run_settings

CROSS_ENTROPY, RANDOM = 'cross_entropy', 'random'


class LabelSpaceTraining(encoder_run.DualEncoderTraining):
  """Trains on all queries of a label space, on one device, without dropout."""

  def __init__(
      self,
      config: run_settings.RunSettings,
      workdir: pathlib.Path,
      dataset: Callable[[], dataset_lib.Dataset],
      meter: Callable[[], meter_lib.BiasMeter],
      negatives: str,
  ):
    """Reads nothing yet.

    Args:
      config: settings of the run, whose `counted` is all of its identity.
      workdir: of its checkpoints and logs.
      dataset: makes the data.
      meter: makes the scores of a label space.
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
        ), workdir, dataset,
        mesh=sharding.make_mesh(
            config_lib.MeshConfig(), jax.local_devices()[:1]
        ),
    )
    self._meter_of, self._negatives_kind = meter, negatives

  @property
  def identity(self) -> dict[str, Any]:
    """What the trained parameters depend on."""
    return self._config.counted

  def _loss(self, chunk_groups: int) -> losses.Loss:
    del chunk_groups
    meter = self._meter_of()

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
    meter, candidates = self._meter_of(), self._candidates()
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
    meter, seed = self._meter_of(), self._config.seed
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


def make_meter(
    config: run_settings.RunSettings,
    dataset: dataset_lib.Dataset,
    model: loading.Model,
) -> meter_lib.BiasMeter:
  """What measures a model on random queries of `data.split`.

  Args:
    config: settings of the run.
    dataset: of queries and passages.
    model: whose parameters will be measured.

  Raises:
    UserError: there are too few queries, or passages.
  """
  split = config.data.split
  space = labels.choose_labels(
      config.nce, config.evaluation, config.seed, dataset,
      dataset.prepared.judgements(split), f'data.split="{split}"',
  )
  return meter_lib.BiasMeter(
      config.nce, config.loss.scale, dataset, model, space,
      lambda spec, mesh: encoder_run.make_encoder(spec, config, mesh),
  )
