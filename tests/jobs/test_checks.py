"""What each job asks of its config."""

import ml_collections
import pytest

from neg_contrast import errors, jobs
from neg_contrast.settings import config as config_lib

SUITABLE = {
    'audit': {'checkpoint': 'x'}, 'follow': {'checkpoint': 'x'},
    'evaluate': {'checkpoint': 'x'}, 'search': {'checkpoint': 'x'},
    'serve': {'checkpoint': 'x'},
    'export': {'checkpoint': 'x', 'data.source': ''},
    'mine': {'negatives.sources': ('bm25:2',)},
    'judge': {'negatives.sources': ('bm25:2',), 'negatives.judge': 'x'},
    'generate_questions': {'checkpoint': 'x'},
    'ensemble': {'ensemble.members': ('a', 'b')},
    'benchmark': {'data.source': ''},
    'compare': {'compare.workdirs': ('a',), 'data.source': ''},
    'study': {'data.source': ''},
    'nce_synthetic': {'data.source': '', 'optim.steps': 3},
    'nce_bias': {'optim.steps': 3},
    'train_reranker': {'negatives.sources': ('bm25:2',)},
    'rerank': {'candidates': 'bm25', 'checkpoint': 'x'},
}


def make_config(job, **values):
  config = config_lib.base_config()
  config.job, config.data.source, config.model.init = job, 'beir:d', 'minilm'
  for key, value in {**SUITABLE.get(job, {}), **values}.items():
    config_lib.set_key(config, key, value)
  if job in ('table', 'study'):
    config.cells = ml_collections.ConfigDict(
        {'none': {'random': make_config('train')}}
    )
  return config


def refused(config):
  with pytest.raises(errors.UserError) as error:
    jobs.check(config_lib.parse(config))
  return str(error.value)


@pytest.mark.parametrize('job', jobs.JOBS)
def test_a_config_that_suits_its_job(job):
  jobs.check(config_lib.parse(make_config(job)))


def test_a_training_in_a_bucket_is_not_followed():
  """Both would have to have its lease."""
  assert 'lies in a bucket, where one program works at a time' in refused(
      make_config('follow', checkpoint='gs://bucket/run'))


def test_a_training_reads_no_checkpoint_but_for_what_needs_one():
  assert 'name what the training is to start from as model.init' in refused(
      make_config('train', checkpoint='workdirs/earlier'))
  jobs.check(config_lib.parse(make_config(
      'train', checkpoint='x', **{'negatives.sources': ('model:2',)})))


@pytest.mark.parametrize('pairs', ['', 'crops', 'judged'])
def test_pairs_that_nobody_generates_read_no_checkpoint(pairs):
  """A generator that a preset brings along is passed over."""
  values = {'synthetic.pairs': pairs, **({
      'synthetic.queries': 'q', 'synthetic.judge': 'j',
  } if pairs == 'judged' else {})}
  assert 'is read by nothing here' in refused(
      make_config('train', checkpoint='x', **values))
  config = make_config('train', **values)
  config.generator = make_config('train_generator', workdir='g')
  jobs.check(config_lib.parse(config))


@pytest.mark.parametrize('job, key', [
    ('ensemble', 'ensemble.members'), ('ensemble', 'ensemble.runs'),
    ('compare', 'compare.workdirs')])
def test_several_names_in_one(job, key, tmp_path):
  one, other = f'{tmp_path}/a', f'{tmp_path}/b-*'
  for given, parts in (((f'{one},{other}',), (one, other)),
                       ((f'{one}, {other}', 'c'), (one, other, 'c')),
                       ((f'{one},',), (one,))):
    written = ','.join(f"'{part}'" for part in parts)
    written += ',' * (len(parts) == 1)
    assert refused(make_config(job, **{key: given})) == (
        f'config.{key}={given!r}: names several places as one, and there is no '
        f'place of that name; write --config.{key}="({written})"')
  for name in (one, f'{tmp_path}/b-1', f'{one},b'):
    (tmp_path / name).mkdir()
  jobs.check(config_lib.parse(make_config(job, **{key: (
      f'{one},b', f'{one},*', other)})))


def test_an_evaluation_has_no_rows_of_trainings():
  said = refused(make_config('evaluate', **{'evaluation.hybrid': True}))
  assert said.startswith('config.evaluation.hybrid=True: ')
  assert """--config.ensemble.members="('x',)\"""" in said
  said = refused(make_config('evaluate', **{'evaluation.untouched': True}))
  assert said.startswith('config.evaluation.untouched=True: ')
  assert '--config.checkpoint=NAME' in said


