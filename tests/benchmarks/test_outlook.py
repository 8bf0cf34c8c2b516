"""What `--plan` says after the plan: problems, notes, costs."""

import json
import pathlib
import re
import shutil

import huggingface_hub
import numpy as np
import pytest

from neg_contrast import errors, jobs, listeners
from neg_contrast.artifacts import places, plan
from neg_contrast.benchmarks import outlook
from neg_contrast.data.formats import hf
from neg_contrast.models import hub
from neg_contrast.settings import config as config_lib
from tests import bucket, corpora, tiny
from tests.jobs import test_mixture


def look(config, workdir):
  targets = jobs.make_job(config_lib.parse(config), workdir).targets()
  assert 'MISSING' not in plan.describe(targets)
  return outlook.look(targets)


@pytest.fixture
def config(tmp_path):
  return tiny.make_config(tmp_path, optim__steps=4, negatives__sources=())


def test_a_plan_ends_with_its_costs(config, tmp_path):
  before = sorted(tmp_path.rglob('*'))
  seen = look(config, tmp_path / 'run')
  assert sorted(tmp_path.rglob('*')) == before  # It only looks.
  assert not seen.problems
  said = str(seen)
  assert f'training in {tmp_path / "run"}: 4 steps of 8 queries' in said
  assert 'vectors of 48 passages' in said
  # A query has three words, a passage at least four; [CLS] and [SEP] around.
  each = int(re.search(r'([\d,]+) tokens a step', said)[1].replace(',', ''))
  assert 8 * (5 + 6) < each < 8 * (5 + 18)
  assert re.search(r'steps: 4\n', said)
  assert re.search(r'disk: about [\d.]+ [KM]B; .* are free', said)
  last = said.splitlines()[-1].strip()
  assert last.startswith('time: about') and 'measured just now' in last
  assert 'factor' in last and 'compile_only' in last


def test_prepared_data_is_counted_not_guessed(config, tmp_path):
  first = look(config, tmp_path / 'run')
  data = jobs.make_job(config_lib.parse(config), tmp_path / 'run').gold
  data.load()
  seen = look(config, tmp_path / 'run')
  made = data.load().train_and_tune
  assert f'(about {(made[0].grades > 0).sum()} examples)' in str(seen)
  assert first.costs != seen.costs


def test_tokens_of_two_batches_are_twice_those_of_one(config, tmp_path):
  config.evaluation.eval_steps = 0
  counted = []
  for steps in (4, 8):
    config.optim.steps = steps
    costs = '\n'.join(look(config, tmp_path / 'run').costs)
    counted.append(int(
        re.search(r'tokens: ([\d,]+)', costs)[1].replace(',', '')))
    each = int(re.search(r'([\d,]+) tokens a step', costs)[1])
  assert 0 <= counted[1] - counted[0] - 4 * each <= 4


@pytest.mark.parametrize('key, value', [
    ('train_split', 'trian'), ('tune_split', 'dve'), ('test_split', 'tset'),
])
def test_a_split_that_is_not_there_fails(config, tmp_path, key, value):
  setattr(config.data, key, value)
  [problem] = look(config, tmp_path / 'run').problems
  assert f'config.data.{key}="{value}"' in problem and 'train' in problem


def test_a_split_without_positives_fails(config, tmp_path):
  path = tmp_path / 'data' / 'qrels' / 'train.tsv'
  path.write_text(path.read_text().replace('\t1\n', '\t0\n'))
  [problem] = look(config, tmp_path / 'run').problems
  assert 'nothing to train on' in problem


def test_a_broken_record_fails(config, tmp_path):
  path = tmp_path / 'data' / 'queries.jsonl'
  path.write_text(path.read_text() + '{"_id": \n')
  problems = look(config, tmp_path / 'run').problems
  assert len(problems) == 1 and 'queries.jsonl:' in problems[0]


