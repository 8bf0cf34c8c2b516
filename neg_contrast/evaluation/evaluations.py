"""The steps that evaluate systems by retrieval over a whole corpus."""

import dataclasses
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
from absl import logging

from neg_contrast import errors
from neg_contrast.artifacts import arrays, folders, plan
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.evaluation import rankings, runs, trec
from neg_contrast.retrieval import bm25_search, search_settings
from neg_contrast.retrieval import searched as searched_lib
from neg_contrast.settings import config as config_lib

FORMAT = folders.Format('an evaluation', 1)


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


def evaluation_step(
    system: str,
    config: config_lib.DataConfig,
    workdir: pathlib.Path,
    evaluation: Callable[[], rankings.Evaluation],
    split: str,
    identity: Callable[[], dict[str, Any]],
    search: Callable[[np.ndarray], searched_lib.Searched],
    share: Callable[[], object] = plan.nothing,
) -> plan.Step:
  """The step that evaluates one system and writes run, metrics and manifest.

  Args:
    system: its name in `metrics.json`.
    config: names the data set.
    workdir: of the job.
    evaluation: makes the evaluation; not called before the step runs.
    split: name of the split.
    identity: what the result depends on; an older result is kept if equal.
    search: query rows -> what was found.
    share: what several processes divide before, such as encoding.
  """
  name = dataset_lib.name_of(config)
  folder = folder_of(workdir, config, split, system)

  def is_done() -> bool:
    manifest = read_manifest(folder)
    return manifest is not None and manifest['identity'] == identity()

  def run() -> None:
    task = evaluation()
    searched = search(task.query_rows)
    ranked = task.run_of(searched.found)
    scores = task.score(ranked, searched.found)
    manifest = {
        'identity': identity(),
        'key': f'{name}/{split}/{system}',
        'queries': len(task.query_rows),
        'passages': len(task.dataset.prepared.passages),
        'metrics': scores.mean,
        **({'worlds': scores.per_world} if task.dataset.prepared.worlds
           else {}),
        'index': searched.index,
        'environment': folders.environment(),
    }
    with folders.writing(folder, manifest, format=FORMAT) as scratch:
      try:
        trec.write_run(scratch / 'run.trec', ranked, system)
      except errors.UserError as e:
        logging.warning('%s: no run.trec is written: %s', folder, e)
      task.write_tables(scratch, searched.found, scores.per_query)

  return plan.Step(
      f'{system}', f'run and metrics of {system} on {split} in {folder}',
      is_done, run, share=share,
  )


def data_identity(
    dataset: dataset_lib.Dataset,
    settings: config_lib.EvaluationConfig,
    split: str,
) -> dict[str, Any]:
  """What an evaluation depends on beside the system."""
  manifest = dataset.prepared.manifest
  return {
      'split': split,
      'corpus': manifest['corpus_fingerprint'],
      'data': manifest['fingerprint'],  # Judgements too.
      'evaluation': {
          key: list(value) if isinstance(value, tuple) else value
          for key, value in config_lib.to_dict(settings).items()
          if key in ('metrics', 'answer_ks', 'answer_rule', 'depth')
          or (key == 'dpr_results' and value)
      },
  }


def dense_identity(
    dataset: dataset_lib.Dataset,
    settings: config_lib.EvaluationConfig,
    split: str,
    vectors: dict[str, Any],
    search: search_settings.SearchSettings,
) -> dict[str, Any]:
  """What the evaluation of a model depends on.

  Args:
    dataset: of the evaluation.
    settings: metrics and depth.
    split: name of the split.
    vectors: what a search of its vectors depends on.
    search: how passages are searched.
  """
  return {
      **data_identity(dataset, settings, split),
      'embeddings': vectors,
      'index': search.index_identity(dataset.prepared),
  }


def bm25_step(
    data: config_lib.DataConfig,
    settings: config_lib.EvaluationConfig,
    workdir: pathlib.Path,
    dataset: Callable[[], dataset_lib.Dataset],
    evaluation: Callable[[], rankings.Evaluation],
    split: str,
    index: Callable[[], bm25_search.Bm25Search] | None = None,
) -> plan.Step:
  """The step that evaluates BM25, with an index that is made for it or given.
  """
  make = index or (lambda: bm25_search.Bm25Search(settings, dataset()))
  return evaluation_step(
      'bm25', data, workdir, evaluation, split,
      identity=lambda: {
          **data_identity(dataset(), settings, split),
          'k1': settings.bm25_k1,
          'b': settings.bm25_b,
      },
      search=lambda rows: searched_lib.Searched(
          make().search_rows(rows, settings.depth)
      ),
  )


def run_step(
    data: config_lib.DataConfig,
    settings: config_lib.EvaluationConfig,
    workdir: pathlib.Path,
    dataset: Callable[[], dataset_lib.Dataset],
    evaluation: Callable[[], rankings.Evaluation],
    split: str,
    path: pathlib.Path,
) -> plan.Step:
  """The step that evaluates a TREC run file, under the name of the file."""
  step = evaluation_step(
      runs.run_name(path), data, workdir, evaluation, split,
      identity=lambda: {
          **data_identity(dataset(), settings, split),
          'run': folders.sha256_file(path),
      },
      search=lambda _: searched_lib.Searched(evaluation().read(path)),
  )
  return dataclasses.replace(step, missing=lambda: runs.missing_run(path))
