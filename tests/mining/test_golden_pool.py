"""The numbers of a tiny pool stay, unless the pool's format is raised.

    python -m tests.mining.test_golden_pool

records them again.
"""

import json
import pathlib
import sys
import tempfile

import numpy as np

from neg_contrast.artifacts import plan
from neg_contrast.jobs import mine
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.settings import config as config_lib
from tests import tiny

GOLDEN = pathlib.Path(__file__).with_name('golden_pool.json')


def make_pool(folder: pathlib.Path) -> pool_lib.Pool:
  """A pool of every source that needs no training, with all filters on."""
  tiny.write_beir(folder / 'data')
  config = tiny.make_config(
      folder, job='mine',
      negatives__sources=('bm25+model+context+given:2',),
      negatives__checkpoint=str(folder / 'model'), negatives__depth=12,
      negatives__pool_size=5, negatives__first_rank=2,
      negatives__margin=-0.05, data__groups=1, mesh__data=1,
      negatives__mined_dir=str(folder / 'mined'),
  )
  job = mine.MineJob(config_lib.parse(config), folder / 'work')
  (folder / 'work').mkdir()
  plan.run(job.targets())
  return pool_lib.read(folder / 'work' / 'pool')


def plain(pool: pool_lib.Pool) -> dict:
  """The pool as json."""
  show = lambda scores: [
      [float(f'{x:.7g}') if np.isfinite(x) else None for x in line]
      for line in np.asarray(scores, np.float64)
  ]
  return {
      'sources': list(pool.sources),
      **{name: np.asarray(getattr(pool, name)).tolist() for name in (
          'query_rows', 'rows', 'source', 'rank', 'dropped_by', 'halves')},
      'score': show(pool.score),
      'positive_scores': show(pool.positive_scores),
  }


def test_numbers_are_those_of_the_format(tmp_path):
  now = plain(make_pool(tmp_path))
  then = json.loads(GOLDEN.read_text())
  remedy = ('a tiny pool has other numbers than before. If that is meant, '
            'raise FORMAT in negatives/pool.py (and in mining/candidates.py, '
            'if candidates changed), and record it again: '
            'python -m tests.mining.test_golden_pool')
  assert now.keys() == then.keys(), remedy
  for name, values in then.items():
    if name in ('score', 'positive_scores'):
      have, want = (np.array(x, np.float64) for x in (now[name], values))
      np.testing.assert_allclose(have, want, rtol=1e-5, atol=1e-5,
                                 err_msg=f'{name}: {remedy}')
    else:
      assert now[name] == values, f'{name}: {remedy}'


if __name__ == '__main__':
  with tempfile.TemporaryDirectory() as place:
    made = plain(make_pool(pathlib.Path(place)))
  text = ',\n'.join(
      f' {json.dumps(name)}: {json.dumps(values)}'
      for name, values in made.items()
  )
  GOLDEN.write_text('{\n' + text + '\n}\n')
  sys.stdout.write(f'{GOLDEN}\n')
