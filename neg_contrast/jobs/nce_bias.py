"""How far NCE is from the cross-entropy, for a model and some queries."""

import pathlib
from typing import Any

from neg_contrast.artifacts import artifact, folders
from neg_contrast.bias import bias_tables, measured
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.evaluation import summary
from neg_contrast.jobs.common import (
  checks,
  declared_runs,
  negatives_checks,
)
from neg_contrast.settings import config as config_lib
from neg_contrast.settings import keys
from neg_contrast.training import (
  label_space_run,
  label_space_runs,
  run_settings,
)


def check(config: config_lib.Config) -> None:
  """Refuses a config that does not suit `job=nce_bias`."""
  checks.check_source(config)
  checks.check_init(config)
  checks.check_steps(config)
  negatives_checks.check_frozen(config)


class NceBiasJob:
  """`job=nce_bias`: Appendix C, for any model and data."""

  def __init__(self, config: config_lib.Config, workdir: pathlib.Path):
    """Reads nothing yet."""
    self._config, self._workdir = config, workdir
    self._meter = measured.Meter(
        dataset_lib.data_of(config.data), declared_runs.start(config),
        config.data.split, config.nce, config.evaluation, config.loss.scale,
        config.seed, config.data.row_length,
    )
    self._measured = {point: self._bias(point) for point in config.nce.points}

  def targets(self) -> list[artifact.Artifact]:
    """What is measured at each of the points."""
    return [*self._measured.values()]

  def finish(self) -> None:
    """Writes `metrics.json` and prints the table."""
    folders.write_json(self._workdir / summary.FILE, self.metrics())
    print(bias_tables.model_table({
        point: one.load() for point, one in self._measured.items()
    }), flush=True)

  def metrics(self) -> dict[str, float]:
    """`<dataset>/<split>/<point>/<kind>/<metric>`; the model has no kind."""
    made = {point: one.load() for point, one in self._measured.items()}
    data, split = self._config.data, self._config.data.split
    prefix = f'{dataset_lib.name_of(data)}/{split}'
    return {
        f'{prefix}/{point}/{name}/{metric}': value
        for point, one in made.items() for name, values in one['kinds'].items()
        for metric, value in values.items()
    } | {
        f'{prefix}/{point}/{metric}': value
        for point, one in made.items() for metric, value in one['model'].items()
    }

  def _bias(self, point: str) -> measured.Bias:
    """What is measured at a point."""
    return measured.Bias(
        self._meter, point,
        self._meter.start if point == 'initial' else self._run(point),
        self._config.optim.steps, self._workdir,
    )

  def _run(self, point: str) -> label_space_runs.LabelSpaceRun:
    """The training that leads to a point."""
    config = self._config
    values = config_lib.to_dict(config)
    counted: dict[str, Any] = {'optim': values['optim']}
    counts = keys.counting(config.model)
    part = {name: counts[name] for name in counts
            if name == 'freeze' or name.startswith('lora_')}
    if part:  # The rest of the model is that of the start.
      counted['model'] = part
    if point == label_space_run.RANDOM:
      counted['nce'] = {'negatives': config.nce.negatives}
    return label_space_runs.LabelSpaceRun(
        config=run_settings.select(config, counted, values),
        workdir=self._workdir / point, data=self._meter.data,
        start=self._meter.start, name=f'train {point}', meter=self._meter,
        negatives=point,
    )
