"""Tests of what is said of keys that there are not."""

import pytest

from neg_contrast import errors
from neg_contrast.settings import config, unknown_keys

_KNOWN = config.flat(config.base_config())


@pytest.mark.parametrize('flag, said', [
    ('--config.optim.step=3', 'config.optim.step: .*mean optim.steps'),
    ('--config.stage1.optim.step=3',
     'config.stage1.optim.step: .*mean stage1.optim.steps'),
    ('--config.negatives.strategy=bm25', 'negatives.sources now'),
    ('--config.generator.stage1.negatives.queue=8', 'negatives.sources now'),
    ('--config.qqqqqqqq=1', 'config.qqqqqqqq: no such key$'),
    ('--config.stage1.optim.lr=3', 'mean stage1.optim.learning_rate'),
    ('--config.data.bs=3', 'mean data.batch_size'),
    ('-config.seeds', 'config.seeds: .*mean seed'),
])
def test_a_flag_of_no_key(flag, said):
  with pytest.raises(errors.UserError, match=said):
    unknown_keys.check_flags(['main', '--workdir=x', flag], _KNOWN)


def test_flags_of_keys_are_left_alone():
  unknown_keys.check_flags([
      'main', '--config=configs/x.py', '--config.optim.steps=3',
      '--config.stage1.seed=4', '--config.cells.a.b.optim.steps=1', '--plan',
      '--config.optim', 'negatives.strategy',
  ], _KNOWN)


def test_all_that_are_gone_are_gone():
  for key in unknown_keys._GONE:
    assert key not in _KNOWN


def test_a_json_of_before_says_so():
  values = config.base_config().to_dict()
  values['negatives']['strategy'] = 'bm25'
  with pytest.raises(errors.UserError, match=r'negatives\.sources now'):
    config.from_dict(values)


@pytest.mark.parametrize(('message', 'said'), [
    ("flag --config.a.b=yes: ('Non-boolean argument to boolean flag', 'yes')",
     'flag --config.a.b=yes: write True or False'),
    ("flag --config.a=x: invalid literal for int() with base 10: 'x'",
     'flag --config.a=x: write a whole number'),
    ("flag --config.a=x: could not convert string to float: 'x'",
     'flag --config.a=x: write a number'),
    ("Unknown command line flag 'confg.data.sorce'",
     "Unknown command line flag 'confg.data.sorce'; did you mean "
     '--config.data.source?'),
    ("Unknown command line flag 'other.data.source'",
     "Unknown command line flag 'other.data.source'"),
    ("Unknown command line flag 'plna'. Did you mean: plan ?",
     "Unknown command line flag 'plna'. Did you mean: plan ?"),
])
def test_what_absl_says_of_flags_is_plain(message, said):
  assert unknown_keys.say_plainly(message, ['data.source', 'seed']) == said
