"""Trainings on two tiny data sets: counts, resume, metrics and refusals."""

import dataclasses
import json
import shutil

import numpy as np
import pytest

from neg_contrast import errors, jobs
from neg_contrast.artifacts import checkpoints, folders, plan
from neg_contrast.jobs import search, study, train
from neg_contrast.jobs.common import declared_cells
from neg_contrast.models import by_name, card_facts
from neg_contrast.settings import config as config_lib
from neg_contrast.training import mixture_artifacts, mixture_run
from tests import corpora, tiny
from tests.batches import test_batcher
from tests.jobs import test_train


def write_second(folder):
  """Another corpus, whose ids are those of the first one."""
  rng = np.random.default_rng(7)
  texts = {f'd{n}p0': (f'word{min(n, 3)}' if n < 13 else 'word9',
                       ' '.join(rng.choice(tiny.WORDS, 8, replace=False)))
           for n in range(14)}
  queries = {f'q{n}-0': ' '.join(texts[f'd{n}p0'][1].split()[:2])
             for n in range(14)}
  judged = {f'q{n}-0': {f'd{n}p0': 1} for n in range(14)}
  cut = lambda first, end: dict(list(judged.items())[first:end])
  return corpora.write_beir(folder, texts, queries, train=cut(0, 8),
                            dev=cut(8, 11), test=cut(11, 14))


def make_config(root, weights=(3, 1), sets=None, **overrides):
  """A training on `big` and `small`."""
  if not (root / 'second').exists():
    write_second(root / 'second')
  config = tiny.make_config(root, **{
      'data__source': '', 'data__batch_size': 8, 'data__tune_fraction': 0.1,
      'negatives__sources': ('bm25:1', 'corpus:1'), 'negatives__depth': 6,
      'negatives__pool_size': 4, 'negatives__mined_dir': str(root / 'mined'),
      'optim__steps': 12, 'evaluation__eval_steps': 6, **overrides,
  })
  of = sets or {}
  config.mixture.sets = config_lib.named_sets(
      big={'source': f'beir:{root / "data"}', 'weight': weights[0],
           'tune_fraction': 0.3, **of.get('big', {})},
      small={'source': f'beir:{root / "second"}', 'weight': weights[1],
             'tune_split': 'dev', 'document': 'title',
             'query_prefix': 'word1 word2',
             **of.get('small', {})},
  )
  return config


@pytest.fixture(scope='module')
def finished(tmp_path_factory):
  root = tmp_path_factory.mktemp('mixture')
  tiny.run(train.TrainJob, make_config(root), root / 'work')
  return root


def records_of(workdir):
  lines = (workdir / 'log.jsonl').read_text().splitlines()
  return [json.loads(line) for line in lines]


def test_counts(finished):
  drawn = {r['step']: (r['drawn_big'], r['drawn_small'])
           for r in records_of(finished / 'work') if 'loss' in r}
  assert drawn[4] == (24, 8) and drawn[12] == (72, 24)
  assert all(sum(counts) == 8 * step for step, counts in drawn.items())


def test_tune_metrics_of_each_set_and_their_mean(finished):
  evaluations = [r['evaluation'] for r in records_of(finished / 'work')
                 if 'evaluation' in r]
  assert len(evaluations) == 2
  for values in evaluations:
    for metric in ('accuracy@1', 'mrr@10'):
      each = [values[f'{name}/tune/{metric}'] for name in ('big', 'small')]
      assert values[metric] == pytest.approx(np.mean(each))
    assert all(round(values['small/tune/accuracy@1'] * 3, 6) % 1 == 0
               for values in evaluations)  # Of three queries.


def test_each_set_is_evaluated_by_its_name(finished):
  values = json.loads((finished / 'work' / 'metrics.json').read_text())
  for name in ('big', 'small'):
    for system in ('bm25', 'initial', 'trained'):
      assert 0 <= values[f'{name}/test/{system}/accuracy@1'] <= 1
  page = (finished / 'work' / 'report.html').read_text()
  assert (f'big beir:{finished / "data"}, small beir:{finished / "second"}'
          in page)


