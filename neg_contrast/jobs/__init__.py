"""One verb a file; `JOBS` names them, and only what is needed is imported."""

import importlib
import pathlib
import types
from typing import Any

from neg_contrast import errors
from neg_contrast.jobs.common import checks, feature_checks
from neg_contrast.losses import loss_table
from neg_contrast.settings import config as config_lib

JOBS = {
    'train': 'TrainJob',
    'evaluate': 'EvaluateJob',
    'search': 'SearchJob',
    'export': 'ExportJob',
    'split': 'SplitJob',
    'mine': 'MineJob',
    'audit': 'AuditJob',
    'train_generator': 'TrainGeneratorJob',
    'generate_questions': 'GenerateQuestionsJob',
    'ensemble': 'EnsembleJob',
    'table': 'TableJob',
    'benchmark': 'BenchmarkJob',
    'nce_synthetic': 'NceSyntheticJob',
    'nce_bias': 'NceBiasJob',
    'train_reranker': 'TrainRerankerJob',
    'rerank': 'RerankJob',
    'judge': 'JudgeJob',
    'compare': 'CompareJob',
    'study': 'StudyJob',
    'follow': 'FollowJob',
    'serve': 'ServeJob',
}
"""Value of `config.job` -> class, in the module of the job's name.

The module has a function `check(config)` too, which refuses a config that does
not suit the job.
"""


def check(config: config_lib.Config) -> None:
  """Refuses a config whose sections do not suit its job.

  Configs within it are checked first.

  Raises:
    UserError: names the key and the remedy.
  """
  if config.job not in JOBS:
    raise config.error('job', f'must be one of {", ".join(JOBS)}')
  for name, inner in config_lib.inner_configs(config):
    with errors.within(name):
      check(inner)
  loss_table.make(config.loss)
  checks.check_models_before(config)
  checks.check_kind_of_training(config)
  feature_checks.check(config)
  checks.check_tuning(config)
  checks.check_one_set(config)
  _module(config.job).check(config)


def make_job(config: config_lib.Config, workdir: pathlib.Path) -> Any:
  """The job that `config.job` names.

  Args:
    config: of the job.
    workdir: what it writes to.

  Raises:
    UserError: the config does not suit the job.
  """
  check(config)
  return getattr(_module(config.job), JOBS[config.job])(config, workdir)


def _module(job: str) -> types.ModuleType:
  return importlib.import_module(f'neg_contrast.jobs.{job}')
