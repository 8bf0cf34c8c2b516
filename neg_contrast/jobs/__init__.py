"""One verb a file; `make_job` imports only what it needs."""

import importlib
import pathlib

from neg_contrast.settings import config as config_lib


def make_job(config: config_lib.Config, workdir: pathlib.Path):
  """The job that `config.job` names.

  Args:
    config: of the job.
    workdir: what it writes to.
  """
  module = importlib.import_module(f'neg_contrast.jobs.{config.job}')
  name = ''.join(word.capitalize() for word in config.job.split('_'))
  return getattr(module, f'{name}Job')(config, workdir)
