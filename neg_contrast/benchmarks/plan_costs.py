"""The last lines of a plan: steps, tokens, disk, and hours."""

import itertools
import math
import pathlib
import shutil
import statistics as statistics_lib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from neg_contrast import progress
from neg_contrast.artifacts import artifact, places
from neg_contrast.artifacts import checkpoints as checkpoints_lib
from neg_contrast.benchmarks import device_speed, expense
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import peek as peek_lib
from neg_contrast.models import given, glance
from neg_contrast.retrieval import corpus_vectors
from neg_contrast.training import (
  label_space_runs,
  mixture_artifacts,
  run_artifacts,
  run_log,
  run_record,
  run_settings,
)

_MOST_LINES = 12
_NOT_COUNTED = ('compiling, reading and preparing data, BM25, mining and '
                'judging are not in it')


def describe(
    needed: Sequence[artifact.Artifact],
    peeks: Mapping[artifact.Artifact, peek_lib.Peek | None],
    glances: Mapping[given.Checkpoint, glance.Glance | None],
) -> list[str]:
  """What the artifacts take, in lines; the last is about time.

  Args:
    needed: what is to be made.
    peeks: what is known of data.
    glances: what is known of models.

  Returns:
    Nothing, where nothing is trained and no corpus is encoded.
  """
  found = list(_expenses(needed, peeks, glances))
  shown = [one for one in found if one.what]
  if not shown:
    return []
  lines = [one.what for one in shown[:_MOST_LINES]]
  if len(shown) > _MOST_LINES:
    lines.append(f'and {len(shown) - _MOST_LINES} more of that kind')
  tokens = sum(one.tokens for one in found)
  steps = sum(one.steps for one in found)
  guess = '' if all(one.is_sure for one in found) else (
      '; lengths are guessed from words, as the tokenizer is not here')
  limit = 'at most ' if any(_stops_early(one) for one in needed) else ''
  return [
      *lines,
      f'steps: {limit}{steps:,}',
      f'tokens: {limit}{_rounded(tokens)}{guess}',
      _disk(sum(one.bytes for one in found), needed),
      _time(found, needed, glances, limit),
  ]


def lengths_of(
    found: peek_lib.Peek, seen: glance.Glance
) -> expense.Lengths:
  """Tokens of the texts of a data set, as a model reads them.

  Args:
    found: of the data set.
    seen: of the model.
  """
  text, tokenizer = seen.text, seen.tokenizer
  questions = tuple(('', question) for question in found.questions)
  return expense.Lengths(*(
      peek_lib.lengths(texts, tokenizer, text.length(role), text.prefix(role),
                       text.title_end if tokenizer is not None else '')
      if texts else None
      for role, texts in (('query', questions), ('passage', found.texts))
  ))


def _expenses(needed, peeks, glances) -> Iterator[expense.Expense]:
  for one in needed:
    if isinstance(one, dataset_lib.Data):
      found = peeks.get(one)
      if found is not None and not found.is_prepared:
        yield expense.of_data(found)
    elif isinstance(one, run_artifacts.Run):
      seen = glances.get(one.start)
      if seen is not None and seen.shape is not None:
        of_run = _of_training(one, seen, peeks)
        if of_run is not None:
          yield of_run
    elif isinstance(one, corpus_vectors.Embeddings):
      found, seen = peeks.get(one.data), _seen(one.model, glances)
      if found is not None and seen is not None and seen.shape is not None:
        whose = getattr(one.model, 'whose', one.model.name)
        yield expense.of_embeddings(
            whose, found, lengths_of(found, seen),
            expense.model_of(seen.shape), one.encoding.index.embedding_dtype,
            seen.tokenizer is not None,
        )


def trained_on(
    run: run_artifacts.Run
) -> list[tuple[artifact.Artifact, run_settings.RunSettings]]:
  """Data with judgements of people, and the settings of a training on it.

  Args:
    run: the training; one with a label space has labels of its own, and no
      data.
  """
  if isinstance(run, label_space_runs.LabelSpaceRun):
    return []
  if isinstance(run, mixture_artifacts.MixtureRun):
    return [(one.data, one.config) for one in run.mixture.sets]
  return [(run.gold or run.data, run.config)]


def _of_training(run, seen, peeks) -> expense.Expense | None:
  """Of several data sets, lengths are those of the first; None: unknown."""
  sets = trained_on(run)
  found = peeks.get(sets[0][0]) if sets else None
  if found is None:
    return None
  examples = sum(
      peeks[data].splits[config.data.train_split].positives.number
      for data, config in sets if peeks.get(data) is not None
  ) if isinstance(run, mixture_artifacts.MixtureRun) else (
      expense.examples_of(run, found).number)
  return expense.of_training(
      run, examples, found, lengths_of(found, seen),
      expense.model_of(seen.shape), seen.tokenizer is not None,
  )


