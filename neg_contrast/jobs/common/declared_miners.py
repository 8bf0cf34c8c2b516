"""Declares the trainings of the miners that a config asks for."""

import dataclasses

from neg_contrast.artifacts import places
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.jobs.common import settings_of_rooms
from neg_contrast.mining import miners
from neg_contrast.settings import config as config_lib


def of(
    config: config_lib.Config, gold: dataset_lib.Data
) -> miners.Miners:
  """The trainings of miners: gold pairs, in-batch negatives, no stage 1."""
  settings = config.negatives
  miner = dataclasses.replace(
      config,
      job='train',
      seed=(config.seed if settings.miner_seed is None
            else settings.miner_seed),
      stage1=None,
      data=config.data.shuffled(),
      synthetic=config_lib.SyntheticConfig(),
      negatives=config_lib.NegativesConfig(),
      nce=config_lib.NceConfig(),
      loss=_miner_loss(config),
      evaluation=dataclasses.replace(
          config.evaluation, criterion=config_lib.EvaluationConfig.criterion
      ),
      model=dataclasses.replace(
          config.model, init=settings.miner_init or config.model.init
      ),
      optim=dataclasses.replace(
          config.optim, head_learning_rate=0.0,
          steps=settings.miner_steps or config.optim.steps,
          epochs=settings.miner_epochs or config.optim.epochs,
      ),
  )
  return miners.Miners(
      settings_of_rooms.training(miner), gold, places.path(settings.mined_dir)
  )


def _miner_loss(config: config_lib.Config) -> config_lib.LossConfig:
  """That of the training, without a teacher and at the full width alone.

  Of a reranker it is the default kind: its own is of pairs. A miner has no hard
  negatives: where a training compares with these alone, it has the batch.
  """
  names = ['distil', 'distil_weight', 'matryoshka']
  if config.loss.candidates == 'own':
    names += ['candidates', 'adjusted']
  if config.job == 'train_reranker':
    names += ['kind', 'hardest', 'margin', 'offset', 'positive_weight']
  plain = config_lib.LossConfig()
  return dataclasses.replace(
      config.loss, **{name: getattr(plain, name) for name in names}
  )
