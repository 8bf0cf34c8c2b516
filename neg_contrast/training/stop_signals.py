"""Signals that end a training after a step, with all of it saved."""

import os
import signal
import threading

from absl import logging
from jax.experimental import multihost_utils

from neg_contrast import hosts


class StopSignals:
  """Notes SIGTERM and SIGINT while training, instead of dying.

  Of several processes one alone may get it, and all must leave after the same
  step. There JAX notes SIGTERM, tells the others and agrees on the step; SIGINT
  is passed on as SIGTERM.
  """

  def __init__(self):
    self.received: signal.Signals | None = None

  def __enter__(self):
    self._before = {}
    if threading.current_thread() is threading.main_thread():
      for number in (signal.SIGINT,) if hosts.are_several() else (
          signal.SIGTERM, signal.SIGINT):
        self._before[number] = signal.signal(number, self._note)
    return self

  def stop_after(self, step: int) -> signal.Signals | None:
    """The signal to obey after a step.

    Has to be asked after each, and once more when there are no more: several
    processes agree on the step after the one at which they hear of it.
    """
    if not hosts.are_several():
      return self.received
    has_come = multihost_utils.reached_preemption_sync_point(step)
    return signal.SIGTERM if has_come else None

  @property
  def come_alone(self) -> signal.Signals | None:
    """The signal that has come where nobody has to agree on it."""
    return None if hosts.are_several() else self.received

  def _note(self, number, frame):
    del frame
    if self.received:  # Asked twice: leave at once.
      raise KeyboardInterrupt
    self.received = signal.Signals(number)
    logging.info('%s: leaving after this step or its evaluation; '
                 'a second one: at once, back to the last checkpoint',
                 self.received.name)
    if hosts.are_several():
      os.kill(os.getpid(), signal.SIGTERM)

  def __exit__(self, *exc):
    for number, handler in self._before.items():
      signal.signal(number, handler)
