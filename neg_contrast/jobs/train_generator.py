"""Trains a question generator and shows what it writes."""

import pathlib

from neg_contrast import errors
from neg_contrast.artifacts import arrays, artifact, checkpoints, folders
from neg_contrast.data import examples
from neg_contrast.jobs.common import checks, declared_pairs
from neg_contrast.settings import config as config_lib
from neg_contrast.training import generator_runs, shown_questions


def check(config: config_lib.Config) -> None:
  """Refuses a config that does not suit `job=train_generator`."""
  checks.check_source(config)
  if config.model.chunk_groups:
    raise config.error('model.chunk_groups', 'is for dual encoders; a '
                       'generator takes less memory with a smaller '
                       'data.batch_size or model.remat=full')
  for key in 'word_deletion', 'word_replacement', 'word_masking':
    if getattr(config.data, key):
      raise config.error(f'data.{key}', 'is for encoders and rerankers; a '
                         'generator learns from texts as they are')
  for key in 'query_prefix', 'passage_prefix':
    if getattr(config.data, key) is not None:
      raise config.error(f'data.{key}', 'is for encoders and rerankers; a '
                         'generator puts model.passage_prefix before passages, '
                         'and nothing before questions')
  if config.loss.example_weights == examples.GRADED:
    raise config.error('loss.example_weights', 'is for encoders and rerankers; '
                       'to a generator all examples count alike')
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
    self._run = declared_pairs.generator_run(config, workdir)
    self._export = generator_runs.T5Folder(self._run)

  def targets(self) -> list[artifact.Artifact]:
    """The training and the folder."""
    return [self._run, self._export]

  def finish(self) -> None:
    """Writes and prints the numbers, and the last questions.

    Raises:
      UserError: a file of the T5 folder is damaged.
    """
    arrays.check_folder(self._export.folder)
    with checkpoints.reading(self._workdir) as opened:
      progress = opened.progress(opened.selected_step())
    folders.write_json(self._workdir / folders.MANIFEST, {
        'config': config_lib.to_dict(self._config),
        'identity': self._run.identity,
        'environment': folders.environment(),
        'tune': progress.evaluation,
    })
    measured = '  '.join(
        f'{name} {value:.4f}' for name, value in progress.evaluation.items()
    ) or f'was not measured; {errors.key("evaluation.eval_steps")} is 0'
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
