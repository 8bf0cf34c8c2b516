"""What a command will do: steps in order, each with its own sign of being done.

Finished steps are not repeated, so the same command resumes where it stopped.
"""

import dataclasses
import time
from collections.abc import Callable, Sequence

from absl import logging

from neg_contrast import errors
from neg_contrast.training import run_log


@dataclasses.dataclass(frozen=True)
class Step:
  """A piece of work that leaves something behind.

  Attributes:
    name: short.
    makes: what it leaves, and where.
    is_done: whether that is there already and belongs to this config.
    run: does it.
    missing: what the user has to provide first; None when all is there.
    opens_rest: whether the later steps can't even be looked at before it.
  """

  name: str
  makes: str
  is_done: Callable[[], bool]
  run: Callable[[], None]
  missing: Callable[[], str | None] = lambda: None
  opens_rest: bool = False


def describe(steps: Sequence[Step]) -> str:
  """The plan as text: done, to do, or lacking something."""
  lines = ['plan:']
  blocked = False
  width = max(10, *(len(step.name) for step in steps))
  for number, step in enumerate(steps, 1):
    lack = step.missing()
    if lack:
      state = 'MISSING'
    elif not blocked and step.is_done():
      state = 'done'
    else:
      state = 'to do'
    blocked = blocked or (step.opens_rest and state != 'done')
    lines.append(f'  {number}. [{state:7}] {step.name:{width}} {step.makes}')
    if lack:
      lines += ['     ' + line for line in lack.splitlines()]
  return '\n'.join(lines)


def run(steps: Sequence[Step]) -> None:
  """Does, in order, what is not done.

  Raises:
    UserError: something is missing that the user has to provide.
  """
  for step in steps:
    lack = step.missing()
    if lack:
      raise errors.UserError(lack)
  for step in steps:
    if step.is_done():
      logging.info('%s: done before, kept', step.name)
      continue
    began = time.monotonic()
    step.run()
    logging.info('%s: done in %s', step.name,
                 run_log.format_seconds(time.monotonic() - began))
