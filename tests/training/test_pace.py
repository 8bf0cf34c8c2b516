"""What evaluations take, for the time that is left."""

from neg_contrast.training import pace


def test_evaluations_are_counted_and_measured(monkeypatch):
  now = [0.0]
  monkeypatch.setattr(pace.time, 'monotonic', lambda: now[0])
  evaluations = pace.Evaluations(10, lambda step: step % 4 == 0 or step == 10)

  def evaluate(seconds):
    now[0] += seconds
    return {'accuracy@1': seconds}

  assert evaluations.left(1) == 3 and evaluations.seconds is None
  assert evaluations.measured(evaluate, 9.0) == {'accuracy@1': 9.0}
  assert evaluations.seconds == 9.0  # It compiled, but nothing else is known.
  evaluations.measured(evaluate, 2.0)
  evaluations.measured(evaluate, 3.0)
  assert evaluations.seconds == 2.5
  assert [evaluations.left(step) for step in (4, 5, 10)] == [3, 2, 1]