def test_the_kept_checkpoint_is_that_of_the_best_mean(finished):
  """And its metrics on each tune split are in metrics.json."""
  evaluations = {r['step']: r['evaluation'] for r in
                 records_of(finished / 'work') if 'evaluation' in r}
  means = {step: values['accuracy@1'] for step, values in evaluations.items()}
  best = min(means, key=lambda step: (-means[step], step))
  values = json.loads((finished / 'work' / 'metrics.json').read_text())
  for name in ('big', 'small'):
    assert values[f'{name}/tune/trained/accuracy@1'] == (
        evaluations[best][f'{name}/tune/accuracy@1'])
  opened = checkpoints.Checkpoints(finished / 'work')
  assert opened.progress(12).best_step == best
  opened.close()


def test_a_run_that_was_stopped_goes_on_as_if_it_was_not(finished):
  work = finished / 'stopped'
  shutil.copytree(finished / 'work', work)
  log = (work / 'log.jsonl').read_text().splitlines()
  (work / 'log.jsonl').write_text(''.join(
      line + '\n' for line in log if json.loads(line)['step'] <= 9))
  for folder in (work / 'checkpoints').iterdir():
    if folder.name.isdigit() and int(folder.name) > 9:
      shutil.rmtree(folder)
  job = train.TrainJob(config_lib.parse(make_config(finished)), work)
  plan.run([job.run])
  assert test_train.losses_of(work) == test_train.losses_of(finished / 'work')


def test_batches_of_several_sets_negatives_and_prompts_of_each(finished):
  """Halves of passages, two pools, and a prompt that one set alone has."""
  config = make_config(
      finished, mixture__batches='mixed', evaluation__eval_steps=0,
      optim__steps=4, mesh__data=1,
      sets={'big': {'negatives': ('given:1', 'corpus:1')},
            'small': {'negatives': ('bm25:1', 'context:1')}},
  )
  job = train.TrainJob(config_lib.parse(config), finished / 'mixed')
  plan.run([job.run])
  assert [record['drawn_small'] for record in records_of(finished / 'mixed')
          ] == [2, 4, 6, 8]
  training = job.run.training()
  make_batch, count = training._make_batch()
  assert isinstance(job.run, mixture_artifacts.MixtureRun)
  train_split = job.run.mixture.sets[0].data.load().train_and_tune[0]
  assert count == 8 + int((train_split.grades > 0).sum())
  assert training._sources == ('given', 'corpus', 'bm25', 'context')
  names = set()
  prompt = training.model.tokenizer.encode('word1 word2')
  for step in range(12):
    batch, _ = make_batch(step)
    sets, _ = make_batch.order.places(step)
    assert sorted(sets) == [0] * 6 + [1] * 2
    tokens = test_batcher.unpacked(batch, 'shared', batch.query_slots)
    for number, ids in zip(sets, tokens, strict=True):
      assert (list(ids[1:3]) == list(prompt)) == bool(number)
    for number, sources in zip(sets, batch.negative_sources, strict=True):
      known = (2, 3) if number else (0, 1)
      assert {*sources.tolist()} <= {*known, -1}
      names |= {*sources.tolist()}
  assert names >= {0, 1, 2, 3}


def test_it_goes_on_from_a_stage_1_of_one_data_set(finished):
  """As from a model that was trained before."""
  few = {'optim__steps': 2, 'evaluation__eval_steps': 0, 'mesh__data': 1}
  config = make_config(finished, **few)
  config.stage1 = tiny.make_config(finished, **few, seed=5)
  work = finished / 'two-stages'
  tiny.run(train.TrainJob, config, work)
  again = train.TrainJob(config_lib.parse(make_config(
      finished, model__init=str(work / 'stage1'), **few)), finished / 'again')
  plan.run([again.run])
  assert test_train.losses_of(work) == test_train.losses_of(finished / 'again')
  assert test_train.losses_of(work)[1] != (
      test_train.losses_of(finished / 'work')[1])
  values = json.loads((work / 'metrics.json').read_text())
  for name in ('big', 'small'):
    assert f'{name}/test/trained/accuracy@1' in values


