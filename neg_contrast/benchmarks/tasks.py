"""What `job=benchmark` does over and over, and what it counts."""

import abc
import concurrent.futures
import dataclasses
import functools
import itertools
import pathlib
import time
from collections.abc import Callable, Generator
from typing import Any

import jax
import numpy as np

from neg_contrast import accelerators, sharding
from neg_contrast.batches import batcher
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import examples, random_texts
from neg_contrast.mining import candidates
from neg_contrast.models import dual_encoder, loading
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.retrieval import embedder as embedder_lib
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.settings import config as config_lib
from neg_contrast.training import (
  costs,
  encoder_run,
  prefetch,
  recipe,
  run,
)

QUERIES, PASSAGES = 'queries/s', 'passages/s'
TOKENS, PADDING = 'useful tokens/s', 'padding'
UTILISATION = 'model FLOPs utilisation'
HOST_WAIT = 'host wait'
_STEPS_IN_FLIGHT = 2  # As in training.
_ASKED_ALONE = 20


class Task(abc.ABC):
  """Something to be measured.

  Attributes:
    reasons: measure -> why it is not to be had.
    facts: measure -> what is told of it once, and does not vary.
  """

  def __init__(self):
    """Nothing to tell yet."""
    self.reasons: dict[str, str] = {}
    self.facts: dict[str, float] = {}

  @abc.abstractmethod
  def round(self) -> dict[str, float]:
    """Does it once: measure -> value."""

  def close(self) -> None:  # noqa: B027 - most have nothing to end.
    """Ends what was begun."""

  def _utilisation(
      self, flops: float, seconds: float, mesh: Any
  ) -> dict[str, float]:
    """Useful operations as a part of what the devices could do."""
    kind = mesh.devices.flat[0].device_kind
    chip = accelerators.find(kind)
    if chip is None:
      self.reasons[UTILISATION] = f'the peak of {kind} is not known here'
      return {}
    return {UTILISATION: flops / seconds / (chip.flops * mesh.size)}


@dataclasses.dataclass(frozen=True)
class Material:
  """What all tasks are made of.

  Attributes:
    config: of the job, with the source there is.
    workdir: of the job.
    dataset: texts.
    is_made_up: whether its words mean nothing.
  """

  config: config_lib.Config
  workdir: pathlib.Path
  dataset: dataset_lib.Dataset
  is_made_up: bool

  @functools.cached_property
  def trainer(self) -> encoder_run.DualEncoderTraining:
    """That of `job=train`; reads the model at first use."""
    return encoder_run.DualEncoderTraining(
        run.settings_for(self.config), self.workdir, lambda: self.dataset
    )

  @property
  def model(self) -> loading.Model:
    """The model, with the dropout of the config."""
    return self.trainer.model

  @functools.cached_property
  def ready(self) -> recipe.Ready:
    """A training that may begin."""
    return self.trainer.set_up()

  @functools.cached_property
  def encoder(self) -> Any:
    """The encoder of jobs and notebooks."""
    return embedder_lib.make_encoder(self.config, self.model)

  def lengths(self, role: str) -> np.ndarray:
    """`[texts] int64` tokens of every `query` or `passage` input."""
    return self.dataset.tokenize(self.model, role).lengths()

  def passage_rows(self) -> np.ndarray:
    """`[n] int32` passages to encode."""
    count = len(self.dataset.prepared.passages)
    return np.arange(min(count, self.config.benchmark.passages), dtype=np.int32)

  def query_rows(self) -> np.ndarray:
    """`[n] int32` judged queries to ask, ascending."""
    judged = self.dataset.prepared.judgements(self.config.data.train_split)
    rows = np.unique(judged.query_rows[judged.grades > 0]).astype(np.int32)
    return rows[:self.config.benchmark.queries]

  def batch_rows(self, step: int) -> tuple[np.ndarray, ...]:
    """Queries `[B]`, positives `[B]` and negatives `[B, N]` of a step; -1 pads.
    """
    make = self.ready.make_batch
    assert isinstance(make, batcher.Batcher)
    numbers = make.example_numbers(step)
    queries = make.examples.query_rows[numbers]
    return (queries, make.examples.positive_rows[numbers],
            make.draw(step, numbers, queries).rows)


