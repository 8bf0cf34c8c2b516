"""Parsing: what comes back, and how mistakes are answered."""

import ast
import dataclasses
import json
import pathlib
import runpy

import ml_collections
import pytest

from neg_contrast import errors
from neg_contrast.settings import config as config_lib
from neg_contrast.settings import keys

ROOT = pathlib.Path(__file__).parents[2]


def make_config(**values):
  config = config_lib.base_config()
  config.data.source, config.model.init = 'python_docs', 'minilm'
  config.update_from_flattened_dict(values)
  return config


def untyped(**values):
  """A config of a file that goes round ml_collections' own checks."""
  config = make_config()
  for key, value in values.items():
    *sections, name = key.split('__')
    place = config
    for section in sections:
      place = place[section]
    with place.ignore_type(), place.unlocked():
      place[name] = value
  return config


def refused(config):
  with pytest.raises(errors.UserError) as error:
    config_lib.parse(config)
  return str(error.value)


def test_defaults_parse_and_come_back():
  parsed = config_lib.parse(make_config())
  assert parsed.data.source == 'python_docs'
  again = config_lib.base_config()
  again.update(config_lib.to_dict(parsed))
  assert config_lib.parse(again) == parsed


def test_none_means_what_the_checkpoint_brings():
  config = make_config()
  assert config_lib.parse(config).model.pooling is None
  config.model.pooling = 'cls'
  assert config_lib.parse(config).model.pooling == 'cls'


@pytest.mark.parametrize(('values', 'message'), [
    ({'model__hidden_dropout': 'bogus'},
     "config.model.hidden_dropout='bogus': must be a number or None"),
    ({'model__score': 3}, 'config.model.score=3: must be a string or None'),
    ({'nce__percents': ('x',)},
     "config.nce.percents=('x',): must be a tuple of whole numbers"),
    ({'optim__steps': 'many'},
     "config.optim.steps='many': must be a whole number"),
    ({'cells': 3}, 'config.cells=3: must hold keys, not a value'),
    ({'cells': {'none': 3}}, 'config.cells.none=3: must hold keys'),
    ({'cells': {'none': {'bm25': 3}}}, 'config.cells.none.bm25=3: must hold'),
    ({'stage1': 3}, 'config.stage1=3: must hold keys, not a value'),
    ({'negatives__margin': float('nan')},
     'config.negatives.margin=nan: must be finite'),
    ({'optim__epochs': float('inf')}, 'config.optim.epochs=inf: must be fin'),
    ({'ensemble__weights': (0.5, float('nan'))}, 'nan): must be finite'),
    ({'data__prepared_dir': 'az://a/b'}, "'az://a/b': of buckets, those of gs://"),
    ({'data__source': 'beir:abfs://a'}, 'those of gs:// and s3:// are read'),
    ({'negatives__runs': ('a', 'az://a')}, 'those of gs:// and s3:// are read'),
    ({'data__prepared_dir': 'hf://datasets/a/b'}, "a/b': hf:// is read only"),
    ({'negatives__mined_dir': 'hf://datasets/a/b'}, 'hf:// is read only'),
    ({'synthetic__dir': 'hf://datasets/a/b'}, 'hf:// is read only'),
    ({'stage1': {'workdir': 'hf://datasets/a/b'}},
     "config.stage1.workdir='hf://datasets/a/b': hf:// is read only"),
    ({'evaluation__metrics': (1, 2)},
     'config.evaluation.metrics=(1, 2): must be a tuple of strings'),
    ({'data': 3}, 'config.data=3: must hold keys, not a value'),
    ({'stage1': {'model': {'layers': 'x'}}},
     "config.stage1.model.layers='x': must be a whole number or None"),
    ({'stage1': {'data': 3}}, 'config.stage1.data=3: must hold keys'),
])
def test_wrong_types_name_the_key(values, message):
  assert message in refused(untyped(**values))


@pytest.mark.parametrize(('values', 'message'), [
    ({'optim': {'stepz': 3}}, 'config: unknown key stage1.optim.stepz; did you '
     'mean stage1.optim.steps?'),
    ({'sed': 3}, 'config: unknown key stage1.sed; did you mean stage1.seed?'),
    ({'optim': {'steps': -3}},
     'config.stage1.optim.steps=-3: lies between 0 and 2147483647'),
])
def test_mistakes_within_are_named_as_flags_are(values, message):
  assert message in refused(untyped(stage1=values))