def refused(root, **changes):
  with pytest.raises(errors.UserError) as error:
    jobs.check(config_lib.parse(make_config(root, **changes)))
  assert '\n' not in str(error.value)
  return str(error.value)


SMALL = 'config.mixture.sets.small'


@pytest.mark.parametrize('changes, message', [
    ({'weights': (3, 0)}, f'{SMALL}.weight=0.0: must be above 0'),
    ({'weights': (3, -1)}, f'{SMALL}.weight=-1.0: must be above 0'),
    ({'weights': (3, None)}, f'{SMALL}.weight=None: is needed, as "big" has'),
    ({'mixture__temperature': 2.0}, 'config.mixture.temperature=2.0: is for'),
    ({'sets': {'small': {'source': ''}}}, f"{SMALL}.source='': is needed"),
    ({'sets': {'small': {'sourse': 'x'}}}, f"{SMALL}.sourse='x': no such key"),
    ({'sets': {'small': {'test_split': 'dev'}}},
     f"{SMALL}.tune_split='dev': is also the test_split"),
    ({'sets': {'small': {'test_split': ''}, 'big': {'test_split': ''}}},
     "config.mixture.sets=('big', 'small'): has no set with a test_split"),
    ({'sets': {'small': {'negatives': ('bm25:1',)}}},
     f"{SMALL}.negatives=('bm25:1',): must give each query as many"),
    ({'sets': {'small': {'negatives': ('bm25:2', 'queue:8')}}},
     f"{SMALL}.negatives=('bm25:2', 'queue:8'): must give"),
    ({'sets': {'small': {'tune_split': 'train'}}},
     f"{SMALL}.tune_split='train': is also the train_split"),
    ({'data__source': 'beir:d'}, "config.data.source='beir:d': and config.mix"),
    ({'data__query_prefix': 'query: '}, "config.data.query_prefix='query: ': "
     'and config.mixture.sets both name data; give it to sets, as '
     'config.mixture.sets.NAME.query_prefix'),
    ({'data__tune_fraction': 0.3}, 'config.data.tune_fraction=0.3: and config'),
    ({'negatives__sources': ('shared_corpus:2',)}, 'config.negatives.sources='),
    ({'negatives__sources': ('sampled:2',)}, 'config.negatives.sources='),
    ({'negatives__refresh_steps': 2}, 'config.negatives.refresh_steps=2: is'),
    ({'synthetic__pairs': 'crops'}, "config.synthetic.pairs='crops': is for"),
    ({'checkpoint': 'x'}, "config.checkpoint='x': is read by nothing here"),
    ({'data__name': 'x'}, "config.data.name='x': and config.mixture.sets both "
     'name data; leave it out: sets have names'),
    ({'job': 'evaluate', 'checkpoint': 'x'},
     "config.mixture.sets=('big', 'small'): is for job=train"),
])
def test_refuses(finished, changes, message):
  assert refused(finished, **changes).startswith(message)


def test_sets_have_evaluations_of_their_own(finished):
  """`a` on `b-test` and `a-b` on `test` would have one folder."""
  sets = {'a': {'source': 'beir:d', 'test_split': 'b-test'},
          'a-b': {'source': 'beir:d'}}
  config = make_config(finished)
  config.mixture.sets = config_lib.named_sets(**sets)
  with pytest.raises(errors.UserError, match='"a" and "a-b" would both be '
                     'evaluated in evaluation/a-b-test-SYSTEM'):
    config_lib.parse(config)
  sets['a-b']['test_split'] = ''
  config.mixture.sets = config_lib.named_sets(**sets)
  config_lib.parse(config)


