"""Names of the hub, with stand-ins for it."""

import huggingface_hub
import pytest
from huggingface_hub import errors as hub_errors

from neg_contrast import errors
from neg_contrast.models import hub
from tests import tiny


class Response:
  """As little of an answer as its errors need."""

  headers = {}
  request = None
  status_code = 404


class Api:
  """Raises, or answers."""

  def __init__(self, error):
    self.error = error

  def model_info(self, name, timeout):
    if self.error is not None:
      raise self.error
    return name


@pytest.mark.parametrize('error, said', [
    (ConnectionError('x'), "the hub can't be reached (ConnectionError)"),
    (TimeoutError('x'), "the hub can't be reached (TimeoutError)"),
    (hub_errors.RepositoryNotFoundError('x', response=Response()),
     'nor a model of the hub; check the name'),
    (hub_errors.HFValidationError('Repo id is odd.\nmore'),
     'no name of a model: Repo id is odd.'),
])
def test_why_a_model_can_not_be_had(monkeypatch, error, said):
  monkeypatch.setattr(huggingface_hub, 'HfApi', lambda: Api(error))
  problem = hub.problem('a/b')
  assert said in problem and '\n' not in problem


def test_what_the_hub_has_is_no_problem(monkeypatch):
  monkeypatch.setattr(huggingface_hub, 'HfApi', lambda: Api(None))
  assert hub.problem('a/b') is None


def test_a_part_of_a_download_does_not_count(monkeypatch, tmp_path):
  tiny.write_model(tmp_path)
  monkeypatch.setattr(huggingface_hub, 'snapshot_download',
                      lambda *_, **how: str(tmp_path))
  assert hub.cached('a/b') == tmp_path
  (tmp_path / 'model.safetensors').unlink()
  assert hub.cached('a/b') is None


def test_a_download_that_fails(monkeypatch):
  def refuse(*_, **how):
    raise OSError('no route')

  monkeypatch.setattr(huggingface_hub, 'snapshot_download', refuse)
  assert hub.cached('a/b') is None
  with pytest.raises(errors.UserError, match='could be downloaded'):
    hub.download('a/b')
