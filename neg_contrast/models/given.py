"""Models that are there already: what jobs and trainings start from."""

import dataclasses
from typing import Any

from neg_contrast.artifacts import artifact, places
from neg_contrast.data import tokenizer as tokenizer_lib
from neg_contrast.data.side_features import side_feature
from neg_contrast.models import (
  by_name,
  generator,
  kinds,
  loading,
  model_names,
  reranker,
)
from neg_contrast.settings import config as config_lib


@dataclasses.dataclass(frozen=True)
class Checkpoint(artifact.Given):
  """A dual encoder by name: a workdir, or a folder or name of others.

  Attributes:
    checkpoint: its name.
    seed: of weights that it lacks, such as those of a projection.
    config: settings of the model; None: it brings them all.
  """

  kind = 'checkpoint'
  name = 'model'
  is_large = True
  is_elsewhere = True
  checkpoint: str
  seed: int = 0
  config: config_lib.ModelConfig | None = None

  @property
  def whose(self) -> str:
    """What it makes is told to be by this."""
    return self.checkpoint

  def describe(self) -> str:
    """The name."""
    return self.checkpoint

  def lacks(self) -> str | None:
    """What is wrong with it, as far as a look at its place tells."""
    return by_name.missing(self.checkpoint)

  def fetch(self) -> None:
    """Downloads what lies on the hub."""
    _fetch(self.checkpoint)

  def read(self) -> loading.Model | Any:
    """Model and weights."""
    if self.config is None:
      return by_name.load_as_it_comes(self.checkpoint, self.seed)
    return by_name.load_checkpoint(self.checkpoint, self.config, self.seed)

  def _find_contents(self, role: str) -> dict[str, str] | None:
    """The fingerprint of weights and settings."""
    del role
    needs = self.needs().values()
    if self.lacks() or any(need.contents() is None for need in needs):
      return None
    if by_name.hub_name(self.checkpoint):
      return None  # It is downloaded when something is made, not in a plan.
    return {'model': self.load().fingerprint}


@dataclasses.dataclass(frozen=True)
class Start(Checkpoint):
  """What the training of a dual encoder starts from.

  Attributes:
    after: the training that makes it; None: it is given.
  """

  kind = 'start'
  after: artifact.Artifact | None = None

  def needs(self) -> dict[str, artifact.Artifact]:
    """The training that makes it."""
    return {} if self.after is None else {'after': self.after}

  def lacks(self) -> str | None:
    """What is wrong with it, if nothing makes it."""
    return (by_name.missing(self.checkpoint, is_start=True)
            if self.after is None else None)

  def fetch(self) -> None:
    """Downloads it, if nothing makes it."""
    if self.after is None:
      super().fetch()

  @property
  def side_features(self) -> tuple[side_feature.SideFeature, ...]:
    """Beside text, of a model that is trained; its weights are not read."""
    if self.after is not None:
      return self.after.side_features  # type: ignore[attr-defined]
    if not by_name.is_workdir(self.checkpoint):
      return ()
    spec, _, _ = loading.read_description(places.path(self.checkpoint))
    return spec.side_features

  @property
  def is_projection_random(self) -> bool:
    """Whether the model has a projection that nobody has trained yet."""
    assert self.config is not None
    features, name = self.config.projection_dim, self.checkpoint
    if not features or self.after is not None or kinds.kind_of(name):
      return False
    return loading.projection_features(name) != features

  def read(self) -> loading.Model:
    """Model and weights, with the dropout that the config wants."""
    assert self.config is not None
    return with_dropout(by_name.load_start(self.config, self.seed), self.config)


@dataclasses.dataclass(frozen=True)
class RerankerStart(Checkpoint):
  """A cross-encoder, or what the training of one starts from."""

  kind = 'reranker'

  def lacks(self) -> str | None:
    """What is wrong with it, as far as a look at its place tells."""
    return by_name.missing_reranker(self.checkpoint)

  def read(self) -> reranker.Reranker:
    """Model and weights, with the dropout that the config wants."""
    assert self.config is not None
    model = by_name.load_reranker(self.checkpoint, self.config, self.seed)
    return with_dropout(model, self.config)


@dataclasses.dataclass(frozen=True)
class GeneratorStart(Checkpoint):
  """A question generator, or what the training of one starts from.

  Attributes:
    with_answer: whether it reads an answer.
    is_trained: whether it has to write questions already.
  """

  kind = 'generator'
  with_answer: bool = False
  is_trained: bool = False

  def lacks(self) -> str | None:
    """What is wrong with it, as far as a look at its place tells."""
    return by_name.missing_generator(self.checkpoint)

  def read(self) -> generator.Generator:
    """Model and weights."""
    assert self.config is not None
    if self.is_trained:
      return by_name.load_generator(self.checkpoint, self.config, self.seed)
    return generator.from_pretrained(
        self.checkpoint, self.config, self.with_answer, self.seed
    )


@dataclasses.dataclass(frozen=True)
class Tokenizer(artifact.Given):
  """The tokenizer of a model by name.

  Attributes:
    model: its name.
  """

  kind = 'tokenizer'
  name = 'tokenizer'
  is_elsewhere = True
  model: str

  def describe(self) -> str:
    """Whose."""
    return f'of {self.model}'

  def lacks(self) -> str | None:
    """What is wrong with the model, as far as a look at its place tells."""
    return by_name.missing(self.model, is_start=True)

  def fetch(self) -> None:
    """Downloads what lies on the hub."""
    _fetch(self.model)

  def read(self) -> tokenizer_lib.Tokenizer:
    """Reads it."""
    return by_name.load_tokenizer(self.model)

  def _find_contents(self, role: str) -> dict[str, str] | None:
    del role
    is_here = self.is_made() and not by_name.hub_name(self.model)
    return {'tokenizer': self.load().sha256} if is_here else None


def _fetch(name: str) -> None:
  """Downloads a model of the hub that is not here.

  Raises:
    UserError: it can't be downloaded.
  """
  missing = by_name.hub_name(name)
  if missing:
    model_names.locate(missing)


def with_dropout(model: Any, config: config_lib.ModelConfig) -> Any:
  """A BERT-like model with the dropout of a config, where that names any."""
  dropout = {key: getattr(config, key)
             for key in ('hidden_dropout', 'attention_dropout')
             if getattr(config, key) is not None}
  shape = dataclasses.replace(model.spec.transformer, **dropout)
  return dataclasses.replace(
      model, spec=dataclasses.replace(model.spec, transformer=shape)
  )