class Train(Task):
  """Training steps, each with its own batch, as training takes them."""

  def __init__(self, material: Material, takes_turns: bool):
    """Takes the data and the step of a training.

    Args:
      material: of the job.
      takes_turns: with another library: every round makes its batches itself,
        instead of beginning with those that are there, and no more of them.
    """
    super().__init__()
    self._ready, self._takes_turns = material.ready, takes_turns
    self._state = material.trainer.first_state(self._ready)
    self._steps = material.config.benchmark.steps
    self._size = material.config.data.batch_size
    lengths = {role: material.lengths(role) for role in ('query', 'passage')}
    self._flops, self._passages = 0.0, 0
    for step in range(self._steps):
      queries, positives, negatives = material.batch_rows(step)
      rows = np.concatenate([positives, negatives[negatives >= 0]])
      self._passages += len(rows)
      self._flops += 3 * _step_flops(
          material.model.spec, lengths['query'][queries],
          lengths['passage'][rows],
      )
    self._batches: Generator | None = None
    self._watch = concurrent.futures.ThreadPoolExecutor(1)
    self.losses: list[float] = []

  def round(self) -> dict[str, float]:
    """The same batches in every round; the parameters go on."""
    began = time.monotonic()
    if self._batches is None:
      steps = range(self._steps)
      self._batches = prefetch.prefetch(
          self._ready.put,
          steps if self._takes_turns else itertools.cycle(steps),
      )
    starts: list[float] = []
    ends: list[concurrent.futures.Future] = []
    useful = processed = 0
    losses = []
    for (batch, stats), _ in itertools.islice(self._batches, self._steps):
      if len(ends) >= _STEPS_IN_FLIGHT:
        ends[-_STEPS_IN_FLIGHT].result()
      starts.append(time.monotonic())
      self._state, metrics = self._ready.step(self._state, batch)
      ends.append(self._watch.submit(_when_there, metrics))
      losses.append(metrics['loss'])
      useful += stats.useful_tokens
      processed += stats.processed_tokens
    ended = [end.result() for end in ends]
    seconds = ended[-1] - began
    if self._takes_turns:
      self.close()
    self.losses = self.losses or [float(loss) for loss in losses]
    idle = sum(max(0.0, start - before) for start, before in
               zip(starts, [began, *ended], strict=False))
    return {
        QUERIES: self._steps * self._size / seconds,
        PASSAGES: self._passages / seconds,
        TOKENS: useful / seconds,
        PADDING: 1 - useful / processed,
        **self._utilisation(self._flops, seconds, self._ready.mesh),
        HOST_WAIT: idle / seconds,
    }

  def close(self) -> None:
    """Makes no more batches."""
    if self._batches is not None:
      self._batches.close()
      self._batches = None


class Encode(Task):
  """Passages to vectors, and queries."""

  def __init__(self, material: Material, takes_turns: bool):
    """Reads the texts.

    Args:
      material: of the job.
      takes_turns: with another library; then texts are tokenised anew, and
        queries are left out.
    """
    super().__init__()
    self._material, self._takes_turns = material, takes_turns
    rows = material.passage_rows()
    self._lengths = material.lengths('passage')[rows]
    self._texts = [material.dataset.prepared.passages[int(row)]
                   for row in rows] if takes_turns else []
    self.vecs = np.zeros((0, 0), np.float32)
    if takes_turns:
      self.reasons[HOST_WAIT] = 'tokenising is not told apart'

  def round(self) -> dict[str, float]:
    """All of them."""
    encoder = self._material.encoder
    before, began = encoder.work('passage'), time.monotonic()
    if self._takes_turns:
      self.vecs = encoder.encode_passages(self._texts)
    else:
      self._encode('passage', self._material.passage_rows())
    seconds = time.monotonic() - began
    work = encoder.work('passage')
    useful = int(self._lengths.sum())
    flops = costs.encoder_flops(self._material.model.spec, self._lengths)
    mesh = sharding.make_local_mesh(self._material.config.mesh)
    measured = {
        PASSAGES: len(self._lengths) / seconds,
        TOKENS: useful / seconds,
        PADDING: 1 - useful / (work.processed_tokens - before.processed_tokens),
        **self._utilisation(flops, seconds, mesh),
    }
    if not self._takes_turns:
      packing = work.packing_seconds - before.packing_seconds
      measured[HOST_WAIT] = packing / seconds
      rows, began = self._material.query_rows(), time.monotonic()
      self._encode('query', rows)
      measured[QUERIES] = len(rows) / (time.monotonic() - began)
    return measured

  def _encode(self, role: str, rows: np.ndarray) -> None:
    texts = self._material.dataset.tokenize(self._material.model, role)
    self._material.encoder.encode(role, texts, rows)


