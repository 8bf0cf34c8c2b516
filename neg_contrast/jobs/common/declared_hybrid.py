"""The hybrid of a training, BM25 and the trained model together.

It is declared by the training, and found again by whoever searches.
"""

import dataclasses
import pathlib

from neg_contrast import errors
from neg_contrast.artifacts import artifact, places
from neg_contrast.evaluation import evaluations, judged, weight_tuning
from neg_contrast.jobs.common import declared_rankings, settings_of_rooms
from neg_contrast.retrieval import (
  bm25_search,
  corpus_index,
  corpus_vectors,
)
from neg_contrast.retrieval import hybrid as hybrid_lib
from neg_contrast.settings import config as config_lib
from neg_contrast.training import mixture_run


def hybrid(
    config: config_lib.Config,
    test: judged.Judged,
    vectors: corpus_vectors.Embeddings,
    workdir: pathlib.Path,
    weights_in: pathlib.Path,
) -> evaluations.Evaluation:
  """BM25 and a single model together, by weights of the tune split.

  Args:
    config: of the training.
    test: queries that it is evaluated on.
    vectors: of the corpus by the model.
    workdir: of the training.
    weights_in: keeps the weights of this data set.
  """
  name = 'trained'
  (evaluation,) = declared_rankings.Ensemble(
      dataclasses.replace(
          config.ensemble, members=(name,), runs=(), weights=(), hybrid=True
      ),
      ((name, vectors),), bm25_search.bm25_of(config.evaluation, test.data),
      judged.TuneJudged(test.data, config.evaluation, is_apart=True),
      dataclasses.replace(test, is_apart=True),
      settings_of_rooms.search(config), workdir, weights_in=weights_in,
  ).evaluations(['hybrid'])
  return evaluation


def of_checkpoint(config: config_lib.Config) -> list[hybrid_lib.Tuned]:
  """What trainings in a checkpoint have tuned, on each of their data sets.

  Raises:
    UserError: they have tuned none.
  """
  workdir = places.path(config.checkpoint)
  folders = [*sorted((workdir / mixture_run.FOLDER).glob('*')), workdir]
  found = map(weight_tuning.read_hybrid, folders)
  tuned = [one for one in found if one is not None]
  if not tuned:
    raise config.error('evaluation.hybrid', 'the weights of BM25 and model are '
                       f'those that a training has tuned; {config.checkpoint} '
                       'has none. Train with '
                       f'--{errors.key("evaluation.hybrid")}=True, or search '
                       'without')
  return tuned


def searched(
    config: config_lib.Config, index: corpus_index.CorpusIndex
) -> list[artifact.Artifact]:
  """What is searched: the index, and BM25 if the config asks for hybrids.

  Raises:
    UserError: weights are of another model than is searched with, or none of
      the corpus that is searched.
  """
  if not config.evaluation.hybrid:
    return [index]
  if index.vectors.data.contents('corpus') is not None:
    _of_corpus(config, index)  # Before anything is encoded.
  return [_bm25(config, index), index]


def load(
    config: config_lib.Config, index: corpus_index.CorpusIndex
) -> hybrid_lib.HybridRetriever | None:
  """Searches what `searched` names; None: by the model alone."""
  if not config.evaluation.hybrid:
    return None
  return hybrid_lib.HybridRetriever(
      index.load(), _bm25(config, index).load(), _of_corpus(config, index)
  )


def _of_model(
    config: config_lib.Config, index: corpus_index.CorpusIndex
) -> list[hybrid_lib.Tuned]:
  """What was tuned for the model that is searched with.

  An earlier training in the workdir may have left what is of another, on other
  data sets, too.

  Raises:
    UserError: nothing was.
  """
  tuned, model = of_checkpoint(config), index.vectors.needs().get('model')
  made = None if model is None else model.contents()
  if made is None:
    return tuned
  fitting = [one for one in tuned if one.model in ('', made['model'])]
  if not fitting:
    raise config.error(
        'evaluation.hybrid', 'the weights of BM25 and model that lie in '
        f'{config.checkpoint} are of another model than is there now; train '
        'there again, which tunes them, or search without'
    )
  return fitting


def _bm25(
    config: config_lib.Config, index: corpus_index.CorpusIndex
) -> bm25_search.Bm25:
  """As the weights were tuned with it, which is the same for all data sets."""
  tuned = _of_model(config, index)[0]
  return bm25_search.Bm25(index.vectors.data, tuned.k1, tuned.b)


def _of_corpus(
    config: config_lib.Config, index: corpus_index.CorpusIndex
) -> hybrid_lib.Tuned:
  """The weights of the corpus that is searched, where there are several.

  Raises:
    UserError: none are.
  """
  tuned = _of_model(config, index)
  corpus = index.vectors.data.contents('corpus')
  if len(tuned) == 1:
    return tuned[0]
  fitting = [one for one in tuned if one.corpus == corpus['corpus']]
  if not fitting:
    raise config.error(
        'evaluation.hybrid', 'has weights of each data set that '
        f'{config.checkpoint} was trained on, and {config.data.source} is none '
        'of them; search without'
    )
  return fitting[0]
