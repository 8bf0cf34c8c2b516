"""Bias is measured as it is defined, and jobs go on where they stopped."""

import contextlib
import io
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neg_contrast import errors, jobs, sharding
from neg_contrast.artifacts import artifact, checkpoints
from neg_contrast.bias import labels, measured
from neg_contrast.bias import meter as meter_lib
from neg_contrast.bias import synthetic as synthetic_lib
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.jobs import nce_bias, nce_synthetic
from neg_contrast.models import by_name as model_lib
from neg_contrast.negatives import sampling
from neg_contrast.settings import config as config_lib
from tests import tiny
from tests.jobs import test_train


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
  made = json.loads((tmp_path / 'curves.json').read_text())
  metrics = json.loads((tmp_path / 'metrics.json').read_text())
  assert [point['step'] for point in made['points']] == list(range(1, 31))
  first, last = (made['points'][i]['cross-entropy']['loss'] for i in (0, -1))
  assert made['entropy'] < last < first - 0.5
  assert metrics['synthetic/population/cross-entropy/loss'] == last
  assert made['points'][-1]['random']['loss'] < last
  for name in nce_synthetic.FIGURES.values():
    assert 'random NCE' in (tmp_path / name).read_text()
  assert 'hard' in capsys.readouterr().out
  assert job.targets()[0].is_made()
  other = nce_synthetic.NceSyntheticJob(
      config_lib.parse(synthetic(seed=1)), tmp_path)
  assert not other.targets()[0].is_made()


def test_all_labels_drawn_are_the_cross_entropy():
  config = config_lib.parse(synthetic(
      nce__percents=(50,), nce__negatives=19)).nce
  log_pop = synthetic_lib.population(config, 0)
  params = synthetic_lib.init_params(config, jax.random.key(0))
  found = synthetic_lib.measure(
      config, log_pop, params, sampling.draw_key(0, 0))
  scores = np.asarray(synthetic_lib.scores_of(params), np.float64)
  log_p = scores - np.log(np.exp(scores).sum())
  want = -(np.exp(np.asarray(log_pop, np.float64)) * log_p).sum()
  assert found['cross-entropy']['loss'] == pytest.approx(want, rel=1e-4)
  assert found['mixed-50']['loss'] == pytest.approx(want, rel=1e-4)
  assert found['mixed-50']['bias'] < 1e-5 < found['mixed-50']['gradient']


