"""How far NCE is from the cross-entropy, for a model and some queries."""

import functools
import pathlib
from typing import Any

from neg_contrast.artifacts import folders, plan
from neg_contrast.bias import bias_tables, meter
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.jobs import checks
from neg_contrast.models import by_name as model_lib
from neg_contrast.models import loading
from neg_contrast.negatives import sampling
from neg_contrast.settings import config as config_lib
from neg_contrast.training import label_space_run, run_settings
from neg_contrast.training import state as state_lib

_FORMAT = 2  # Of the files, raised when what is computed changes.


def check(config: config_lib.Config) -> None:
  """Refuses a config that does not suit `job=nce_bias`."""
  checks.check_source(config)
  checks.check_init(config)
  checks.check_steps(config)


class NceBiasJob:
  """`job=nce_bias`: Appendix C, for any model and data."""

  def __init__(self, config: config_lib.Config, workdir: pathlib.Path):
    """Reads nothing yet."""
    self._config, self._workdir = config, workdir

  def steps(self) -> list[plan.Step]:
    """The plan: train what is measured at, then measure."""
    config, count = self._config, self._config.nce.queries
    steps = [dataset_lib.preparation_step(config.data, lambda: self._dataset)]
    missing = lambda: model_lib.missing(config.model.init)
    for point in config.nce.points:
      if point != 'initial':
        steps.append(plan.Step(
            f'train {point}', f'{config.optim.steps} steps of {count} queries '
            f'in {self._workdir / point}',
            is_done=functools.partial(self._is_trained, point),
            share=functools.partial(self._train, point), missing=missing,
        ))
      steps.append(plan.Step(
          f'measure {point}', f'{config.nce.draws} draws, in '
          f'{self._path(point)}', functools.partial(self._is_measured, point),
          functools.partial(self._measure, point), missing,
      ))
    return steps

  def finish(self) -> None:
    """Writes `metrics.json` and prints the table."""
    made = {point: folders.read_json(self._path(point))
            for point in self._config.nce.points}
    prefix = f'{self._dataset.name}/{self._config.data.split}'
    folders.write_json(self._workdir / 'metrics.json', {
        f'{prefix}/{point}/{name}/{metric}': value
        for point, one in made.items() for name, values in one['kinds'].items()
        for metric, value in values.items()
    } | {
        f'{prefix}/{point}/{metric}': value
        for point, one in made.items() for metric, value in one['model'].items()
    })
    print(bias_tables.model_table(made), flush=True)

  def _path(self, point: str) -> pathlib.Path:
    return self._workdir / f'bias-{point}.json'

  @functools.cached_property
  def _dataset(self) -> dataset_lib.Dataset:
    return dataset_lib.Dataset(self._config.data)

  @functools.cached_property
  def _model(self) -> loading.Model:
    return model_lib.load_start(self._config.model, self._config.seed)

  @functools.cached_property
  def _meter(self) -> meter.BiasMeter:
    return label_space_run.make_meter(
        self._settings('initial'), self._dataset, self._model
    )

  def _settings(self, point: str) -> run_settings.RunSettings:
    return run_settings.select(
        self._config, self._identity(point), config_lib.to_dict(self._config)
    )

  def _training(self, point: str) -> label_space_run.LabelSpaceTraining:
    return label_space_run.LabelSpaceTraining(
        self._settings(point), self._workdir / point, lambda: self._dataset,
        lambda: self._meter, point,
    )

  def _is_trained(self, point: str) -> bool:
    return self._training(point).is_trained()

  def _train(self, point: str) -> None:
    self._training(point).train_once()

  def _identity(self, point: str) -> dict[str, Any]:
    """What the parameters at a point depend on."""
    config, settings = config_lib.to_dict(self._config), self._config.nce
    return folders.as_json({
        'format': _FORMAT, 'init': self._model.fingerprint,
        'data': self._dataset.prepared.manifest['fingerprint'],
        'split': self._config.data.split,
        'labels': settings.labels, 'queries': settings.queries,
        'bm25': [self._config.evaluation.bm25_k1,
                 self._config.evaluation.bm25_b],
        'scale': self._config.loss.scale, 'seed': self._config.seed,
        'dtype': config['model']['dtype'],
        **({} if point == 'initial' else {'optim': config['optim']}),
        **({'negatives': settings.negatives} if point == 'random' else {}),
    })

  def _params(self, point: str) -> Any:
    """θ as a `TrainState` has it."""
    model = (self._model if point == 'initial'
             else self._training(point).trained)
    return state_lib.dual_encoder_params(model.params, None)

  def _meter_identity(self, point: str) -> dict[str, Any]:
    settings = self._config.nce
    return folders.as_json({
        'point': self._identity(point), 'draws': settings.draws,
        'epoch': self._config.optim.steps,
        'percents': settings.percents, 'negatives': settings.negatives,
    })

  def _is_measured(self, point: str) -> bool:
    path = self._path(point)
    return path.exists() and (
        folders.read_json(path)['identity'] == self._meter_identity(point)
    ) and (point == 'initial' or self._is_trained(point))

  def _measure(self, point: str) -> None:
    """Writes the file of a point."""
    config = self._config
    # The first step that training does not draw for.
    key = sampling.draw_key(config.seed, config.optim.steps)
    folders.write_json(self._path(point), {
        'identity': self._meter_identity(point),
        **self._meter.measure(self._params(point), key),
        'environment': folders.environment(),
    })