def test_another_run_in_the_workdir_fails(config, tmp_path):
  tiny.train_only(tmp_path, tmp_path / 'run', optim__steps=2,
                  negatives__sources=())
  shutil.rmtree(tmp_path / 'prepared')  # Only its data tells what it is.
  config.evaluation.eval_steps = 0
  config.optim.steps = 2
  assert not look(config, tmp_path / 'run').problems
  config.optim.learning_rate = 0.5
  [problem] = look(config, tmp_path / 'run').problems
  assert 'holds a run with other settings' in problem
  assert 'config.optim.learning_rate' in problem


def test_a_stage_1_folder_of_another_run_fails(config, tmp_path):
  tiny.train_only(tmp_path, tmp_path / 'first', optim__steps=2,
                  negatives__sources=())
  shutil.rmtree(tmp_path / 'prepared')
  config.stage1 = tiny.make_config(
      tmp_path, workdir=str(tmp_path / 'first'), optim__steps=3,
      negatives__sources=(), evaluation__eval_steps=0,
  )
  [problem] = look(config, tmp_path / 'run').problems
  assert 'config.stage1.optim.steps' in problem


def test_a_batch_that_devices_can_not_share_fails(config, tmp_path):
  config.data.groups = 4  # Tests have eight devices.
  [problem] = look(config, tmp_path / 'run').problems
  assert 'config.data.groups=4' in problem


def test_too_little_data_is_said(config, tmp_path):
  config.data.batch_size = 64
  config.optim.steps = 0
  config.optim.epochs = 40.0
  config.data.tune_fraction = 0.1
  config.model.passage_length = 8
  notes = ' '.join(look(config, tmp_path / 'run').notes)
  assert 'data.batch_size=64 is more than the 33 examples' in notes
  assert 'Choose at most 32' in notes
  assert 'pass 39 times over' in notes
  assert 'the tune split has about 4 queries' in notes
  assert 'the split "test" has 12 queries' in notes
  assert re.search(r'\d+% of the passages are longer than 8 tokens', notes)


class Hub:
  """Answers as the hub does."""

  def __init__(self, error=None):
    self.error, self.asked = error, []

  def model_info(self, name, timeout):
    assert timeout <= 10
    self.asked.append(name)
    if self.error is not None:
      raise self.error

  dataset_info = model_info


@pytest.fixture
def offline(monkeypatch):
  """No model of the hub is here."""
  monkeypatch.setattr(hub, 'cached', lambda name: None)


def test_a_hub_that_can_not_be_reached_fails(
    config, tmp_path, monkeypatch, offline
):
  config.model.init = 'someone/bert-base-uncased'
  monkeypatch.setattr(huggingface_hub, 'HfApi',
                      lambda: Hub(ConnectionError('no route')))
  [problem] = look(config, tmp_path / 'run').problems
  assert "the hub can't be reached (ConnectionError)" in problem


def test_a_hub_name_is_looked_up_not_downloaded(
    config, tmp_path, monkeypatch, offline
):
  config.model.init = 'someone/bert-base-uncased'
  asked = Hub()
  monkeypatch.setattr(huggingface_hub, 'HfApi', lambda: asked)
  monkeypatch.setattr(huggingface_hub, 'snapshot_download', None)
  seen = look(config, tmp_path / 'run')
  assert not seen.problems and set(asked.asked) == {config.model.init}
  said = str(seen)
  assert 'someone/bert-base-uncased will be downloaded' in said
  # Its size is known by its name; words stand for tokens.
  assert 'guessed from words' in said and 'time: about' in said


def test_a_data_set_of_the_hub_is_looked_up_as_models_are(
    config, tmp_path, monkeypatch
):
  config.data.source = 'hf:someone/nq?text=answer'
  monkeypatch.setattr(hf, '_cached', lambda name: None)
  hub_api = Hub()
  monkeypatch.setattr(huggingface_hub, 'HfApi', lambda: hub_api)
  seen = look(config, tmp_path / 'run')
  assert not seen.problems and hub_api.asked == ['someone/nq']
  assert 'hf:someone/nq?text=answer will be downloaded' in seen.notes
  hub_api.error = ConnectionError('no route')
  seen = look(config, tmp_path / 'run')
  [problem] = seen.problems
  assert problem.startswith('hf:someone/nq: no folder here, and the hub can\'t')
  assert 'will be downloaded' not in str(seen)


