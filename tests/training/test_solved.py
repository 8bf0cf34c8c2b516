"""Solved negatives are told of once in a generation, with the remedy."""

import numpy as np
import pytest

from neg_contrast.negatives import sources as source_lib
from neg_contrast.settings import config as config_lib
from neg_contrast.training import run_log, solved
from tests import tiny
from tests.negatives import test_refresh


def record(accuracy, mass, score=0.5):
  return {'hard': {'accuracy': accuracy, 'mass': mass, 'score': score},
          'batch': {'accuracy': 1.0, 'mass': 1e-6, 'score': 0.1}}


def watch(every=0, total=100):
  remedy = solved.Remedy(frozenset({'hard'}), every, 'every {}'.format)
  return solved.Watch(remedy, total)


def told(one, records):
  return {step: found for step, values in enumerate(records, 1)
          if (found := one.see(step, values))}


def test_it_goes_by_means_of_a_fifth_of_the_run():
  rng = np.random.default_rng(0)
  accuracy = np.minimum(1, np.linspace(0.6, 1.3, 100) + rng.normal(
      0, 0.01, 100))
  mass = np.linspace(0.06, 0, 100)
  ((step, (found,)),) = told(
      watch(), map(record, accuracy, mass)).items()
  means = {end: (accuracy[end - 20:end].mean(), mass[end - 20:end].mean())
           for end in range(20, 101)}
  solved_at = [end for end, (right, share) in means.items()
               if right >= 0.98 and share <= 0.01]
  assert step == solved_at[0] > 20
  assert (found['accuracy'], found['mass']) == pytest.approx(means[step])
  assert found['source'] == 'hard' and found['steps'] == 20
  assert found['text'].endswith(f'. every {step - 20}')
  assert '\n' not in found['text']


@pytest.mark.parametrize('values', [
    record(0.97, 0.0), record(1.0, 0.02), record(1.0, 0.0, score=0.0),
])
def test_what_still_teaches_or_gave_none_is_not_told(values):
  assert not told(watch(), [values] * 100)


def test_once_in_a_generation_and_never_late_advice():
  found = told(watch(every=30), [record(1.0, 0.0)] * 90)
  assert list(found) == [20, 50, 80]
  assert all('every 15' in one['text'] for (one,) in found.values())
  assert not told(watch(every=15), [record(1.0, 0.0)] * 90)  # Too short.


@pytest.mark.parametrize(('settings', 'advice', 'sources'), [
    ({'sources': ('sampled:1',)}, 'refresh_epochs=0.5', {'hard'}),
    ({'sources': ('model:1',)}, 'refresh_steps=20', {'model'}),
    ({'sources': ('bm25:1', 'fine:1')}, 'refresh_steps=20',
     {'fine'}),
    ({'sources': ('bm25:1',)}, 'model among them', {'bm25'}),
    ({'sources': ('model:1',), 'pool': 'some'}, 'Leave negatives.pool out',
     {'model'}),
    ({'sources': ('corpus:1',)}, '', set()),
])
def test_the_remedy_fits_the_sources(settings, advice, sources):
  config = config_lib.NegativesConfig(**settings)
  names = source_lib.names_of(config, None) or config.names
  remedy = solved.remedy_of(config, names, 0, 40.0)
  assert remedy.sources == sources
  if advice:
    assert advice in remedy.advice(20)


def test_it_names_nothing_that_is_refused():
  judged = config_lib.NegativesConfig(('bm25:1', 'model:1'), judge='some')
  assert solved.remedy_of(judged, ('bm25', 'model'), 0, 40.0).advice(
      20).endswith('refresh_steps=20, without config.negatives.judge')
  mixed = solved.remedy_of_mixture(('bm25', 'model', 'corpus'))
  assert mixed.sources == {'bm25', 'model'}
  assert 'name "corpus"' in mixed.advice(20)


def test_a_training_says_it_and_a_resumed_one_no_more(tmp_path, monkeypatch):
  """Two kinds of step: solved ones, whatever the model is."""
  overrides = test_refresh.settings(
      tmp_path, optim__steps=24, negatives__refresh_steps=0,
      checkpointing__save_steps=8)
  see = solved.Watch.see
  monkeypatch.setattr(solved.Watch, 'see', lambda self, step, contrast: see(
      self, step, {name: {**values, 'accuracy': 1.0, 'mass': 0.0}
                   for name, values in contrast.items()}))
  tiny.train_only(tmp_path, tmp_path / 'whole', **overrides)
  write = run_log.RunLog.write_step

  def stop(self, record):
    if record.step == 18:
      raise KeyboardInterrupt
    write(self, record)

  with monkeypatch.context() as patch:
    patch.setattr(run_log.RunLog, 'write_step', stop)
    with pytest.raises(KeyboardInterrupt):
      tiny.train_only(tmp_path, tmp_path / 'work', **overrides)
  tiny.train_only(tmp_path, tmp_path / 'work', **overrides)
  for place in ('whole', 'work'):
    (found,) = [one for one in run_log.read(
        tmp_path / place / run_log.FILE) if 'solved' in one]
    assert found['step'] == 10
    assert found['solved']['text'].endswith(
        'sooner: --config.negatives.refresh_steps=10')
