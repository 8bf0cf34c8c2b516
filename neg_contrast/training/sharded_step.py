"""The state and the step of a training on a mesh."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from neg_contrast import cpu, device_memory, losses, sharding
from neg_contrast.models import by_name, lora
from neg_contrast.training import chunking, optimizer, run_settings
from neg_contrast.training import memory as memory_lib
from neg_contrast.training import state as state_lib
from neg_contrast.training import step as step_lib


class Program:
  """A jitted step, and the numbers that it is given beside state and batch.

  Trainings that differ in these numbers alone (seed, learning rate, steps) are
  one program: of a sweep the first compiles it, and the others find it where
  JAX keeps what it compiled.
  """

  def __init__(self, step: Any, numbers: Any, mesh: Mesh):
    """Nothing is placed or compiled yet.

    Args:
      step: jitted `(state, batch, numbers) -> (state, metrics)`.
      numbers: a tree of NumPy scalars, the same at every step.
      mesh: where it runs.
    """
    self._step, self._numbers = step, numbers
    self._lies = jax.tree.map(lambda _: sharding.replicated(mesh), numbers)

  def __call__(self, state: state_lib.TrainState, batch: Any) -> Any:
    """A step."""
    return self._step(state, batch, self._placed)

  def trace(self, state: Any, batch: Any) -> Any:
    """As that of a jitted function, with arrays or ShapeDtypeStructs."""
    return self._step.trace(state, batch, with_shardings(
        self._numbers, self._lies))

  def lower(self, state: Any, batch: Any) -> Any:
    """Likewise."""
    return self.trace(state, batch).lower()

  @functools.cached_property
  def _placed(self) -> Any:
    return sharding.put(self._numbers, self._lies)


class Steps:
  """The steps of a training, by the groups that a device encodes at once.

  Attributes:
    transform: the optimizer.
    adapters: of the encoder.
    like: shapes and shardings of the state.
  """

  def __init__(
      self,
      config: run_settings.RunSettings,
      mesh: Mesh,
      rules: tuple[tuple[str, PartitionSpec], ...],
      params: Any,
      loss: Callable[[int], losses.Loss],
      total_steps: int,
      memory: memory_lib.Memory = memory_lib.NOTHING,
  ):
    """Lays out the state.

    Args:
      config: settings of the run.
      mesh: where it runs.
      rules: how parameters lie on it while they are used.
      params: of the whole model, arrays or ShapeDtypeStructs.
      loss: what is minimised, by the groups that a device encodes at once.
      total_steps: of the run.
      memory: what is remembered of earlier steps.

    Raises:
      UserError: LoRA fits no kernel of the model.
    """
    self._config, self._mesh, self._rules = config, mesh, rules
    self._loss, self._memory = loss, memory
    self._rates = optimizer.rates_of(config.optim, total_steps)
    self.transform = self._optimizer(self._rates)
    self.adapters = run_settings.adapters_of(config, params)
    self.like = abstract_state(
        params, self.transform, mesh, rules, config.mesh.fsdp, memory,
        self.adapters,
    )
    self._whole = jax.eval_shape(lambda params: params, params)
    self._made: dict[int, Program] = {}

  def _optimizer(self, rates):
    return optimizer.make_optimizer(
        self._config.optim, rates, self._config.model.freeze
    )

  def make(self, chunk_groups: int) -> Program:
    """The jitted step, which takes and leaves the state where it lies.

    Args:
      chunk_groups: groups that each device encodes at once; 0: all it holds.
    """
    if chunk_groups in self._made:
      return self._made[chunk_groups]
    lies = jax.tree.map(lambda leaf: leaf.sharding, self.like)
    loss = self._loss(chunk_groups)
    if self._config.mesh.fsdp:
      loss = sharding.gather_when_used(
          loss, self._lies_whole(True), self._lies_whole(False)
      )

    def train_step(state, batch, numbers):
      return step_lib.make_train_step(
          loss, self._optimizer(numbers['rates']), numbers['seed'],
          self._memory, self.adapters,
      )(state, batch)

    made = jax.jit(
        train_step,
        donate_argnums=0, out_shardings=(lies, sharding.replicated(self._mesh)),
        compiler_options=cpu.compiler_options(self._mesh, by_name.compute_dtype(
            self._config.model, self._mesh.devices.flat[0].platform
        )),
    )
    self._made[chunk_groups] = Program(made, {
        'rates': self._rates,
        'seed': np.int64(self._config.seed).astype(np.int32),
    }, self._mesh)
    return self._made[chunk_groups]

  def complete(self, params: Any, frozen: Any) -> Any:
    """Parameters of the whole model, laid out as the state is.

    Args:
      params: of a state, or averages of them.
      frozen: of the state.
    """
    if not self.adapters.rank:
      return params
    return self._complete(params, frozen)

  @functools.cached_property
  def _complete(self) -> Any:
    return jax.jit(
        functools.partial(state_lib.whole, adapters=self.adapters),
        out_shardings=self._lies_whole(self._config.mesh.fsdp),
    )

  def _lies_whole(self, fsdp: bool) -> Any:
    return sharding.parameter_shardings(
        self._whole, self._mesh, self._rules, fsdp
    )

  def batch_like(self, batch: Any) -> Any:
    """Shapes and shardings of a batch in memory."""
    return with_shardings(
        jax.eval_shape(lambda batch: batch, batch),
        sharding.batch_shardings(batch, self._mesh),
    )

  def choose_groups(self, batch: Any, limit: int) -> int:
    """The most groups at once whose step fits a device's memory.

    Args:
      batch: a large one, in memory.
      limit: bytes that a step may take.

    Raises:
      UserError: none fits.
    """
    arguments = self.like, self.batch_like(batch)
    return chunking.choose(
        self._config, self._mesh,
        lambda groups: device_memory.bytes_of_step(
            self.make(groups), *arguments),
        limit,
    )


def check(config: run_settings.RunSettings, mesh: Mesh) -> None:
  """Refuses a batch that does not fit a mesh.

  Raises:
    UserError: its groups can't be divided so.
  """
  sharding.check_batch(config.data.batch_size, config.data.groups, mesh)
  chunking.check(config, mesh)


def abstract_state(
    params: Any,
    transform: optax.GradientTransformation,
    mesh: Mesh,
    rules: tuple[tuple[str, PartitionSpec], ...],
    fsdp: bool,
    memory: memory_lib.Memory = memory_lib.NOTHING,
    adapters: lora.Adapters = lora.OFF,
) -> state_lib.TrainState:
  """Shapes, dtypes and shardings of the state that training begins with.

  Averages lie as parameters do while they are used, and passages of the queue
  where those of the batch do.

  Args:
    params: of the whole model, arrays or ShapeDtypeStructs.
    transform: the optimizer.
    mesh: the mesh.
    rules: how parameters lie on it.
    fsdp: whether they are split over `data` too.
    memory: what is remembered of earlier steps.
    adapters: of the encoder.
  """
  abstract = jax.eval_shape(lambda params: state_lib.init_state(
      state_lib.trained(params, adapters, jax.random.key(0)), transform, memory,
      state_lib.frozen(params, adapters),
  ), params)
  lies = {
      name: NamedSharding(mesh, PartitionSpec(None, 'data'))
      if name == memory_lib.QUEUE
      else sharding.parameter_shardings(
          tree, mesh, rules, is_whole=not adapters.rank
      )
      for name, tree in abstract.memory.items()
  }
  rest = sharding.parameter_shardings(
      abstract.replace(memory={}), mesh, rules, fsdp
  )
  return with_shardings(abstract, rest.replace(memory=lies))


def with_shardings(shapes: Any, shardings: Any) -> Any:
  """ShapeDtypeStructs of arrays that lie as shardings say."""
  return jax.tree.map(
      lambda a, s: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=s),
      shapes, shardings,
  )
