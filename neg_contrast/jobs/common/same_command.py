"""Several processes as one program have to be started by one command."""

import json
from typing import Any

from neg_contrast import errors, hosts
from neg_contrast.artifacts import folders
from neg_contrast.settings import config as config_lib

_REVISION = 'git revision'


def check(config: config_lib.Config, flags: dict[str, Any]) -> None:
  """Refuses processes of other settings or another revision than the first.

  Each makes its part of a batch by its own settings: others would train
  something that no command describes. A revision that one of both does not know
  is none. All processes come here.

  Args:
    config: of this process.
    flags: what else its command says, by name.

  Raises:
    UserError: names the processes that differ, and in what.
  """
  if not hosts.are_several():
    return
  environment = folders.environment()
  told = [json.loads(text) for text in hosts.from_all(json.dumps({
      errors.key('').removesuffix('.'): folders.as_json(
          config_lib.to_dict(config)),
      **flags,
      _REVISION: environment['git_revision'],
      'versions': environment['versions'],
  }))]
  wrong = [
      f'process {number} ({line})' for number, one in enumerate(told)
      for line in _differences(told[0], one)[:1]
  ]
  if wrong:
    raise errors.UserError(
        'all processes have to be started by the same command and code, and '
        f'other than process 0 ("there") are: {"; ".join(wrong)}'
    )


def _differences(first: dict[str, Any], other: dict[str, Any]) -> list[str]:
  """Where what two processes say differs, a line each."""
  if not (first[_REVISION] and other[_REVISION]):
    other = {**other, _REVISION: first[_REVISION]}
  return folders.differences(first, other)
