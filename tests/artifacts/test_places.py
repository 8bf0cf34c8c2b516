"""Files and folders in a bucket: whole or absent, fetched, bounded, leased."""

import concurrent.futures
import json
import os
import pathlib
import pickle
import re
import socket
import subprocess
import sys
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.artifacts import (
  arrays,
  atomic,
  bucket_path,
  buckets,
  checkpoints,
  checksums,
  fetched,
  folders,
  leases,
  passed_on,
  places,
)
from neg_contrast.training import state as train_state
from tests import bucket, s3_bucket

FORMAT = folders.Format('a test', 1)


@pytest.fixture(scope='module', params=[bucket.Emulator, s3_bucket.Server],
                ids=['gs', 's3'])
def running(tmp_path_factory, request):
  cache = tmp_path_factory.mktemp('cache')
  with bucket.running(cache, request.param) as emulator:
    yield emulator


@pytest.fixture
def emulator(running, monkeypatch):
  """Without trouble, and quick to give up."""
  running.leave_out_pauses(monkeypatch)
  running.trouble = lambda method, path: ''
  yield running
  running.trouble = lambda method, path: ''
  buckets._unreached.clear()


@pytest.fixture
def root(emulator, request) -> pathlib.Path:
  """A folder of the bucket for one test."""
  name = re.sub(r'\W+', '-', request.node.name)
  return places.path(f'{emulator.address}/{name}')


def write_folder(folder, **values):
  with folders.writing(folder, dict(values), format=FORMAT) as scratch:
    np.save(scratch / 'rows.npy', np.arange(7, dtype=np.int32))
    (scratch / 'below').mkdir()
    (scratch / 'below' / 'text').write_text('t\u00e9xt')


@pytest.mark.parametrize('scheme', ['gs', 's3', 'hf'])
def test_a_path_reads_as_an_address(scheme):
  path = places.path(f'{scheme}://b/folder/file.npy')
  assert str(path) == f'{path}' == f'{scheme}://b/folder/file.npy'
  assert path == places.path(f'{scheme}://b') / 'folder' / 'file.npy'
  assert path.absolute() is path and path.resolve() is path
  assert path.name == 'file.npy' and str(path.parent) == f'{scheme}://b/folder'
  assert path.with_name('other').as_posix() == f'{scheme}://b/folder/other'
  assert path.relative_to(path.parent).as_posix() == 'file.npy'
  assert isinstance(path, pathlib.Path) and places.is_remote(path.parent)
  assert pickle.loads(pickle.dumps(path)) == path
  assert sorted([path, path.parent])[0] == path.parent


def test_paths_of_a_disk_stay_what_they_are(tmp_path):
  for text in ('a/b', str(tmp_path), 'name', 'owner/name', 'x:y'):
    assert places.path(text) == pathlib.Path(text)
    assert type(places.path(text)) is type(pathlib.Path())
  assert places.local(tmp_path) is tmp_path
  assert places.local_folder(tmp_path) is tmp_path


def test_the_home_of_a_user(monkeypatch, tmp_path):
  """No shell makes it of `--workdir=~/here`; a part of a name it is not."""
  monkeypatch.setenv('HOME', str(tmp_path))
  assert places.path('~/here') == tmp_path / 'here'
  assert places.path('~') == tmp_path
  for text in ('a/~/b', 'x~', '~b'):
    assert places.path(text) == pathlib.Path(text)


def test_other_buckets_are_refused():
  with pytest.raises(errors.UserError, match=r'gs:// and s3:// are read and'):
    places.path('az://b/a')


def test_nothing_is_written_to_the_hub():
  path = places.path('hf://datasets/owner/name/a')
  for act in (lambda: path.write_text('x'), lambda: path.unlink(True),
              lambda: folders.write_json(path, {})):
    with pytest.raises(errors.UserError, match=r'/a.*: hf:// is read only'):
      act()


def test_an_address_that_leads_out_is_refused(emulator):
  with pytest.raises(errors.UserError, match='without empty names'):
    places.path(f'{emulator.address}/../../etc/passwd').read_text()


