"""Who listens hears; who does not, does not."""

from typing import Any

import pytest

from neg_contrast import listeners, progress


def test_listeners_hear_while_they_listen():
  heard = []
  one = listeners.Listener(on_progress=lambda *args: heard.append(args))
  other = listeners.Listener(
      on_step=lambda *args: heard.append(args),
      on_evaluation=lambda *args: heard.append(args))
  say = progress.Ticker('work', 4)
  say(1)
  with listeners.listening(one, other):
    say(2)
    listeners.tell_step(7, {'loss': 1.0})
    with listeners.listening(one):
      say(3)
    listeners.tell_evaluation(7, {'mrr@10': 0.5})
  say(4)
  listeners.tell_step(8, {})
  assert heard == [('work', 2, 4), (7, {'loss': 1.0}), ('work', 3, 4),
                   ('work', 3, 4), (7, {'mrr@10': 0.5})]


def test_what_a_callback_raises_comes_out_and_nobody_listens_on():
  def stop(*args):
    raise KeyError(args)

  with pytest.raises(KeyError), listeners.listening(
      listeners.Listener(on_progress=stop)):
    progress.Ticker('work', 2)(1)
  progress.Ticker('work', 2)(1)


def test_a_callback_can_not_change_the_record():
  record = {'loss': 1.0}

  def clear(step: int, told: Any) -> None:
    told.clear()

  with listeners.listening(listeners.Listener(on_step=clear)):
    listeners.tell_step(1, record)
  assert record == {'loss': 1.0}
