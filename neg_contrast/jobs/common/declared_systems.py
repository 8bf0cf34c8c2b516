"""Declares the evaluations of the systems that a training compares."""

import contextlib
import dataclasses
import pathlib

from neg_contrast import errors
from neg_contrast.artifacts import artifact
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.evaluation import evaluations, judged
from neg_contrast.jobs.common import (
  declared_hybrid,
  declared_mixture,
  settings_of_rooms,
)
from neg_contrast.retrieval import bm25_search, corpus_vectors
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.settings import config as config_lib
from neg_contrast.training import mixture_run


@dataclasses.dataclass(frozen=True)
class Systems:
  """What is evaluated on a data set.

  Attributes:
    config: of the training, with this data set as `data`.
    workdir: of the training.
    name: of the data set among several; empty: there is one.
  """

  config: config_lib.Config
  workdir: pathlib.Path
  name: str = ''

  @property
  def gold(self) -> dataset_lib.Data:
    """The data set."""
    with self._place():
      return dataset_lib.data_of(self.config.data)

  def judged(self, split: str = '') -> judged.Judged:
    """The queries of a split, which tuning must not have seen.

    Args:
      split: empty: the test split; so in the other methods.
    """
    return judged.Judged(self.gold, split or self.config.data.test_split,
                         self.config.evaluation, is_apart=True)

  def vectors(self, model: artifact.Artifact) -> corpus_vectors.Embeddings:
    """The vectors of the corpus by a model."""
    with self._place():
      return corpus_vectors.Embeddings(
          self.gold, settings_of_rooms.encoding(self.config),
          self.workdir / retriever_lib.FOLDER, model,
      )

  def bm25(self, split: str = '') -> evaluations.Evaluation:
    """The evaluation of BM25 on a split."""
    with self._place():
      return evaluations.Evaluation(judged.Bm25Ranking(
          self.judged(split), 'bm25',
          bm25_search.bm25_of(self.config.evaluation, self.gold),
      ), self.workdir)

  def dense(
      self, system: str, model: artifact.Artifact, split: str = '',
      is_shown_with_split: bool = False,
  ) -> evaluations.Evaluation:
    """The evaluation of a model on a split."""
    with self._place():
      return evaluations.Evaluation(judged.DenseRanking(
          self.judged(split), system, self.vectors(model),
          settings_of_rooms.search(self.config),
          self.workdir / retriever_lib.FOLDER,
      ), self.workdir, is_shown_with_split)

  def trained(self, model: artifact.Artifact) -> list[evaluations.Evaluation]:
    """The evaluations of a model, and of the first features of its vectors."""
    with self._place():
      narrower = narrow(self.config, self.judged(), 'trained',
                        self.vectors(model), self.workdir)
      return [self.dense('trained', model), *(
          evaluations.Evaluation(one, self.workdir) for one in narrower
      )]

  def hybrid(self, model: artifact.Artifact) -> evaluations.Evaluation:
    """The evaluation of a model and BM25 together on the test split."""
    with self._place():
      return declared_hybrid.hybrid(
          self.config, self.judged(), self.vectors(model), self.workdir,
          mixture_run.folder_of(self.workdir, self.name),
      )

  def _place(self) -> contextlib.AbstractContextManager[None]:
    """Where its keys lie."""
    place = declared_mixture.place_of(self.name)
    if not self.name or errors.place()[-1:] == (place,):
      return contextlib.nullcontext()
    return errors.within(place)


def narrow(
    config: config_lib.Config,
    queries: judged.Judged,
    system: str,
    vectors: corpus_vectors.Embeddings,
    workdir: pathlib.Path,
) -> list[judged.DenseRanking]:
  """The rankings by the first features of vectors, of `evaluation.dims`.

  Args:
    config: of the job.
    queries: of a split.
    system: name of that with all features.
    vectors: with all features.
    workdir: keeps indexes.
  """
  return [judged.DenseRanking(
      queries, f'{system}@{dim}', corpus_vectors.FirstFeatures(vectors, dim),
      settings_of_rooms.search(config), workdir / retriever_lib.FOLDER,
  ) for dim in config.evaluation.dims]


def systems_of(
    config: config_lib.Config, workdir: pathlib.Path
) -> list[Systems]:
  """What is evaluated of a training: on each data set with a test split.

  Args:
    config: of the training; its `data` is that of the first of them.
    workdir: of the training.
  """
  if not config.mixture.sets:
    return [Systems(config, workdir)]
  return [
      Systems(own, workdir, name)
      for name, own in declared_mixture.configs_of(config).items()
      if own.data.test_split
  ]