def test_a_file_is_written_and_read(root):
  path = root / 'a.json'
  assert not path.exists() and not root.is_dir()
  folders.write_json(path, {'a': 1})
  assert path.is_file() and root.is_dir() and not path.is_dir()
  assert folders.read_json(path) == {'a': 1}
  with open(path, encoding='utf-8') as f:  # As libraries open it.
    assert '"a": 1' in f.read()
  folders.write_json(path, {'a': 2})
  assert folders.read_json(path) == {'a': 2}
  assert path.stat().st_size == len(path.read_bytes())
  with atomic.writing(root / 'text.gz') as f:
    f.write('some text')
  for last in (b'\r', b'\n', b'\r\n', b''):
    atomic.write_bytes(root / 'bytes', b'b' + last)
    assert (root / 'bytes').read_bytes() == b'b' + last
  assert bucket.names(str(root)) == ['a.json', 'bytes', 'text.gz']
  assert [one.name for one in root.iterdir()] == ['a.json', 'bytes', 'text.gz']
  path.unlink()
  assert not path.exists()
  with pytest.raises(errors.UserError, match='no such file'):
    folders.read_json(path)


def test_what_another_program_writes_is_fetched_again(root, monkeypatch):
  monkeypatch.setattr(buckets, '_TRUSTED_SECONDS', 0.0)
  path = root / 'file'
  path.write_text('one')
  assert path.read_text() == 'one'
  buckets._system(str(path)).pipe_file(str(path), b'two, and longer')
  assert path.read_text() == 'two, and longer'
  buckets._system(str(path)).rm_file(str(path))
  with pytest.raises(FileNotFoundError):
    path.read_text()


def test_a_file_is_fetched_once(root, emulator):
  path = root / 'file'
  buckets._system(str(path)).pipe_file(str(path), b'content')
  before = len(emulator.asked)
  for _ in range(3):
    assert path.read_bytes() == b'content'
  asked = [one for one in emulator.asked[before:] if emulator.reads(*one)]
  assert len(asked) == 1


def test_a_bucket_says_whether_bytes_changed(root, emulator, tmp_path):
  path, said = root / 'a', []
  for content in (b'content', b'another', b'content'):
    path.write_bytes(content)
    fetched.forget(str(path))
    said.append(places.digest(path))
  assert said[0] == said[2] != said[1] and len(said[0]) == 1
  assert not [one for one in emulator.asked
              if emulator.reads(*one) and root.name + '/a' in one[1]]
  near = tmp_path / 'a'
  near.write_bytes(b'content')
  assert places.digest(near) == {}


def test_writing_to_a_copy_alone_is_refused(root):
  with pytest.raises(NotImplementedError):
    (root / 'file').open('w')
  with pytest.raises(NotImplementedError):
    (root / 'file').rename(root / 'other')


def test_a_folder_has_its_manifest_last(root, emulator):
  folder = root / 'made'
  before = len(emulator.written)
  write_folder(folder, rows=7)
  assert folders.read_manifest(folder, FORMAT)['rows'] == 7
  assert bucket.names(str(folder)) == ['below/text', 'manifest.json',
                                       'rows.npy']
  np.testing.assert_array_equal(
      arrays.load_array(folder / 'rows.npy', (None,), np.int32), np.arange(7))
  written = emulator.written[before:]
  assert len(written) == 3 and written[-1].endswith('/manifest.json')
  assert abs(buckets.look(f'{folder}/rows.npy').seconds - time.time()) < 60
  write_folder(folder, rows=8)  # Takes its place.
  assert folders.read_manifest(folder, FORMAT)['rows'] == 8
  places.remove(folder)
  assert not folder.exists() and bucket.names(str(folder)) == []


def test_a_folder_of_others_is_not_replaced(root):
  (root / 'theirs' / 'file').write_text('x')
  with pytest.raises(errors.UserError, match='was not made by this program'):
    write_folder(root / 'theirs')


