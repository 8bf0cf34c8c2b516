"""Disk full, file too large, unwritable, vanished: one line, nothing lost."""

import contextlib
import errno
import json
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.artifacts import atomic, failures, folders

# Prepares a source into each folder, with a limit of the size of files.
_PROGRAM = '''
import json, pathlib, resource, sys
from neg_contrast import errors
from neg_contrast.data import preparation, prepared, tokenized

class Tokenizer:
  sha256, vocab_size = 'a' * 64, 1000
  def encode_batch(self, texts):
    return [[len(word) for word in text.split()] for text in texts]

def make(out):
  corpus = preparation.prepare(f'beir:{sys.argv[1]}', out, False)
  for role in ('passage', 'query'):
    tokenized.store_of(corpus, role, Tokenizer())
  prepared.documents_by_title(corpus)

most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
for out, limit in json.loads(sys.argv[2]):
  resource.setrlimit(resource.RLIMIT_FSIZE, (limit or most, most))
  try:
    make(pathlib.Path(out))
    told = 'made'
  except errors.UserError as e:
    told = f'error: {e}'
  resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
  print(told, flush=True)
'''


@pytest.fixture(scope='module')
def source(tmp_path_factory):
  """Prepared, it takes some 1.5 MB."""
  folder = tmp_path_factory.mktemp('source')
  rng = np.random.default_rng(0)
  rows = [{'_id': f'passage-{n:020d}', 'title': str(n % 7),
           'text': rng.bytes(200).hex()} for n in range(2000)]
  (folder / 'corpus.jsonl').write_text('\n'.join(map(json.dumps, rows)))
  (folder / 'queries.jsonl').write_text('{"_id": "q", "text": "what"}\n')
  (folder / 'qrels').mkdir()
  (folder / 'qrels' / 'test.tsv').write_text(
      f'query-id\tcorpus-id\tscore\nq\t{rows[0]["_id"]}\t1\n')
  return folder


def prepare(source, cases):
  """What is told of each (folder, limit of the size of files or 0)."""
  result = subprocess.run(
      [sys.executable, '-c', _PROGRAM, source,
       json.dumps([(str(out), limit) for out, limit in cases])],
      capture_output=True, text=True, check=False,
      cwd=pathlib.Path(__file__).parents[2],
  )
  assert result.returncode == 0, result.stderr
  return result.stdout.splitlines()


def assert_refused(told, out):
  assert told.startswith(f'error: {out}')
  assert 'not written' in told and 'Free some space' in told
  assert not [path for path in out.rglob('*')
              if path.name.endswith(('.partial', '.old'))]


def test_file_too_large(source, tmp_path):
  limits = (100, 1_000, 20_000, 60_000, 200_000, 500_000, 900_000)
  out = tmp_path / 'out'
  *refused, made = prepare(source, [*((out, limit) for limit in limits),
                                    (out, 0)])
  for told in refused:
    assert_refused(told, out)
  assert made == 'made'


@contextlib.contextmanager
def mounted(folder, options):
  folder.mkdir()
  done = subprocess.run(['mount', '-t', 'tmpfs', '-o', options, 'none', folder],
                        capture_output=True, check=False)
  if done.returncode:
    pytest.skip('nothing can be mounted here')
  try:
    yield folder
  finally:
    subprocess.run(['umount', folder], check=True)


def test_disk_full_and_read_only(source, tmp_path):
  sizes = (8, 40, 200, 500, 900)
  with contextlib.ExitStack() as stack:
    outs = [stack.enter_context(mounted(tmp_path / f'{size}', f'size={size}k'))
            for size in sizes]
    read_only = stack.enter_context(mounted(tmp_path / 'ro', 'ro'))
    big = stack.enter_context(mounted(tmp_path / 'big', 'size=20m'))
    *refused, closed, made = prepare(
        source, [(out, 0) for out in (*outs, read_only, big)]
    )
    for told, out in zip(refused, outs, strict=True):
      assert_refused(told, out)
    assert closed.startswith(f'error: {read_only}')
    assert 'can be written to (Read-only' in closed
    assert made == 'made'


def test_an_older_artifact_stays(tmp_path):
  folder = tmp_path / 'a'
  with folders.writing(folder, {'n': 1}):
    pass
  for failure in (OSError(errno.ENOSPC, 'No space left on device'),
                  OSError('100 requested and 0 written')):
    with (pytest.raises(errors.UserError, match='not written'),
          folders.writing(folder, {})):
      raise failure
    assert folders.read_manifest(folder) == {'n': 1}
  assert sorted(path.name for path in tmp_path.iterdir()) == ['.locks', 'a']


def test_vanished_underneath(tmp_path):
  with (pytest.raises(errors.UserError, match=r'a..partial/man.*: not written'),
        folders.writing(tmp_path / 'a', {}) as scratch):
    shutil.rmtree(scratch)
  for write in (lambda path: folders.write_json(path, {}),
                lambda path: atomic.writing(path).__enter__()):
    with pytest.raises(errors.UserError, match=r'x: not written \(No such'):
      write(tmp_path / 'none' / 'x')


def test_what_is_no_failure_of_writing_stays_what_it_is(tmp_path):
  with (pytest.raises(FileNotFoundError),
        failures.while_writing(tmp_path / 'a')):
    (tmp_path / 'source').read_text()
  with (pytest.raises(ValueError), failures.while_writing(tmp_path / 'a')):
    raise ValueError


@pytest.mark.parametrize('write', [
    lambda path: folders.write_json(path, {'n': 'x' * 100}),
    lambda path: folders.write_sealed(path, {'n': 'x' * 100}),
])
def test_an_older_file_stays(tmp_path, monkeypatch, write):
  def fsync(_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

  path = tmp_path / 'x.json'
  folders.write_json(path, 1)
  monkeypatch.setattr(os, 'fsync', fsync)
  with pytest.raises(errors.UserError, match='x.json: not written'):
    write(path)
  assert folders.read_json(path) == 1
  assert list(tmp_path.iterdir()) == [path]
