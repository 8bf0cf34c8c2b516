"""The log of a run in a bucket; test_pieces.py has that on a disk."""

from neg_contrast.artifacts import places
from neg_contrast.training import run_log, trackers
from tests import bucket
from tests.training import test_trackers


def test_a_log_in_a_bucket_has_each_step_once(tmp_path):
  """Though a kill left lines on this disk that were never put there."""
  with bucket.running(tmp_path / 'cache'):
    workdir = places.path(f'{bucket.BUCKET}/run')
    path = workdir / run_log.FILE
    with run_log.opened(workdir, 0, 3) as log:
      log.write_step(test_trackers.record(1))
      log._file.flush()
      left = places.on_disk(path).read_bytes()
    path.unlink()
    places.on_disk(path).write_bytes(left)
    with run_log.opened(workdir, 0, 3) as log:
      for step in (1, 2):
        log.write_step(test_trackers.record(step))
    assert [one['step'] for one in run_log.read(path)] == [1, 2]
    with run_log.opened(workdir, 1, 3) as log:
      log.write_step(test_trackers.record(2))
    assert [one['step'] for one in run_log.read(path)] == [1, 2]
    assert (workdir / trackers.TENSORBOARD).is_dir()
