"""Keys of checkpoints and logs."""

import dataclasses

from neg_contrast.settings import keys


@dataclasses.dataclass(frozen=True)
class CheckpointingConfig(keys.Section):
  """What is written while training, and how often.

  Attributes:
    save_steps: steps between checkpoints; evaluations save one too.
    log_steps: steps between log lines and checks for a loss that is not finite.
    wandb_project: of Weights & Biases, which gets the curves too; empty: none.
      WANDB_MODE=offline keeps them in the workdir, to be sent later.
  """

  section = 'checkpointing'

  save_steps: int = keys.key(1000, keys.at_least(1))
  log_steps: int = keys.key(10, keys.at_least(1))
  wandb_project: str = keys.key('')
