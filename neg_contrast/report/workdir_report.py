"""Gathers what a workdir holds into `report.html`."""

import dataclasses
import datetime
import json
import os
import pathlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from neg_contrast import progress
from neg_contrast.artifacts import folders as folders_lib
from neg_contrast.data import answers as answers_lib
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.data import records, statistics
from neg_contrast.evaluation import confidence, per_query, summary, trec
from neg_contrast.models import loading
from neg_contrast.report import figures, movement, negatives_facts
from neg_contrast.report import page as page_lib
from neg_contrast.settings import config as config_lib

FILE = 'report.html'

_MINING = {'mine': 'mining', 'audit': 'audit'}  # Jobs, and their splits' use.
_TRAINING = ('train', 'train_reranker')
_REPORTING = (*_TRAINING, 'ensemble', 'table')  # Jobs that tune and report.
_SHOWN = 8  # Queries that rose, and as many that fell.
# With fewer values the bootstrap's interval is too narrow (at 10 values of mean
# 0.85, the one of 95% holds the truth 80 times in a hundred).
_LEAST_QUERIES = 30
_ORDER = ('bm25', 'initial', 'trained')
_ANSWER_METRIC = 'answer_accuracy@'
_COLUMNS = ('loss', 'forward_loss', 'backward_loss', 'accuracy',
            'gradient_norm', 'learning_rate', 'scale', 'step_seconds',
            'queries_per_second', 'padding')


@dataclasses.dataclass(frozen=True)
class _Evaluated:
  """A folder of `evaluation/`.

  Attributes:
    folder: with `run.trec`.
    manifest: of the folder.
    per_query: metric -> query id -> value.
  """

  folder: pathlib.Path
  manifest: Mapping[str, Any]
  per_query: Mapping[str, Mapping[str, float]]

  @property
  def group(self) -> str:
    """`<dataset>/<split>`."""
    return '/'.join(self.manifest['key'].split('/', 2)[:2])

  @property
  def name(self) -> str:
    """Of the system."""
    return self.manifest['key'].split('/', 2)[2]

  @property
  def run(self) -> pathlib.Path:
    """The ranking."""
    return self.folder / 'run.trec'


def write_report(
    workdir: pathlib.Path,
    config: config_lib.Config,
    dataset: dataset_lib.Dataset,
    model: loading.Model | None = None,
    negatives: negatives_facts.Mined | None = None,
    tables: tuple[str, ...] = (),
) -> pathlib.Path:
  """Writes `report.html` from the finished evaluations of a workdir.

  What is not there is left out: the log of a job that trains nothing, rankings,
  values by query, judgements. A job that neither trains nor evaluates shows the
  split that it mines, and no evaluations that others left in its workdir.

  Args:
    workdir: of the job; `evaluation/` should be complete.
    config: of the job.
    dataset: the data of the job.
    model: gives tokenizer, lengths and name, not its weights; without one,
      lengths of texts are not shown.
    negatives: a finished pool of hard negatives, to be explained.
    tables: of a grid of trainings, as HTML.

  Returns:
    The file.

  Raises:
    UserError: a json file of the workdir is broken.
  """
  is_training, is_mining = config.job in _TRAINING, config.job in _MINING
  split = (config.data.test_split if config.job in _REPORTING else
           config.data.train_split if is_mining else config.data.split)
  name = f'{dataset.name}/{split}'
  groups = {} if is_mining else _by_group(
      summary.read_evaluations(workdir, dataset)
  )
  shown = groups.get(name, [])
  pair = _pair(shown)
  training = _read_training(workdir) if is_training else None
  page = page_lib.render(page_lib.Report(
      job=config.job,
      name=name,
      facts=_facts(config, dataset, split, model),
      made=_newest(shown),
      groups=tuple(
          _summarize(group, groups[group], workdir)
          for group in sorted(groups, key=lambda group: group != name)
      ),
      moves=_moves(pair, split, config, dataset.prepared) if pair else None,
      training=training,
      data=_describe_data(config, dataset, split, model),
      config={
          key: value for key, value
          in folders_lib.as_json(config_lib.to_dict(config)).items()
          if key != 'cells'  # Whole configs, each in the workdir of its run.
      },
      defaults=folders_lib.as_json(config_lib.base_config().to_dict()),
      environment=folders_lib.environment() if is_mining else
      _environment(workdir, shown, is_training),
      negatives=None if negatives is None else negatives_facts.describe(
          negatives, config.evaluation
      ),
      tables=tables,
  ))
  path = workdir / FILE
  partial = path.with_name(path.name + '.partial')
  # Names of files need not be UTF-8.
  partial.write_text(page, encoding='utf-8', errors='backslashreplace')
  os.replace(partial, path)
  logging.info('report: %s', path)
  return path


