"""Says, before any training, which hard negatives suit a data set."""

import pathlib

from neg_contrast.artifacts import artifact
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.jobs.common import checks, declared_pools, reporting
from neg_contrast.mining import audit_verdict, pool_audit
from neg_contrast.settings import config as config_lib

_QUERIES = 2000  # A share over so many is known to 2 points.


def check(config: config_lib.Config) -> None:
  """Refuses a config that does not suit `job=audit`."""
  checks.check_source(config)
  if not config.checkpoint:
    raise config.error('checkpoint', 'is needed: the judge, a trained workdir, '
                       'a BERT-family or sentence-transformers folder, or '
                       '"minilm"')


class AuditJob:
  """`job=audit`: candidates of all that needs no training, and a verdict."""

  def __init__(self, config: config_lib.Config, workdir: pathlib.Path):
    """Reads nothing yet."""
    self._config, self._workdir = config, workdir
    self._data = dataset_lib.data_of(config.data)
    self._audit = pool_audit.PoolAudit(
        declared_pools.audited(
            config, workdir / 'candidates', self._data, _QUERIES
        ), config.loss.scale, config.negatives.pool_size, workdir,
    )

  def targets(self) -> list[artifact.Artifact]:
    """The verdict; which sources there are, the data says."""
    return [self._data, self._audit]

  def finish(self) -> None:
    """Prints table and verdict, and makes the report of the candidates."""
    reporting.write_report(self._workdir, self._config, self._data.load(),
                           negatives=self._audit.pool)
    print(audit_verdict.describe(self._audit.load()), flush=True)
