"""Keys of the optimizer and of the length of a training."""

import dataclasses

from neg_contrast.settings import keys

_MOST_STEPS = 2**31 - 1  # Of the counter in the state of a training.


@dataclasses.dataclass(frozen=True)
class OptimConfig(keys.Section):
  """The optimizer and how long it runs.

  Attributes:
    optimizer: `adam`, `adamw` or `adafactor`, which keeps factored second
      moments and no first ones.
    learning_rate: its peak.
    head_learning_rate: the peak for a reranker's layers above the transformer
      (score layer and pooler), in the place of `learning_rate`; 0: the same.
      A new score layer learns little in some hundred steps of 1e-5.
    schedule: `constant`, or `linear` or `cosine` decay towards 0.
    warmup_steps: steps of linear rise from 0.
    weight_decay: rate of `adamw`; not applied to biases and norms.
    clip_norm: largest global gradient norm; 0: no clipping.
    b1: decay of Adam's first moment.
    b2: decay of Adam's second moment.
    eps: added to the root of Adam's second moment.
    epochs: passes over the examples, unless `steps` is given.
    steps: steps to run; 0: as `epochs` says.
    ema: decay of an average of the parameters, which is evaluated, selected and
      exported in their place, such as 0.999; 0: there is none.
  """

  section = 'optim'

  optimizer: str = keys.key(
      'adam', keys.one_of('adam', 'adamw', 'adafactor')
  )
  learning_rate: float = keys.key(1e-5, keys.above_at_most(0, 10))
  head_learning_rate: float = keys.key(
      0.0, keys.from_to(0, 10), counts=keys.Changed()
  )
  schedule: str = keys.key(
      'constant', keys.one_of('constant', 'linear', 'cosine')
  )
  warmup_steps: int = keys.key(0, keys.from_to(0, _MOST_STEPS))
  weight_decay: float = keys.key(0.0, keys.from_to(0, 10))
  clip_norm: float = keys.key(0.0, keys.at_least(0))
  b1: float = keys.key(0.9, keys.at_least_below(0, 1))
  b2: float = keys.key(0.999, keys.at_least_below(0, 1))
  eps: float = keys.key(1e-8, keys.above_at_most(0, 1))
  epochs: float = keys.key(1.0, keys.above_at_most(0, 10**6))
  steps: int = keys.key(0, keys.from_to(0, _MOST_STEPS))
  ema: float = keys.key(
      0.0, keys.at_least_below(0, 1), counts=keys.Changed()
  )

  def __post_init__(self):
    """Checks ranges and that the keys agree."""
    super().__post_init__()
    if self.weight_decay and self.optimizer != 'adamw':
      raise self.error('weight_decay', 'needs optim.optimizer=adamw')
    for name in ('b1', 'b2', 'eps'):
      if (self.optimizer == 'adafactor'
          and getattr(self, name) != getattr(OptimConfig, name)):
        raise self.error(name, 'is of Adam, and optim.optimizer=adafactor does '
                         'not read it; leave it out')
