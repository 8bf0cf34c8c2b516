"""What a command will do: steps in order, each with its own sign of being done.

Finished steps are not repeated, so the same command resumes where it stopped.

Several processes go through the plan together. The first one looks whether a
step is done, and tells the others. What they can `share` all of them do:
training, which they compute together, and encoding, mining and the writing of
questions, which they divide. The rest of a step the first does alone, while the
others wait: so every file has one writer, and a step begins when all have
ended the one before.
"""

import collections
import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence

from absl import logging

from neg_contrast import errors, hosts, progress
from neg_contrast.artifacts import artifact as artifact_lib


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

  def describe(self) -> str:
    """As of an `Artifact`."""
    return self.makes

  def is_made(self) -> bool:
    """As of an `Artifact`."""
    return self.is_done()

  def lacks(self) -> str | None:
    """As of an `Artifact`."""
    return self.missing()

  def needs(self) -> Mapping[str, artifact_lib.Artifact]:
    """None: the steps of a job are in order."""
    return {}


def describe(targets: Sequence[Step | artifact_lib.Artifact]) -> str:
  """The plan as text: done, to do, or lacking something."""
  lines = ['plan:']
  blocked = False
  steps = ordered(targets)
  width = max(10, *(len(step.name) for step in steps))
  for number, step in enumerate(steps, 1):
    lack = step.lacks()
    if lack:
      state = 'MISSING'
    elif not blocked and step.is_made():
      state = 'done'
    else:
      state = 'to do'
    blocked = blocked or (
        isinstance(step, Step) and step.opens_rest and state != 'done'
    )
    lines.append(
        f'  {number}. [{state:7}] {step.name:{width}} {step.describe()}'
    )
    if lack:
      lines += ['     ' + line for line in lack.splitlines()]
  return '\n'.join(lines)


def run(targets: Sequence[Step | artifact_lib.Artifact]) -> None:
  """Makes, in order, what is not made.

  What was loaded is let go of after the last step that needs it.

  Raises:
    UserError: something is missing that the user has to provide.
  """
  steps = ordered(targets)
  hosts.on_first(lambda: _check_inputs(steps))
  users = collections.Counter(
      need for step in steps for need in step.needs().values()
  )
  for step in steps:
    if hosts.on_first(step.is_made):
      logging.info('%s: done before, kept', step.name)
    else:
      began = time.monotonic()
      _build(step)
      logging.info('%s: done in %s', step.name,
                   progress.format_seconds(time.monotonic() - began))
    for need in step.needs().values():
      users[need] -= 1
      if not users[need] and need not in targets:
        need.release()


def ordered(
    targets: Sequence[Step | artifact_lib.Artifact]
) -> list[Step | artifact_lib.Artifact]:
  """Targets and all they need, each once, needs before those that need them."""
  steps: dict[Step | artifact_lib.Artifact, None] = {}

  def visit(step):
    if step not in steps:
      for need in step.needs().values():
        visit(need)
      steps[step] = None

  for target in targets:
    visit(target)
  return list(steps)


def _build(step: Step | artifact_lib.Artifact) -> None:
  if isinstance(step, Step):
    step.share()
    hosts.on_first(step.run)
  elif step.is_divided:
    step.build()
  else:
    hosts.on_first(step.build)


def _check_inputs(steps: Sequence[Step | artifact_lib.Artifact]) -> None:
  for step in steps:
    lack = step.lacks()
    if lack:
      raise errors.UserError(lack)
