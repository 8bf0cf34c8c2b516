"""What `--plan` says after the plan: what fails, what is thin, what it costs.

Nothing is made or trained, no weights are read, and nothing is downloaded. A
hub is asked for some seconds.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from neg_contrast import errors, sharding
from neg_contrast.artifacts import artifact, failures, folders, places, plan
from neg_contrast.benchmarks import expense, made_up, plan_costs
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import peek as peek_lib
from neg_contrast.data import sources, thin_data
from neg_contrast.evaluation import evaluations, judged
from neg_contrast.models import (
  by_name,
  dual_encoder,
  given,
  glance,
  hub,
  loading,
)
from neg_contrast.retrieval import corpus_vectors
from neg_contrast.training import (
  encoder_run,
  run_artifacts,
  run_record,
  run_settings,
  sharded_step,
)


@dataclasses.dataclass
class Outlook:
  """What was seen.

  Attributes:
    problems: what must fail, with the remedy.
    notes: what is worth knowing before it runs.
    costs: what it takes; empty: nothing that can be reckoned.
  """

  problems: list[str] = dataclasses.field(default_factory=list)
  notes: list[str] = dataclasses.field(default_factory=list)
  costs: list[str] = dataclasses.field(default_factory=list)

  def __str__(self) -> str:
    parts = (('this must fail:', self.problems), ('note:', self.notes),
             ('what it takes:', self.costs))
    return '\n'.join(
        '\n'.join([title, *('  ' + line.replace('\n', '\n  ')
                            for line in dict.fromkeys(lines))])
        for title, lines in parts if lines
    )


def look(targets: Sequence[artifact.Artifact]) -> Outlook:
  """Looks at all that a plan needs and that is not made yet.

  Args:
    targets: of the plan, of which nothing is missing.
  """
  return _Look(plan.to_do(targets)).look()


def refuse(targets: Sequence[artifact.Artifact]) -> None:
  """Looks at models and data before anything is made, if nothing is missing.

  Args:
    targets: of the plan.

  Raises:
    UserError: something must fail; says the first of it.
  """
  if plan.lacks_something(targets):
    return
  problems = _Look(plan.to_do(targets)).look(with_costs=False).problems
  if problems:
    raise errors.UserError(problems[0])


class Splits:
  """Refuses splits that there are not, as soon as their data is prepared.

  And reported ones that share queries with the tune split.
  """

  def __init__(self, targets: Sequence[artifact.Artifact]):
    """Takes the targets of a plan."""
    self._left = _Look(plan.to_do(targets)).evaluated()

  def check(self) -> None:
    """Looks at the data that is prepared by now.

    Raises:
      UserError: an evaluation is of a split that its data has not, or that
        tuning has seen.
    """
    for one in list(self._left):
      if one.data.is_made():
        self._left.remove(one)
        with errors.at(one.data.place):
          _ = one.judgements


class _Look:
  """A look at artifacts, at each thing once."""

  def __init__(self, needed: list[artifact.Artifact]):
    self._needed, self._seen = needed, Outlook()
    self._peeks: dict[artifact.Artifact, peek_lib.Peek | None] = {}
    self._glances: dict[given.Checkpoint, glance.Glance | None] = {}
    self._asked: set[str] = set()  # Names of the hub.

  def look(self, with_costs: bool = True) -> Outlook:
    """Looks at everything; costs are measured."""
    self._look_at_folders()
    for one in self._of(given.Checkpoint):
      self._look_at_model(one)
    for run in self._of(run_artifacts.Run):
      self._look_at_workdir(run)
    self._look_at_shared_workdirs()
    for data in self._data():
      if not sources.is_here(data.config.source):
        self._look_at_download(data.config.source)
        continue
      self._peeks[data] = self._tried(
          data, functools.partial(self._peek, data)
      )
    for of in self.evaluated():
      if of.data.is_made():
        self._tried(of.data, functools.partial(getattr, of, 'judgements'))
    for run in self._of(run_artifacts.Run):
      self._look_at_sizes(run)
    self._look_at_evaluations()
    for narrow in self._of(corpus_vectors.FirstFeatures):
      self._look_at_first_features(narrow)
    if with_costs and not self._seen.problems:
      self._seen.costs = plan_costs.describe(
          self._needed, self._peeks, self._glances
      )
    return self._seen

  def _tried(self, one: artifact.Artifact, what: Callable[[], Any]) -> Any:
    """What a look gives; None, where it finds a problem, which is kept."""
    try:
      with errors.at(one.place):
        return what()
    except errors.UserError as e:
      self._seen.problems.append(str(e))
      return None

  def _of(self, kind: type) -> Iterator[Any]:
    return (one for one in self._needed if isinstance(one, kind))

  def _data(self) -> list[dataset_lib.Data]:
    """What is read, prepared or not; a benchmark makes texts up itself."""
    found = [need for one in self._needed for need in one.inputs().values()]
    return list(dict.fromkeys(
        one for one in (*self._needed, *found)
        if isinstance(one, dataset_lib.Data)
        and not isinstance(one, made_up.MadeUpData)
    ))

  def _look_at_folders(self) -> None:
    """Whether what is made can be written where it belongs."""
    found = [
        *(one.workdir for one in self._of(run_artifacts.Run)),
        *(one.folder.parent for one in self._of(artifact.Named)),
        *(one.config.prepared_dir for one in self._of(dataset_lib.Data)),
    ]
    for folder in dict.fromkeys(found):
      try:
        failures.check_can_be_made(places.path(folder))
      except errors.UserError as e:
        self._seen.problems.append(str(e))
        return  # Of others the cause is most often the same.

  def _look_at_model(self, one: given.Checkpoint) -> None:
    """Whether it can be had, and settings fit it."""
    if one.lacks():
      return  # The plan says so.
    self._glances[one] = self._tried(one, functools.partial(glance.look, one))
    if isinstance(one, given.Start) and one.after is not None:
      return
    name = by_name.remote_name(one.checkpoint)
    if name is None or name in self._asked:
      return
    self._asked.add(name)
    is_here = by_name.hub_name(one.checkpoint) is None
    problem = hub.problem(name)
    if problem and is_here:
      self._seen.notes.append(f'{problem}. The copy that is kept here is used')
    elif problem:
      self._seen.problems.append(problem)
    elif not is_here:
      self._seen.notes.append(f'{name} will be downloaded from the hub')

  def _look_at_download(self, source: str) -> None:
    """Whether data that is not here can be had."""
    problem = sources.problem(source)
    if problem:
      self._seen.problems.append(problem)
    else:
      self._seen.notes.append(f'{source} will be downloaded')

  def _look_at_workdir(self, run: run_artifacts.Run) -> None:
    """Whether another run lies there, and the devices suit the batch."""
    if not isinstance(run, run_artifacts.CachedRun):
      self._tried(run, functools.partial(_check_record, run))
    self._tried(run, functools.partial(_check_mesh, run.config))
    self._tried(run, functools.partial(_check_followed, run))
    seen = self._glances.get(cast(given.Checkpoint, run.start))
    if seen is not None and isinstance(seen.shape, dual_encoder.EncoderSpec):
      self._tried(run, functools.partial(_check_shape, run.config, seen.shape))

  def _look_at_shared_workdirs(self) -> None:
    """Whether trainings of different settings have one workdir."""
    firsts: dict[pathlib.Path, run_artifacts.Run] = {}
    for run in self._of(run_artifacts.Run):
      if not isinstance(run, run_artifacts.CachedRun) and run.knows_settings():
        first = firsts.setdefault(run.workdir, run)
        self._tried(run, functools.partial(_check_alike, first, run))

  def _look_at_first_features(self, one: corpus_vectors.FirstFeatures) -> None:
    """Whether vectors have so many."""
    model: Any = one.vectors.model
    seen = self._glances.get(getattr(model, 'start', model))
    if seen is not None and isinstance(seen.shape, dual_encoder.EncoderSpec):
      self._tried(one, functools.partial(one.check, seen.shape))

  def _look_at_sizes(self, run: run_artifacts.Run) -> None:
    """Whether there is enough data, and how much of it is cut."""
    sets = plan_costs.trained_on(run)
    if len(sets) != 1 or isinstance(run, run_artifacts.CachedRun):
      return  # Several sets, of which none has to be large.
    found = self._peeks.get(cast(dataset_lib.Data, sets[0][0]))
    seen = self._glances.get(cast(given.Checkpoint, run.start))
    if found is None:
      return
    count = expense.examples_of(run, found).number
    tune = found.splits.get(None) if run.config.evaluation.eval_steps else None
    self._seen.notes += thin_data.of_training(thin_data.Sizes(
        count, run.config.data.batch_size,
        run_settings.total_steps(run.config, count),
        tune.queries.number if tune else None,
        run.config.evaluation.may_stop_early,
        run.config.optim.warmup_steps,
        is_tune_known=tune is None or tune.queries.is_exact,
    ))
    if seen is not None and seen.tokenizer is not None:
      lengths = plan_costs.lengths_of(found, seen)
      for role, one in (('query', lengths.query), ('passage', lengths.passage)):
        if one is not None:
          self._seen.notes += thin_data.of_lengths(
              role, one.sequences, one.cut_sequences, one.cut, one.longest
          )

  def _look_at_evaluations(self) -> None:
    """Whether there are queries enough to measure by."""
    for data, split in self._splits():
      found = self._peeks.get(data)
      if found is not None and found.splits[split].queries.is_exact:
        self._seen.notes += thin_data.of_evaluation(
            split, found.splits[split].queries.number
        )

  def _splits(self) -> list[tuple[dataset_lib.Data, str]]:
    """Data and split of each evaluation, but for the tune split."""
    return list(dict.fromkeys(
        (cast(dataset_lib.Data, one.data), one.split)
        for one in self.evaluated()
    ))

  def evaluated(self) -> list[judged.Judged]:
    """The queries of each evaluation, but for those of the tune split."""
    return list(dict.fromkeys(
        of for of in (
            one.ranking.judged for one in self._of(evaluations.Evaluation)
        ) if isinstance(of.data, dataset_lib.Data)
        and type(of) is judged.Judged
    ))

  def _peek(self, data: dataset_lib.Data) -> peek_lib.Peek:
    """Looks at a data set, and at the splits of it that are needed."""
    configs = [config for run in self._of(run_artifacts.Run)
               for own, config in plan_costs.trained_on(run) if own == data]
    tuned = any(config.evaluation.eval_steps for config in configs)
    needed = [
        *[config.data.train_split for config in configs],
        *[config.data.tune_split for config in configs
          if config.data.tune_split],
        *[split for own, split in self._splits() if own == data],
    ]
    return peek_lib.look(data.config, tuple(dict.fromkeys(needed)),
                         tuned and data.config.train_split in needed)


def _check_record(run: run_artifacts.Run) -> None:
  """Refuses a workdir that holds another run, as far as that is known.

  Raises:
    UserError: names what differs.
  """
  if run.knows_settings():
    run_record.RunRecord(run.workdir).check_settings(run.settings())


def _check_alike(first: run_artifacts.Run, run: run_artifacts.Run) -> None:
  """Refuses a training whose workdir an earlier one of the plan will fill.

  Raises:
    UserError: names what differs.
  """
  differing = run_record.differences(*(
      folders.as_json({'kind': one.kind, 'settings': one.settings()})
      for one in (first, run)
  ))
  if differing:
    raise errors.UserError(
        f'{run.workdir}: is the workdir of two trainings whose settings '
        f'differ, "{first.title}" (there) and "{run.title}" (here):\n'
        + '\n'.join(f'  {line}' for line in differing)
        + f'\nMake them alike, or name another {errors.flag("workdir")}'
    )


def _check_followed(run: run_artifacts.Run) -> None:
  """Refuses to wait for a follower where only one program may work.

  Raises:
    UserError: names the key.
  """
  negatives = run.config.negatives
  if negatives.is_asynchronous and places.is_remote(run.workdir):
    raise negatives.error(
        'refresh', f'{run.workdir} lies in a bucket, where one program works '
        'at a time, and this needs a second one; take a --workdir on a disk, '
        'or synchronous')


def _check_mesh(config: run_settings.RunSettings) -> None:
  """Refuses a batch that the devices can't share.

  Raises:
    UserError: names the key.
  """
  sharded_step.check(config, sharding.make_mesh(config.mesh))


def _check_shape(
    config: run_settings.RunSettings, spec: dual_encoder.EncoderSpec
) -> None:
  """Refuses widths and adapters that a model of a shape has not.

  Raises:
    UserError: names the key.
  """
  encoder_run.matryoshka_dims(config.loss, spec)
  if config.evaluation.hybrid and not spec.score.is_dot:
    raise config.evaluation.error(
        'hybrid', 'is of one vector of each text, and the model has several; '
        'leave it out'
    )
  if config.model.lora_rank:
    run_settings.adapters_of(config, {'encoder': loading.shape_of(spec)})
