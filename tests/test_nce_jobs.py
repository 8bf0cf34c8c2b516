"""Bias is measured as it is defined, and jobs go on where they stopped."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neg_contrast import config as config_lib
from neg_contrast import errors
from neg_contrast.jobs import nce_bias, nce_synthetic
from neg_contrast.negatives import sampling
from tests import tiny


def synthetic(**overrides):
  config = config_lib.base_config()
  config.job = 'nce_synthetic'
  config.nce.percents, config.nce.negatives = (100, 0), 2
  config.nce.draws, config.nce.labels, config.nce.queries = 4, 20, 1
  config.nce.temperature, config.nce.hidden = 0.05, 8
  config.data.batch_size = 16
  config.optim.learning_rate, config.optim.steps = 1e-2, 30
  for key, value in overrides.items():
    config.update_from_flattened_dict({key.replace('__', '.'): value})
  return config


def test_the_synthetic_job_draws_measures_and_keeps(tmp_path, capsys):
  job = tiny.run(nce_synthetic.NceSyntheticJob, synthetic(), tmp_path)
  made = json.loads((tmp_path / nce_synthetic.CURVES).read_text())
  metrics = json.loads((tmp_path / 'metrics.json').read_text())
  assert [point['step'] for point in made['points']] == list(range(1, 31))
  first, last = (made['points'][i]['cross-entropy']['loss'] for i in (0, -1))
  assert made['entropy'] < last < first - 0.5
  assert metrics['synthetic/population/cross-entropy/loss'] == last
  assert made['points'][-1]['random']['loss'] < last
  for name in nce_synthetic.FIGURES.values():
    assert 'random NCE' in (tmp_path / name).read_text()
  assert 'hard' in capsys.readouterr().out
  assert job.steps()[0].is_done()
  other = nce_synthetic.NceSyntheticJob(
      config_lib.parse(synthetic(seed=1)), tmp_path)
  assert not other.steps()[0].is_done()


def test_all_labels_drawn_are_the_cross_entropy():
  config = config_lib.parse(synthetic(
      nce__percents=(50,), nce__negatives=19)).nce
  log_pop = nce_synthetic.population(config, 0)
  params = nce_synthetic.init_params(config, jax.random.key(0))
  found = nce_synthetic.measure(
      config, log_pop, params, sampling.draw_key(0, 0))
  scores = np.asarray(nce_synthetic.scores_of(params), np.float64)
  log_p = scores - np.log(np.exp(scores).sum())
  want = -(np.exp(np.asarray(log_pop, np.float64)) * log_p).sum()
  assert found['cross-entropy']['loss'] == pytest.approx(want, rel=1e-4)
  assert found['mixed-50']['loss'] == pytest.approx(want, rel=1e-4)
  assert found['mixed-50']['bias'] < 1e-5 < found['mixed-50']['gradient']


def bias_config(tmp_path, **overrides):
  config = tiny.make_config(tmp_path, **{
      'data__split': 'train', 'data__groups': 2, 'model__shared': False,
      'nce__queries': 5, 'nce__labels': 9, 'nce__negatives': 3,
      'nce__draws': 8, 'optim__steps': 4, 'optim__learning_rate': 1e-2,
      'checkpointing__save_steps': 1, **overrides,
  })
  config.job = 'nce_bias'
  return config


def run_bias(tmp_path, name='bias', **overrides):
  config = bias_config(tmp_path, **overrides)
  tiny.run(nce_bias.NceBiasJob, config, tmp_path / name)
  return {
      point: json.loads((tmp_path / name / f'bias-{point}.json').read_text())
      for point in config.nce.points
  }


def test_the_bias_job_trains_and_measures(tmp_path, capsys):
  made = run_bias(tmp_path, nce__percents=(0, 100))
  loss = {point: one['model']['loss'] for point, one in made.items()}
  assert loss['cross_entropy'] < loss['random'] < loss['initial'] + 0.5
  assert loss['cross_entropy'] < loss['initial']
  for one in made.values():
    assert set(one['kinds']) == {'random', 'hard'}
    for values in one['kinds'].values():
      assert values['score_error'] > 0 and 0 < values['missed_mass'] < 1
      assert 1 <= values['effective_negatives'] <= 3
  said = capsys.readouterr().out
  assert '166.38' in said and 'p(known positives)' in said
  metrics = json.loads((tmp_path / 'bias' / 'metrics.json').read_text())
  assert metrics['data/train/random/hard/bias'] == (
      made['random']['kinds']['hard']['bias'])


def test_all_labels_drawn_have_no_bias(tmp_path):
  made = run_bias(
      tmp_path, nce__negatives=8, nce__points=('initial',),
      nce__percents=(50,), model__chunk_groups=1,
  )['initial']
  values = made['kinds']['mixed-50']
  assert values['bias'] < 1e-4 * made['model']['gradient'] + 1e-6
  assert values['missed_mass'] < 1e-6
  assert values['loss'] == pytest.approx(made['model']['loss'], rel=1e-4)


def test_an_interrupted_training_ends_the_same(tmp_path, monkeypatch):
  few = {'nce__points': ('random',), 'nce__percents': (0,), 'optim__steps': 3}
  whole = run_bias(tmp_path, 'whole', **few)
  config = config_lib.parse(bias_config(tmp_path, **few))
  (tmp_path / 'cut').mkdir()
  draw = nce_bias.sampling.draw_key

  def stop(seed, step):
    if step == 2:
      raise KeyboardInterrupt
    return draw(seed, step)

  monkeypatch.setattr(nce_bias.sampling, 'draw_key', stop)
  with pytest.raises(KeyboardInterrupt):
    nce_bias.NceBiasJob(config, tmp_path / 'cut')._train('random')
  monkeypatch.undo()
  assert nce_bias.checkpoints_lib.Checkpoints(
      tmp_path / 'cut/random').latest_step() == 2
  cut = run_bias(tmp_path, 'cut', **few)
  assert cut['random']['kinds'] == whole['random']['kinds']
  with pytest.raises(errors.UserError, match='other settings'):
    nce_bias.NceBiasJob(
        config_lib.parse(bias_config(tmp_path, seed=3)), tmp_path / 'cut'
    )._train('random')


def test_labels_are_the_golds_and_hard_others(tmp_path):
  config = config_lib.parse(bias_config(tmp_path))
  job = nce_bias.NceBiasJob(config, tmp_path / 'labels')
  space, prepared = job._space, job._dataset.prepared
  assert len(set(space.passage_rows.tolist())) == 9
  judged = prepared.judgements('train')
  positive = {(q, p) for q, p, g in zip(
      judged.query_rows, judged.passage_rows, judged.grades, strict=True)
      if g > 0}
  for line, query in enumerate(space.query_rows):
    for label, passage in enumerate(space.passage_rows):
      is_other = (query, passage) in positive and line != label
      assert space.is_label[line, label] == (not is_other)
      words = prepared.passages[int(passage)].text.split()
      has = prepared.queries[int(query)].answers[0] in words
      if label != line:
        assert space.holds_answer[line, label] == has
    assert (query, space.passage_rows[line]) in positive
  scores = jnp.zeros((5, 9)).at[0, 0].set(5.0)
  facts = nce_bias.facts_of(np.asarray(scores), space)
  assert facts['accuracy'] == pytest.approx(1 / 5)


@pytest.mark.parametrize('overrides, message', [
    ({'nce__queries': 40, 'nce__labels': 50}, 'with distinct positives'),
    ({'nce__labels': 48}, 'BM25 finds'),
    ({'model__chunk_groups': 3}, 'divides data.groups=2'),
    ({'nce__draws': 3}, 'must be even'),
    ({'nce__labels': 3}, 'must be above'),
])
def test_what_cannot_be_measured_is_told(tmp_path, overrides, message):
  with pytest.raises(errors.UserError, match=message):
    config = config_lib.parse(bias_config(tmp_path, **overrides))
    job = nce_bias.NceBiasJob(config, tmp_path / 'labels')
    assert job._space
