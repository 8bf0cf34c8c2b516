"""What a command will do: the artifacts that its targets need, in order.

What is made is not made again, so the same command resumes where it stopped;
and what only that needs need not be there.

Several processes go through the plan together. The first one looks whether an
artifact is made, and tells the others. What is divided all of them build:
training and search, which they compute together, and encoding, mining and the
writing of questions, which they share. The rest the first builds alone, while
the others wait: so every file has one writer, and an artifact is begun when all
have ended the one before.
"""

import functools
from collections.abc import Callable, Sequence

from neg_contrast import errors, hosts, progress
from neg_contrast.artifacts import artifact


def describe(targets: Sequence[artifact.Artifact]) -> str:
  """The plan as text: done, to do, spared, or lacking something."""
  artifact.forget()
  states = _states(targets)
  lines = ['plan:']
  spared = 'spared', ''
  states = {one: states.get(one, spared) for one in artifact.closure(targets)}
  shown = [one for one, (_, lack) in states.items() if one.is_listed or lack]
  width = max(10, *(len(one.title) for one in shown), 0)
  for number, one in enumerate(shown, 1):
    state, lack = states[one]
    lines.append(f'  {number}. [{state:7}] {one.title:{width}} '
                 f'{one.describe()}')
    if lack:
      lines += ['     ' + line for line in lack.splitlines()]
  return '\n'.join(lines)


def lacks_something(targets: Sequence[artifact.Artifact]) -> bool:
  """Whether the user has to provide something first."""
  return any(lack for _, lack in _states(targets).values())


def unfinished(
    targets: Sequence[artifact.Artifact]
) -> list[artifact.Artifact]:
  """The targets that are not made, in their order."""
  artifact.forget()
  states = _states(targets)
  return [one for one in targets
          if one.is_listed and states[one][0] != 'done']


def run(
    targets: Sequence[artifact.Artifact], is_described: bool = False,
    check: Callable[[], object] | None = None,
) -> None:
  """Makes, in order, what is not made.

  Args:
    targets: in the order that they are wanted in.
    is_described: whether `describe` has looked at them just now.
    check: is called first, and when something is made that needs nothing.

  Raises:
    UserError: something is missing that the user has to provide.
  """
  if not is_described:
    artifact.forget()
  needed: set[artifact.Artifact] = set()  # Known to the first process.
  hosts.on_first(functools.partial(_check_inputs, targets, needed))
  for one in artifact.closure(targets):
    if one.is_elsewhere and hosts.on_first(
        functools.partial(needed.__contains__, one)
    ):
      with errors.at(one.place):
        one.fetch()  # On each machine; what can't be had ends the job here.
  done: set[artifact.Artifact] = set()
  try:
    if check:
      check()
    for number, target in enumerate(targets):
      _make(target, done, check)
      artifact.keep_only(artifact.closure(targets[number:]), are_large=False)
  finally:
    progress.PLAN.leave()


def _make(
    one: artifact.Artifact, done: set[artifact.Artifact],
    check: Callable[[], object] | None,
) -> None:
  """Makes an artifact, unless it is done, after what it needs."""
  if one in done:
    return
  if not _is_made(one):
    before = len(done)
    while wanted := [need for need in one.inputs().values()
                     if need not in done]:
      _make(wanted[0], done, check)  # It may tell what else is needed.
    # What it is made from is known only now, where that was not there.
    if one.is_listed and (len(done) == before or not _is_made(one)):
      _build(one)
      if check and not one.inputs():
        check()
  done.add(one)


def _is_made(one: artifact.Artifact) -> bool:
  """Whether an artifact is made, to all processes."""
  artifact.keep_only(_within_reach(one))
  with errors.at(one.place):
    is_made = one.is_listed and hosts.on_first(one.is_made)
  if is_made:
    hosts.on_first(one.tidy)
    progress.PLAN.skip(one.title, one.kind)
  return is_made


def _within_reach(
    one: artifact.Artifact
) -> dict[artifact.Artifact, None]:
  """What an artifact loads when it is looked at or built.

  It, what it needs, and what those of them need that are made when loaded.
  """
  found = {one: None}

  def visit(need: artifact.Artifact) -> None:
    found[need] = None
    if not need.is_listed:
      for other in need.inputs().values():
        visit(other)

  for need in one.inputs().values():
    visit(need)
  return found


def _build(one: artifact.Artifact) -> None:
  """Builds an artifact: together, or the first process alone."""
  artifact.keep_only(_within_reach(one))
  progress.PLAN.begin(one.title, one.kind)
  with errors.at(one.place):
    if one.is_divided:
      one.build()
    else:
      hosts.on_first(one.build)
  artifact.changed(one)
  progress.PLAN.end(one.title, one.kind)


def _states(
    targets: Sequence[artifact.Artifact]
) -> dict[artifact.Artifact, tuple[str, str]]:
  """State, and what it lacks, of each artifact that is looked at.

  What only a finished one needs is not.
  """
  states: dict[artifact.Artifact, tuple[str, str]] = {}

  def look(one: artifact.Artifact) -> None:
    if one in states:
      return
    artifact.keep_only(_within_reach(one))
    with errors.at(one.place):
      is_made = one.is_listed and one.is_made()
      lack = '' if is_made else one.lacks() or ''
    if not is_made:
      for need in one.inputs().values():
        look(need)
    states[one] = (
        'done' if is_made else 'MISSING' if lack else 'to do'), lack

  for target in targets:
    look(target)
  return states


def to_do(targets: Sequence[artifact.Artifact]) -> list[artifact.Artifact]:
  """What has to be made, and what it needs that is given, needs first."""
  return [one for one, (state, _) in _states(targets).items()
          if state != 'done']


def _check_inputs(
    targets: Sequence[artifact.Artifact], needed: set[artifact.Artifact]
) -> None:
  """Adds what is looked at to `needed`.

  Raises:
    UserError: something is missing that the user has to provide.
  """
  states = _states(targets)
  for _, lack in states.values():
    if lack:
      raise errors.UserError(lack)
  needed.update(states)
  progress.PLAN.expect([
      (one.title, one.kind) for one in artifact.closure(targets)
      if one.is_listed and states.get(one, ('', ''))[0] == 'to do'
  ])