def test_stage_1_has_the_score_of_stage_2():
  config = make_config('train', **{'model.score': 'multi-4',
                                   'model.pooling': 'cls'})
  config.stage1 = make_config('train', **{'model.pooling': 'cls'})
  config.stage1.workdir = 'w'
  assert "model.score='multi-4': is None in config.stage1" in refused(config)
  config.model.score = 'dual'
  jobs.check(config_lib.parse(config))


def test_unknown_job(tmp_path):
  config = config_lib.parse(make_config('find'))
  message = "config.job='find': must be one of train, evaluate, search, export"
  with pytest.raises(errors.UserError, match=message):
    jobs.check(config)
  with pytest.raises(errors.UserError, match=message):
    jobs.make_job(config, tmp_path)


def test_make_job_checks(tmp_path):
  config = config_lib.parse(make_config('evaluate', checkpoint=''))
  with pytest.raises(errors.UserError, match="config.checkpoint='': is needed"):
    jobs.make_job(config, tmp_path)


@pytest.mark.parametrize('job', sorted(
    set(jobs.JOBS)
    - {'export', 'benchmark', 'compare', 'study', 'nce_synthetic', 'follow'}))
def test_data_is_needed(job):
  config = make_config(job, **{'data.source': ''})
  assert refused(config).startswith("config.data.source='': is needed")


@pytest.mark.parametrize(('job', 'values', 'message'), [
    *((job, {'model.init': ''}, "config.model.init='': is needed")
      for job in ('train', 'benchmark', 'nce_bias', 'train_generator',
                  'train_reranker')),
    *((job, {'optim.steps': 0}, f'config.optim.steps=0: is needed by job={job}')
      for job in ('nce_synthetic', 'nce_bias')),
    *((job, {'nce.log_steps': 1}, f'and this is job={job}; leave it out')
      for job in ('train_generator', 'train_reranker')),
    *((job, {'checkpoint': ''}, "config.checkpoint='': is needed")
      for job in ('evaluate', 'search', 'export', 'generate_questions',
                  'rerank')),
    *((job, {'evaluation.depth': 5}, 'config.evaluation.depth=5: must be')
      for job in ('train', 'evaluate', 'ensemble', 'train_reranker', 'rerank')),
    *((job, {'evaluation.criterion': 'acuracy@1'},
       "config.evaluation.criterion: no metric 'acuracy@1'; there are accuracy")
      for job in ('train', 'train_reranker')),
    ('train', {'evaluation.criterion': 'mrr@200'}, 'at least 200, for mrr@200'),
    ('train', {'evaluation.criterion': 'micro_normalized_accuracy'},
     'is of what is ranked anew (job=train_reranker)'),
    *((job, {'synthetic.pairs': 'crops'}, f'is for job=train, not {job}')
      for job in ('mine', 'evaluate', 'table', 'train_generator')),
    ('split', {'data.passage_tokens': 9}, "config.checkpoint='': is needed"),
    ('search', {'query': ' '}, "config.query=' ': is blank"),
    ('train_generator', {'model.chunk_groups': 1}, 'config.model.chunk_groups'),
    ('train_generator', {'data.word_masking': 0.1}, 'config.data.word_masking'),
    ('train_generator', {'data.query_prefix': 'query: '},
     "config.data.query_prefix='query: ': is for encoders"),
    ('train_generator', {'data.passage_prefix': ''},
     'a generator puts model.passage_prefix before passages'),
    ('train_generator', {'loss.example_weights': 'graded'},
     'config.loss.example_weights'),
    ('train_reranker', {'model.pooling': 'cls'}, 'is for dual encoders'),
    *((job, {key: value}, f'config.{key}={value!r}: is for dual encoders')
      for job in ('train_generator', 'train_reranker')
      for key, value in (('model.shared', False), ('model.freeze', 'passage'),
                         ('model.lora_rank', 2))),
    ('train_reranker', {'negatives.sources': ('corpus:2',)},
     "can't be trained on"),
    ('train_reranker', {'negatives.sources': ()}, 'have no hard negatives'),
    ('train_reranker', {'negatives.sources': ('given:2',)},
     "config.candidates=''"),
    ('rerank', {'candidates': ''}, "config.candidates='': is needed"),
    ('ensemble', {'ensemble.members': ()}, 'config.ensemble.members=()'),
    ('mine', {'negatives.sources': ()}, 'have nothing to mine'),
    ('mine', {'negatives.sources': ('model:2',)},
     'config.negatives.checkpoint'),
    ('mine', {'negatives.sources': ('fine:2',), 'model.init': ''},
     'is needed by source "fine"'),
    ('generate_questions', {'synthetic.with_answer': True}, 'trained to be st'),
    ('benchmark', {'negatives.sources': ('gold:2',)},
     'are none or corpus in a benchmark'),
    ('benchmark', {'negatives.sources': ('bm25:2',)},
     'are none or corpus in a benchmark'),
    ('benchmark', {'benchmark.versus': 'sentence-transformers'},
     "config.optim.optimizer='adam': must be adamw"),
    ('train', {'synthetic.pairs': 'generated'}, "config.checkpoint=''"),
    ('train', {'synthetic.pairs': 'crops', 'synthetic.with_answer': True},
     'config.synthetic.with_answer=True'),
    ('train', {'loss.label_smoothing': 0.1}, 'is for job=train_generator'),
    ('train', {'negatives.sources': ('bogus:1',)}, '"bogus" must be one of'),
    ('train', {'negatives.pool': 'p'}, 'draw nothing from negatives.pool=p'),
    ('train', {'loss.bidirectional': False, 'loss.candidates': 'own'},
     "config.loss.candidates='own': compares a query with hard negatives, "
     'and there are none'),
    ('train', {'loss.candidates': 'own'}, '--config.loss.bidirectional=False'),
    ('mine', {'loss.adjusted': True}, '--config.loss.candidates=own'),
])
def test_refused(job, values, message):
  assert message in refused(make_config(job, **values))