def test_a_failing_block_leaves_nothing(root):
  with pytest.raises(RuntimeError), folders.writing(root / 'made', {}):
    raise RuntimeError
  assert not root.exists()


def test_globs(root):
  for name in ('one/manifest.json', 'two/manifest.json', 'two/run.trec', 'top'):
    (root / name).write_text('x')
  relative = lambda found: [str(one.relative_to(root)) for one in found]
  assert relative(root.glob('*')) == ['one', 'top', 'two']
  assert relative(root.glob('*/manifest.json')) == [
      'one/manifest.json', 'two/manifest.json']
  assert relative(root.glob('t*/run.*')) == ['two/run.trec']
  assert relative(root.rglob('*.trec')) == ['two/run.trec']
  assert relative(places.matching(f'{root}/t*')) == ['top', 'two']


def test_parts_are_added_to_an_unfinished_folder(root):
  folder = root / 'table'
  with folders.writing(folder, {}, folders.UNFINISHED, FORMAT):
    pass
  path = folder / 'rows.npy'
  partial = path.with_name('rows.npy.partial')
  array = arrays.create_array(partial, np.int32, (5,))
  array[:] = range(5)
  array.flush()
  assert not path.exists() and not partial.exists()
  folders.add_file(partial, path)
  assert path.exists()
  folders.finish(folder)
  assert folders.read_manifest(folder, FORMAT) is not None
  assert not (folder / folders.UNFINISHED).exists()
  places.remove(folder.copy)  # As another machine sees it.
  np.testing.assert_array_equal(
      arrays.load_array(path, (None,), np.int32), np.arange(5))


def test_damage_in_the_bucket_is_noticed(root):
  write_folder(root / 'made')
  path = root / 'made' / 'rows.npy'
  data = bytearray(path.read_bytes())
  data[-1] ^= 1
  path.write_bytes(bytes(data))
  with pytest.raises(errors.UserError, match=r'//bucket/.*rows.npy: damaged'):
    arrays.load_array(path, (None,), np.int32)


def test_copies_are_bounded(root, monkeypatch):
  for number in range(6):
    buckets.put_bytes(bytes(1000), f'{root}/{number}')
  monkeypatch.setenv('NEG_CONTRAST_CACHE_GB', '3e-6')  # Three of them.
  monkeypatch.setattr(fetched, '_FRESH_SECONDS', -1.0)
  for number in range(6):
    assert len((root / str(number)).read_bytes()) == 1000
    time.sleep(0.01)
  kept = [number for number in range(6) if (root / str(number)).copy.exists()]
  assert 1 <= len(kept) <= 3 and kept[-1] == 5
  assert len((root / '0').read_bytes()) == 1000  # Comes again.


def test_what_is_not_in_the_bucket_yet_is_never_removed(root, monkeypatch):
  partial = root / 'file.partial'
  array = arrays.create_array(partial, np.int8, (5000,))
  array[:] = 3
  array.flush()
  buckets.put_bytes(bytes(1000), f'{root}/other')
  monkeypatch.setenv('NEG_CONTRAST_CACHE_GB', '1e-6')
  monkeypatch.setattr(fetched, '_FRESH_SECONDS', -1.0)
  assert (root / 'other').read_bytes()
  assert np.load(partial.copy).sum() == 15_000


def test_the_bound_is_a_number(monkeypatch):
  monkeypatch.setenv('NEG_CONTRAST_CACHE_GB', 'much')
  with pytest.raises(errors.UserError, match='positive number'):
    fetched.most_bytes()


def test_a_bucket_that_refuses(root, emulator):
  emulator.trouble = lambda method, path: 'refuse'
  for act in (root.exists, (root / 'file').read_bytes,
              lambda: folders.write_json(root / 'a.json', {}),
              lambda: write_folder(root / 'made')):
    with pytest.raises(errors.UserError) as e:
      act()
    text = str(e.value)
    assert 'the bucket refuses' in text and '\n' not in text
    assert text.startswith(str(root)) and len(text) < 400


