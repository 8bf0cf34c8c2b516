"""Evaluations of systems: a folder with run, metrics and tables each."""

import dataclasses
import pathlib
from typing import Any

from absl import logging

from neg_contrast import errors
from neg_contrast.artifacts import arrays, artifact, folders
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.evaluation import judged, rankings, trec
from neg_contrast.settings import config as config_lib

KIND, _NUMBER = 'an evaluation', 2
FORMAT = folders.Format(KIND, _NUMBER)


def folder_of(
    workdir: pathlib.Path,
    config: config_lib.DataConfig,
    split: str,
    system: str,
) -> pathlib.Path:
  """Where the evaluation of a system lies."""
  name = dataset_lib.name_of(config)
  return workdir / 'evaluation' / f'{name}-{split}-{system}'


def read_manifest(folder: pathlib.Path) -> dict[str, Any] | None:
  """The manifest of an evaluation whose files are whole.

  Returns:
    None where there is no evaluation.

  Raises:
    UserError: it is damaged or of another format; says what to remove.
  """
  manifest = folders.read_manifest(folder, FORMAT)
  if manifest is not None:
    for name in sorted(folders.file_names(folder)):
      arrays.map_file(folder / name, folder).check()
  return manifest


@dataclasses.dataclass(frozen=True)
class Evaluation(artifact.Named):
  """Run, metrics and manifest of one system on a split.

  Attributes:
    ranking: of the system.
    workdir: of the job.
    is_shown_with_split: whether plans name the split.
  """

  kind = KIND
  format = _NUMBER
  is_divided = True
  ranking: judged.Ranking
  workdir: pathlib.Path
  is_shown_with_split: bool = False

  @property
  def name(self) -> str:
    """The system, and the split where there are several."""
    system = self.ranking.name
    return (f'{system}, {self.ranking.judged.split}'
            if self.is_shown_with_split else system)

  @property
  def dataset(self) -> str:
    """`<dataset>/<split>`."""
    of = self.ranking.judged
    assert isinstance(of.data, dataset_lib.Data)
    return f'{dataset_lib.name_of(of.data.config)}/{of.split}'

  @property
  def folder(self) -> pathlib.Path:
    """Named by data set, split and system."""
    of = self.ranking.judged
    assert isinstance(of.data, dataset_lib.Data)
    return folder_of(self.workdir, of.data.config, of.split, self.ranking.name)

  def describe(self) -> str:
    """Of what, and where."""
    return (f'run and metrics of {self.ranking.name} on '
            f'{self.ranking.judged.split} in {self.folder}')

  def needs(self) -> dict[str, artifact.Artifact]:
    """Judgements and ranking."""
    return {'data': self.ranking.judged.data, 'ranking': self.ranking}

  def settings(self) -> dict[str, Any]:
    """Split, metrics and depth."""
    return self.ranking.judged.settings()

  def is_made(self) -> bool:
    """Whether run and metrics are there, whole and of this."""
    manifest = read_manifest(self.folder)
    return (manifest is not None and self.identity is not None
            and manifest['identity'] == self.identity)

  def prepare(self) -> None:
    """Searches; the first process writes what all find together."""
    self.ranking.load()

  def write(self, scratch: pathlib.Path, manifest: dict[str, Any]) -> None:
    """Scores the ranking, and writes run and tables."""
    found, system = self.ranking.load(), self.ranking.name
    task = self.task()
    ranked = task.run_of(found.found)
    scores = task.score(ranked, found.found)
    prepared = task.dataset.prepared
    empty = len(task.query_rows) - sum(map(bool, ranked.values()))
    if 2 * empty > len(task.query_rows):
      logging.warning(
          '%s: %s finds nothing for %d of %d queries', self.dataset, system,
          empty, len(task.query_rows))
    manifest |= {
        'key': f'{self.dataset}/{system}',
        'queries': len(task.query_rows),
        'passages': len(prepared.passages),
        'metrics': scores.mean,
        **({'worlds': scores.per_world} if prepared.worlds else {}),
        'index': found.index,
        'environment': folders.environment(),
    }
    try:
      trec.write_run(scratch / 'run.trec', ranked, system)
    except errors.UserError as e:
      logging.warning('%s: no run.trec is written: %s', self.folder, e)
    task.write_tables(scratch, found.found, scores.per_query)

  def task(self) -> rankings.Evaluation:
    """What scores the ranking."""
    return self.ranking.judged.open()
