"""`model.chunk_groups=-1` where negatives are made by the model in training."""

import re

import pytest

from tests import tiny
from tests.negatives import test_refresh
from tests.training import test_follower

GROUPS = {'model__chunk_groups': -1, 'data__groups': 8}


def test_before_any_negatives_are_drawn(tmp_path, caplog):
  caplog.set_level('INFO')
  tiny.write_beir(tmp_path / 'data')
  tiny.train_only(tmp_path, tmp_path / 'work', optim__steps=2, **GROUPS,
                  negatives__sources=('sampled:4',))
  assert re.search(r'chunk_groups=\d+ chosen', caplog.text)


@pytest.mark.parametrize('how', [{}, test_follower.ASYNCHRONOUS])
def test_before_a_pool_is_made_again(tmp_path, caplog, how):
  caplog.set_level('INFO')
  test_refresh.train(tmp_path, tmp_path / 'work', **GROUPS, **how)
  assert re.search(r'chunk_groups=\d+ chosen', caplog.text)
