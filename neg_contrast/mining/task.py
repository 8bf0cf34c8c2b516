"""The data and the settings that all strategies of one pool share."""

import dataclasses
import functools
import pathlib
from collections.abc import Callable

import numpy as np
from absl import logging

from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import examples
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.data import tokenizer as tokenizer_lib
from neg_contrast.mining import texts as texts_lib
from neg_contrast.models import by_name as model_lib
from neg_contrast.retrieval import bm25, bm25_search, model_search
from neg_contrast.settings import config as config_lib
from neg_contrast.training import encoder_run

TrainMiner = Callable[[int, pathlib.Path], encoder_run.DualEncoderTraining]
"""(features, workdir) -> the training of a miner, on gold pairs."""


@dataclasses.dataclass(frozen=True)
class Task:
  """Mining for the queries of a split; reads nothing before it is asked.

  Attributes:
    negatives: which strategies, and their settings.
    data: the source's name, and what makes a document.
    evaluation: BM25 and the rule that finds answers.
    model_init: whose tokenizer halves passages, and what miners start from.
    checkpoint: what the strategy `model` mines with, unless `negatives` names
      another.
    split: the judgements that need negatives.
    make_dataset: makes the data; not called before a step runs or is looked at.
    search: by a model, to the depth of `negatives`.
    train_miner: makes the trainings of miners.
    max_queries: where there are more, so many of them, drawn at random; 0: all.
  """

  negatives: config_lib.NegativesConfig
  data: config_lib.DataConfig
  evaluation: config_lib.EvaluationConfig
  model_init: str
  checkpoint: str
  split: str
  make_dataset: Callable[[], dataset_lib.Dataset]
  search: model_search.ModelSearch
  train_miner: TrainMiner
  max_queries: int = 0

  @property
  def dataset(self) -> dataset_lib.Dataset:
    """The data whose queries the negatives are for."""
    return self.make_dataset()

  @property
  def mined_dir(self) -> pathlib.Path:
    """Where miners, embeddings and candidates are kept for reuse."""
    return pathlib.Path(self.negatives.mined_dir)

  @functools.cached_property
  def judgements(self) -> prepared_lib.Judgements:
    """Those of the split, negative ones too."""
    return self.dataset.prepared.judgements(self.split)

  @functools.cached_property
  def query_rows(self) -> np.ndarray:
    """`[queries] int32`, those with a positive, or `max_queries` of them."""
    rows = np.unique(self.judgements.query_rows[self.judgements.grades > 0])
    if not 0 < self.max_queries < len(rows):
      return rows
    rng = np.random.default_rng(0)
    return np.sort(rng.choice(rows, self.max_queries, replace=False))

  @functools.cached_property
  def positives(self) -> examples.Positives:
    """Known positives of all queries, of any split."""
    return examples.known_positives(self.dataset.prepared)

  @functools.cached_property
  def among(self) -> np.ndarray | None:
    """Passages that are searched: of the queries' worlds; None: all."""
    return self.dataset.prepared.rows_of_worlds(self.query_rows)

  @functools.cached_property
  def bm25(self) -> bm25.Bm25Index:
    """Over the passages `among`."""
    logging.info('indexing the corpus for BM25')
    return bm25_search.index_bm25(self.evaluation, self.dataset, self.among)

  @functools.cached_property
  def tokenizer(self) -> tokenizer_lib.Tokenizer:
    """That halves of passages are cut by."""
    return model_lib.load_tokenizer(self.model_init)

  def texts(self, halves: np.ndarray) -> texts_lib.Texts:
    """Passages by row; `[halves, 3] int32` are those beyond the corpus."""
    return texts_lib.Texts(
        self.dataset.prepared.passages, halves, lambda: self.tokenizer
    )

  def key_of(self, strategy: str) -> str:
    """The key that asks for a strategy, for error messages."""
    settings = self.negatives
    return (f'config.negatives.strategy="{strategy}"'
            if settings.strategy == strategy else
            f'config.negatives.members={settings.members}: {strategy}')
