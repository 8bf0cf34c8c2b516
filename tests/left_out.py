"""What takes long in small runs and shows nothing that most tests look at.

Tests leave it out, and so do the processes that they start.
"""

import atexit
import gc
import html
from collections.abc import Callable

from neg_contrast import cpu
from neg_contrast.report import svg

Change = Callable[[object, str, object], None]
"""Sets an attribute: `setattr`, or that of a `MonkeyPatch`."""


def draw_nothing(change: Change = setattr) -> None:
  """A report has a dozen charts, which take a fifth of a small training."""
  change(svg, 'draw', lambda name, title, *_: (
      f'<svg id="{name}" aria-label="{html.escape(title)}"></svg>'))


def ask_no_heap(change: Change = setattr) -> None:
  """To ask how much is in use takes long in a heap of many tests' pieces."""
  change(cpu, '_heap', lambda library: None)


def seldom_look_for_garbage() -> None:
  """What is traced are millions of objects that stay.

  To look for garbage among them as often as Python does takes a fifteenth of
  the time.
  """
  gc.set_threshold(50_000, 20, 10)
  atexit.register(gc.freeze)  # Python looks for it once more as it leaves.


def everything() -> None:
  """All of these, in a process that a test starts."""
  draw_nothing()
  ask_no_heap()
  seldom_look_for_garbage()
