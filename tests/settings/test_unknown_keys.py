"""Tests of what is said of keys that there are not."""

import pytest

from neg_contrast import errors
from neg_contrast.settings import config, unknown_keys
from tests import processes

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
    ('--config.mixture.sets.numpy.sorce=x', 'config.mixture.sets.numpy.sorce: '
     r'no such key; did you mean mixture.sets.numpy.source\?'),
])
def test_a_flag_of_no_key(flag, said):
  with pytest.raises(errors.UserError, match=said):
    unknown_keys.check_flags(['main', '--workdir=x', flag], _KNOWN)


@pytest.mark.parametrize('key', [
    'stage1.optim.steps', 'generator.model.init', 'cells.a.b.optim.steps'])
def test_a_key_of_a_config_that_is_not_there(key):
  outer = key.removesuffix('.optim.steps').removesuffix('.model.init')
  with pytest.raises(errors.UserError, match=rf'config\.{key}=3: no such key; '
                     rf'this config has no {outer}; choose one'):
    config.set_key(config.base_config(), key, 3)


def test_flags_of_keys_are_left_alone():
  unknown_keys.check_flags([
      'main', '--config=configs/x.py', '--config.optim.steps=3',
      '--config.stage1.seed=4', '--config.cells.a.b.optim.steps=1', '--plan',
      '--config.optim', 'negatives.strategy',
      '--config.mixture.sets.numpy.weight=2',
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
    ('\'nunpy\'\nDid you mean "numpy" instead of "nunpy"?',
     'config: no such key: nunpy; did you mean numpy?'),
    ("flag --config.a=x: invalid literal for int() with base 10: 'x'",
     'flag --config.a=x: write a whole number'),
    ("flag --config.a=x: could not convert string to float: 'x'",
     'flag --config.a=x: write a number'),
    ("flag --config.data=x: Failed to parse 'x' as a ConfigDict: ValueError('"
     "malformed node or string: <ast.Name object at 0x7f>')",
     'flag --config.data=x: it holds keys, such as --config.data.source=VALUE'),
    ("flag --config.stage1=None: Failed to parse 'None' as a ConfigDict: `None`"
     " is not a dict.",
     'flag --config.stage1=None: it is a config, which the config file sets'),
    ('Override stage1.optim.steps can not be applied because field "stage1" is '
     'None, and its type "<class>" is not a dataclass.',
     'config.stage1.optim.steps: this config has no stage1; choose one that '
     'has, or an argument of its file, where it takes one: FILE:stage1=NAME'),
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


def test_a_set_that_is_misspelt_is_told_by_the_command(tmp_path):
  done = processes.run(processes.command(
      '--config=configs/mixture.py', '--config.mixture.sets.nunpy.source=x',
      f'--workdir={tmp_path}', '--plan'))
  assert done.returncode == 2
  assert 'error: config: no such key: nunpy; did you mean numpy?' in done.stderr
