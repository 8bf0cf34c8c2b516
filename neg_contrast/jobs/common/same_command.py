"""Several processes as one program have to be started by one command."""

import json
from typing import Any

from neg_contrast import errors, hosts
from neg_contrast.artifacts import folders
from neg_contrast.settings import config as config_lib


def check(config: config_lib.Config, flags: dict[str, Any]) -> None:
  """Refuses processes of other settings or another revision than the first.

  Each makes its part of a batch by its own settings: others would train
  something that no command describes. All processes come here.

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
      'git revision': environment['git_revision'],
      'versions': environment['versions'],
  }))]
  wrong = [
      f'process {number} ({line})' for number, one in enumerate(told)
      for line in folders.differences(told[0], one)[:1]
  ]
  if wrong:
    raise errors.UserError(
        'all processes have to be started by the same command and code, and '
        f'other than process 0 ("there") are: {"; ".join(wrong)}'
    )