def test_a_model_that_is_kept_needs_no_hub(config, tmp_path, monkeypatch):
  monkeypatch.setattr(hub, 'cached', lambda name: tmp_path / 'model')
  monkeypatch.setattr(huggingface_hub, 'HfApi',
                      lambda: Hub(ConnectionError('no route')))
  config.model.init = 'someone/tiny'
  seen = look(config, tmp_path / 'run')
  assert not seen.problems and 'guessed' not in str(seen)
  [note] = [note for note in seen.notes if 'someone/tiny' in note]
  assert "can't be reached" in note and 'that is kept here is used' in note


def test_a_hub_name_ends_a_job_before_anything_is_made(
    config, tmp_path, monkeypatch, offline
):
  def refuse(*args, **kwargs):
    raise OSError('no route')

  config.model.init = 'someone/bert-base-uncased'
  monkeypatch.setattr(huggingface_hub, 'snapshot_download', refuse)
  job = jobs.make_job(config_lib.parse(config), tmp_path / 'run')
  with pytest.raises(Exception, match='could be downloaded'):
    plan.run(job.targets())
  assert not (tmp_path / 'prepared').exists()


def test_settings_that_the_model_can_not_have_fail(config, tmp_path):
  config.model.passage_length = 64
  [problem] = look(config, tmp_path / 'run').problems
  assert 'config.model.passage_length=64' in problem and '40' in problem


def damage(model: pathlib.Path, **values):
  path = model / 'config.json'
  path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


@pytest.mark.parametrize('what, said', [
    (lambda model: damage(model, num_attention_heads='4'),
     'is no whole number'),
    (lambda model: damage(model, model_type='gpt5'), 'not supported'),
    (lambda model: (model / 'model.safetensors').unlink(), 'no such file'),
    (lambda model: (model / 'tokenizer.json').unlink(), 'holds neither'),
    (lambda model: (model / 'model.safetensors.index.json').write_text('{}'),
     'weight_map'),
    (lambda model: (model / 'modules.json').write_text('{}'),
     'no list of modules'),
])
def test_a_broken_model_is_missing_from_the_plan(config, tmp_path, what, said):
  what(tmp_path / 'model')
  told = plan.describe(
      jobs.make_job(config_lib.parse(config), tmp_path / 'run').targets())
  assert said in told


def test_a_broken_tokenizer_fails(config, tmp_path):
  (tmp_path / 'model' / 'tokenizer.json').write_text('{}')
  [problem] = look(config, tmp_path / 'run').problems
  assert 'tokenizer.json: not a tokenizer' in problem


def test_a_vocabulary_of_nothing_but_special_tokens_fails(config, tmp_path):
  path = tmp_path / 'model' / 'tokenizer.json'
  values = json.loads(path.read_text())
  values['model'] = {'type': 'BPE', 'vocab': {}, 'merges': []}
  path.write_text(json.dumps(values))
  [problem] = look(config, tmp_path / 'run').problems
  assert 'tokenizer.json: not a tokenizer: it has no vocabulary' in problem


def test_a_broken_tokenizer_of_a_generator_fails(config, tmp_path):
  config.job, config.model.init = 'train_generator', (
      f'random:t5-small@{tmp_path / "model"}')
  assert not look(config, tmp_path / 'run').problems
  (tmp_path / 'model' / 'tokenizer.json').write_text('{}')
  [problem] = look(config, tmp_path / 'run').problems
  assert 'tokenizer.json: not a tokenizer' in problem


def test_an_interrupted_training_is_reckoned_by_its_log(config, tmp_path):
  def stop(step, record):
    if step == 3:
      raise KeyboardInterrupt

  with pytest.raises(KeyboardInterrupt), listeners.listening(
      listeners.Listener(on_step=stop)):
    tiny.train_only(
        tmp_path, tmp_path / 'run', optim__steps=4, negatives__sources=(),
        checkpointing__save_steps=2)
  config.evaluation.eval_steps = 0
  config.checkpointing.save_steps = 2
  for steps in (2, 0):  # It goes on from a checkpoint, and not from its log.
    costs = look(config, tmp_path / 'run').costs
    assert 'of training are left, by the log of' in costs[-1]
    assert f' {steps} steps done' in costs[-1]
    for folder in (tmp_path / 'run' / 'checkpoints').glob('[0-9]*'):
      shutil.rmtree(folder)