def bias_config(tmp_path, **overrides):
  config = tiny.make_config(tmp_path, **{
      'data__split': 'train', 'model__shared': False,
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


@pytest.fixture(scope='module')
def biased(tmp_path_factory):
  """Data, and a finished job in `bias`; what it measured and printed.

  A copy of one of its trainings at step 2 of 4 is in `cut/random`.
  """
  root = tmp_path_factory.mktemp('biased')
  said = io.StringIO()
  with test_train.copied_at(
      2, root / 'bias' / 'random', root / 'cut' / 'random'
  ), contextlib.redirect_stdout(said):
    made = run_bias(root, nce__percents=(0, 100))
  return root, made, said.getvalue()


def test_the_bias_job_trains_and_measures(biased):
  root, made, said = biased
  loss = {point: one['model']['loss'] for point, one in made.items()}
  assert loss['cross_entropy'] < loss['random'] < loss['initial'] + 0.5
  assert loss['cross_entropy'] < loss['initial']
  for one in made.values():
    assert set(one['kinds']) == {'random', 'hard'}
    for values in one['kinds'].values():
      assert values['score_error'] > 0 and 0 < values['missed_mass'] < 1
      assert 1 <= values['effective_negatives'] <= 3
  assert '166.38' in said and 'p(known positives)' in said
  metrics = json.loads((root / 'bias' / 'metrics.json').read_text())
  assert metrics['data/train/random/hard/bias'] == (
      made['random']['kinds']['hard']['bias'])


def test_all_labels_drawn_have_no_bias(biased, monkeypatch):
  monkeypatch.setattr(meter_lib, '_CHUNK_TOKENS', 24)  # In several groups.
  made = run_bias(
      biased[0], 'all', nce__negatives=8, nce__points=('initial',),
      nce__percents=(50,),
  )['initial']
  values = made['kinds']['mixed-50']
  assert values['bias'] < 1e-4 * made['model']['gradient'] + 1e-6
  assert values['missed_mass'] < 1e-6
  assert values['loss'] == pytest.approx(made['model']['loss'], rel=1e-4)


def test_an_interrupted_training_ends_the_same(biased):
  root, whole, _ = biased
  few = {'nce__percents': (0, 100), 'nce__points': ('random',)}
  with checkpoints.reading(root / 'cut/random') as opened:
    assert opened.latest_step() == 2
  cut = run_bias(root, 'cut', **few)
  assert cut['random']['kinds'] == whole['random']['kinds']
  with pytest.raises(errors.UserError, match='other settings'):
    run_bias(root, 'cut', **few, seed=3)


def test_other_parts_trained_are_another_training(tmp_path):
  def made(**overrides):
    config = config_lib.parse(bias_config(tmp_path, **overrides))
    nce_bias.check(config)
    job = nce_bias.NceBiasJob(config, tmp_path / 'parts')
    run, = (one for one in artifact.closure(job.targets())
            if one.name == 'train cross_entropy')
    assert run.needs()['data'].load()
    return run.identity

  plain, frozen, adapted = (
      made(), made(model__freeze='passage'), made(model__lora_rank=2))
  assert 'model' not in plain['settings']
  assert frozen['settings']['model'] == {'freeze': 'passage'}
  assert adapted['settings']['model'] == {'lora_rank': 2}
  with pytest.raises(errors.UserError, match=r'set model\.shared=False'):
    nce_bias.check(config_lib.parse(bias_config(
        tmp_path, model__shared=True, model__freeze='passage')))


def test_labels_are_the_golds_and_hard_others(tmp_path):
  config = config_lib.parse(bias_config(tmp_path))
  job = nce_bias.NceBiasJob(config, tmp_path / 'labels')
  targets: list[measured.Bias] = job.targets()
  meter, = {target.meter for target in targets}
  space, prepared = meter.load().space, meter.data.load().prepared
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
  facts = labels.facts_of(np.asarray(scores), space)
  assert facts['accuracy'] == pytest.approx(1 / 5)


@pytest.mark.parametrize('overrides, message', [
    ({'nce__queries': 40, 'nce__labels': 50}, 'with distinct positives'),
    ({'nce__labels': 48}, 'BM25 finds'),
    ({'nce__draws': 3}, 'must be even'),
    ({'nce__labels': 3}, 'must be above'),
])
def test_what_cannot_be_measured_is_told(tmp_path, overrides, message):
  with pytest.raises(errors.UserError, match=message):
    config = config_lib.parse(bias_config(tmp_path, **overrides))
    job = nce_bias.NceBiasJob(config, tmp_path / 'labels')
    target: measured.Bias = job.targets()[0]
    assert target.meter.load().space


FEW = {
    'mesh__data': 1, 'data__groups': 1, 'optim__steps': 6,
    'checkpointing__save_steps': 2, 'nce__queries': 4, 'nce__labels': 9,
    'nce__negatives': 3, 'nce__draws': 4,
}
MEASURED = {**FEW, 'nce__log_steps': 3}


def biases_of(workdir):
  lines = (workdir / 'log.jsonl').read_text().splitlines()
  records = [json.loads(line) for line in lines]
  return {r['step']: r['bias'] for r in records if 'bias' in r}


def test_a_training_that_is_measured_is_the_same(tmp_path):
  tiny.train_only(tmp_path, tmp_path / 'plain', **FEW)
  work = tmp_path / 'work'
  tiny.train_only(tmp_path, work, **MEASURED)
  test_train.assert_same_run(tmp_path / 'plain', work, 6)
  tiny.train_only(tmp_path, work, **FEW)  # It is the same run.
  found = biases_of(work)
  assert list(found) == [3, 6] and found[3] != found[6]
  assert set(found[6]['kinds']) == {'random', 'hard', 'mixed-50'}
  config = config_lib.parse(tiny.make_config(tmp_path, **MEASURED))
  dataset = dataset_lib.Dataset(config.data)
  tune = dataset.train_and_tune[1]
  space = labels.choose_labels(
      config.nce, config.evaluation, config.seed, dataset, tune, '')
  assert set(space.query_rows) <= set(tune.query_rows)
  model = model_lib.load_checkpoint(
      config.model.init, config.model, config.seed)
  meter = meter_lib.BiasMeter(
      config.nce, config.loss.scale, dataset, model, space, config.model,
      config.data.row_length)
  params = {'encoder': test_train.params_of(work, 6), 'loss': {}}
  key = sampling.draw_key(config.seed, 0)
  assert meter.measure(params, key) == found[6]
  mesh = sharding.make_mesh(config_lib.MeshConfig())
  assert len(jax.devices()) == mesh.size > 1
  on_many = jax.device_put(params, sharding.replicated(mesh))
  assert meter.measure(on_many, key) == found[6]


def test_a_training_that_goes_on_measures_at_the_same_steps(tmp_path):
  """Own candidates, a score of many vectors and a learned scale."""
  config = {
      **MEASURED, 'loss__candidates': 'own', 'loss__bidirectional': False,
      'loss__learn_scale': True, 'model__score': 'som', 'model__shared': False,
  }
  whole, cut = tmp_path / 'whole', tmp_path / 'cut'
  with test_train.copied_at(4, whole, cut):
    tiny.train_only(tmp_path, whole, **config)
  assert list(biases_of(cut)) == [3]
  tiny.train_only(tmp_path, cut, **config)
  assert list(biases_of(cut)) == [3, 6]
  assert biases_of(cut) == biases_of(whole)
  test_train.assert_same_run(whole, cut, 6)


@pytest.mark.parametrize('overrides, message', [
    ({'nce__queries': 40, 'nce__labels': 50}, 'nce.queries=40: the tune split'),
    ({'job': 'train_generator'}, 'nce.log_steps=3: is for dual encoders'),
    ({'nce__log_steps': -1}, 'nce.log_steps=-1'),
])
def test_what_a_training_cannot_measure_is_told(tmp_path, overrides, message):
  settings = {**MEASURED, **overrides}
  with pytest.raises(errors.UserError, match=message):
    jobs.check(config_lib.parse(tiny.make_config(tmp_path, **settings)))
    tiny.train_only(tmp_path, tmp_path / 'work', **settings)
  assert not (tmp_path / 'work' / 'checkpoints').exists()
