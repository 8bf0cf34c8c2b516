"""Train, mine, evaluate and search with objects in memory.

A verb writes its objects as a source (`objects.py`), and runs the job that the
command line runs on it: what is made is not made again.
"""

import numbers
import os
import pathlib
from collections.abc import Sequence
from typing import Any

from neg_contrast import listeners
from neg_contrast.api import (
  commands,
  job_folders,
  objects,
  opening,
  results,
  setting_keys,
  training,
)
from neg_contrast.artifacts import folders, places
from neg_contrast.evaluation import evaluations
from neg_contrast.retrieval import finding
from neg_contrast.settings import config as config_lib
from neg_contrast.settings import unread_keys


def train(
    queries: Any,
    passages: Any,
    judgements: Any,
    test: Any = 0.2,
    *,
    model: str | None = None,
    workdir: str | os.PathLike[str] | None = None,
    config: str = 'own_data',
    verbose: bool = False,
    on_step: listeners.OnStep | None = None,
    on_evaluation: listeners.OnEvaluation | None = None,
    on_progress: listeners.OnProgress | None = None,
    **settings: Any,
) -> training.Training:
  """Trains a retriever on objects, and evaluates it.

  The same call again makes nothing anew, and one that was interrupted goes on.

  Args:
    queries: id -> text, or texts; see `objects.write`.
    passages: id -> text or (title, text), or a list of these.
    judgements: query id -> passage ids, or passage id -> grade; or pairs.
    test: judgements of other queries, to report numbers on; or the share of the
      queries that is set apart for that.
    model: to start from, as `config.model.init`; None: what the config says.
    workdir: where all of it is kept; None: a temporary folder, which goes when
      the process ends.
    config: the config file, with an argument after a colon if it takes one, as
      in `own_data:negatives=context`.
    verbose: print the plan and the numbers as the command does.
    on_step: see `listeners.Listener`.
    on_evaluation: likewise.
    on_progress: likewise.
    **settings: config keys with `__` for `.`, as in `optim__steps=100`.

  Raises:
    UserError: an object is not understood, or a setting is wrong.
  """
  queries = objects.held(queries)
  if isinstance(test, numbers.Real):
    judgements, test = objects.set_apart(queries, judgements, test)
  splits = {'train': judgements, 'test': test}
  if model is not None:
    settings['model__init'] = model
  source, parsed, folder = _prepared(
      'train', config, workdir, (passages, queries, splits), settings
  )
  commands.run_job(
      parsed, folder,
      listeners.Listener(on_step, on_evaluation, on_progress), verbose
  )
  return training.Training(folder, source, results.read_metrics(
      folder, parsed.data.name, parsed.data.test_split
  ), settings)


def mine(
    queries: Any,
    passages: Any,
    judgements: Any,
    test: float = 0.0,
    *,
    checkpoint: opening.Checkpoint | None = None,
    workdir: str | os.PathLike[str] | None = None,
    config: str | None = None,
    verbose: bool = False,
    on_progress: listeners.OnProgress | None = None,
    **settings: Any,
) -> results.Negatives:
  """Mines hard negatives for queries.

  Args:
    queries: as for `train`.
    passages: as for `train`.
    judgements: as for `train`; no positive of a query is among its negatives.
    test: share of the queries that `train` sets apart with the same objects;
      they get no negatives then, so that `train` takes the pool.
    checkpoint: mines the nearest passages by this model; None: BM25 mines.
    workdir: as for `train`.
    config: the config file; default: `mine:negatives=model` with a checkpoint,
      else `mine:negatives=bm25`.
    verbose: as for `train`.
    on_progress: as for `train`.
    **settings: config keys, such as `negatives__pool_size=20`.

  Raises:
    UserError: as `train`.
  """
  queries, judgements = objects.held(queries), objects.held(judgements)
  splits = {'train': judgements}
  if test:
    splits = dict(zip(('train', 'test'),
                      objects.set_apart(queries, judgements, test),
                      strict=True))
  if checkpoint is not None:
    settings['checkpoint'] = os.fspath(checkpoint)
  source = 'bm25' if checkpoint is None else 'model'
  config = config or f'mine:negatives={source}'
  _, parsed, folder = _prepared(
      'mine', config, workdir, (passages, queries, splits), settings
  )
  job = commands.run_job(parsed, folder,
                         listeners.Listener(on_progress=on_progress), verbose)
  return results.Negatives(job.pool)


