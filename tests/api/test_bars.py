"""Bars of work: where somebody looks, and nowhere else."""

import io
import sys

import pytest
from absl import logging

from neg_contrast import listeners, progress, terminal
from neg_contrast.api import bars, commands


@pytest.fixture
def verbosity():
  before = logging.get_verbosity()
  yield
  logging.set_verbosity(before)


def test_a_bar_names_the_work():
  output = io.StringIO()
  shown = bars.Bars(file=output, ascii=True, mininterval=0)
  with listeners.listening(shown.listener):
    say = progress.Ticker('encoding', 4)
    say(1)
    say(4)
    listeners.tell_step(2, {'loss': 0.25, 'total_steps': 8})
    listeners.tell_step(8, {'loss': 0.125, 'total_steps': 8})
  shown.close()
  text = output.getvalue()
  assert 'encoding: 100%' in text and '4/4' in text
  assert 'training: 100%' in text and '8/8' in text and 'loss 0.1250' in text
  assert text.index('encoding') < text.index('training')
  assert text.count('\n') == 1  # They are one bar, in one place.


def test_bars_are_shown_to_people_alone(monkeypatch, verbosity):
  logging.set_verbosity(logging.WARNING)

  def is_drawn():
    with bars.shown() as listener:
      return listener.on_progress is not None

  monkeypatch.setattr(sys.stderr, 'isatty', lambda: False, raising=False)
  monkeypatch.delitem(sys.modules, 'ipykernel', raising=False)
  assert not is_drawn()
  monkeypatch.setattr(sys.stderr, 'isatty', lambda: True, raising=False)
  assert is_drawn()
  logging.set_verbosity(logging.INFO)  # `show_progress` says the same.
  assert not is_drawn()
  logging.set_verbosity(logging.WARNING)
  monkeypatch.setattr(sys.stderr, 'isatty', lambda: False, raising=False)
  monkeypatch.setitem(sys.modules, 'ipykernel', object())
  assert is_drawn()


class Terminal(io.StringIO):
  """Remembers what is written, as a terminal of a person."""

  encoding = 'utf-8'

  def isatty(self):
    return True


def test_show_progress_has_the_live_line_of_the_command(
    monkeypatch, verbosity
):
  logger = logging.get_absl_logger()
  monkeypatch.setattr(logger, 'handlers', logger.handlers)
  monkeypatch.setattr(logger, 'propagate', logger.propagate)
  monkeypatch.setenv('TERM', 'xterm')
  out = Terminal()
  monkeypatch.setattr(sys, 'stdout', out)
  with commands._screens():
    assert not terminal.LIVE.is_on  # Nobody asked for it.
  commands.show_progress()
  with commands._screens():
    say = progress.Ticker('encoding', 4)
    logging.warning('a line')
    say(1)
  logging.warning('later')
  assert not terminal.LIVE.is_on and sys.stdout is out
  text = out.getvalue()
  assert '\r\033[Kencoding: 0/4' in text
  assert text.count('a line\n') == text.count('later\n') == 1
  monkeypatch.setattr(out, 'isatty', lambda: False)
  with commands._screens():
    assert not terminal.LIVE.is_on