class Search(Task):
  """The best passages of queries, which are encoded for it."""

  def __init__(self, material: Material):
    """Makes the index, and the vectors of the passages."""
    super().__init__()
    self._material, config = material, material.config
    self._rows = material.query_rows()
    vectors = _MadeUp if material.is_made_up else embedder_lib.Embedder
    self._vectors = vectors(
        config, material.dataset, material.encoder,
        None if material.is_made_up else
        material.workdir / retriever_lib.FOLDER,
    )
    self._retriever = retriever_lib.Retriever(
        config, material.dataset, self._vectors
    )
    self._depth = config.evaluation.depth
    passages = len(self._vectors.passage_vecs)
    began = time.monotonic()
    self._retriever.make()
    self.facts = {'passages': passages}
    if not self._retriever.is_exact:
      self.facts['index, built in s'] = time.monotonic() - began
      self.reasons[UTILISATION] = 'an index leaves most products out'

  def round(self) -> dict[str, float]:
    """All queries at once, then some of them one at a time."""
    measured = self._counted(
        lambda: self._retriever.search_rows(self._rows, self._depth)
    )
    queries = self._material.dataset.prepared.queries
    texts = [queries[int(row)].text for row in self._rows[:_ASKED_ALONE]]
    began = time.monotonic()
    for text in texts:
      self._retriever.search([text], self._depth)
    seconds = time.monotonic() - began
    return {**measured, f'{QUERIES}, one at a time': len(texts) / seconds}

  def _counted(self, do: Callable[[], Any]) -> dict[str, float]:
    """What it takes to encode all queries and search for them."""
    material = self._material
    before, began = material.encoder.work('query'), time.monotonic()
    do()
    seconds = time.monotonic() - began
    work = material.encoder.work('query')
    lengths = material.lengths('query')[self._rows]
    measured = {
        QUERIES: len(lengths) / seconds,
        TOKENS: lengths.sum() / seconds,
        PADDING: 1 - lengths.sum() / (
            work.processed_tokens - before.processed_tokens
        ),
        HOST_WAIT: (work.packing_seconds - before.packing_seconds) / seconds,
    }
    if self._retriever.is_exact:
      spec = material.model.spec
      flops = costs.encoder_flops(spec, lengths) + costs.score_flops(
          len(lengths), len(self._vectors.passage_vecs), spec.dim
      )
      measured |= self._utilisation(
          flops, seconds, sharding.make_local_mesh(material.config.mesh)
      )
    return measured


