"""What all tasks of a benchmark are made of."""

import dataclasses
import functools
import pathlib

import numpy as np

from neg_contrast.batches import batcher
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.models import loading
from neg_contrast.retrieval import encoding as encoding_lib
from neg_contrast.retrieval import search_settings, text_encoder
from neg_contrast.settings import config as config_lib
from neg_contrast.training import encoder_run, recipe


@dataclasses.dataclass(frozen=True)
class Material:
  """What all tasks are made of.

  Attributes:
    settings: task, rounds and sizes.
    data: batches and lengths.
    negatives: of the training, or to be mined.
    encoding: how the model encodes.
    search: how its vectors are searched.
    workdir: of the job.
    dataset: texts.
    is_made_up: whether its words mean nothing.
    trainer: that of `job=train`, which reads the model at first use.
  """

  settings: config_lib.BenchmarkConfig
  data: config_lib.DataConfig
  negatives: config_lib.NegativesConfig
  encoding: encoding_lib.EncodingSettings
  search: search_settings.SearchSettings
  workdir: pathlib.Path
  dataset: dataset_lib.Dataset
  is_made_up: bool
  trainer: encoder_run.DualEncoderTraining

  @property
  def model(self) -> loading.Model:
    """The model, with the dropout of the config."""
    return self.trainer.model

  @functools.cached_property
  def ready(self) -> recipe.Ready:
    """A training that may begin."""
    return self.trainer.set_up()

  @functools.cached_property
  def encoder(self) -> text_encoder.TextEncoder:
    """The encoder of the model."""
    return text_encoder.TextEncoder(self.model, self.encoding)

  def lengths(self, role: str) -> np.ndarray:
    """`[texts] int64` tokens of every `query` or `passage` input."""
    return self.dataset.tokenize(self.model, role).lengths()

  def passage_rows(self) -> np.ndarray:
    """`[n] int32` passages to encode."""
    count = len(self.dataset.prepared.passages)
    return np.arange(min(count, self.settings.passages), dtype=np.int32)

  def query_rows(self) -> np.ndarray:
    """`[n] int32` judged queries to ask, ascending."""
    judged = self.dataset.prepared.judgements(self.data.train_split)
    rows = np.unique(judged.query_rows[judged.grades > 0]).astype(np.int32)
    return rows[:self.settings.queries]

  def batch_rows(self, step: int) -> tuple[np.ndarray, ...]:
    """Queries `[B]`, positives `[B]` and negatives `[B, N]` of a step; -1 pads.
    """
    make = self.ready.make_batch
    assert isinstance(make, batcher.Batcher)
    numbers = make.example_numbers(step)
    queries = make.examples.query_rows[numbers]
    return (queries, make.examples.positive_rows[numbers],
            make.draw(step, numbers, queries).rows)
