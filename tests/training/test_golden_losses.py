"""The numbers of a tiny training are those of its format.

To record: `python -m tests.training.test_golden_losses`.
"""

import json
import pathlib
import tempfile

import numpy as np

from neg_contrast.training import run_log, run_record

GOLDEN = pathlib.Path(__file__).with_name('golden_losses.json')
_STEPS = 6


def losses(folder: pathlib.Path) -> list[float]:
  """Losses of a training with dropout, on one device."""
  from tests import tiny
  from tests.golden import record

  (folder / 'model').mkdir()
  record.write_model(folder / 'model', 0)
  tiny.train_only(
      folder, folder / 'work', optim__steps=_STEPS, mesh__data=1,
      data__groups=2, model__projection_dim=7,
  )
  read = run_log.read(folder / 'work' / run_log.FILE)
  return [one['loss'] for one in read if 'loss' in one]


def test_a_format_gives_the_numbers_that_it_gave(tmp_path):
  golden = json.loads(GOLDEN.read_text())
  if golden['format'] == run_record.FORMAT:
    advice = ('Runs that were begun before would go on with other numbers: '
              'raise FORMAT in neg_contrast/training/run_record.py, say why '
              'there, and record again: python -m '
              'tests.training.test_golden_losses')
  else:
    advice = ('FORMAT was raised; record its numbers: python -m '
              'tests.training.test_golden_losses')
  assert golden['format'] == run_record.FORMAT, advice
  got = losses(tmp_path)
  assert len(got) == _STEPS and got[0] > 1
  np.testing.assert_allclose(got, golden['losses'], rtol=1e-5, err_msg=advice)


if __name__ == '__main__':
  with tempfile.TemporaryDirectory() as place:
    GOLDEN.write_text(json.dumps({
        'format': run_record.FORMAT, 'losses': losses(pathlib.Path(place)),
    }, indent=2) + '\n')
