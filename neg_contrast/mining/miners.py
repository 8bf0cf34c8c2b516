"""Trains dual encoders for mining: on gold pairs, with in-batch negatives.

See Lu et al., section 4.2. They start from `model.init` or
`negatives.miner_init`, never from stage 1.
"""

import dataclasses
import pathlib

from neg_contrast.data import dataset as dataset_lib
from neg_contrast.models import given
from neg_contrast.training import run_artifacts, run_settings

FOLDER = 'miners'  # Of `negatives.mined_dir`.


@dataclasses.dataclass(frozen=True)
class Miners:
  """What trains miners of any size.

  Attributes:
    settings: of their trainings, but for the features.
    gold: the data with judgements that people made.
    mined_dir: keeps them for reuse.
  """

  settings: run_settings.RunSettings
  gold: dataset_lib.Data
  mined_dir: pathlib.Path

  @property
  def init(self) -> str:
    """What they start from."""
    return self.settings.model.init

  def run(self, name: str, features: int) -> run_artifacts.CachedRun:
    """The training of a miner.

    Args:
      name: of the strategy.
      features: of its vectors.
    """
    settings = self.settings
    model = dataclasses.replace(settings.model, projection_dim=features)
    counted, resolved = (
        {**values, 'model': {**values['model'], 'projection_dim': features}}
        for values in (settings.counted, settings.resolved)
    )
    return run_artifacts.CachedRun(
        dataclasses.replace(
            settings, model=model, counted=counted, resolved=resolved
        ),
        self.mined_dir / FOLDER, self.gold,
        given.Start(model.init, settings.seed, model),
        name=f'{name} miner',
        label=f'{dataset_lib.name_of(self.gold.config)}-{name}',
    )
