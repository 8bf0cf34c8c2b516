"""Processes that were started by other commands or code, see `test_hosts` too.
"""

import json

import pytest

from neg_contrast import errors, hosts
from neg_contrast.jobs.common import same_command
from neg_contrast.settings import config as config_lib


@pytest.fixture
def beside(monkeypatch):
  """Lets another process say the same, but for some of it."""
  monkeypatch.setattr(hosts, 'are_several', lambda: True)

  def set_other(**changes):
    monkeypatch.setattr(hosts, 'from_all', lambda text: [
        json.dumps({**json.loads(text), **changes}), text])

  return set_other


@pytest.mark.parametrize(('changes', 'told'), [
    ({'workdir': 'other'}, r"process 1 \(workdir: 'other' there, 'mine' here"),
    ({'git revision': 'older'}, r"process 1 \(git revision: 'older' there"),
    ({'versions': {'jax': '0.1'}}, r'process 1 \(versions\.'),
])
def test_what_differs_is_refused(beside, monkeypatch, changes, told):
  monkeypatch.setattr(same_command.folders, '_git_revision', lambda: 'newer')
  beside(**changes)
  with pytest.raises(errors.UserError, match=told) as raised:
    same_command.check(config_lib.Config(), {'workdir': 'mine'})
  assert '\n' not in str(raised.value)


def test_a_revision_that_is_not_known_is_none(beside, monkeypatch):
  """Without git, or in a folder of somebody else."""
  beside(**{'git revision': ''})
  same_command.check(config_lib.Config(), {})
  monkeypatch.setattr(same_command.folders, '_git_revision', lambda: '')
  beside(**{'git revision': 'older'})
  same_command.check(config_lib.Config(), {})