def test_cells_and_what_they_hold():
  config = make_config()
  config.cells = ml_collections.ConfigDict({'none': {'bm25': make_config()}})
  config.cells.none.bm25.stage1 = make_config()
  parsed = config_lib.parse(config)
  (name, cell), = config_lib.inner_configs(parsed)
  assert name == 'cells.none.bm25'
  assert [of for of, _ in config_lib.inner_configs(cell)] == ['stage1']
  config.cells.none.bm25.stage1.seed = -1
  assert refused(config).startswith('config.cells.none.bm25.stage1.seed=-1')


@pytest.mark.parametrize(('values', 'message'), [
    ({'data.batch_size': 9, 'data.groups': 2},
     'config.data.batch_size=9: must be a multiple of data.groups=2'),
    ({'data.tune_split': 'x', 'data.test_split': 'x'}, 'data.test_split'),
    ({'synthetic.method': 'greedy'}, 'must be 1 for synthetic.method=greedy'),
    ({'synthetic.round_trip_checkpoint': 'x'}, 'needs synthetic.round_trip_ra'),
    ({'synthetic.round_trip_rank': 1, 'synthetic.pairs': 'title',
      'synthetic.per_passage': 1}, 'and synthetic.pairs=title writes none'),
    ({'synthetic.round_trip_rank': 1, 'synthetic.pairs': 'judged',
      'synthetic.queries': 'q'}, 'and synthetic.queries are given; leave it'),
    ({'synthetic.spar_given': True}, 'is for synthetic.pairs=spar'),
    ({'synthetic.salience': 'title'}, 'is for synthetic.pairs=salient_spans'),
    ({'synthetic.salience_checkpoint': 'x'}, 'is for synthetic.salience=dual'),
    ({'synthetic.pairs': 'salient_spans',
      'synthetic.salience': 'dual_encoder'}, 'is needed for synthetic.sal'),
    ({'negatives.sources': ('run:2',)}, 'config.negatives.runs'),
    ({'negatives.depth': 50}, 'must be at least negatives.pool_size=100'),
    ({'negatives.judge': 'x', 'negatives.margin_by': 'judge'},
     'negatives.judge, and set negatives.margin or negatives.relative'),
    ({'negatives.first_rank': 300},
     'config.negatives.first_rank=300: must be at most negatives.depth=200'),
    ({'negatives.first_rank': 9, 'negatives.last_rank': 3},
     'config.negatives.last_rank=3: must lie between first_rank=9 and '
     'negatives.depth=200, or be 0'),
    ({'negatives.sources': ('bm25:101',)},
     'config.negatives.pool_size=100: must be at least 101'),
    ({'negatives.sources': ('bm25',)}, "'bm25': must be NAME:N"),
    ({'negatives.sources': ('bm25:0',)}, 'must be NAME:N'),
    ({'negatives.sources': ('bm:1',)}, '"bm" must be one of corpus, gold'),
    ({'negatives.sources': ('bm25:1', 'fine+bm25:1')}, 'stands there twice'),
    ({'negatives.sources': ('bm25+corpus:1',)}, 'name the others apart'),
    ({'negatives.sources': ('pool:1',)}, 'config.negatives.pool='),
    ({'negatives.sources': ('retrieved:9', 'bm25:1')}, 'leave the others out'),
    ({'optim.epochs': 1e300}, 'must be above 0 and at most 1000000'),
    ({'optim.steps': 2**31}, 'lies between 0 and 2147483647'),
    ({'optim.learning_rate': 11.0}, 'must be above 0 and at most 10'),
    ({'optim.b1': 1.0}, 'must be at least 0 and below 1'),
    ({'optim.b2': -0.1}, 'must be at least 0 and below 1'),
    ({'optim.eps': 0.0}, 'must be above 0'),
    ({'model.projection_dim': 2000000000}, 'lies between 0 and 65536'),
    ({'evaluation.answer_ks': (0,)}, 'answer_ks=0: must be at least 1'),
    ({'optim.weight_decay': 0.1}, 'needs optim.optimizer=adamw'),
    *(({f'optim.{name}': 0.5, 'optim.optimizer': 'adafactor'}, 'is of Adam')
      for name in ('b1', 'b2', 'eps')),
    ({'ensemble.members': ('a', 'a')}, 'names each once'),
    ({'evaluation.dims': (4, 4)}, 'evaluation.dims=(4, 4): names each once'),
    ({'ensemble.members': ('a',), 'ensemble.weights': (0.5,)}, 'add up to 1'),
    ({'benchmark.mini_batch': 2}, 'benchmark.versus in training'),
    ({'nce.percents': (101,)}, 'lie between 0 and 100'),
    ({'nce.labels': 64}, 'must be above nce.negatives=7 and nce.queries=64'),
])
def test_keys_of_a_section_agree(values, message):
  assert message in refused(make_config(**values))


