"""What a kind of training is made of, up to the step that is ready to run."""

import abc
import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import optax
from jax.sharding import Mesh

from neg_contrast import device_memory, losses, sharding
from neg_contrast.artifacts import artifact
from neg_contrast.batches import batcher
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.models import lora
from neg_contrast.training import (
  chunking,
  run_settings,
  sharded_step,
  solved,
)
from neg_contrast.training import criterion as criterion_lib
from neg_contrast.training import memory as memory_lib
from neg_contrast.training import outline as outline_lib
from neg_contrast.training import state as state_lib

_BATCHES_SEEN = 8  # Their largest stands for all, when memory is reckoned.


@dataclasses.dataclass(frozen=True)
class Ready:
  """A run that may begin.

  Attributes:
    make_batch: step -> batch in memory, and its facts.
    examples: how many there are.
    total_steps: of the run.
    transform: the optimizer.
    like: shapes and shardings of the state.
    chunk_groups: groups that each device encodes at once; 0: all it holds.
    step: jitted `(state, batch) -> (state, metrics)`; the state is donated.
    mesh: of the devices.
    memory: what is remembered of earlier steps.
    adapters: of the encoder.
    complete: (parameters, `frozen`) of a state -> those of the whole model.
  """

  make_batch: Callable[[int], tuple[Any, batcher.BatchStats]]
  examples: int
  total_steps: int
  transform: optax.GradientTransformation
  like: state_lib.TrainState
  chunk_groups: int
  step: Callable[[Any, Any], tuple[Any, dict[str, Any]]]
  mesh: Mesh
  memory: memory_lib.Memory
  adapters: lora.Adapters
  complete: Callable[[Any, Any], Any]

  def put(self, step: int) -> tuple[Any, batcher.BatchStats]:
    """The batch of a step on the devices, and its facts."""
    batch, stats = self.make_batch(step)
    table = getattr(batch, 'table', None)  # It is there already.
    if table is not None:
      batch = batch.replace(table=None)
    shardings = sharding.batch_shardings(batch, self.mesh)
    placed = sharding.put(batch, shardings)
    return placed if table is None else placed.replace(table=table), stats


@dataclasses.dataclass(frozen=True)
class Given:
  """What a training is made from.

  Attributes:
    data: what is trained on; loads as a `Dataset`.
    start: loads as the model that training starts from.
    pool: loads as the `Pool` that negatives are drawn from; None: it needs
      none.
    drawn_from: what else they are drawn from, by role.
    candidates: a ranking of the tune split that a reranker ranks again.
    stop_rows: loads as the passages that early stopping searches; None: it
      searches none.
  """

  data: artifact.Artifact | None = None
  start: artifact.Artifact | None = None
  pool: artifact.Artifact | None = None
  drawn_from: Mapping[str, artifact.Artifact] = dataclasses.field(
      default_factory=dict
  )
  candidates: Any = None
  stop_rows: artifact.Artifact | None = None


NOTHING_GIVEN = Given()


