"""Trains a question generator and shows what it writes."""

import dataclasses
import functools
import pathlib

from neg_contrast import checkpoints
from neg_contrast.artifacts import folders, plan
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.jobs import checks, settings_of_rooms
from neg_contrast.models import by_name as model_lib
from neg_contrast.models import generator as generator_lib
from neg_contrast.models import t5_pretrained
from neg_contrast.settings import config as config_lib
from neg_contrast.training import generator_run, shown_questions

FOLDER = 't5'  # Of a workdir.


def check(config: config_lib.Config) -> None:
  """Refuses a config that does not suit `job=train_generator`."""
  checks.check_source(config)
  checks.check_no_bias_log(config)
  if config.model.chunk_groups:
    raise config.error('model.chunk_groups', 'is for dual encoders; a '
                       'generator takes less memory with a smaller '
                       'data.batch_size or model.remat=full')
  if not config.model.init:
    raise config.error('model.init', 'is needed: a folder or hub name of a T5, '
                       'or random:t5-tiny')


class TrainGeneratorJob:
  """`job=train_generator`: gold pairs in, a T5 that asks questions out.

  Also as a folder that other libraries load.
  """

  def __init__(self, config: config_lib.Config, workdir: pathlib.Path):
    """Reads nothing yet."""
    self._config, self._workdir = config, workdir
    self._training = generator_run.GeneratorTraining(
        settings_of_rooms.training(config), workdir, lambda: self._dataset
    )

  def steps(self) -> list[plan.Step]:
    """The plan; what comes after can't be looked at before it is done."""
    folder = self._workdir / FOLDER
    return [
        dataset_lib.preparation_step(self._config.data, lambda: self._dataset),
        self._training.step(
            'training', lambda: model_lib.missing_generator(
                self._config.model.init), opens_rest=True,
        ),
        plan.Step('export', f'a T5 folder in {folder}',
                  lambda: self._is_exported(folder),
                  lambda: self._export(folder)),
    ]

  def generator(self) -> generator_lib.Generator:
    """The trained generator."""
    return self._training.trained

  def finish(self) -> None:
    """Writes and prints the numbers, and the last questions."""
    with checkpoints.reading(self._workdir) as opened:
      progress = opened.progress(opened.selected_step())
    folders.write_json(self._workdir / folders.MANIFEST, {
        'config': config_lib.to_dict(self._config),
        'identity': self._training.identity,
        'environment': folders.environment(),
        'tune': progress.evaluation,
    })
    measured = '  '.join(
        f'{name} {value:.4f}' for name, value in progress.evaluation.items()
    ) or 'was not measured; config.evaluation.eval_steps is 0'
    print(f'\ntune split: {measured}')
    shown = sorted(
        (self._workdir / shown_questions.FOLDER).glob('*.json')
    )
    for row in folders.read_json(shown[-1]) if shown else ():
      print(f'\n{row["passage"]}\n  written: {row["written"]}\n'
            f'  gold:    {row["gold"]}')
    print('\nTo write questions with it:\n  python -m neg_contrast.main '
          '--config=configs/generate_questions.py '
          f'--config.checkpoint={self._workdir} '
          f'--config.data.source={self._config.data.source}')

  def _is_exported(self, folder: pathlib.Path) -> bool:
    manifest = folders.read_manifest(folder)
    return (manifest is not None
            and manifest['fingerprint'] == self.generator().fingerprint)

  def _export(self, folder: pathlib.Path) -> None:
    made = self.generator()
    manifest = {'fingerprint': made.fingerprint, 'text': dataclasses.asdict(
        made.text)}
    with folders.writing(folder, manifest) as scratch:
      t5_pretrained.export_t5(scratch, made.config, made.params)
      made.tokenizer.export(scratch)

  @functools.cached_property
  def _dataset(self) -> dataset_lib.Dataset:
    return dataset_lib.Dataset(self._config.data)
