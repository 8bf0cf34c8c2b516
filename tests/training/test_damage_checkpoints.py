"""Damaged files of a training: an error that says what to do, or no harm.

TensorStore alone gives other weights for seven of eight flipped bits in arrays.
"""

import json
import random
import resource
import shutil
from typing import Any

import jax
import numpy as np
import optax
import pytest

from neg_contrast import errors
from neg_contrast.artifacts import checkpoints
from neg_contrast.training import run_log, run_record
from neg_contrast.training import state as state_lib

DAMAGES = 24  # Of each kind.
PROGRESS = checkpoints.Progress(
    best_step=1, best_value=0.5, evaluation={'accuracy@1': 0.5},
    evaluated_step=2,
)


def make_state(step):
  rng = np.random.default_rng(step)
  params = {
      'encoder': {'shared': {
          'kernel': rng.normal(size=(33, 17)).astype(np.float32),
          'bias': rng.normal(size=17).astype(np.float32),
      }},
      'loss': {'log_scale': np.float32(rng.normal())},
  }
  state: Any = state_lib.init_state(params, optax.adam(1e-3))
  return jax.tree.map(jax.numpy.asarray, state.replace(step=np.int32(step)))


@pytest.fixture(scope='module')
def saved(tmp_path_factory):
  """A workdir with two checkpoints, and what the second one holds."""
  root = tmp_path_factory.mktemp('saved')
  for step in (1, 2):
    with checkpoints.writing(root) as opened:
      opened.save(make_state(step), PROGRESS)
  one = jax.sharding.SingleDeviceSharding(jax.devices()[0])
  state = make_state(2)
  like = jax.tree.map(
      lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=one), state
  )
  return root, like, jax.tree.map(np.asarray, state)


def read_all(root, like, step=2):
  """All that a program reads of a checkpoint."""
  with checkpoints.reading(root) as opened:
    assert opened.latest_step() == 2
    progress = opened.progress(2)
    state, again = opened.restore(like, step)
    params = opened.restore_params('encoder', jax.tree.map(
        lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype),
        like.params['encoder']), step)
  assert progress == again == PROGRESS
  return jax.tree.map(np.asarray, state), params


def files_of(root, *items):
  folder = root / 'checkpoints' / '2'
  return sorted(path for item in items for path in (folder / item).rglob('*')
                if path.is_file() and path.name != 'commit_success.txt')


def flip(path, rng):
  data = bytearray(path.read_bytes())
  data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
  path.write_bytes(data)


def cut(path, rng):
  data = path.read_bytes()
  path.write_bytes(data[:rng.randrange(len(data))])


def remove(path, rng):
  del rng
  path.unlink()


def swap(path, rng):
  """Puts another file in its place."""
  others = [other for other in path.parents[1].rglob('*') if other.is_file()
            and other.read_bytes() != path.read_bytes()]
  shutil.copy(rng.choice(others), path)


@pytest.mark.parametrize('damage', [flip, cut, remove, swap])
@pytest.mark.parametrize('items', [
    ('params',), ('optimizer',), ('progress',),
])
def test_a_damaged_checkpoint_is_refused(saved, damage, items):
  root, like, _ = saved
  rng = random.Random(f'{damage.__name__} {items}')
  files = files_of(root, *items)
  for number in range(DAMAGES):
    path = files[number % len(files)]
    before = path.read_bytes()
    damage(path, rng)
    with pytest.raises(errors.UserError) as refused:
      read_all(root, like)
    path.write_bytes(before)
    said = str(refused.value)
    assert f'{root}/checkpoints/2: damaged (' in said, (path, said)
    assert said.endswith('goes on from step 1') and '\n' not in said
  read_all(root, like)  # It is whole again.


def test_an_undamaged_one_is_what_was_saved(saved):
  root, like, want = saved
  state, params = read_all(root, like)
  jax.tree.map(np.testing.assert_array_equal, state, want)
  jax.tree.map(np.testing.assert_array_equal, params, want.params['encoder'])


def test_files_without_checksums_do_no_harm(saved):
  root, like, want = saved
  folder, rng = root / 'checkpoints' / '2', random.Random(0)
  others = [folder / '_CHECKPOINT_METADATA',
            *folder.rglob('commit_success.txt')]
  for number in range(DAMAGES):
    path = others[number % len(others)]
    before = path.read_bytes()
    rng.choice([flip, cut, remove])(path, rng)
    state, _ = read_all(root, like)
    jax.tree.map(np.testing.assert_array_equal, state, want)
    path.write_bytes(before)


def test_a_checkpoint_that_is_gone_is_told(saved, tmp_path):
  """The selected one; and what is left of it after its items."""
  root, like, _ = saved
  work = tmp_path / 'work'
  shutil.copytree(root, work)
  shutil.rmtree(work / 'checkpoints' / '1')
  with (checkpoints.reading(work) as opened,
        pytest.raises(errors.UserError, match='points/1: damaged .*again')):
    opened.restore_params('encoder', like.params['encoder'],
                          opened.selected_step())
  for item in ('params', 'optimizer', 'progress'):
    shutil.rmtree(work / 'checkpoints' / '2' / item)
    with pytest.raises(errors.UserError, match='checkpoints/2: damaged'):
      read_all(work, like)


