"""The optimizer of a config."""

import optax

from neg_contrast.settings import config as config_lib
from neg_contrast.training import state as state_lib


def make_schedule(
    config: config_lib.OptimConfig, total_steps: int
) -> optax.Schedule:
  """Step -> learning rate: warm-up from 0, then constant, or decay to 0."""
  rate = config.learning_rate
  decay_steps = max(1, total_steps - config.warmup_steps)
  after = {
      'constant': optax.constant_schedule(rate),
      'linear': optax.linear_schedule(rate, 0.0, decay_steps),
      'cosine': optax.cosine_decay_schedule(rate, decay_steps),
  }[config.schedule]
  if not config.warmup_steps:
    return after
  warmup = optax.linear_schedule(0.0, rate, config.warmup_steps)
  return optax.join_schedules([warmup, after], [config.warmup_steps])


def make_optimizer(
    config: config_lib.OptimConfig, total_steps: int, frozen: str = ''
) -> optax.GradientTransformation:
  """Clipping, then Adam, AdamW or Adafactor.

  AdamW decays kernels and embeddings only. Adafactor (Shazeer and Stern, 2018)
  is as T5's authors use it: without first moment, and with updates that are
  scaled by the size of the parameters (the learning rate is a part of it),
  which suits a T5, whose embeddings are of size 1 and its matrices are not.
  The head of a cross-encoder may have a learning rate of its own, with the same
  schedule.

  Args:
    config: the settings.
    total_steps: of the run.
    frozen: a tower of a dual encoder that stays as it is, and has no moments;
      empty: none.
  """
  schedule = make_schedule(config, total_steps)
  parts = []
  if config.clip_norm:
    parts.append(optax.clip_by_global_norm(config.clip_norm))
  if config.optimizer == 'adafactor':
    parts.append(optax.scale_by_factored_rms())
    parts.append(optax.clip_by_block_rms(1.0))
    parts.append(optax.scale_by_param_block_rms())
  else:
    parts.append(optax.scale_by_adam(config.b1, config.b2, config.eps))
  if config.optimizer == 'adamw' and config.weight_decay:
    parts.append(optax.add_decayed_weights(
        config.weight_decay, mask=state_lib.decay_mask
    ))
  parts.append(optax.scale_by_learning_rate(schedule))
  if config.head_learning_rate:
    parts.append(optax.masked(
        optax.scale(config.head_learning_rate / config.learning_rate),
        state_lib.head_mask,
    ))
  chain = optax.chain(*parts)
  if not frozen:
    return chain
  return optax.multi_transform(
      {'trained': chain, 'frozen': optax.set_to_zero()},
      lambda params: {
          part: {name: 'frozen' if (part, name) == ('encoder', frozen)
                 else 'trained' for name in trees}
          for part, trees in params.items()
      },
  )
