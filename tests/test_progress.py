"""Progress that is logged."""

from neg_contrast import progress


def test_what_was_there_is_no_speed(monkeypatch):
  now, said = [100.0], []
  monkeypatch.setattr(progress.time, 'monotonic', lambda: now[0])
  monkeypatch.setattr(progress.logging, 'info',
                      lambda text, *args: said.append(text % args))
  tick = progress.Ticker('encoding', 1000, before=800)
  now[0] += 10
  tick(900)
  assert said == ['encoding: 900/1000  10/s  ETA 0:00:10']