def test_a_missing_bucket(emulator):
  nobody = emulator.address.replace('bucket', 'nobody')
  with pytest.raises(errors.UserError, match=f'no bucket {nobody}'):
    folders.write_json(places.path(f'{nobody}/a.json'), {})


def test_who_can_not_be_reached_is_not_asked_again_at_once(
    root, emulator, monkeypatch, caplog):
  """A try takes most of a minute; a plan looks many times."""
  before = len(emulator.asked)
  with socket.socket() as s:
    s.bind(('127.0.0.1', 0))  # Nobody listens.
    monkeypatch.setenv(emulator.variable,
                       f'http://127.0.0.1:{s.getsockname()[1]}')
    emulator.forget()
    with pytest.raises(errors.UserError, match=emulator.unreached):
      (root / 'a').exists()
  monkeypatch.setenv(emulator.variable, emulator.url)
  emulator.forget()
  with pytest.raises(errors.UserError, match=r'/b: the connection failed'):
    (root / 'b').exists()
  assert len(emulator.asked) == before
  monkeypatch.setattr(buckets, '_TRUSTED_SECONDS', 0.0)
  assert not (root / 'b').exists()
  assert len(emulator.asked) > before
  assert not [one for one in caplog.records if one.name == emulator.package]


def test_what_workers_passed_on_to_a_killed_program_goes(root):
  folder = root / 'made'
  (root / 'made..partial' / 'beam' / 'part').write_bytes(b'part')
  write_folder(folder)
  assert 'made..partial' not in buckets.names(str(root))
  (root / 'made.beam' / 'part').write_bytes(b'part')
  from neg_contrast.retrieval import beam_best

  with beam_best.scratch_in(folder) as scratch:
    assert not (scratch / 'part').exists()
    (scratch / 'mine').write_bytes(b'')
  assert buckets.names(str(root)) == ['made']


def test_what_workers_passed_on_goes_with_a_failure(root):
  with pytest.raises(ValueError), folders.writing(
      root / 'made', {}, format=FORMAT) as scratch:
    with passed_on.putting(passed_on.share(scratch / 'beam') / 'a') as path:
      path.write_text('of a worker')
    address = f'{root}/made..partial/beam/a'
    assert buckets.get_bytes(address) == b'of a worker'
    raise ValueError
  assert not buckets.objects(str(root))


@pytest.mark.parametrize('size', [5, 6 << 20])  # Large ones in steps.
def test_a_file_that_grows_while_it_is_put(root, emulator, size):
  """As TensorBoard's events do, which a thread of theirs writes."""
  near = places.on_disk(root / 'events')
  near.parent.mkdir(parents=True, exist_ok=True)
  near.write_bytes(b'b' * size)

  def trouble(method, path):
    if emulator.writes(method, path):
      with open(near, 'ab') as f:
        f.write(b' more')
    return ''

  emulator.trouble = trouble
  growing = places.Growing(root / 'events')
  growing.put()
  emulator.trouble = lambda method, path: ''
  assert buckets.get_bytes(str(root / 'events')).startswith(b'b' * size)
  growing.put()
  assert buckets.get_bytes(str(root / 'events')) == near.read_bytes()


def test_a_connection_that_breaks_while_reading(root, emulator):
  path = root / 'file'
  path.write_bytes(b'whole' * 1000)
  fetched.forget(str(path))
  emulator.trouble = lambda method, asked: (
      'break' if emulator.reads(method, asked) else '')
  with pytest.raises(errors.UserError) as e:
    path.read_bytes()
  assert 'connection' in str(e.value) and '\n' not in str(e.value)
  assert not path.copy.exists()
  emulator.trouble = lambda method, asked: ''
  assert path.read_bytes() == b'whole' * 1000