def _by_group(
    evaluations: Iterable[tuple[pathlib.Path, dict[str, Any]]],
) -> dict[str, list[_Evaluated]]:
  """Evaluations by `<dataset>/<split>`, well-known systems first."""
  groups: dict[str, list[_Evaluated]] = {}
  for folder, manifest in evaluations:
    path = folder / per_query.FILE
    found = _Evaluated(
        folder, manifest, per_query.read(path) if path.exists() else {}
    )
    groups.setdefault(found.group, []).append(found)
  for systems in groups.values():
    systems.sort(key=lambda system: _ORDER.index(system.name)
                 if system.name in _ORDER else len(_ORDER))
  return groups


def _pair(systems: list[_Evaluated]) -> tuple[_Evaluated, _Evaluated] | None:
  """Before and after: initial and trained, or else the first two of them."""
  by_name = {system.name: system for system in systems}
  if 'initial' in by_name and 'trained' in by_name:
    return by_name['initial'], by_name['trained']
  return (systems[0], systems[1]) if len(systems) > 1 else None


def _summarize(
    name: str, systems: list[_Evaluated], workdir: pathlib.Path
) -> page_lib.Group:
  pair = _pair(systems)
  return page_lib.Group(
      name,
      tuple(
          page_lib.System(
              system.name,
              system.folder.relative_to(workdir).as_posix(),
              system.manifest['queries'],
              system.manifest['passages'],
              {metric: _estimate(value, system.per_query.get(metric, {}))
               for metric, value in system.manifest['metrics'].items()},
          )
          for system in systems
      ),
      _compare(*pair) if pair else None,
  )


def _estimate(mean: float, by_query: Mapping[str, float]) -> figures.Estimate:
  if len(by_query) < _LEAST_QUERIES:
    return figures.Estimate(mean)
  values = np.array(list(by_query.values()), np.float64)
  return figures.Estimate(mean, *confidence.interval(values))


def _compare(before: _Evaluated, after: _Evaluated) -> page_lib.Comparison:
  """Differences over the queries that both have."""
  metrics, queries = {}, 0
  for metric in before.manifest['metrics']:
    ours = after.per_query.get(metric, {})
    differences = {
        query: ours[query] - value
        for query, value in before.per_query.get(metric, {}).items()
        if query in ours
    }
    if differences and metric in after.manifest['metrics']:
      queries = len(differences)
      mean = float(np.mean(list(differences.values())))
      metrics[metric] = _estimate(mean, differences)
  return page_lib.Comparison(before.name, after.name, queries, metrics)


def _judgements(
    prepared: prepared_lib.Prepared, split: str
) -> prepared_lib.Judgements | None:
  """Those of a split, None where it is unknown or empty."""
  counts = prepared.manifest['counts']
  sizes = (counts[kind].get(split, 0) for kind in ('judgements', 'unjudged'))
  return prepared.judgements(split) if any(sizes) else None


def _moves(
    pair: tuple[_Evaluated, _Evaluated],
    split: str,
    config: config_lib.Config,
    prepared: prepared_lib.Prepared,
) -> page_lib.Moves | None:
  """The queries that moved most between two rankings."""
  judgements = _judgements(prepared, split)
  if judgements is None or not all(system.run.exists() for system in pair):
    return None
  rows = {prepared.query_ids[row].decode(): int(row)
          for row in judgements.queries}
  positives = _positives(prepared, judgements)
  sides = [_ranks(system, positives) for system in pair]
  if not all(ranks for ranks, _ in sides):
    return None
  moved = movement.compare(sides[0][0], sides[1][0])
  names = tuple(
      tuple(query for query in side if query in rows)[:_SHOWN]
      for side in (moved.risen, moved.fallen)
  )
  found = []
  for system in pair:
    with open(system.run, 'rb') as lines:
      found.append(movement.rankings(lines, names[0] + names[1]))

  def show(query: str) -> page_lib.MovedQuery:
    return _show_query(
        prepared.queries[rows[query]], config.evaluation,
        positives.get(query, set()),
        (found[0][query], found[1][query]),
        [say(ranks[query]) for ranks, say in sides], prepared,
    )

  risen, fallen = ([show(query) for query in side] for side in names)
  return page_lib.Moves(
      pair[0].name, pair[1].name,
      'first positive passage' if positives else
      'first passage that holds an answer',
      tuple(risen), tuple(fallen),
      len(moved.risen), len(moved.fallen), moved.same,
  )


def _positives(
    prepared: prepared_lib.Prepared, judgements: prepared_lib.Judgements
) -> dict[str, set[str]]:
  """Passage ids of each query that has a positive."""
  positives: dict[str, set[str]] = {}
  is_positive = judgements.grades > 0
  for query, passage in zip(judgements.query_rows[is_positive],
                            judgements.passage_rows[is_positive], strict=True):
    positives.setdefault(prepared.query_ids[query].decode(), set()).add(
        prepared.passage_ids[passage].decode()
    )
  return positives


