"""Files that workers pass on; tests/test_beam_bucket.py has a bucket."""

import numpy as np
import pytest

from neg_contrast.artifacts import passed_on


def test_what_is_put_is_whole_or_absent(tmp_path):
  path = tmp_path / 'a'
  with pytest.raises(ValueError), passed_on.putting(path) as partial:
    partial.write_text('half')
    raise ValueError
  assert not list(tmp_path.iterdir())
  with passed_on.putting(path) as partial:
    partial.write_text('whole')
  assert [one.read_text() for one in tmp_path.iterdir()] == ['whole']


def test_a_folder_is_new_and_goes(tmp_path):
  (tmp_path / 'beam').mkdir()
  (tmp_path / 'beam' / 'left').touch()
  with pytest.raises(ValueError), passed_on.shared(tmp_path / 'beam') as made:
    assert made == tmp_path / 'beam' and not list(made.iterdir())
    passed_on.save(made / 'a.npy', np.arange(3))
    assert np.load(made / 'a.npy').tolist() == [0, 1, 2]
    raise ValueError
  assert not list(tmp_path.iterdir())