def test_one_of_an_earlier_revision_is_read(saved, tmp_path):
  """It has no checksums."""
  root, like, want = saved
  shutil.copytree(root, tmp_path / 'work')
  for path in (tmp_path / 'work').rglob('checksums.json'):
    path.unlink()
  state, _ = read_all(tmp_path / 'work', like)
  jax.tree.map(np.testing.assert_array_equal, state, want)


@pytest.mark.parametrize('leaves', [True, False])
def test_one_that_cannot_be_written_leaves_the_one_before(
    tmp_path, leaves
):
  """As with `ulimit -f`; at a later save, or at the end."""
  state = make_state(1)
  state = state.replace(params={'encoder': jax.random.normal(
      jax.random.key(0), (300, 300))})
  with checkpoints.writing(tmp_path) as opened:
    opened.save(state, PROGRESS)
  limits = resource.getrlimit(resource.RLIMIT_FSIZE)
  resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
  try:
    with (pytest.raises(errors.UserError) as refused,
          checkpoints.writing(tmp_path) as opened):
      opened.save(state.replace(step=np.int32(2)), PROGRESS)
      if not leaves:
        opened.save(state.replace(step=np.int32(3)), PROGRESS)
  finally:
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
  said = str(refused.value)
  assert '(File too large); that of step 1 is whole' in said
  assert '\n' not in said
  with checkpoints.writing(tmp_path) as opened:
    assert opened.latest_step() == 1 and opened.progress(1) == PROGRESS
    opened.save(state.replace(step=np.int32(2)), PROGRESS)
  with checkpoints.reading(tmp_path) as opened:
    assert opened.latest_step() == 2


def write_record(folder):
  folder.mkdir()
  record = run_record.RunRecord(folder)
  record.write(
      {'config': {'seed': 3}}, {'model': {'chunk_groups': 2}},
      {'git_revision': 'abc', 'devices': '1 x cpu'}, 12, 34, {'shared': 64},
  )
  return record


@pytest.mark.parametrize('damage', [flip, cut])
def test_a_damaged_run_json_is_refused(tmp_path, damage):
  record = write_record(tmp_path / 'work')
  path, rng = tmp_path / 'work' / run_record.FILE, random.Random(1)
  whole, want = path.read_bytes(), record.read()
  noticed = 0
  for _ in range(4 * DAMAGES):
    damage(path, rng)
    try:
      assert record.read() == want  # A space for another.
    except errors.UserError as e:
      assert str(path) in str(e)
      noticed += 1
    path.write_bytes(whole)
  assert noticed > 3 * DAMAGES


def test_checkpoints_of_no_run_are_refused(tmp_path):
  record = write_record(tmp_path / 'work')
  (tmp_path / 'work' / 'checkpoints' / '3').mkdir(parents=True)
  (tmp_path / 'work' / run_record.FILE).unlink()
  with pytest.raises(errors.UserError, match=r'run.json: is missing.*Put it'):
    record.exists()


@pytest.mark.parametrize(('number', 'said'), [
    (1, 'begun with format 1, and'), (99, 'begun with format 99, and'),
    (None, r'begun with format 1 \(none is written there\), and'),
])
def test_a_run_of_another_format_is_refused(tmp_path, number, said):
  record = write_record(tmp_path / 'work')
  path = tmp_path / 'work' / run_record.FILE
  value = json.loads(path.read_text())
  if number is None:
    del value['format'], value['sha256']
  else:
    value['format'] = number
  path.write_text(json.dumps(value))
  with pytest.raises(errors.UserError, match=said) as refused:
    record.check({'config': {'seed': 3}}, {})
  said = str(refused.value)
  assert f'format {run_record.FORMAT}' in said and '(abc)' in said
  assert 'Remove' in said and 'another --workdir' in said


def write_log(folder):
  folder.mkdir()
  with run_log.opened(folder, 0, 9) as log:
    for step in range(1, 9):
      log.write_evaluation(step, {'accuracy@1': 1 / step, 'loss': 0.1 * step})
  return folder / run_log.FILE


def test_a_damaged_line_of_a_log_is_named(tmp_path):
  path, rng = write_log(tmp_path / 'work'), random.Random(2)
  whole, want = path.read_bytes(), run_log.read(path)
  assert len(want) == 8
  refused = 0
  for _ in range(4 * DAMAGES):
    flip(path, rng)
    try:
      assert run_log.read(path) in (want, want[:-1])
    except errors.UserError as e:
      number = int(str(e).partition('line ')[2].partition(':')[0])
      assert str(path) in str(e) and 1 <= number <= 8
      refused += 1
    path.write_bytes(whole)
  assert refused > 3 * DAMAGES
  path.write_bytes(whole[:-3])  # A crash cut the last line short.
  assert run_log.read(path) == want[:-1]
