"""A source that is drawn while training is one class and one line."""

import numpy as np
import pytest

from neg_contrast import errors, jobs
from neg_contrast.artifacts import plan
from neg_contrast.batches import batcher
from neg_contrast.negatives import sources
from neg_contrast.settings import config as config_lib
from neg_contrast.training import run_log
from tests import tiny


class Last(sources.Source):
  """The last passages of the corpus, positive or not."""

  @staticmethod
  def names(settings, pool):
    return ('last',)

  def draw(self, step, numbers, query_rows):
    count = self._material.count
    last = len(self._material.dataset.prepared.passages) - 1
    rows = np.tile(last - np.arange(count, dtype=np.int32), (len(numbers), 1))
    return batcher.Drawn(rows, np.zeros_like(rows))


@pytest.fixture
def last(monkeypatch):
  monkeypatch.setitem(sources.SOURCES, 'last', Last)


def make(root, **settings):
  return config_lib.parse(tiny.make_config(root, **{
      'negatives__sources': ('last:2',),
      'optim__steps': 2, 'evaluation__bm25': False,
      'checkpointing__log_steps': 1, **settings}))


def test_a_line_is_enough(last, tmp_path):
  work = tmp_path / 'work'
  work.mkdir()
  job = jobs.make_job(make(tmp_path), work)
  said = plan.describe(job.targets())
  assert '[to do  ] training' in said and 'pool' not in said
  plan.run(job.targets())
  job.finish()
  lines = [one for one in run_log.read(work / run_log.FILE) if 'loss' in one]
  assert len(lines) == 2
  assert all('last' in str(line) for line in lines)  # Scores by source.
  assert 'last (2)' in (work / 'report.html').read_text()


def test_errors_and_the_reference_offer_it(last, tmp_path):
  with pytest.raises(errors.UserError, match='"bogus" must be one of corpus, '
                     'gold, sampled, context, retrieved, last, given'):
    make(tmp_path, negatives__sources=('bogus:2',))
  with pytest.raises(errors.UserError, match='draw nothing from'):
    jobs.check(make(tmp_path, negatives__pool='some'))
  with pytest.raises(errors.UserError, match='needs the chance by which'):
    jobs.check(make(tmp_path, loss__adjusted=True, loss__candidates='own',
                    loss__bidirectional=False))