@pytest.mark.parametrize('overrides, said', [
    ({'model__lora_rank': 400}, r'config\.model\.lora_rank=400: is above 16'),
    ({'model__lora_rank': 2, 'model__lora_targets': ('foo',)},
     r"config\.model\.lora_targets=\('foo',\)"),
    ({'loss__matryoshka': (8, 999)}, 'which is 16 and is always trained'),
    ({'evaluation__dims': (4, 16)},
     r'config\.evaluation\.dims=16: the vectors have 16 features; name fewer'),
    ({'job': 'evaluate', 'evaluation__dims': (4, 16)},
     r'config\.evaluation\.dims=16: the vectors have 16 features; name fewer'),
])
def test_what_does_not_fit_the_model_is_a_problem(tmp_path, overrides, said):
  config = tiny.make_config(tmp_path, optim__steps=4, negatives__sources=(),
                            **overrides)
  if config.job == 'evaluate':
    config.checkpoint, config.model.init = config.model.init, ''
  [problem] = look(config, tmp_path / 'run').problems
  assert re.search(said, problem)


def test_what_does_not_fit_a_trained_start_is_a_problem(tmp_path):
  """Which says itself how many vectors a text has."""
  tiny.train_only(tmp_path, tmp_path / 'first', optim__steps=1,
                  negatives__sources=(), model__score='multi-2')
  config = tiny.make_config(
      tmp_path, optim__steps=1, negatives__sources=(),
      model__init=str(tmp_path / 'first'), evaluation__dims=(4,),
      evaluation__hybrid=True)
  dims, hybrid = sorted(look(config, tmp_path / 'run').problems)
  assert dims.startswith('config.evaluation.dims=4: is of one vector of each')
  assert hybrid.startswith('config.evaluation.hybrid=True: is of one vector')


def test_widths_are_those_of_stage_1(tmp_path):
  config = tiny.make_config(
      tmp_path, optim__steps=1, negatives__sources=(), evaluation__dims=(8,))
  config.stage1 = tiny.make_config(
      tmp_path, optim__steps=1, negatives__sources=(), model__projection_dim=8,
      workdir=str(tmp_path / 'first'))
  [problem] = look(config, tmp_path / 'run').problems
  assert 'dims=8: the vectors have 8 features; name fewer' in problem


def test_a_long_warm_up_is_told(config, tmp_path):
  config.optim.steps = 20
  for steps, is_told in ((10, False), (11, True)):
    config.optim.warmup_steps = steps
    notes = look(config, tmp_path / 'run').notes
    assert any('optim.warmup_steps=11 of 20 steps' in note
               for note in notes) == is_told


def test_several_data_sets_are_counted_together(tmp_path):
  config = test_mixture.make_config(tmp_path, negatives__sources=(),
                                    optim__steps=0, optim__epochs=2.0)
  seen = look(config, tmp_path / 'run')
  assert not seen.problems
  # 36 - 30% of them, and 8 of the other; two epochs in batches of 8.
  assert '8 steps of 8 queries (about 34 examples)' in str(seen)
  config.mixture.sets.small.tune_split = 'dve'
  [problem] = look(config, tmp_path / 'run').problems
  assert 'config.mixture.sets.small.tune_split="dve"' in problem


def test_search_alone_has_costs_too(config, tmp_path):
  config.job, config.checkpoint = 'search', str(tmp_path / 'model')
  costs = look(config, tmp_path / 'run').costs
  assert any('vectors of 48 passages' in line for line in costs)
  assert 'steps: 0' in costs