def _ranks(system: _Evaluated, positives: Mapping[str, set[str]]):
  """Ranks of the first positives, and what to call a rank.

  Without judgements, those of the cut-offs of answer accuracy, if any.
  """
  if positives:
    with open(system.run, 'rb') as lines:
      ranks, depth = movement.first_ranks(lines, positives)
    return ranks, lambda rank: f'>{depth}' if rank is None else f'{rank}'
  cuts = {
      int(metric.removeprefix(_ANSWER_METRIC)): values
      for metric, values in system.per_query.items()
      if metric.startswith(_ANSWER_METRIC)
  }
  deepest = max(cuts, default=0)
  return movement.first_cuts(cuts), lambda rank: (
      f'>{deepest}' if rank is None else f'top {rank}'
  )


def _show_query(
    query: records.Query,
    evaluation: config_lib.EvaluationConfig,
    positives: Collection[str],
    rankings: Sequence[trec.Ranking],
    ranks: Sequence[str],
    prepared: prepared_lib.Prepared,
) -> page_lib.MovedQuery:
  """A query with its positive and the first passages of two rankings."""
  before, after = (
      {passage: page_lib.Place(rank, score)
       for rank, (passage, score) in enumerate(ranking, 1)}
      for ranking in rankings
  )
  roles: dict[str, list[str]] = {}
  if positives:
    roles[_best_ranked(positives, rankings)] = ['positive']
  for role, ranking in zip(('first before', 'first after'), rankings,
                           strict=True):
    if ranking:
      roles.setdefault(ranking[0][0], []).append(role)
  # Patterns that no evaluation has tried may backtrack without end.
  is_tried = evaluation.answer_ks or evaluation.answer_rule != 'regex'
  answers = query.answers if is_tried else ()
  passages = []
  for passage, why in roles.items():
    row = prepared.passage_ids.row_of(passage)
    record = None if row is None else prepared.passages[row]
    passages.append(page_lib.ShownPassage(
        id=passage,
        title='' if record is None else record.title,
        text=None if record is None else record.text,
        roles=tuple(why),
        before=before.get(passage, page_lib.Place()),
        after=after.get(passage, page_lib.Place()),
        is_positive=passage in positives,
        has_answer=record is not None and answers_lib.has_answer(
            record.text, answers, evaluation.answer_rule
        ),
    ))
  return page_lib.MovedQuery(
      query.id, query.text, query.answers, ranks[0], ranks[1], len(positives),
      tuple(passages),
  )


def _best_ranked(
    positives: Collection[str], rankings: Sequence[trec.Ranking]
) -> str:
  """The positive that stands highest in either ranking, or the first id."""
  found = [
      (rank, passage) for ranking in rankings
      for rank, (passage, _) in enumerate(ranking) if passage in positives
  ]
  return min(found)[1] if found else min(positives)


def _read_training(workdir: pathlib.Path) -> page_lib.Training | None:
  """The log of a training run; None where there is none."""
  path = workdir / 'log.jsonl'
  if not path.exists():
    return None
  steps: dict[int, list[float]] = {}
  contrast: dict[int, dict[str, Any]] = {}
  tune: dict[str, dict[int, float]] = {}
  bias: dict[str, dict[int, float]] = {}
  with open(path, encoding='utf-8') as lines:
    for record in _records(lines):
      if 'evaluation' in record:
        for metric, value in record['evaluation'].items():
          tune.setdefault(metric, {})[record['step']] = value
      elif 'bias' in record:
        for kind, values in record['bias']['kinds'].items():
          bias.setdefault(kind, {})[record['step']] = values['bias']
      else:
        steps[record['step']] = [record.get(name, np.nan) for name in _COLUMNS]
        contrast[record['step']] = record.get('contrast', {})
  if not steps:
    return None
  numbers = np.array(list(steps))
  table = np.array(list(steps.values()), np.float64)
  columns = {name: (numbers, table[:, i]) for i, name in enumerate(_COLUMNS)
             if not np.isnan(table[:, i]).all()}
  # Of equals the earlier stays the best, as in training/loop.py.
  accuracy = tune.get('accuracy@1') or next(iter(tune.values()), {})
  best = max(accuracy, key=accuracy.__getitem__) if accuracy else None
  curves = lambda found: {
      name: (np.array(list(values)), np.array(list(values.values())))
      for name, values in found.items()
  }
  return page_lib.Training(
      columns, curves(tune), best, _training_facts(workdir, columns, best),
      negatives_facts.read_contrast(contrast), curves(bias),
  )


def _records(lines: Iterable[str]) -> Iterable[dict[str, Any]]:
  """The lines of a log; a crash may have cut one short."""
  for line in lines:
    try:
      record = json.loads(line)
    except json.JSONDecodeError:
      continue
    if isinstance(record, dict) and 'step' in record:
      yield record