def _seen(model, glances) -> glance.Glance | None:
  """What is known of a model that is given, or trained first."""
  if isinstance(model, run_artifacts.Run):
    return glances.get(model.start)
  return glances.get(model)


def _stops_early(one: artifact.Artifact) -> bool:
  return isinstance(one, run_artifacts.Run) and (
      one.config.evaluation.may_stop_early)


def _disk(size: float, needed: Sequence[artifact.Artifact]) -> str:
  """Bytes that are written, beside those that are free on this disk.

  What goes to a bucket is written on this disk first.
  """
  workdir = next((one.workdir for one in needed
                  if isinstance(one, run_artifacts.Run)), pathlib.Path())
  place = places.on_disk(workdir).absolute()
  while not place.exists():
    place = place.parent
  free = shutil.disk_usage(place).free
  is_short = size > free
  short = ' MORE THAN IS FREE;' if is_short else ''
  is_named = is_short or places.is_remote(workdir)
  return (f'disk: about {_size(size)};{short} {_size(free)} are free at '
          f'{place if is_named else "the workdir"}')


def _time(found, needed, glances, limit) -> str:
  """Hours, how they were reckoned, and how sure that is."""
  flops = sum(one.flops for one in found)
  known = [seen for seen in glances.values()
           if seen is not None and seen.shape is not None]
  logged = _logged_seconds(needed)
  if logged is not None:
    seconds, where = logged
    return (f'time: {limit}about {progress.format_seconds(seconds)} of '
            f'training are left, by {where}; {_NOT_COUNTED}')
  run = next((one for one in needed if isinstance(one, run_artifacts.Run)),
             None)
  encoding = next((one.encoding for one in needed
                   if isinstance(one, corpus_vectors.Embeddings)), None)
  config = run.config.model if run is not None else (
      encoding.model if encoding is not None else None)
  if not known or config is None or not flops:
    return 'time: not known before the model is here'
  speed = device_speed.measure(config, _hidden(known[0].shape))
  if speed is None:
    return ('time: not known, as the devices are in use; '
            f'{_flops(flops)} by the formulas of --compile_only')
  return (f'time: {limit}about {_hours(flops / speed.flops)}: {_flops(flops)} '
          'of useful products, by the formulas of --compile_only, at '
          f'{speed.how}; {_NOT_COUNTED}')


def _logged_seconds(needed) -> tuple[float, str] | None:
  """Seconds that an interrupted training has left, by its own log."""
  runs = [one for one in needed if isinstance(one, run_artifacts.Run)
          and not isinstance(one, run_artifacts.CachedRun)]
  if len(runs) != 1:
    return None
  path = runs[0].workdir / run_log.FILE
  record = run_record.RunRecord(runs[0].workdir)
  if not path.exists() or not record.exists():
    return None
  steps = [one for one in run_log.read(path) if 'step_seconds' in one]
  if not steps:
    return None
  last = list(itertools.islice(reversed(steps), 50))
  each = statistics_lib.median(one['step_seconds'] for one in last)
  done = min(steps[-1]['step'], _saved_step(runs[0].workdir))
  left = record.read()['total_steps'] - done
  return left * each, (f'the log of {runs[0].workdir}: {each:.2g} s a step, '
                       f'{done:,} steps done')


def _saved_step(workdir: pathlib.Path) -> int:
  """The step that a training goes on from."""
  if not (workdir / checkpoints_lib.FOLDER).exists():
    return 0
  with checkpoints_lib.reading(workdir) as checkpoints:
    return checkpoints.latest_step() or 0


def _hidden(shape: Any) -> int:
  return getattr(shape, 'd_model', None) or shape.transformer.hidden_size


def _flops(flops: float) -> str:
  return f'{flops / 1e12:,.3g} TFLOP'


def _hours(seconds: float) -> str:
  if seconds < 90:
    return f'{max(1, round(seconds))} seconds'
  if seconds < 5400:
    return f'{seconds / 60:.0f} minutes'
  return f'{seconds / 3600:,.3g} hours'


def _size(size: float) -> str:
  unit = min(4, int(math.log(max(size, 1), 1000)))
  return f'{size / 1000**unit:.3g} {("B", "KB", "MB", "GB", "TB")[unit]}'


def _rounded(number: float) -> str:
  for unit, name in ((1e12, 'trillion'), (1e9, 'billion'), (1e6, 'million')):
    if number >= unit:
      return f'{number / unit:.3g} {name}'
  return f'{number:,.0f}'
