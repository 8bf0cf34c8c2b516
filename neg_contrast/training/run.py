"""A training run in a folder: the part that is the same for every model."""

import abc
import dataclasses
import functools
import pathlib
from collections.abc import Callable
from typing import Any

import jax
import optax
from absl import logging
from jax.sharding import Mesh, PartitionSpec

from neg_contrast import checkpoints as checkpoints_lib
from neg_contrast import errors, hosts, sharding
from neg_contrast.artifacts import folders, plan
from neg_contrast.batches import batcher
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.settings import config as config_lib
from neg_contrast.settings import keys
from neg_contrast.training import chunking, loop, optimizer, run_log
from neg_contrast.training import state as state_lib
from neg_contrast.training import step as step_lib

RUN_FILE = 'run.json'
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
  """

  make_batch: Callable[[int], tuple[Any, batcher.BatchStats]]
  examples: int
  total_steps: int
  transform: optax.GradientTransformation
  like: state_lib.TrainState
  chunk_groups: int
  step: Callable[[Any, Any], tuple[Any, dict[str, Any]]]
  mesh: Mesh

  def put(self, step: int) -> tuple[Any, batcher.BatchStats]:
    """The batch of a step on the devices, and its facts."""
    batch, stats = self.make_batch(step)
    shardings = sharding.batch_shardings(batch, self.mesh)
    return sharding.put(batch, shardings), stats


class Training(abc.ABC):
  """Trains a model as a config says, from where it stopped.

  Attributes:
    workdir: of its checkpoints and logs.
    criterion: the metric of `_tune` that early stopping goes by.
    sharding_rules: of the parameters.
  """

  criterion = 'accuracy@1'
  sharding_rules = sharding.PARAMETER_RULES

  def __init__(
      self,
      config: config_lib.Config,
      workdir: pathlib.Path,
      dataset: Callable[[], dataset_lib.Dataset],
  ):
    """Reads nothing yet.

    Args:
      config: of the run.
      workdir: of its checkpoints and logs.
      dataset: makes the data.
    """
    self._config, self.workdir, self._dataset_of = config, workdir, dataset

  @property
  @abc.abstractmethod
  def model(self) -> Any:
    """What it starts from."""

  @property
  @abc.abstractmethod
  def trained(self) -> Any:
    """What came out: the selected checkpoint."""

  @abc.abstractmethod
  def _save_description(self) -> None:
    """Writes all of the model but its weights into the workdir."""

  @abc.abstractmethod
  def _params(self) -> Any:
    """The parameters of the first state."""

  @abc.abstractmethod
  def _loss(self, chunk_groups: int) -> step_lib.Loss:
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

  @property
  def identity(self) -> dict[str, Any]:
    """What the trained parameters depend on."""
    manifest = self._dataset.prepared.manifest
    gold = self._dataset.gold.prepared.manifest['fingerprint']
    return {
        'config': keys.counting(self._config),
        'corpus': manifest['corpus_fingerprint'],
        'data': manifest['fingerprint'],  # Judgements too.
        **({} if gold == manifest['fingerprint'] else {'tuned_on': gold}),
        'init': self.model.fingerprint,
    }

  def step(
      self,
      name: str,
      missing: Callable[[], str | None] = lambda: None,
      opens_rest: bool = False,
  ) -> plan.Step:
    """The step of a plan; arguments as of `plan.Step`."""
    return plan.Step(
        name, f'checkpoints in {self.workdir / checkpoints_lib.FOLDER}',
        is_done=self.is_trained, share=self.train_once, missing=missing,
        opens_rest=opens_rest,
    )

  def release(self) -> None:
    """Lets go of the weights; they are read again when asked for."""
    for name in ('model', 'trained'):
      vars(self).pop(name, None)

  def is_trained(self) -> bool:
    """Whether it ran to its end.

    Raises:
      UserError: the workdir holds another run.
    """
    if not (self.workdir / RUN_FILE).exists():
      return False
    self._check_same_run()
    checkpoints = checkpoints_lib.Checkpoints(self.workdir)
    step = checkpoints.latest_step()
    finished = step is not None and checkpoints.progress(step).finished
    checkpoints.close()
    return finished

  def train_once(self) -> None:
    """Trains, unless another program does, which is waited for then."""
    if hosts.are_several():  # They train together, and none may wait.
      self.train()
      return
    with folders.only_one(self.workdir):
      if not self.is_trained():
        self.train()

  def set_up(self) -> Ready:
    """Reads the data, and makes the step; nothing is compiled yet.

    But where `model.chunk_groups` is automatic, which takes compiling to know.

    Raises:
      UserError: the batch does not fit the mesh.
    """
    config = self._config
    sharding.check_batch(config.data.batch_size, config.data.groups, self._mesh)
    chunking.check(config, self._mesh)
    make_batch, examples = self._make_batch()
    total = total_steps(config, examples)
    transform = optimizer.make_optimizer(config.optim, total)
    like = self._abstract_state(transform)

    @functools.cache
    def make_step(chunk_groups):
      return jit_step(
          config, self._loss(chunk_groups), transform, self._mesh,
          self.sharding_rules, like,
      )

    chunk_groups = self._chunk_groups(make_step, make_batch, like)
    return Ready(make_batch, examples, total, transform, like, chunk_groups,
                 make_step(chunk_groups), self._mesh)

  def train(self) -> None:
    """Trains, from the last checkpoint if there is one."""
    config, workdir = self._config, self.workdir
    ready = self.set_up()
    total, measure = ready.total_steps, self._meter()
    hosts.on_first(lambda: self._describe_run(
        ready.examples, total, ready.chunk_groups
    ))
    checkpoints = checkpoints_lib.Checkpoints(workdir, writes=True)
    state, progress = self._start(ready, checkpoints)
    log = (run_log.RunLog(workdir, int(state.step), total)
           if hosts.is_first() else run_log.NoLog())
    logging.info(
        'training: %d examples, %d steps of %d queries, %d parameters, mesh '
        '%s, starting after step %d', ready.examples, total,
        config.data.batch_size,
        sum(a.size for a in jax.tree.leaves(state.params)),
        dict(self._mesh.shape), int(state.step),
    )
    try:
      loop.Trainer(
          ready.step, ready.put, self._tune(), checkpoints, log,
          loop.Schedule(
              total_steps=total,
              eval_steps=config.evaluation.eval_steps,
              patience=config.evaluation.patience,
              save_steps=config.checkpointing.save_steps,
              log_steps=config.checkpointing.log_steps,
              batch_size=config.data.batch_size,
              learning_rate=optimizer.make_schedule(config.optim, total),
              criterion=self.criterion,
              refresh_steps=self._refresh_steps,
              measure_steps=config.nce.log_steps,
          ),
          self._refresh, measure,
      ).fit(state, progress)
    finally:
      log.close()
      checkpoints.close()

  def first_state(self, ready: Ready) -> state_lib.TrainState:
    """The state before the first step, on the devices."""
    shardings = jax.tree.map(lambda leaf: leaf.sharding, ready.like)
    init = functools.partial(state_lib.init_state, optimizer=ready.transform)
    placed = sharding.put(self._params(), shardings.params)
    return jax.jit(init, out_shardings=shardings)(placed)

  @property
  def _refresh_steps(self) -> int:
    """Steps between refreshes; 0: never. Known when batches can be made."""
    return 0

  def _refresh(self, params: Any, step: int) -> None:
    """Remakes what batches from a step on are made of."""
    del params, step  # Nothing, most of the time.

  def _meter(self) -> Callable[[Any], dict[str, Any]]:
    """Parameters -> what the log says of them every `nce.log_steps`."""
    return lambda params: {}  # Only dual encoders have any.

  @property
  def _dataset(self) -> dataset_lib.Dataset:
    return self._dataset_of()

  @functools.cached_property
  def _mesh(self) -> Mesh:
    return sharding.make_mesh(self._config.mesh)

  def _chunk_groups(self, make_step, make_batch, like) -> int:
    """Groups that each device encodes at once.

    Where that is automatic, a resumed run on the same devices goes on as it
    began, to the last bit.
    """
    config, path = self._config, self.workdir / RUN_FILE
    if config.model.chunk_groups != chunking.AUTOMATIC:
      return config.model.chunk_groups
    if path.exists():
      saved = folders.read_json(path)
      if all(saved['environment'].get(key) == value for key, value
             in folders.as_json(self._devices()).items()):
        return saved['config']['model'].get('chunk_groups', 0)
    batch, _ = max(
        map(make_batch, range(_BATCHES_SEEN)),
        key=lambda made: made[1].processed_tokens,
    )
    arguments = like, with_shardings(
        jax.eval_shape(lambda batch: batch, batch),
        sharding.batch_shardings(batch, self._mesh),
    )
    return chunking.choose(
        config, self._mesh,
        lambda groups: chunking.bytes_of_step(make_step(groups), *arguments),
        chunking.memory_limit(),
    )

  def _abstract_state(self, transform):
    """Shapes and shardings of the state."""
    return abstract_state(
        self._params(), transform, self._mesh, self.sharding_rules,
        self._config.mesh.fsdp,
    )

  def _start(self, ready, checkpoints):
    """The state and progress to start from: the latest checkpoint, or new."""
    latest = checkpoints.latest_step()
    if latest is not None:
      return checkpoints.restore(ready.like, latest)
    return self.first_state(ready), checkpoints_lib.Progress()

  def _describe_run(
      self, examples: int, total: int, chunk_groups: int
  ) -> None:
    """Leaves in the workdir what a run is made of; refuses another run's."""
    folders.make_folder(self.workdir)
    if (self.workdir / RUN_FILE).exists():
      self._check_same_run()
      return
    self._save_description()
    folders.write_json(self.workdir / RUN_FILE, {
        'identity': self.identity,
        'config': config_lib.to_dict(dataclasses.replace(
            self._config, model=dataclasses.replace(
                self._config.model, chunk_groups=chunk_groups
            )
        )),
        'environment': self._environment(),
        'examples': examples,
        'total_steps': total,
    })

  def _check_same_run(self) -> None:
    """Refuses a workdir that holds another run.

    A key that the config did not have when the run began had its default.

    Raises:
      UserError: names what differs.
    """
    path = self.workdir / RUN_FILE
    saved = folders.read_json(path)
    differences = folders.differences(
        saved['identity'], folders.as_json(self.identity),
        defaults=folders.as_json(
            {'config': config_lib.base_config().to_dict()}
        ),
    )
    if differences:
      raise errors.UserError(
          f'{path}: this workdir holds a run with other settings:\n'
          + '\n'.join(f'  {line}' for line in differences)
          + '\nGo on with those, remove it, or name another --workdir'
      )
    for key, value in folders.as_json(self._environment()).items():
      if saved['environment'].get(key) != value:
        logging.warning(
            '%s was %s when the run began and is %s now: results may differ '
            'in their last bits', key, saved['environment'].get(key), value,
        )

  def _environment(self) -> dict[str, Any]:
    return {**folders.environment(), **self._devices()}

  def _devices(self) -> dict[str, Any]:
    several = (f' of {jax.process_count()} processes' if hosts.are_several()
               else '')
    return {
        'devices': f'{len(jax.devices())} x {jax.devices()[0].device_kind}'
                   f'{several}',
        'mesh': dict(self._mesh.shape),
    }


