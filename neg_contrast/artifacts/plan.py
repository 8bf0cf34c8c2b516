"""What a command will do: steps in order, each with its own sign of being done.

Finished steps are not repeated, so the same command resumes where it stopped.

Several processes go through the plan together. The first one looks whether a
step is done, and tells the others. What they can `share` all of them do:
training, which they compute together, and encoding, mining and the writing of
questions, which they divide. The rest of a step the first does alone, while the
others wait: so every file has one writer, and a step begins when all have
ended the one before.
"""

import dataclasses
import time
from collections.abc import Callable, Sequence

from absl import logging

from neg_contrast import errors, hosts, progress


def nothing() -> None:
  """What is left to do of some steps."""


@dataclasses.dataclass(frozen=True)
class Step:
  """A piece of work that leaves something behind.

  Attributes:
    name: short.
    makes: what it leaves, and where.
    is_done: whether that is there already and belongs to this config.
    run: does it, or what is left to do after `share`; in one process.
    missing: what the user has to provide first; None when all is there.
    opens_rest: whether the later steps can't even be looked at before it.
    share: the part that all processes do, together or divided; comes first.
  """

  name: str
  makes: str
  is_done: Callable[[], bool]
  run: Callable[[], object] = nothing
  missing: Callable[[], str | None] = lambda: None
  opens_rest: bool = False
  share: Callable[[], object] = nothing


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
  hosts.on_first(lambda: _check_inputs(steps))
  for step in steps:
    if hosts.on_first(step.is_done):
      logging.info('%s: done before, kept', step.name)
      continue
    began = time.monotonic()
    step.share()
    hosts.on_first(step.run)
    logging.info('%s: done in %s', step.name,
                 progress.format_seconds(time.monotonic() - began))


def _check_inputs(steps: Sequence[Step]) -> None:
  for step in steps:
    lack = step.missing()
    if lack:
      raise errors.UserError(lack)
