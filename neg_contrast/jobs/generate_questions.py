"""Writes questions for every passage of a corpus, as data for any trainer."""

import pathlib
from typing import Any

from neg_contrast.artifacts import arrays, artifact, folders
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import synthetic_pairs
from neg_contrast.jobs.common import checks, declared_pairs
from neg_contrast.settings import config as config_lib
from neg_contrast.stage1 import beir_questions, gold_comparison


def check(config: config_lib.Config) -> None:
  """Refuses a config that does not suit `job=generate_questions`."""
  checks.check_source(config)
  checks.check_question_writer(config)
  checks.check_no_answers(config)


class GenerateQuestionsJob:
  """`job=generate_questions`: a corpus in, synthetic questions out."""

  def __init__(self, config: config_lib.Config, workdir: pathlib.Path):
    """Reads nothing yet."""
    self._config, self._workdir = config, workdir
    self._data = dataset_lib.data_of(config.data)
    self._questions = declared_pairs.questions(
        config, self._data, declared_pairs.generator(config)
    )
    self._files = beir_questions.BeirQuestions(self._questions, workdir)

  def targets(self) -> list[artifact.Artifact]:
    """The files, and what `finish` reads."""
    return [
        self._data, self._questions.written, self._questions, self._files,
    ]

  def finish(self) -> None:
    """Says what came out, how fast, and how it compares with gold.

    Raises:
      UserError: a file is damaged.
    """
    arrays.check_folder(self._files.folder)
    counts = self._questions.counts()
    compared = gold_comparison.compare_with_gold(
        self._data.load().prepared, self._config.data.train_split,
        synthetic_pairs.read_pairs(self._questions.files()),
    )
    folders.write_sealed(self._workdir / folders.MANIFEST, {
        'config': config_lib.to_dict(self._config),
        'environment': folders.environment(),
        'identity': self._questions.identity,
        'counts': counts,
        'statistics': compared,
    })
    kept = counts.get('round_trip', counts['kept'])
    print(f'\n{counts["passages"]:.0f} passages, {counts["written"]:.0f} '
          f'questions; dropped {counts["empty"]:.0f} empty and '
          f'{counts["repeated"]:.0f} repeated ones'
          + (f' and {counts["kept"] - kept:.0f} that did not find their passage'
             if 'round_trip' in counts else '')
          + f'; kept {kept:.0f}\n'
          f'{counts["passages"] / counts["seconds"]:.1f} passages/s, '
          f'{100 * counts["padding"]:.1f}% padding')
    for name, values in compared.items():
      print(f'{name}: ' + ', '.join(f'{key} {_show(value)}'
                                    for key, value in values.items()))


def _show(value: Any) -> str:
  if isinstance(value, float):
    return f'{value:.3f}'
  if isinstance(value, tuple):
    return ' '.join(f'{word} {share:.2f}' for word, share in value)
  return str(value)