def abstract_state(
    params: Any,
    transform: optax.GradientTransformation,
    mesh: Mesh,
    rules: tuple[tuple[str, PartitionSpec], ...],
    fsdp: bool,
) -> state_lib.TrainState:
  """Shapes, dtypes and shardings of the state that training begins with.

  Args:
    params: arrays or ShapeDtypeStructs.
    transform: the optimizer.
    mesh: the mesh.
    rules: how parameters lie on it.
    fsdp: whether they are split over `data` too.
  """
  abstract = jax.eval_shape(
      functools.partial(state_lib.init_state, optimizer=transform), params
  )
  return with_shardings(
      abstract, sharding.parameter_shardings(abstract, mesh, rules, fsdp)
  )


def jit_step(
    config: config_lib.Config,
    loss: step_lib.Loss,
    transform: optax.GradientTransformation,
    mesh: Mesh,
    rules: tuple[tuple[str, PartitionSpec], ...],
    state: state_lib.TrainState,
) -> Any:
  """The jitted step, which takes and leaves the state where it lies.

  Args:
    config: of the run.
    loss: what is minimised.
    transform: the optimizer.
    mesh: the mesh.
    rules: how parameters lie on it while they are used.
    state: how it lies between steps; `abstract_state`.
  """
  lies = jax.tree.map(lambda leaf: leaf.sharding, state)
  if config.mesh.fsdp:
    loss = sharding.gather_when_used(
        loss, lies.params,
        sharding.parameter_shardings(state.params, mesh, rules),
    )
  return jax.jit(
      step_lib.make_train_step(loss, transform, config.seed),
      donate_argnums=0, out_shardings=(lies, sharding.replicated(mesh)),
  )


def with_shardings(shapes: Any, shardings: Any) -> Any:
  """ShapeDtypeStructs of arrays that lie as shardings say."""
  return jax.tree.map(
      lambda a, s: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=s),
      shapes, shardings,
  )


def total_steps(config: config_lib.Config, examples_count: int) -> int:
  """Steps of a run: as config says, or whole batches of its epochs."""
  by_epochs = int(
      examples_count * config.optim.epochs // config.data.batch_size
  )
  return config.optim.steps or max(1, by_epochs)