@pytest.mark.parametrize('number', range(3))
def test_a_connection_that_breaks_while_writing(root, emulator, number):
  """Whichever file of a folder fails, it has no manifest and is made again."""
  seen = []

  def trouble(method, asked):
    if emulator.writes(method, asked):
      seen.append(asked)
      return 'break' if len(seen) > number else ''
    return ''

  emulator.trouble = trouble
  with pytest.raises(errors.UserError) as e:
    write_folder(root / 'made')
  assert '\n' not in str(e.value)
  emulator.trouble = lambda method, asked: ''
  assert folders.read_manifest(root / 'made', FORMAT) is None
  places.remove(root / 'made')
  write_folder(root / 'made')
  arrays.check_folder(root / 'made')


def test_a_second_program_is_refused(root, monkeypatch):
  monkeypatch.setattr(leases, 'RENEW_SECONDS', 0.05)
  monkeypatch.setattr(leases, 'EXPIRES_SECONDS', 2.0)
  with leases.held(root):
    address = f'{root}/{leases.FILE}'
    assert buckets.look(address)
    with leases.held(root):  # The same program.
      pass
    monkeypatch.setattr(leases, '_held', set())
    with pytest.raises(
        errors.UserError, match='another program works there'
    ), leases.held(root):
      pass
    monkeypatch.undo()
  assert buckets.look(address) is None


def test_of_programs_that_begin_at_once_one_has_the_lease(root, monkeypatch):
  """Each has looked before any of them writes."""
  monkeypatch.setattr(buckets, 'look', lambda address: None)
  put = lambda number: buckets.put_bytes(
      b'%d' % number, f'{root}/{leases.FILE}', is_new=True)
  with concurrent.futures.ThreadPoolExecutor(8) as pool:
    assert sorted(pool.map(put, range(8))) == [False] * 7 + [True]


def test_a_lease_of_which_the_answer_was_lost(root, monkeypatch):
  """Libraries of the network then try again, and are told of their own."""
  put = buckets.put_bytes
  monkeypatch.setattr(
      buckets, 'put_bytes', lambda *args, **kwargs: (
          put(*args, **kwargs), put(*args, **kwargs))[1])
  with leases.held(root):
    assert leases._read(f'{root}/{leases.FILE}')['program'] == leases._program


def test_a_folder_that_a_console_made(root):
  """As an object without bytes, whose name ends in a slash."""
  for name in ('', '/below', '/a'):
    buckets._system(str(root)).pipe_file(
        f'{root}{name}' + '/' * (name != '/a'), b'')
  assert list(buckets.objects(str(root))) == ['a']
  assert sorted(buckets.names(str(root))) == ['a', 'below']
  assert places.local_folder(root).is_dir()


def test_the_lease_of_a_killed_program_expires(root, monkeypatch):
  monkeypatch.setattr(leases, 'RENEW_SECONDS', 0.05)
  monkeypatch.setattr(leases, 'EXPIRES_SECONDS', 0.3)
  address = f'{root}/{leases.FILE}'
  buckets.put_bytes(b'{"program": "other", "host": "there"}', address)
  with leases.held(root):
    assert leases._read(address)['program'] == leases._program


def test_the_lease_of_an_ended_process_of_this_machine(root):
  ended = subprocess.run(
      [sys.executable, '-c', 'import os; print(os.getpid())'],
      capture_output=True, text=True, check=True).stdout
  lease = {
      'program': 'other', **leases._machine(), 'process': int(ended)}
  buckets.put_bytes(json.dumps(lease).encode(), f'{root}/{leases.FILE}')
  began = time.monotonic()
  with leases.held(root):
    assert time.monotonic() - began < leases.RENEW_SECONDS
  assert leases._has_ended(lease)
  for other in ({'host': 'there'}, {'namespace': 'pid:[1]'},
                {'process': os.getpid()}, {'process': 10**30},
                {'process': 'x'}):
    assert not leases._has_ended({**lease, **other})


def test_a_lease_that_can_not_be_given_back(root, emulator, caplog):
  """What a program has made counts; the lease expires by itself."""
  with leases.held(root):
    emulator.trouble = lambda method, path: 'refuse'
  assert 'The lease stays, and counts for 60 seconds' in caplog.text


