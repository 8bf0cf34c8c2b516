"""Trainings as artifacts: a workdir whose checkpoints load as a model."""

import abc
import dataclasses
import pathlib
from typing import Any, cast

from neg_contrast import errors
from neg_contrast.artifacts import (
  artifact,
  checkpoint_copies,
  checkpoints,
  folders,
)
from neg_contrast.data import examples, feature_store
from neg_contrast.data.side_features import feature_kinds, side_feature
from neg_contrast.models import by_name, given, loading
from neg_contrast.negatives import sources
from neg_contrast.retrieval import bm25_search
from neg_contrast.training import (
  encoder_run,
  optimizer,
  recipe,
  run,
  run_settings,
  stop_rows,
)


@dataclasses.dataclass(frozen=True)
class Run(artifact.Artifact):
  """A training in a workdir, which refuses what another run left there.

  Attributes:
    config: the settings that it reads, with those that count.
    workdir: of its checkpoints and logs.
    data: what is trained on; loads as a `Dataset`.
    start: loads as the model that it starts from.
    gold: what it is tuned on, if that is other data.
    pool: loads as the `Pool` of its hard negatives; None: it needs none.
    name: of the training, in plans.
    drawn_from: (role, artifact) of what else negatives are drawn from.
  """

  is_large = True
  is_divided = True
  config: run_settings.RunSettings
  workdir: pathlib.Path
  data: artifact.Artifact
  start: artifact.Artifact
  gold: artifact.Artifact | None = None
  pool: artifact.Artifact | None = None
  name: str = 'training'
  drawn_from: tuple[tuple[str, artifact.Artifact], ...] = ()

  def describe(self) -> str:
    """Where it lies."""
    return f'checkpoints in {self.workdir / checkpoints.FOLDER}'

  @property
  def folder(self) -> pathlib.Path:
    """Where it lies; its needs have to be made."""
    return self.workdir

  @property
  def whose(self) -> str:
    """What its model makes is told to be by this."""
    return str(self.workdir)

  def needs(self) -> dict[str, artifact.Artifact]:
    """Data, the first model, and what negatives are drawn from."""
    given = {'data': self.data, 'start': self.start, 'gold': self.gold,
             'pool': self.pool, **dict(self.drawn_from)}
    return {role: need for role, need in given.items() if need is not None}

  def settings(self) -> dict[str, Any]:
    """Those that are declared to count, and how Adafactor takes sizes."""
    return {**self.config.counted, **optimizer.rule_of(self.config.optim)}

  def knows_settings(self) -> bool:
    """Whether `settings` needs nothing that has to be made first."""
    return True

  def lacks(self) -> str | None:
    """A workdir that all processes can write its checkpoints to."""
    return checkpoint_copies.written_by_several(self.workdir)

  def is_made(self) -> bool:
    """Whether it ran to its end.

    Raises:
      UserError: the workdir holds another run, or one of another format.
    """
    return self.identity is not None and self.training().is_trained()

  def build(self) -> None:
    """Trains, from where it stopped."""
    self.training().train_once()

  @abc.abstractmethod
  def training(self) -> run.Training:
    """What trains it."""

  def _given(self) -> recipe.Given:
    return recipe.Given(
        self.data, self.start, self.pool, dict(self.drawn_from)
    )

  def _find_contents(self, role: str) -> dict[str, str] | None:
    """The fingerprint of the trained weights and their settings."""
    del role
    return {'model': self.load().fingerprint} if self.is_made() else None