@pytest.mark.parametrize('key', ['temperature', 'batches'])
def test_what_is_for_several_sets(finished, key):
  value = {'temperature': 2.0, 'batches': 'mixed'}[key]
  config = tiny.make_config(finished, **{f'mixture__{key}': value})
  with pytest.raises(errors.UserError, match=f'mixture.{key}=.*: is for sever'):
    config_lib.parse(config)


def test_which_sets_are_evaluated_does_not_count(finished):
  """Not even whether the first one is."""
  config = make_config(finished, sets={'big': {'test_split': ''}})
  assert train.TrainJob(
      config_lib.parse(config), finished / 'work').run.is_made()


def test_a_sweep_has_a_table_of_each_set(finished):
  config = config_lib.parse(make_config(finished, optim__steps=1))
  cells = [declared_cells.Cell('', name, ('', ''), dataclasses.replace(
      config, mixture=dataclasses.replace(config.mixture, batches=name),
      compare=config_lib.CompareConfig(systems=('trained', 'bm25')),
  ), finished / 'swept' / name) for name in ('one', 'mixed')]
  job_of = lambda **of: study.StudyJob(dataclasses.replace(
      config, compare=config_lib.CompareConfig(**of)
  ), finished / 'swept', cells)
  work = finished / 'swept'
  for cell in cells:
    folders.make_folder(cell.workdir)
  both = job_of(systems=('trained', 'bm25'))
  plan.run(both.targets())
  assert {title: [row.name for row in rows]
          for title, rows in both.rows().items()} == {
              'big/test': ['bm25', 'one', 'mixed'],
              'small/test': ['bm25', 'one', 'mixed']}
  both.finish()
  made = folders.read_json(work / 'comparison.json')['comparisons']
  assert [one['dataset'] for one in made] == ['big/test', 'small/test']
  alone = job_of(dataset='small/test')
  alone.targets()
  assert {run.dataset for rows in alone.rows().values() for row in rows
          for run in row.runs} == {'small/test'}
  with pytest.raises(errors.UserError, match='evaluates bm25 on big/test, .*'
                     ' on small/test; --config.compare.systems=.* and '
                     '--config.compare.dataset=nope name none of them'):
    job_of(dataset='nope').targets()


def test_names_are_of_folders(finished):
  config = make_config(finished)
  config.mixture.sets = config_lib.named_sets(**{'a/b': {'source': 'beir:d'}})
  with pytest.raises(errors.UserError, match='"a/b" names folders'):
    config_lib.parse(config)


@pytest.mark.parametrize('small, message', [
    ({'source': 'beir:/nowhere'}, 'no such file: /nowhere/corpus.jsonl'),
    ({'source': 'nope:/x'}, f'{SMALL}.source="nope:/x": unknown scheme'),
    ({'train_split': 'nix'}, 'second: no split "nix"'),
    ({'tune_split': '', 'tune_fraction': 1e-9},
     f'{SMALL}.tune_fraction=1e-09: of 4 documents with positives it leaves 0'),
    ({'train_split': 'grades'}, 'second: no judgement of the training split'),
])
def test_a_set_that_can_not_be_trained_on(tmp_path, finished, small, message):
  root = tmp_path / 'root'
  shutil.copytree(finished, root, ignore=shutil.ignore_patterns(
      'work', 'mixed', 'stopped', 'prepared'))
  (root / 'second' / 'qrels' / 'grades.tsv').write_text(
      'query-id\tcorpus-id\tscore\nq1-0\td1p0\t0\n')
  config = make_config(root, sets={'small': small},
                       negatives__sources=('corpus:1',))
  job = train.TrainJob(config_lib.parse(config), root / 'work')
  with pytest.raises(errors.UserError) as error:
    plan.run([job.run])
  assert message in str(error.value)
  assert str(error.value).count('\n') <= 2  # A plan's line, and its remedy.


