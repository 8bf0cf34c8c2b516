"""What a run is: where it differs from another, and what is only told."""

import logging

import jax
import pytest

from neg_contrast import cpu, errors, sharding
from neg_contrast.artifacts import folders
from neg_contrast.settings import config as config_lib
from neg_contrast.training import run_record

SETTINGS = {'seed': 3, 'optim': {'learning_rate': 0.5, 'steps': 7},
            'data': {'train_split': 'train'}}
IDENTITY = {'kind': 'training', 'format': 3, 'settings': SETTINGS,
            'needs': {'data': {'data': 'abc'}}}
ENVIRONMENT = {'devices': '1 x cpu', 'mesh': {'data': 1}, 'cpu_count': 2}


@pytest.fixture
def record(tmp_path):
  made = run_record.RunRecord(tmp_path)
  assert not made.exists() and made.chunk_groups({}) is None
  made.write(IDENTITY, {'model': {'chunk_groups': 4}}, ENVIRONMENT, 12, 34,
             {'shared': 320}, 4)
  return made


def with_settings(**sections):
  return {**IDENTITY, 'settings': {**SETTINGS, **sections}}


def test_it_says_what_was_begun(record):
  assert record.exists()
  saved = record.read()
  assert saved['examples'] == 12 and saved['total_steps'] == 34
  assert saved['row_lengths'] == {'shared': 320}
  assert saved['identity'] == IDENTITY
  assert saved['environment'] == ENVIRONMENT
  assert saved['format'] == run_record.FORMAT and 'sha256' not in saved


def test_the_same_run_goes_on(record, caplog):
  with caplog.at_level(logging.WARNING):
    record.check(IDENTITY, ENVIRONMENT)
    # Json has no tuples, and no order of keys.
    record.check({key: IDENTITY[key] for key in reversed(IDENTITY)},
                 ENVIRONMENT)
  assert not caplog.records


def test_differences_are_named_as_keys(record, tmp_path):
  other = {**with_settings(seed=4, data={'train_split': 'dev'}),
           'needs': {'data': {'data': 'xyz'}}}
  with pytest.raises(errors.UserError) as refused:
    record.check(other, ENVIRONMENT)
  first, *lines, last = str(refused.value).splitlines()
  assert first == (f'{tmp_path / "run.json"}: this workdir holds a run with '
                   'other settings:')
  assert lines == [
      "  config.data.train_split: 'train' there, 'dev' here",
      '  config.seed: 3 there, 4 here',
      "  needs.data.data: 'abc' there, 'xyz' here",
  ]
  assert last == (
      f'Go on with those, remove {tmp_path}, or name another --workdir')


def test_differences_of_a_pool_are_named_as_keys(tmp_path):
  of = lambda size: {**IDENTITY, 'needs': {'pool': {'settings': {
      'pool_size': size, 'sources': ['bm25'], 'margin': None,
      'answer_rule': 'string' if size == 4 else 'regex'}}}}
  assert run_record.differences(of(4), of(3)) == [
      "needs.pool.settings.answer_rule: 'string' there, 'regex' here",
      'config.negatives.pool_size: 4 there, 3 here',
  ]
  with errors.within('cells.a.b'):
    assert run_record.differences(of(4), of(3))[1].startswith(
        'config.cells.a.b.negatives.pool_size: 4')


def test_keys_of_an_inner_config_are_named_as_such(record):
  with errors.within('stage1'), pytest.raises(errors.UserError) as refused:
    record.check(with_settings(seed=4), ENVIRONMENT)
  assert 'config.stage1.seed: 3 there' in str(refused.value)
  assert str(refused.value).endswith('--config.stage1.workdir')


def test_another_machine_is_told_and_not_refused(record, caplog):
  with caplog.at_level(logging.WARNING):
    record.check(IDENTITY, {**ENVIRONMENT, 'devices': '8 x cpu', 'new': 1})
  assert [one.getMessage().partition(':')[0] for one in caplog.records] == [
      'devices was 1 x cpu when the run began and is 8 x cpu now',
      'new was None when the run began and is 1 now']


@pytest.mark.parametrize(('there', 'here', 'is_told'), [
    ({'o': 'x'}, {}, True), ({'o': 'x'}, {'o': 'y'}, True),
    (None, {'o': 'x'}, True), (None, {}, False), ({}, {}, False),
])
def test_other_options_of_the_compiler_are_told(
    tmp_path, caplog, there, here, is_told
):
  """None: a run from before they were used, or written down."""
  began = ENVIRONMENT if there is None else {
      **ENVIRONMENT, 'compiler_options': there}
  record = run_record.RunRecord(tmp_path)
  record.write(IDENTITY, {'model': {}}, began, 1, 1, {})
  with caplog.at_level(logging.WARNING):
    record.check(IDENTITY, {**ENVIRONMENT, 'compiler_options': here})
  assert [one.getMessage() for one in caplog.records] == is_told * [
      f'compiler_options was {there} when the run began and is {here} now: '
      'results may differ in their last bits']


def test_the_options_are_those_of_the_step():
  mesh = sharding.make_mesh(config_lib.MeshConfig(), jax.devices()[:1])
  of = lambda dtype: run_record.environment(mesh, dtype)['compiler_options']
  assert of('float32') == cpu.compiler_options(mesh, 'float32') != {}
  assert of('bfloat16') == {}


def test_groups_are_settled_for_the_same_devices(record):
  devices = {key: ENVIRONMENT[key] for key in ('devices', 'mesh')}
  assert record.chunk_groups(devices) == 4
  assert record.chunk_groups({**devices, 'mesh': {'data': 2}}) is None


def test_given_groups_are_not_taken_for_chosen_ones(tmp_path):
  record = run_record.RunRecord(tmp_path)
  record.write(IDENTITY, {'model': {'chunk_groups': 4}}, ENVIRONMENT, 1, 1, {})
  assert record.chunk_groups({'devices': '1 x cpu'}) is None


@pytest.mark.parametrize(('model', 'groups'), [
    ({}, 0), ({'chunk_groups': 4}, 4)])
def test_older_files_do_not_say_which_they_were(record, tmp_path, model,
                                                groups):
  saved = {**record.read(), 'config': {'model': model}}
  del saved['chosen_groups']
  folders.write_json(tmp_path / run_record.FILE,
                     {**saved, 'sha256': folders.sha256_json(saved)})
  assert record.chunk_groups({'devices': '1 x cpu'}) == groups


def test_devices_are_those_of_the_mesh():
  mesh = sharding.make_mesh(config_lib.MeshConfig(model=2), jax.devices()[:4])
  found = run_record.environment(mesh, 'float32')
  assert found['mesh'] == {'data': 2, 'model': 2}
  assert found['devices'] == '8 x cpu' and 'jax' in found['versions']
  assert found.items() >= run_record.devices(mesh).items()