def evaluate(
    checkpoint: opening.Checkpoint,
    queries: Any,
    passages: Any,
    judgements: Any,
    *,
    workdir: str | os.PathLike[str] | None = None,
    verbose: bool = False,
    on_progress: listeners.OnProgress | None = None,
    **settings: Any,
) -> results.Metrics:
  """Evaluates a checkpoint, beside BM25.

  Args:
    checkpoint: what `train` returns, a trained workdir, a BERT-family or
      sentence-transformers folder or hub name, or `minilm`.
    queries: as for `train`.
    passages: as for `train`.
    judgements: as for `train`; all of them are evaluated on.
    workdir: as for `train`.
    verbose: as for `train`.
    on_progress: as for `train`.
    **settings: config keys, such as `evaluation__metrics=('mrr@10',)`.

  Returns:
    System (`bm25`, and `initial` or `trained`) -> metric -> value; of this
    checkpoint alone, whatever was evaluated in the workdir before.

  Raises:
    UserError: as `train`, or there is no such checkpoint.
  """
  settings['checkpoint'] = os.fspath(checkpoint)
  _, parsed, folder = _prepared(
      'evaluate', 'evaluate', workdir,
      (passages, queries, {'test': judgements}), settings
  )
  job = commands.run_job(
      parsed, folder, listeners.Listener(on_progress=on_progress), verbose
  )
  return results.read_metrics(
      folder, parsed.data.name, parsed.data.split,
      {one.ranking.name for one in job.targets()
       if isinstance(one, evaluations.Evaluation)},
  )


def search(
    queries: Sequence[str],
    checkpoint: opening.Checkpoint,
    source: Any,
    depth: int = 10,
    folder: str | os.PathLike[str] | None = None,
    **settings: Any,
) -> finding.AnswerSets:
  """The best passages of each query.

  It loads the model and encodes the passages at every call, unless `folder`
  keeps their vectors. For more than one call keep a retriever: `Training` has
  one, and `load_retriever` makes one.

  Args:
    queries: texts.
    checkpoint: as for `evaluate`.
    source: passages, as for `train`; or `scheme:place`.
    depth: passages wanted of each query.
    folder: as for `load_retriever`.
    **settings: config keys, such as `index__kind='scann'`.

  Raises:
    UserError: model or source are missing or broken, or a setting is wrong.
    ValueError: a query is blank, or depth is not positive.
  """
  return opening.load_retriever(
      checkpoint, source, folder, **settings
  ).find_each(queries, depth)


def _prepared(
    verb: str,
    config: str,
    workdir: str | os.PathLike[str] | None,
    given: tuple[Any, Any, dict[str, Any]],
    settings: dict[str, Any],
) -> tuple[str, config_lib.Config, pathlib.Path]:
  """The source of some objects, the config of their job, and its workdir.

  Equal objects and settings have one temporary workdir, so that a cell that
  runs again makes nothing anew.
  """
  passages, queries, splits = given
  root = job_folders.folder_or_temporary(workdir, 'objects')
  source = objects.write(root / objects.FOLDER, passages, queries, splits)
  keys = setting_keys.keys_of(settings)
  if workdir is None:
    code = folders.sha256_json([verb, config, source, sorted(
        (key, repr(value)) for key, value in keys.items()
    )])
    workdir = root / f'{verb}-{code[:12]}'
  name, _, arg = config.partition(':')
  parsed = setting_keys.from_file(name, arg or None, {
      **setting_keys.keys_of(job_folders.settings_of(root)),
      'data.source': source, **keys,
  })
  unread_keys.warn(parsed, keys)
  return source, parsed, places.path(workdir).absolute()