class Recipe(abc.ABC):
  """Model, batches and loss of a training.

  Attributes:
    sharding_rules: of the parameters.
    row_lengths: tokens of a packed row, by what is in it; available once
      batches exist.
  """

  sharding_rules = sharding.PARAMETER_RULES

  def __init__(
      self,
      config: run_settings.RunSettings,
      given: Given = NOTHING_GIVEN,
      mesh: Mesh | None = None,
  ):
    """Reads nothing yet.

    Args:
      config: settings of the run.
      given: what it is made from; nothing, for an outline.
      mesh: where it runs; None: as the settings say.
    """
    self.row_lengths: Mapping[str, int] = {}
    self._config, self._given = config, given
    self._given_mesh = mesh

  @property
  def model(self) -> Any:
    """The model that training starts from."""
    assert self._given.start is not None
    return self._given.start.load()

  @property
  def criterion(self) -> criterion_lib.Criterion:
    """The metric of `_tune` that early stopping goes by."""
    return criterion_lib.of_metric(self._config.evaluation.criterion)

  @abc.abstractmethod
  def outline(self) -> outline_lib.Outline:
    """The step, without weights and data."""

  @abc.abstractmethod
  def _params(self) -> Any:
    """The parameters of the whole model before the first step."""

  @abc.abstractmethod
  def _loss(self, chunk_groups: int) -> losses.Loss:
    """What is minimised.

    Args:
      chunk_groups: groups that each device encodes at once; 0: all it holds.
    """

  @abc.abstractmethod
  def _make_batch(
      self,
  ) -> tuple[Callable[[int], tuple[Any, batcher.BatchStats]], int]:
    """Step -> batch in memory and its facts; and how many examples there are.
    """

  @abc.abstractmethod
  def _tune(self) -> Callable[[Any], dict[str, float]]:
    """Parameters -> metrics on the tune split, with the criterion."""

  def set_up(self) -> Ready:
    """Reads the data, and makes the step; nothing is compiled yet.

    But where `model.chunk_groups` is automatic, which takes compiling to know.

    Raises:
      UserError: the batch does not fit the mesh, or LoRA the model.
    """
    config = self._config
    sharded_step.check(config, self._mesh)
    if config.model.lora_rank:  # Before data is read.
      run_settings.adapters_of(config, self._params())
    make_batch, examples = self._make_batch()
    total = run_settings.total_steps(config, examples)
    steps = sharded_step.Steps(
        config, self._mesh, self.sharding_rules, self._params(), self._loss,
        total, run_settings.memory_of(config, self._features),
    )
    chunk_groups = self._chunk_groups(steps, make_batch)
    return Ready(make_batch, examples, total, steps.transform, steps.like,
                 chunk_groups, steps.make(chunk_groups), self._mesh,
                 run_settings.memory_of(config, self._features),
                 steps.adapters, steps.complete)

  def first_state(self, ready: Ready) -> state_lib.TrainState:
    """The state before the first step, on the devices."""
    shardings = jax.tree.map(
        lambda leaf: leaf.sharding, dataclasses.replace(ready.like, frozen={})
    )
    init = functools.partial(
        state_lib.init_state, optimizer=ready.transform, memory=ready.memory
    )
    trained = state_lib.trained(
        self._params(), ready.adapters, jax.random.key(self._config.seed)
    )
    placed = sharding.put(trained, shardings.params)
    return self.with_frozen(
        jax.jit(init, out_shardings=shardings)(placed), ready
    )

  def with_frozen(
      self, state: state_lib.TrainState, ready: Ready
  ) -> state_lib.TrainState:
    """A state with what checkpoints do not hold, on the devices."""
    return dataclasses.replace(state, frozen=sharding.put(
        state_lib.frozen(self._params(), ready.adapters),
        jax.tree.map(lambda leaf: leaf.sharding, ready.like.frozen),
    ))

  @property
  def _features(self) -> int:
    """Of a passage's vector; 0: there are none."""
    return 0

  @property
  def _refresh_steps(self) -> int:
    """Steps between refreshes; 0: never. Known when batches can be made."""
    return 0

  def _refresh(self, params: Any, step: int) -> dict[str, Any] | None:
    """Remakes what batches from a step on are made of.

    Returns:
      What the log says of it; None: nothing.
    """
    del params, step
    return None  # Nothing to remake, most of the time.

  def _remedy(self, examples: int) -> solved.Remedy:
    """What the log says of negatives that teach nothing any more.

    Args:
      examples: how many are trained on.
    """
    del examples
    return solved.NOTHING

  def _meter(self) -> Callable[[Any], dict[str, Any]]:
    """Parameters -> what the log says of them every `nce.log_steps`."""
    return lambda params: {}  # Only dual encoders have any.

  @property
  def _dataset(self) -> dataset_lib.Dataset:
    assert self._given.data is not None
    return self._given.data.load()

  @functools.cached_property
  def _mesh(self) -> Mesh:
    return self._given_mesh or sharding.make_mesh(self._config.mesh)

  def _settled_groups(self) -> int | None:
    """Groups encoded at once that an earlier program chose; None: none did."""
    return None

  def _chunk_groups(
      self, steps: sharded_step.Steps, make_batch: Callable[[int], Any]
  ) -> int:
    """Groups that each device encodes at once.

    Where that is automatic, a resumed run on the same devices goes on as it
    began, to the last bit.
    """
    wanted = self._config.model.chunk_groups
    if wanted != chunking.AUTOMATIC:
      return wanted
    saved = self._settled_groups()
    if saved is not None:
      return saved
    batch, _ = max(
        map(make_batch, range(_BATCHES_SEEN)),
        key=lambda made: made[1].processed_tokens,
    )
    return steps.choose_groups(batch, device_memory.limit())
