"""Figure 1 of Zhang and Stratos: NCE, measured while cross-entropy trains."""

import pathlib
from typing import Any

import numpy as np

from neg_contrast.artifacts import artifact, atomic, folders
from neg_contrast.bias import bias_tables
from neg_contrast.evaluation import summary
from neg_contrast.jobs.common import checks
from neg_contrast.report import figures
from neg_contrast.report import svg as svg_lib
from neg_contrast.settings import config as config_lib
from neg_contrast.training import synthetic_run

FIGURES = {'loss': 'figure-loss.svg', 'bias': 'figure-bias.svg'}

_SERIES = {'cross-entropy': 3, 'entropy': 0, 'random': 2, 'hard': 5}


def check(config: config_lib.Config) -> None:
  """Refuses a config that does not suit `job=nce_synthetic`."""
  checks.check_steps(config)


class NceSyntheticJob:
  """`job=nce_synthetic`: trains by cross-entropy, and measures NCE."""

  def __init__(self, config: config_lib.Config, workdir: pathlib.Path):
    """Computes nothing yet."""
    self._workdir = workdir
    self._curves = synthetic_run.Curves(
        config.nce, config.optim, config.data.batch_size, config.seed, workdir
    )

  def targets(self) -> list[artifact.Artifact]:
    """The curves that are drawn."""
    return [self._curves]

  def finish(self) -> None:
    """Draws the figures, writes `metrics.json` and prints the last update."""
    made = self._curves.load()
    for name, svg in _draw(made).items():
      with atomic.writing(self._workdir / FIGURES[name]) as f:
        f.write(svg_lib.standalone(svg))
    folders.write_json(self._workdir / summary.FILE, self.metrics())
    print(bias_tables.synthetic_table(made), flush=True)

  def metrics(self) -> dict[str, float]:
    """`synthetic/population/<kind>/<metric>` at the end of training."""
    made = self._curves.load()
    last = {name: values for name, values in made['points'][-1].items()
            if name != 'step'}
    return {
        'synthetic/population/cross-entropy/entropy': made['entropy'],
        **{f'synthetic/population/{name}/{metric}': value
           for name, values in last.items()
           for metric, value in values.items()},
    }


def _draw(made: dict[str, Any]) -> dict[str, str]:
  """Both panels of the figure."""
  points = made['points']
  steps = np.array([point['step'] for point in points])
  kinds = [name for name in points[0] if name not in ('step', 'cross-entropy')]
  curve = lambda name, key: (
      steps, np.array([point[name][key] for point in points])
  )
  label = {name: f'{name} NCE' for name in kinds}
  colours = {label[name]: _SERIES.get(name, 1) for name in kinds}
  return {
      'loss': figures.curves(
          'nce-loss', 'Loss, nats', {
              **{label[name]: curve(name, 'loss') for name in kinds},
              'cross-entropy': curve('cross-entropy', 'loss'),
              'entropy': (steps, np.full(len(steps), made['entropy'])),
          }, series=0, colours={**colours, **_SERIES}, from_zero=True,
      ),
      'bias': figures.curves(
          'nce-bias', 'Norm of the gradient’s bias',
          {label[name]: curve(name, 'bias') for name in kinds},
          series=0, colours=colours, from_zero=True,
      ),
  }