@dataclasses.dataclass(frozen=True)
class EncoderRun(Run):
  """The training of a dual encoder; loads as the selected checkpoint."""

  kind = 'training of a dual encoder'

  def describe(self) -> str:
    """Where it lies, features, LoRA, and when negatives are made again."""
    return (super().describe() + self._features() + self._adapters()
            + self._refreshes())

  def settings(self) -> dict[str, Any]:
    """Those that are declared to count, and the files of its features."""
    settings = {**super().settings(), **self._table()}
    features = self.side_features
    if not features:
      return settings
    return {**settings, **feature_store.contents_of(
        self.data.load().prepared, features
    )}

  def knows_settings(self) -> bool:
    """Whether the files of its features are known."""
    return not self.side_features or self.data.is_made()

  @property
  def side_features(self) -> tuple[side_feature.SideFeature, ...]:
    """Beside text; those of a trained start need not be named again."""
    named = feature_kinds.parse_all(self.config.model.features)
    return named or cast(given.Start, self.start).side_features

  def _table(self) -> dict[str, str]:
    """How vectors are kept that steps search, where it is not in float32."""
    stored = self.config.index.embedding_dtype
    is_searched = sources.in_steps(self.config.negatives)
    return {'stored': stored} if is_searched and stored == 'bfloat16' else {}

  def _features(self) -> str:
    features = self.config.model.features
    return f', with {", ".join(features)}' if features else ''

  def _adapters(self) -> str:
    model = self.config.model
    if not model.lora_rank:
      return ''
    return (f', of LoRA: rank {model.lora_rank} on '
            f'{", ".join(model.lora_targets)}')

  def training(self) -> encoder_run.DualEncoderTraining:
    """What trains it."""
    given = dataclasses.replace(self._given(), stop_rows=self.stop_corpus)
    return encoder_run.DualEncoderTraining(
        self.config, self.folder, given, self.identity
    )

  @property
  def stop_corpus(self) -> stop_rows.StopRows | None:
    """What early stopping searches; None: it never does."""
    evaluation = self.config.evaluation
    if not evaluation.eval_steps:
      return None
    return stop_rows.StopRows(
        self._bm25, evaluation.stop_corpus_passages, self.config.seed
    )

  def inputs(self) -> dict[str, artifact.Artifact]:
    """What it needs, and what it is tuned and measured with.

    That follows from its data, settings and seed, which are its identity.
    """
    with errors.at(self.place):
      given = {'stop_rows': self.stop_corpus,
               'bm25': self._bm25 if self.config.nce.log_steps else None}
    return {**super().inputs(),
            **{role: one for role, one in given.items() if one is not None}}

  def _refreshes(self) -> str:
    """When the pool is made again, and what that encodes; in plans."""
    every, steps = (self.config.negatives.refresh_steps,
                    self.config.optim.steps)
    if not every:
      return ''
    if self.config.negatives.is_asynchronous:
      return (f'; every {every:,} steps it takes the newest negatives of '
              'configs/refresh.py')
    what, each = f'; negatives made again every {every:,} steps', ''
    if self.data.contents('texts') is not None:
      prepared = self.data.load().prepared
      pairs = self.data.load().train_and_tune[0]
      trained = examples.are_trained(
          pairs, self.config.loss.example_weights)
      steps = run_settings.total_steps(self.config, int(trained.sum()))
      among = prepared.rows_of_worlds(pairs.query_rows[trained])
      count = len(prepared.passages if among is None else among)
      each = f', each of {count:,} passages encoded'
    times = f', up to {(steps - 1) // every:,} times' if steps else ''
    return what + times + each

  @property
  def _bm25(self) -> bm25_search.Bm25:
    return bm25_search.bm25_of(self.config.evaluation, self.gold or self.data)

  def read(self) -> loading.Model:
    """The selected checkpoint."""
    return by_name.load_workdir(self.folder)


@dataclasses.dataclass(frozen=True)
class CachedRun(EncoderRun):
  """The same in a folder that its identity names, such as that of a miner.

  Attributes:
    workdir: has the folders of all such trainings.
    label: for people, before the code in the folder's name.
  """

  label: str = 'encoder'

  @property
  def whose(self) -> str:
    """What its model makes is told to be by this."""
    return self.name

  @property
  def folder(self) -> pathlib.Path:
    """Where it lies; its needs have to be made."""
    identity = self.identity
    assert identity is not None, f'{self.name}: needs are not made'
    return self.workdir / f'{self.label}-{folders.sha256_json(identity)[:12]}'

  def describe(self) -> str:
    """Its size, and where."""
    return (f'an encoder of {self.config.model.projection_dim} features in '
            f'{self.workdir}')
