"""What a training has to know of a config."""

import dataclasses
from typing import Any

from neg_contrast.models import lora
from neg_contrast.retrieval import encoding as encoding_lib
from neg_contrast.settings import config as config_lib
from neg_contrast.training import memory as memory_lib


@dataclasses.dataclass(frozen=True)
class RunSettings:
  """The sections of a config that a training reads.

  Attributes:
    seed: of initialisation, data order, negatives and dropout.
    data: what to read and how to batch it.
    model: what to start from, and how to compute with it.
    loss: what is minimised.
    synthetic: of a question generator: what it reads, and what is shown of it.
    negatives: where hard negatives come from, and how many there are.
    optim: the optimizer and how long it runs.
    mesh: devices as a grid.
    checkpointing: what is written while training.
    evaluation: of the tune split.
    index: encoding and search, of the tune split too.
    nce: measurements of the gradient's bias, for the log.
    counted: as json, the settings that the trained parameters depend on.
    resolved: as json, all settings of the job; kept with the run.
  """

  seed: int
  data: config_lib.DataConfig
  model: config_lib.ModelConfig
  loss: config_lib.LossConfig
  synthetic: config_lib.SyntheticConfig
  negatives: config_lib.NegativesConfig
  optim: config_lib.OptimConfig
  mesh: config_lib.MeshConfig
  checkpointing: config_lib.CheckpointingConfig
  evaluation: config_lib.EvaluationConfig
  index: config_lib.IndexConfig
  nce: config_lib.NceConfig
  counted: dict[str, Any] = dataclasses.field(repr=False, compare=False)
  resolved: dict[str, Any] = dataclasses.field(repr=False, compare=False)

  @property
  def encoding(self) -> encoding_lib.EncodingSettings:
    """How its models encode."""
    return encoding_lib.EncodingSettings(
        self.model, self.index, self.mesh, self.data.row_length
    )


SECTIONS = tuple(
    field.name for field in dataclasses.fields(RunSettings)
    if field.name not in ('counted', 'resolved')
)


def select(
    config: Any, counted: dict[str, Any], resolved: dict[str, Any]
) -> RunSettings:
  """The settings of a training.

  Args:
    config: what has those sections, as attributes.
    counted: see `RunSettings`.
    resolved: see `RunSettings`.
  """
  return RunSettings(
      **{name: getattr(config, name) for name in SECTIONS}, counted=counted,
      resolved=resolved,
  )


def memory_of(settings: RunSettings, features: int) -> memory_lib.Memory:
  """What a training remembers of earlier steps.

  Args:
    settings: of the run.
    features: of a passage's vector; 0: there are none.
  """
  negatives, batch = settings.negatives, settings.data.batch_size
  return memory_lib.Memory(
      negatives.queue // batch, batch, features,
      'shared' if settings.model.shared else 'passage', negatives.momentum,
      settings.optim.ema,
  )


def adapters_of(settings: RunSettings, params: Any) -> lora.Adapters:
  """The adapters that a training trains.

  Args:
    settings: of the run.
    params: of the whole model, arrays or ShapeDtypeStructs.

  Raises:
    UserError: they fit no kernel of the model.
  """
  model = settings.model
  adapters = lora.Adapters(
      model.lora_rank, model.lora_alpha, model.lora_targets,
      model.lora_rank_stabilized, model.lora_frozen_dtype, model.freeze,
  )
  if not adapters.rank:
    return lora.OFF
  if 'encoder' not in params:
    raise model.error('lora_rank', 'is for dual encoders (job=train); leave it '
                      'out')
  try:
    adapters.paths_of(params['encoder'])
  except ValueError as e:
    raise model.error('lora_targets', str(e)) from None
  try:
    adapters.check(params['encoder'])
  except ValueError as e:
    raise model.error('lora_rank', str(e)) from None
  return adapters


def total_steps(settings: RunSettings, examples_count: int) -> int:
  """Steps of a run: as the settings say, or whole batches of its epochs."""
  by_epochs = int(
      examples_count * settings.optim.epochs // settings.data.batch_size
  )
  return settings.optim.steps or max(1, by_epochs)