def test_depth_of_metrics():
  config = make_config(**{'evaluation.depth': 5, 'evaluation.metrics': (),
                          'evaluation.answer_ks': (20,)})
  with pytest.raises(errors.SettingError, match='at least 20, for answer_accu'):
    config_lib.parse(config).evaluation.check_depth()


def test_set_key():
  config = make_config()
  config_lib.set_key(config, 'optim.steps', 5)
  assert config.optim.steps == 5
  with pytest.raises(errors.UserError, match='did you mean optim.steps'):
    config_lib.set_key(config, 'optim.stepz', 5)
  with pytest.raises(errors.UserError, match='write a whole number'):
    config_lib.set_key(config, 'optim.steps', 'many')


def test_arguments():
  assert config_lib.arguments('a=1,word', preset='', a='0') == {
      'preset': 'word', 'a': '1'}
  with pytest.raises(errors.UserError, match='takes a, preset'):
    config_lib.arguments('b=1', preset='', a='0')
  with pytest.raises(errors.UserError, match='"a=x": write a whole number'):
    config_lib.arguments('a=x', a='0')


IDENTITIES = json.loads(
    (pathlib.Path(__file__).parent / 'identities.json').read_text()
)


def identified(name, arg):
  """The config that a name in `identities.json` stands for."""
  if name == 'default':
    return make_config(**{
        'data.source': 'beir:data',
        'negatives.sources': ('coarse:1', 'fine:1', 'bm25:1', 'context:1'),
        'evaluation.bm25_k1': 0.8, 'negatives.greedy': True,
    })
  path = ROOT / 'configs' / f'{name}.py'
  return runpy.run_path(str(path))['get_config'](arg or None)


@pytest.mark.parametrize('key', IDENTITIES)
def test_the_settings_of_a_trained_model_stay_what_they_were(key):
  """Else no workdir that was trained before could go on."""
  name, _, arg = key.partition(':')
  config = identified(name, arg)
  config.data.source = config.data.source or 'beir:data'
  counting = keys.counting(config_lib.parse(config))
  assert json.loads(json.dumps(counting)) == IDENTITIES[key]


def test_every_key_is_declared():
  def declare(cls):
    for field in dataclasses.fields(cls):
      assert isinstance(keys.declared(field), keys.Key)
      if dataclasses.is_dataclass(field.type):
        assert field.type.section == field.name
        declare(field.type)

  declare(config_lib.Config)


def test_sections_import_only_how_keys_are_declared():
  for path in (ROOT / 'neg_contrast' / 'settings').glob('*_settings.py'):
    modules = {
        f'{node.module}.{name.name}'
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) for name in node.names
    }
    assert modules <= {
        'neg_contrast.settings.keys', 'neg_contrast.settings.source_list',
        'neg_contrast.errors'}


@pytest.mark.parametrize(('evaluation', 'key', 'counts'), [
    ({'criterion': 'mrr', 'depth': 40}, 'depth', True),
    ({'criterion': 'macro_map', 'depth': 40}, 'depth', True),
    ({'criterion': 'mrr', 'depth': 40, 'eval_steps': 0}, 'depth', False),
    ({'criterion': 'mrr', 'depth': 100}, 'depth', False),  # As it ever was.
    ({'criterion': 'mrr@10', 'depth': 40}, 'depth', False),
    ({'criterion': 'answer_accuracy@5', 'answer_rule': 'regex'}, 'answer_rule',
     True),
    ({'criterion': 'macro_answer_accuracy@5', 'answer_rule': 'regex'},
     'answer_rule', True),
    ({'criterion': 'accuracy@5', 'answer_rule': 'regex'}, 'answer_rule', False),
])
def test_what_a_criterion_depends_on_counts(evaluation, key, counts):
  made = config_lib.EvaluationConfig(**{'eval_steps': 3, **evaluation})
  assert (key in keys.counting(made)) == counts