@pytest.mark.parametrize(('place', 'inner', 'values', 'message'), [
    ('stage1', 'mine', {'workdir': 'w'}, "config.stage1.job='mine': must be"),
    ('stage1', 'train', {'workdir': 'w', 'loss.candidates': 'own'},
     '--config.stage1.loss.bidirectional=False'),
    ('stage1', 'train', {'workdir': 'w', 'model.init': ''},
     "config.stage1.model.init='': is needed"),
    ('stage1', 'find', {}, "config.stage1.job='find': must be one of"),
    ('generator', 'train_generator', {'workdir': 'w', 'model.init': ''},
     "config.generator.model.init='': is needed: a folder or hub name of a T5"),
])
def test_models_before(place, inner, values, message):
  config = make_config('train')
  config[place] = make_config(inner, **values)
  assert message in refused(config)


def test_a_reranker_is_tuned_by_what_it_ranks_anew():
  jobs.check(config_lib.parse(make_config('train_reranker', **{
      'evaluation.criterion': 'normalized_accuracy'})))


def test_the_miners_of_a_reranker_have_towers():
  jobs.check(config_lib.parse(make_config('train_reranker', **{
      'negatives.sources': ('coarse:1',), 'candidates': 'bm25',
      'model.shared': False, 'model.freeze': 'passage'})))


def test_stage1_is_for_trainings_of_the_same_model():
  config = make_config('mine')
  config.stage1 = make_config('train', workdir='w')
  assert "config.stage1='...': is for job=train, not mine" in refused(config)
  config = make_config('train', **{'model.query_length': 20})
  config.stage1 = make_config('train', workdir='w')
  assert 'config.model.query_length=20: is None in config.stage1, whose model' \
      in refused(config)


def test_one_generator_is_named():
  config = make_config('train', checkpoint='x')
  config.generator = make_config('train_generator', workdir='w')
  assert ("config.checkpoint='x': and config.generator both name a question "
          'generator') in refused(config)


def test_cells_are_checked():
  config = make_config('table')
  config.cells.none.random.stage1 = make_config('train', checkpoint='x')
  config.cells.none.random.stage1.generator = make_config('train_generator')
  assert refused(config).startswith(
      "config.cells.none.random.stage1.generator.workdir=''")
  config.cells.none.random.stage1.generator.workdir = 'w'
  assert 'and config.cells.none.random.stage1.generator both' in refused(config)
  config.cells = None
  assert refused(config).startswith('config.cells=None: is needed')
