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


def hybrid(
    config: config_lib.Config,
    test: judged.Judged,
    vectors: corpus_vectors.Embeddings,
    workdir: pathlib.Path,
) -> evaluations.Evaluation:
  """BM25 and a single model together, by weights of the tune split."""
  name = 'trained'
  (evaluation,) = declared_rankings.Ensemble(
      dataclasses.replace(
          config.ensemble, members=(name,), runs=(), weights=(), hybrid=True
      ),
      ((name, vectors),), bm25_search.bm25_of(config.evaluation, test.data),
      judged.TuneJudged(test.data, config.evaluation, is_apart=True),
      dataclasses.replace(test, is_apart=True),
      settings_of_rooms.search(config), workdir,
  ).evaluations(['hybrid'])
  return evaluation


def of_checkpoint(config: config_lib.Config) -> hybrid_lib.Tuned:
  """What the training of a checkpoint has tuned.

  Raises:
    UserError: it has tuned none.
  """
  tuned = weight_tuning.read_hybrid(places.path(config.checkpoint))
  if tuned is None:
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
    UserError: weights are of another model than is searched with.
  """
  if not config.evaluation.hybrid:
    return [index]
  _check_model(config, index)
  return [_bm25(config, index), index]


def load(
    config: config_lib.Config, index: corpus_index.CorpusIndex
) -> hybrid_lib.HybridRetriever | None:
  """Searches what `searched` names; None: by the model alone."""
  if not config.evaluation.hybrid:
    return None
  return hybrid_lib.HybridRetriever(
      index.load(), _bm25(config, index).load(), of_checkpoint(config)
  )


def _check_model(
    config: config_lib.Config, index: corpus_index.CorpusIndex
) -> None:
  """Refuses weights that an earlier training in the workdir has tuned."""
  tuned, model = of_checkpoint(config), index.vectors.needs().get('model')
  found = None if model is None else model.contents()
  if found is not None and tuned.model not in ('', found['model']):
    raise config.error(
        'evaluation.hybrid', 'the weights of BM25 and model in '
        f'{config.checkpoint}/{weight_tuning.FOLDER} are of another model than '
        'that has now; train there again, which tunes them, or search without'
    )


def _bm25(
    config: config_lib.Config, index: corpus_index.CorpusIndex
) -> bm25_search.Bm25:
  """As the weights were tuned with it."""
  tuned = of_checkpoint(config)
  return bm25_search.Bm25(index.vectors.data, tuned.k1, tuned.b)
