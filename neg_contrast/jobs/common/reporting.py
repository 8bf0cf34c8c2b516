"""What jobs say of themselves in `report.html`."""

import dataclasses
import pathlib
import re
import shlex
import sys
import types
from collections.abc import Mapping
from typing import Any

from absl import logging

from neg_contrast.artifacts import artifact, folders
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import passages
from neg_contrast.jobs.common import next_command
from neg_contrast.models import loading
from neg_contrast.report import negatives_facts, workdir_report
from neg_contrast.settings import config as config_lib

_MINING = {  # Jobs, and their splits' use.
    'mine': 'mining', 'judge': 'mining', 'audit': 'audit',
}
_TRAINING = ('train', 'train_reranker')
_TUNED = (*_TRAINING, 'table')
_REPORTING = (*_TUNED, 'ensemble')  # Jobs that report on the test split.

_NEAREST = ('those that BM25 finds nearest to each question '
            '(data.passage_judgements=nearest): this favours bm25 and hybrid '
            'over models alone; cut with data.passage_judgements=document to '
            'compare them by documents')


def write_report(
    workdir: pathlib.Path,
    config: config_lib.Config,
    dataset: dataset_lib.Dataset,
    model: loading.Model | None = None,
    negatives: negatives_facts.Mined | None = None,
    tables: tuple[str, ...] = (),
    calibration: Mapping[str, Any] | None = None,
    facts: Mapping[str, str] = types.MappingProxyType({}),
) -> pathlib.Path:
  """Writes the report of a job: see `workdir_report.write_report`.

  `facts` stand beside those that the config tells.
  """
  about = _about(config, model, workdir)
  if passages.are_nearest(config.data.source):
    facts = {**facts, 'judged passages': _NEAREST}
    logging.info('judged passages are %s', _NEAREST)
  about = dataclasses.replace(about, facts={**about.facts, **facts})
  return workdir_report.write_report(
      workdir, about, config.data, config.evaluation, dataset,
      model, negatives, tables, calibration,
  )


def write_manifest(
    workdir: pathlib.Path, config: config_lib.Config, run: artifact.Artifact,
    metrics: Mapping[str, Any],
) -> None:
  """Writes what a training was, and what it reached, into its workdir."""
  folders.write_sealed(workdir / folders.MANIFEST, {
      'config': config_lib.to_dict(config),
      'identity': run.identity,
      'environment': folders.environment(),
      'metrics': metrics,
  })


def _command() -> str:
  """The command line, where one runs the job."""
  is_command = any(re.match('--?config[=.]', one) for one in sys.argv[1:])
  return (f'{next_command.program()} {shlex.join(sys.argv[1:])}'
          if is_command else '')


def _about(
    config: config_lib.Config, model: loading.Model | None,
    workdir: pathlib.Path,
) -> workdir_report.About:
  use = _MINING.get(config.job, 'evaluation')
  split = (config.data.test_split if config.job in _REPORTING else
           config.data.split if use == 'evaluation' else
           config.data.train_split)
  values = folders.as_json(config_lib.to_dict(config))
  values.pop('cells', None)  # Whole configs, each in the workdir of its run.
  data = ', '.join(f'{name} {one.source}' for name, one in (
      config.mixture.sets or {}).items()) or config.data.source
  return workdir_report.About(
      config.job, split, use,
      is_training=config.job in _TRAINING,
      is_tuned=config.job in _TUNED,
      facts={'run': workdir.name, 'data': data, 'split': split,
             **_facts(config, model), 'seed': str(config.seed)},
      command=_command(),
      notes={
          'initial': 'after stage 1' if config.stage1 else config.model.init,
          'untouched': f'{config.model.init}, not trained',
      } if config.job == 'train' else {},
      config=values,
      defaults=folders.as_json(config_lib.base_config().to_dict()),
  )


def _facts(
    config: config_lib.Config, model: loading.Model | None
) -> dict[str, str]:
  """What was run."""
  if config.job == 'audit':
    return {'judge': config.checkpoint}
  if config.job in ('mine', 'judge'):
    return _mined(config)
  if config.job in _TRAINING:
    return _trained(config)
  if config.job == 'ensemble':
    return {'members': ', '.join((*config.ensemble.members,
                                  *config.ensemble.runs))}
  if config.job == 'table':
    return {'cells': ', '.join(f'{group}: {" ".join(cells)}' for group, cells
                               in (config.cells or {}).items())}
  return {'model': model.name if model else config.checkpoint}


def _mined(config: config_lib.Config) -> dict[str, str]:
  negatives = config.negatives
  facts = {'sources': ', '.join(negatives.strategies) or negatives.label}
  if 'model' in negatives.names:
    facts['model'] = negatives.checkpoint or config.checkpoint
  if negatives.judge:
    facts['judge'] = negatives.judge
  facts['pool'] = negatives.pool or (
      f'best {negatives.pool_size} of {negatives.depth} of each source'
  )
  return facts


def _trained(config: config_lib.Config) -> dict[str, str]:
  negatives = config.negatives
  return {
      'start': config.model.init,
      'negatives': 'other rows of the batch' + (
          f' ({config.data.together})' if config.data.together else ''
      ) + (f' and {negatives.label}' if negatives.sources else ''),
      'batch': f'{config.data.batch_size} queries',
      'learning rate':
          f'{config.optim.learning_rate:g}, {config.optim.schedule}',
  }