class Mine(Search):
  """Candidates by search, filters, and the pool: files and all."""

  def __init__(self, material: Material):
    """Makes the index for the depth of mining."""
    config = material.config
    super().__init__(dataclasses.replace(material, config=dataclasses.replace(
        config, evaluation=dataclasses.replace(
            config.evaluation, depth=config.negatives.depth
        )
    )))
    self._positives = examples.known_positives(material.dataset.prepared)

  def round(self) -> dict[str, float]:
    """The pool is made anew."""
    return self._counted(self._mine)

  def _mine(self) -> None:
    material, folder = self._material, self._material.workdir / 'mined'
    prepared = material.dataset.prepared
    candidates.write(
        folder / 'candidates', {}, self._rows, self._depth,
        candidates.SearchMiner(
            lambda rows, others: self._retriever.search_and_score(
                rows, self._depth, others
            ), self._positives,
        ), _say_nothing,
    )
    mined, halves = candidates.read(folder / 'candidates')
    pool_lib.write(
        folder / pool_lib.FOLDER, {}, self._rows, {'model': mined}, halves,
        pool_lib.Corpus(
            prepared.passage_groups, self._positives,
            lambda queries, rows, where: np.zeros_like(where),
        ),
        dataclasses.replace(material.config.negatives, strategy='model'),
        _say_nothing,
    )


class Input(Task):
  """Batches of training, made on the host and put on the devices."""

  def __init__(self, material: Material):
    """Opens the data."""
    super().__init__()
    self._config = material.config
    ready = material.ready
    assert isinstance(ready.make_batch, batcher.Batcher)
    self._spent: dict[str, float] = {}
    self._ready = dataclasses.replace(ready, make_batch=dataclasses.replace(
        ready.make_batch,
        draw=self._timed('hard negatives', ready.make_batch.draw),
        query_tokens=self._timed('token ids', ready.make_batch.query_tokens),
        passage_tokens=self._timed(
            'token ids', ready.make_batch.passage_tokens
        ),
    ))
    self.reasons[UTILISATION] = 'no model runs'
    self.reasons[HOST_WAIT] = 'no model runs'

  def round(self) -> dict[str, float]:
    """The same batches in every round."""
    self._spent.clear()
    steps, size = self._config.benchmark.steps, self._config.data.batch_size
    useful = processed = 0
    began, cpu = time.monotonic(), time.process_time()
    for step in range(steps):
      batch, stats = self._ready.put(step)
      jax.block_until_ready(batch)
      useful += stats.useful_tokens
      processed += stats.processed_tokens
    seconds, cpu = time.monotonic() - began, time.process_time() - cpu
    stages = {**self._spent,
              'order, packing, masks, devices': cpu - sum(self._spent.values())}
    return {
        QUERIES: steps * size / seconds,
        f'{QUERIES} of CPU time': steps * size / cpu,
        TOKENS: useful / seconds,
        PADDING: 1 - useful / processed,
        **{f'{name}, CPU ms a batch': 1000 * spent / steps
           for name, spent in stages.items()},
    }

  def _timed(self, stage: str, function: Callable) -> Callable:
    """The same function, with its CPU time counted as that of a stage."""
    @functools.wraps(function)
    def call(*args):
      began = time.process_time()
      result = function(*args)
      took = time.process_time() - began
      self._spent[stage] = self._spent.get(stage, 0.0) + took
      return result
    return call


class _MadeUp(embedder_lib.Embedder):
  """Vectors of passages that were not encoded; queries are."""

  @functools.cached_property
  def passage_vecs(self) -> np.ndarray:
    """`[passages, features] float32` of the corpus."""
    return random_texts.vectors(len(self._dataset.prepared.passages), self.dim)


def make(material: Material) -> Task:
  """The task of a config."""
  settings = material.config.benchmark
  if settings.task == 'train':
    return Train(material, bool(settings.versus))
  if settings.task == 'encode':
    return Encode(material, bool(settings.versus))
  return {'search': Search, 'mine': Mine, 'input': Input}[settings.task](
      material
  )


def _step_flops(
    spec: dual_encoder.EncoderSpec, queries: np.ndarray, passages: np.ndarray
) -> float:
  """Of a forward pass over sequences of these lengths."""
  return costs.encoder_flops(
      spec, np.concatenate([queries, passages])
  ) + costs.score_flops(len(queries), len(passages), spec.dim)


def _when_there(arrays: Any) -> float:
  """The time when a device has made them."""
  jax.block_until_ready(arrays)
  return time.monotonic()


def _say_nothing(done: int) -> None:
  del done
