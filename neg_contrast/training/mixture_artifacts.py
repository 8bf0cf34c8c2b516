"""Trainings on several data sets as artifacts."""

import dataclasses
import functools

from neg_contrast import errors
from neg_contrast.artifacts import artifact
from neg_contrast.retrieval import bm25_search
from neg_contrast.training import (
  mixture_run,
  recipe,
  run_artifacts,
  stop_rows,
)


@dataclasses.dataclass(frozen=True)
class MixtureRun(run_artifacts.EncoderRun):
  """The training of a dual encoder on several data sets.

  Attributes:
    mixture: the data sets; `data` is that of the first.
  """

  mixture: mixture_run.Mixture = mixture_run.Mixture()

  def describe(self) -> str:
    """Where it lies, and what it is trained on."""
    parts = ', '.join(
        one.name + (f' {one.weight:g}' if one.weight is not None else '')
        for one in self.mixture.sets
    )
    how = 'each batch of several' if self.mixture.is_mixed else (
        'each batch of one')
    return f'{super().describe()}; on {parts}, {how}'

  def needs(self) -> dict[str, artifact.Artifact]:
    """The first model, and what each data set is made of."""
    given = super().needs()
    return {'start': given['start'], **{
        role: need for one in self.mixture.sets
        for role, need in one.needs().items()
    }}

  def inputs(self) -> dict[str, artifact.Artifact]:
    """What it needs, and what it is tuned with."""
    return {**self.needs(), **{
        f'stop rows of {one.name}': one.stop_rows for one in self._sets
        if one.stop_rows is not None
    }}

  def training(self) -> mixture_run.MixtureTraining:
    """What trains it."""
    given = recipe.Given(self.data, self.start)
    return mixture_run.MixtureTraining(
        self.config, self.folder, given, self.identity,
        dataclasses.replace(self.mixture, sets=self._sets),
    )

  @functools.cached_property
  def _sets(self) -> tuple[mixture_run.TrainedSet, ...]:
    """The sets, with the passages that early stopping searches of each."""
    if not self.config.evaluation.eval_steps:
      return self.mixture.sets
    with errors.at(self.place):
      return tuple(self._tuned(one) for one in self.mixture.sets)

  def _tuned(self, one: mixture_run.TrainedSet) -> mixture_run.TrainedSet:
    evaluation = self.config.evaluation
    with errors.within(f'mixture.sets.{one.name}'):
      return dataclasses.replace(one, stop_rows=stop_rows.StopRows(
          bm25_search.bm25_of(evaluation, one.data),
          evaluation.stop_corpus_passages, self.config.seed,
      ))
