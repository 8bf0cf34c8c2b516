"""What evaluations take, for the time that is left."""

import dataclasses

import hypothesis
from hypothesis import strategies as st

from neg_contrast.training import criterion, loop, pace

SCHEDULE = loop.Schedule(
    total_steps=10, eval_steps=4, patience=0, save_steps=5, log_steps=1,
    batch_size=2, learning_rate=lambda step: 0.1,
    criterion=criterion.of_metric('accuracy@1'))


def test_evaluations_are_measured(monkeypatch):
  now = [0.0]
  monkeypatch.setattr(pace.time, 'monotonic', lambda: now[0])
  evaluations = pace.Evaluations()

  def evaluate(seconds):
    now[0] += seconds
    return {'accuracy@1': seconds}

  assert evaluations.seconds is None
  assert evaluations.measured(evaluate, 9.0) == {'accuracy@1': 9.0}
  assert evaluations.seconds == 9.0  # It compiled, but nothing else is known.
  evaluations.measured(evaluate, 2.0)
  evaluations.measured(evaluate, 3.0)
  assert evaluations.seconds == 2.5


def test_those_that_are_left():
  assert [SCHEDULE.evaluations_from(step) for step in (1, 4, 5, 10)] == [
      3, 3, 2, 1]


@hypothesis.given(st.integers(0, 12), st.integers(1, 40), st.data())
def test_they_are_those_of_the_schedule(every, total, data):
  schedule = dataclasses.replace(
      SCHEDULE, eval_steps=every, total_steps=total)
  step = data.draw(st.integers(1, total))
  assert schedule.evaluations_from(step) == sum(
      map(schedule.evaluates, range(step, total + 1)))
