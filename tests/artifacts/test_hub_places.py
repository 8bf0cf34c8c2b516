"""Sources of hf://, read from a stand-in of the hub."""

import fsspec
import pytest
from huggingface_hub import constants

from neg_contrast import errors
from neg_contrast.artifacts import buckets, places
from neg_contrast.data import preparation
from tests import tiny
from tests.api import hub_server

PLACE = 'hf://datasets/someone/set'


@pytest.fixture
def hub(monkeypatch, tmp_path):
  monkeypatch.setenv('HF_TOKEN', hub_server.TOKEN)
  monkeypatch.setenv('NEG_CONTRAST_CACHE', str(tmp_path / 'cache'))
  tiny.write_beir(tmp_path / 'near')
  with hub_server.running() as running:
    running.files['someone/set'] = {
        f'beir/{path.relative_to(tmp_path / "near").as_posix()}':
            path.read_bytes()
        for path in (tmp_path / 'near').rglob('*') if path.is_file()}
    # As HF_ENDPOINT does, which is read once in a process.
    monkeypatch.setattr(constants, 'ENDPOINT', running.url)
    monkeypatch.setattr(
        constants, 'HUGGINGFACE_CO_URL_TEMPLATE',
        running.url + '/{repo_id}/resolve/{revision}/{filename}')
    forget()
    yield running
  forget()


def forget():
  fsspec.get_filesystem_class('hf').clear_instance_cache()
  buckets._seen.clear()
  buckets._unreached.clear()


def fingerprint(source, folder):
  return preparation.prepare(source, folder, False).fingerprint


def test_a_source_is_read_as_that_of_a_disk(hub, tmp_path):
  assert fingerprint(f'beir:{PLACE}/beir', tmp_path / 'there') == (
      fingerprint(f'beir:{tmp_path / "near"}', tmp_path / 'here'))
  resolved = [path for _, path in hub.seen if '/resolve/' in path]
  assert len(resolved) == len(set(resolved)) > 0  # Each file once.


def test_looking_and_listing(hub):
  folder = places.path(f'{PLACE}/beir')
  assert folder.is_dir() and (folder / 'corpus.jsonl').is_file()
  assert not (folder / 'nothing').exists()
  assert not places.path('hf://datasets/someone/other/a').exists()
  assert [one.name for one in folder.iterdir()] == [
      'corpus.jsonl', 'qrels', 'queries.jsonl']
  for found in (folder.rglob('*.tsv'), (folder / 'qrels').iterdir()):
    assert [one.name for one in found] == ['test.tsv', 'train.tsv']
  with places.in_ranges(folder / 'corpus.jsonl').open('rb') as f:
    assert f.readline() == hub.files['someone/set'][
        'beir/corpus.jsonl'].splitlines(True)[0]


def test_another_commit_is_fetched_again(hub):
  path = places.path(f'{PLACE}/beir/corpus.jsonl')
  before = path.read_bytes()
  hub.files['someone/set']['beir/corpus.jsonl'] = before.replace(b'a', b'b')
  forget()  # As another command does.
  assert path.read_bytes() == before.replace(b'a', b'b')


def test_a_hub_that_refuses(hub):
  hub.refuse['/'] = 403, 'Forbidden'
  with pytest.raises(errors.UserError, match=(
      r'corpus.jsonl: the bucket refuses \(.*\). Log in \(hf auth login\)')):
    places.path(f'{PLACE}/beir/corpus.jsonl').read_bytes()


def test_a_missing_file_is_named(hub, tmp_path):
  with pytest.raises(errors.UserError, match=f'{PLACE}/nowhere'):
    preparation.prepare(f'beir:{PLACE}/nowhere', tmp_path / 'out', False)
