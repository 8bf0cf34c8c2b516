"""The serve job: its config. What it serves: tests/serving/."""

import importlib.util

import pytest

from neg_contrast import errors, jobs
from neg_contrast.jobs import search, serve
from neg_contrast.settings import config as config_lib
from tests import tiny


def make_config(tmp_path, job):
  return config_lib.parse(tiny.make_config(
      tmp_path, job=job, checkpoint=str(tmp_path / 'model')))


def test_it_searches_what_search_does(tmp_path):
  targets = [
      cls(make_config(tmp_path, job), tmp_path / 'work').targets()
      for cls, job in ((serve.ServeJob, 'serve'), (search.SearchJob, 'search'))]
  assert targets[0] == targets[1]


@pytest.mark.parametrize(('key', 'value', 'message'), [
    ('evaluation.by_document', True, 'the server answers with passages; job='),
    ('query', 'word1', 'the server takes queries by requests; job=search'),
    ('query_features', '{}', 'the server takes queries by requests'),
])
def test_what_only_search_does(tmp_path, key, value, message):
  config = tiny.make_config(
      tmp_path, job='serve', checkpoint=str(tmp_path / 'model'))
  config.update_from_flattened_dict({key: value})
  with pytest.raises(errors.UserError, match=message):
    jobs.check(config_lib.parse(config))


def test_libraries_that_are_missing(tmp_path, monkeypatch):
  there = importlib.util.find_spec
  monkeypatch.setattr(importlib.util, 'find_spec', lambda name, *others: (
      None if name == 'uvicorn' else there(name, *others)))
  with pytest.raises(errors.UserError, match='needs uvicorn; pip install -r '
                     'launch/requirements-serve.txt'):
    jobs.check(make_config(tmp_path, 'serve'))


def test_more_texts_than_may_wait():
  with pytest.raises(errors.UserError, match=r'config\.serve\.most_texts=9: '
                     'must be at most 8, the texts that may wait'):
    config_lib.ServeConfig(most_texts=9, waiting_texts=8)