def test_a_split_that_lacks_ends_a_plan_before_it_is_trained(config, tmp_path):
  """A training comes first here: BM25 is not evaluated, nor what it starts at.
  """
  config.data.test_split = 'nix'
  config.evaluation.bm25, config.model.projection_dim = False, 8
  targets = jobs.make_job(config_lib.parse(config), tmp_path / 'run').targets()
  splits = outlook.Splits(targets)
  splits.check()  # Nothing is known of data that is not prepared.
  assert [one.title for one in targets[1:]] == ['training', 'trained']
  with pytest.raises(errors.UserError, match='no split "nix"; it has'):
    plan.run(targets, check=splits.check)
  assert not (tmp_path / 'run').exists()
  config.data.test_split = 'test'
  plan.run(targets[:1], check=outlook.Splits(jobs.make_job(
      config_lib.parse(config), tmp_path / 'run').targets()).check)


def test_test_queries_that_tuning_sees_fail(config, tmp_path):
  """As soon as the data is prepared; the question is told in its words."""
  qrels = tmp_path / 'data' / 'qrels'
  shutil.copy(qrels / 'test.tsv', qrels / 'dev.tsv')
  config.data.tune_split = 'dev'
  first = look(config, tmp_path / 'run')
  assert not first.problems
  jobs.make_job(config_lib.parse(config), tmp_path / 'run').gold.load()
  [problem] = look(config, tmp_path / 'run').problems
  assert re.search(r'the tune split and the split "test", which .* have 12 '
                   r'queries in common, such as "q3-0": (\w+ ){2}\w+\. .* or '
                   'take these queries out of one$', problem)


def test_a_training_in_a_bucket_waits_for_no_follower(config, tmp_path):
  config.negatives.sources = ('model:2',)
  config.negatives.refresh_steps, config.checkpoint = 2, config.model.init
  for how, count in (('asynchronous', 1), ('synchronous', 0)):
    config.negatives.refresh = how
    with bucket.running(tmp_path / 'cache'):
      seen = look(config, places.path(f'{bucket.BUCKET}/run'))
    told = [one for one in seen.problems if 'this needs a second one' in one]
    assert len(told) == count, seen.problems
    assert not look(config, tmp_path / 'run').problems


def test_a_folder_that_can_not_be_made_fails(config, tmp_path):
  (tmp_path / 'taken').write_text('')
  [problem] = look(config, tmp_path / 'taken').problems
  assert f'{tmp_path / "taken"} is a file). Choose another with' in problem
  config.data.prepared_dir = str(tmp_path / 'taken' / 'prepared')
  [problem] = look(config, tmp_path / 'run').problems
  assert 'taken is a file). Choose another' in problem
  assert not (tmp_path / 'run').exists()


@pytest.mark.parametrize(('kind', 'most'), [
    ({'pairs': 'title'}, 'passages'), ({'pairs': 'crops'}, 'three of each'),
    ({'pairs': 'spar', 'spar_given': True, 'teacher_depth': 2}, 'questions'),
])
def test_pairs_are_counted_as_they_are_made(tmp_path, kind, most):
  """At most as many before, and exactly afterwards."""
  texts = {f'd{n}': (f'word{n}', ' '.join(tiny.WORDS[n:n + 9]) + '. ')
           for n in range(9)}
  corpora.write_beir(
      tmp_path / 'data', {name: (title, text * 9)
                          for name, (title, text) in texts.items()},
      {f'q{n}': f'word{n}' for n in range(9)},
      train={f'q{n}': {f'd{n}': 1} for n in range(7)}, test={'q8': {'d8': 1}})
  config = tiny.make_config(
      tmp_path, negatives__sources=(), optim__steps=0, optim__epochs=1.0,
      synthetic__dir=str(tmp_path / 'synthetic'),
      **{f'synthetic__{key}': value for key, value in kind.items()})
  job = jobs.make_job(config_lib.parse(config), tmp_path / 'run')
  gold = job.gold.load()
  passages = len(gold.prepared.passages)
  asked = len(np.unique(gold.train_and_tune[0].query_rows))
  wanted = {'passages': passages, 'three of each': 3 * passages,
            'questions': 2 * asked}[most]
  assert f'(about {wanted} examples)' in str(look(config, tmp_path / 'run'))
  plan.run([job.run.data])
  made = len(job.run.data.load().train_and_tune[0].query_rows)
  assert made <= wanted
  assert f'(about {made} examples)' in str(look(config, tmp_path / 'run'))