def _training_facts(workdir, columns, best) -> dict[str, str]:
  path = workdir / 'run.json'
  run = folders_lib.read_json(path) if path.exists() else {}
  last = int(next(iter(columns.values()))[0][-1])
  facts = {'steps': f'{last:,}' + (
      f' of {run["total_steps"]:,}'
      if run.get('total_steps', last) != last else ''
  )}
  if 'examples' in run:
    facts['examples'] = f'{run["examples"]:,}'
  if best is not None:
    facts['best step'] = f'{best:,}'
  if 'step_seconds' in columns:
    facts['time in steps'] = progress.format_seconds(
        float(np.nansum(columns['step_seconds'][1]))
    )
  if 'queries_per_second' in columns:
    speed = float(np.nanmedian(columns['queries_per_second'][1]))
    facts['speed'] = f'{speed:,.3g} queries/s'
  if 'padding' in columns:
    facts['padding'] = f'{100 * float(np.nanmean(columns["padding"][1])):.1f}%'
  return facts


def _describe_data(config, dataset, split, model) -> page_lib.Data:
  prepared = dataset.prepared
  counts = prepared.manifest['counts']
  lengths = {}
  if model is not None:
    for role, texts in (('query', prepared.queries),
                        ('passage', prepared.passages)):
      if len(texts):
        lengths[role] = statistics.measure_lengths(
            dataset.tokenize(model, role)
        )
  return page_lib.Data(
      statistics.describe_corpus(prepared),
      tuple(_describe_splits(config, dataset, split)),
      lengths, counts['skipped'], counts['repeated'],
  )


def _describe_splits(
    config: config_lib.Config, dataset: dataset_lib.Dataset, split: str
) -> Iterable[tuple[str, statistics.Split]]:
  """What each split is used for, and its numbers."""
  used = {}
  if config.job in (*_TRAINING, 'table'):
    data, splits = config.data, dataset.splits
    used = {
        data.train_split: ('training', splits.train),
        data.tune_split or f'{data.train_split}, set apart':
            ('tuning', splits.tune),
        data.test_split: ('evaluation', splits.test),
    }
  for name in dataset.prepared.splits:
    judgements = _judgements(dataset.prepared, name)
    if judgements is not None and name not in used:
      use = _MINING.get(config.job, 'evaluation') if name == split else '–'
      used[name] = (use, judgements)
  for name, (use, judgements) in used.items():
    yield use, statistics.describe_split(name, judgements)


def _facts(config, dataset, split, model) -> dict[str, str]:
  """What was run."""
  facts = {'data': config.data.source, 'split': split}
  negatives = config.negatives
  if config.job == 'audit':
    facts['judge'] = config.checkpoint
  elif config.job == 'mine':
    facts['strategy'] = negatives.strategy + (
        f' of {", ".join(negatives.members)}'
        if negatives.strategy == 'mixed' else ''
    )
    if 'model' in negatives.sources:
      facts['model'] = negatives.checkpoint or config.checkpoint
    facts['pool'] = negatives.pool or (
        f'best {negatives.pool_size} of {negatives.depth} of each source'
    )
  elif config.job in _TRAINING:
    facts['start'] = config.model.init
    facts['negatives'] = 'other rows of the batch' + (
        f' and {negatives.per_query} {negatives.strategy}'
        if negatives.per_query else ''
    )
    facts['batch'] = f'{config.data.batch_size} queries'
    facts['learning rate'] = (
        f'{config.optim.learning_rate:g}, {config.optim.schedule}'
    )
  elif config.job == 'ensemble':
    facts['members'] = ', '.join((*config.ensemble.members,
                                  *config.ensemble.runs))
  elif config.job == 'table':
    facts['cells'] = ', '.join(
        f'{group}: {" ".join(cells)}'
        for group, cells in (config.cells or {}).items()
    )
  else:
    facts['model'] = model.name if model else config.checkpoint
  return facts


def _newest(systems: list[_Evaluated]) -> str:
  """When the newest evaluation was finished."""
  times = [(system.folder / folders_lib.MANIFEST).stat().st_mtime
           for system in systems]
  if not times:
    return ''
  moment = datetime.datetime.fromtimestamp(max(times), datetime.UTC)
  return moment.strftime('%Y-%m-%d %H:%M UTC')


def _environment(workdir, systems, is_training) -> dict[str, Any]:
  """Of the newest known part of the job."""
  found = dict(systems[-1].manifest.get('environment', {})) if systems else {}
  path = workdir / 'run.json'
  if is_training and path.exists():
    # Devices and mesh are known of the training only.
    found = {**folders_lib.read_json(path).get('environment', {}), **found}
  return found
