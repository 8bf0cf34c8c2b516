"""Uploads to a hub, against a stand-in on this machine."""

import pathlib
import shutil

import huggingface_hub
import numpy as np
import pytest
from huggingface_hub import constants

from neg_contrast import api, errors
from neg_contrast.artifacts import folders
from tests import tiny
from tests.api import hub_server


@pytest.fixture
def hub(monkeypatch):
  # Its own protocol for large files needs servers that are not here.
  monkeypatch.setattr(constants, 'HF_HUB_DISABLE_XET', True)
  monkeypatch.delenv('HF_TOKEN', raising=False)
  with hub_server.running() as hub:
    yield hub


@pytest.fixture(scope='module')
def exported(tmp_path_factory):
  root = tmp_path_factory.mktemp('hub')
  tiny.write_model(root / 'given')
  api.run('export', root / 'work', checkpoint=root / 'given',
          model__query_length=16, model__passage_length=24)
  return root / 'work' / 'model'


def push(exported, hub, repo='me/retriever', **kwargs):
  return api.push_to_hub(exported, repo, endpoint=hub.url, **{
      'token': hub_server.TOKEN, **kwargs})


def test_all_files_arrive_but_what_is_of_this_machine(
    hub, exported, tmp_path):
  url = push(exported, hub, private=True, message='First try')
  assert url == f'{hub.url}/me/retriever/commit/{"0" * 40}'
  files = hub.files['me/retriever']
  there = {path.relative_to(exported).as_posix(): path.read_bytes()
           for path in exported.rglob('*') if path.is_file()}
  manifest = there.pop(folders.MANIFEST)
  assert b'identity' in manifest and files == there
  assert {'model.safetensors', 'modules.json', 'README.md'} <= set(files)
  assert hub.commits == [('me/retriever', 'main', 'First try')]
  assert hub.private['me/retriever'] is True
  # What was uploaded is the model.
  for name, data in files.items():
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_bytes(data)
  vecs = [api.load_encoder(place).encode_queries(['word1 word2'])
          for place in (exported, tmp_path)]
  np.testing.assert_array_equal(*vecs)


def test_the_same_again_is_another_commit(hub, exported):
  push(exported, hub, 'me/twice')
  push(exported, hub, 'me/twice', revision='dev')
  assert [branch for _, branch, _ in hub.commits] == ['main', 'dev']


def one_line(caught):
  message = str(caught.value)
  assert '\n' not in message and len(message) < 600
  assert hub_server.TOKEN not in message


def test_no_token(hub, exported, monkeypatch):
  monkeypatch.setattr(huggingface_hub, 'get_token', lambda: None)
  with pytest.raises(errors.UserError, match='the hub asks for a token') as e:
    push(exported, hub, token=None)
  one_line(e)
  assert not hub.seen


@pytest.mark.parametrize(('path', 'status', 'message', 'told'), [
    ('/api/repos', 401, '', 'the token is not valid; run `hf auth login`'),
    ('/api/repos', 403, 'no\n\x1b[2Jwrite access', 'the token may not write'),
    ('/api/models/me/retriever/preupload', 404, '', 'there is no such repo'),
    ('/api/models/me/retriever/commit', 403, 'read only', 'may not write'),
    ('/api/models/me/retriever/commit', 400, 'x' * 9999, r'refused \(HTTP'),
    ('/api/models/me/retriever/commit', 501, 'oops', 'the hub is out of order'),
    ('/me/retriever.git', 403, 'no space', 'may not write there'),
])
def test_a_hub_that_refuses(hub, exported, path, status, message, told):
  hub.refuse[path] = status, ' '.join(message.split()).replace('\x1b', '\\x1b')
  with pytest.raises(errors.UserError, match=told) as caught:
    push(exported, hub)
  one_line(caught)
  assert f'HTTP {status}' in str(caught.value)
  assert not hub.commits


def test_a_token_that_is_not_valid(hub, exported):
  with pytest.raises(errors.UserError, match='the token is not valid') as e:
    push(exported, hub, token='hf_of_nobody')
  one_line(e)


def test_names_that_are_none(hub, exported):
  for name in ('a/b/c', 'me/--x', 'me/a b', '..', 'x' * 200):
    with pytest.raises(errors.UserError, match='no name of a repository') as e:
      push(exported, hub, name)
    one_line(e)
  assert not hub.files


def test_no_network(hub, exported, monkeypatch):
  class Gone:
    url = 'http://127.0.0.1:9'  # The port of `discard`: nobody listens.

  with pytest.raises(errors.UserError, match="hub can't be reached") as e:
    push(exported, Gone)
  one_line(e)
  monkeypatch.setattr(constants, 'HF_HUB_OFFLINE', True)
  with pytest.raises(errors.UserError, match='HF_HUB_OFFLINE is set') as e:
    push(exported, hub)
  one_line(e)


def test_what_is_no_exported_model(hub, exported, tmp_path):
  with pytest.raises(errors.UserError, match='is no exported model'):
    push(tmp_path, hub)
  with pytest.raises(errors.UserError, match='is no exported model'):
    push(pathlib.Path('nowhere'), hub)
  shutil.copytree(exported, tmp_path / 'model')
  (tmp_path / 'model' / 'modules.json').write_text('[]')
  with pytest.raises(errors.UserError, match='damaged or changed'):
    push(tmp_path / 'model', hub)
  assert not hub.seen