def test_other_weights_are_another_run(finished):
  config = make_config(finished, weights=(1, 1))
  with pytest.raises(errors.UserError, match='mixture.sets.big.weight: 3.0 '):
    train.TrainJob(config_lib.parse(config), finished / 'work').run.is_made()


def test_each_set_has_its_own_weights_of_a_hybrid(finished):
  """Which a search of its corpus uses, and nothing is tuned again."""
  work = finished / 'together'
  shutil.copytree(finished / 'work', work)
  config = make_config(finished, evaluation__hybrid=True)
  tiny.run(train.TrainJob, config, work)
  targets = train.TrainJob(config_lib.parse(config), work).targets()
  assert 'to do' not in plan.describe(targets)
  made = {name: folders.read_manifest(
      work / 'sets' / name / 'weights', folders.Format('tuned weights', 2))
      for name in ('big', 'small')}
  assert made['big']['identity'] != made['small']['identity']
  _leave_weights_of_another_model(work)
  for name, folder in (('big', 'data'), ('small', 'second')):
    asked = config_lib.parse(tiny.make_config(
        finished, job='search', checkpoint=str(work), query='word1',
        data__source=f'beir:{finished / folder}', evaluation__hybrid=True))
    jobs.check(asked)
    job = search.SearchJob(asked, finished / 'search')
    folders.make_folder(finished / 'search')
    plan.run(job.targets())
    found = job._searched._tuned
    assert list(found.weights) == made[name]['tuned']['hybrid']['weights']
    assert found.corpus == made[name]['identity']['needs']['member-0']['corpus']
  corpora.write_beir(finished / 'third', {'a': 'word1'}, {'q': 'word1'},
                     test={'q': {'a': 1}})
  asked = dataclasses.replace(asked, data=dataclasses.replace(
      asked.data, source=f'beir:{finished / "third"}'))
  job = search.SearchJob(asked, finished / 'search')
  plan.run(job.targets())
  refused = pytest.raises(errors.UserError, match='third is none of them; sea')
  with refused:
    _ = job._searched
  with refused:  # The corpus is known now.
    search.SearchJob(asked, finished / 'search').targets()


def _leave_weights_of_another_model(work):
  """As an earlier training on other data sets in the workdir does."""
  for place in ('sets/a_set_of_before', '.'):
    shutil.copytree(work / 'sets' / 'big' / 'weights', work / place / 'weights')
    manifest = work / place / 'weights' / folders.MANIFEST
    made = folders.read_sealed(manifest)
    made['identity']['needs']['member-0']['model'] = 'of before'
    made['tuned']['hybrid']['weights'] = [9, 9]
    folders.write_sealed(manifest, made)


def test_the_card_tells_of_each_set(finished):
  work = finished / 'work'
  card = card_facts.make_card(by_name.load_workdir(work), str(work))
  count = json.loads((work / 'run.json').read_text())['examples']
  for line in ('| big: source | `beir:data` |',
               '| big: tuned on | 0.3 of the training documents |',
               '| small: source | `beir:second` |',
               '| small: trained on | split `train` |',
               '| small: tuned on | split `dev` |',
               "| small: put before every query | `'word1 word2'` |",
               f'| together | {count} pairs of query and positive passage |'):
    assert line in card.splitlines(), line
  assert 'leave out `prompt_name`' in card and 'big: put before' not in card
  assert 'fingerprint of the data of small' in card


@pytest.mark.parametrize(('weights', 'said'), [
    ((1.0, 1e-7), 'raise its weight, or leave it out'),
    ((None, None), 'raise mixture.temperature, or leave it out'),
])
def test_a_set_that_is_never_drawn_from(weights, said):
  sets = tuple(mixture_run.TrainedSet(name, weight, None, None)
               for name, weight in zip(('big', 'tiny'), weights, strict=True))
  with pytest.raises(errors.UserError, match=(
      f'config.mixture.sets.tiny: is less than 1 of 65,536 draws, .*{said}')):
    mixture_run.Mixture(sets).order((10**7, 1), 8, 0)