def test_a_connection_that_breaks_once_is_tried_again(root, emulator):
  path, broken = root / 'file', []
  path.write_bytes(b'whole' * 1000)
  fetched.forget(str(path))

  def trouble(method, asked):
    if emulator.reads(method, asked) and not broken:
      return broken.append(asked) or 'break'
    return ''

  emulator.trouble = trouble
  assert path.read_bytes() == b'whole' * 1000 and broken


def test_a_disk_has_no_lease(tmp_path):
  with leases.program(tmp_path / 'run'):
    assert list((tmp_path / 'run').iterdir()) == []


def test_growing_files(root):
  growing = places.Growing(root / 'log', root / 'events')
  near = places.on_disk(root)
  (near / 'events').mkdir(parents=True)
  (near / 'log').write_text('one\n')
  (near / 'events' / 'a').write_text('x')
  growing.put()
  assert (root / 'log').read_text() == 'one\n'
  with open(near / 'log', 'a') as f:
    f.write('two\n')
  growing.put(seconds=60.0)  # Too early.
  assert buckets.get_bytes(f'{root}/log') == b'one\n'
  growing.put()
  assert buckets.get_bytes(f'{root}/log') == b'one\ntwo\n'
  assert bucket.names(str(root)) == ['events/a', 'log']


def test_turns_of_processes_of_this_machine(root):
  entered = []

  def enter():
    with folders.only_one(root / 'made', wait=False) as is_ours:
      entered.append(is_ours)

  with folders.only_one(root / 'made') as is_ours:
    assert is_ours
    other = threading.Thread(target=enter)
    other.start()
    other.join()
  assert entered == [False]
  assert not root.exists()  # Nothing of it is in the bucket.


def test_checksums_and_sizes_of_objects(root, tmp_path):
  data = os.urandom(5000)
  (root / 'file').write_bytes(data)
  (tmp_path / 'file').write_bytes(data)
  assert checksums.of_file(root / 'file') == checksums.of_file(
      tmp_path / 'file')
  for path in (root / 'file', tmp_path / 'file'):
    blocks = list(places.blocks(path, 2000))
    assert [len(one) for one in blocks] == [2000, 2000, 1000]
    assert b''.join(blocks) == data


def test_what_is_done_with_a_block_is_no_trouble_of_the_bucket(root):
  (root / 'file').write_bytes(b'some')
  with pytest.raises(KeyError):
    for block in places.blocks(root / 'file', 2):
      raise KeyError(block)


def test_only_places_makes_paths_of_buckets():
  """`pathlib.Path('gs://b/a')` would be a folder named `gs:` here."""
  assert not isinstance(pathlib.Path('gs://b/a'), bucket_path.BucketPath)


def test_a_checkpoint_that_a_kill_left_half_saved(root):
  """It is no checkpoint, is removed, and its step can be saved again."""
  def state(step):
    return train_state.TrainState(
        jnp.int32(step), {'encoder': {'a': jnp.arange(5.0) + step}},
        {'m': jnp.ones(3)})

  step_folder = root / checkpoints.FOLDER / '2'
  with checkpoints.writing(root) as opened:
    opened.save(state(2), checkpoints.Progress())
  with checkpoints.reading(root) as opened:
    assert opened.latest_step() == 2
  (step_folder / 'commit_success.txt').unlink()
  with checkpoints.reading(root) as opened:
    assert opened.latest_step() is None
  with checkpoints.writing(root) as opened:
    assert bucket.names(str(step_folder)) == []
    opened.save(state(2), checkpoints.Progress())
  places.remove(root.copy)  # As another machine sees it.
  like = {'a': jax.ShapeDtypeStruct((5,), jnp.float32)}
  with checkpoints.reading(root) as opened:
    np.testing.assert_array_equal(
        opened.restore_params('encoder', like, 2)['a'], np.arange(5.0) + 2)
