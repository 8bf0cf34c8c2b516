"""Every config loads, every module imports, and the keys say what they mean."""

import ast
import csv
import dataclasses
import importlib
import importlib.util
import json
import pathlib
import pkgutil
import re

import pytest

import neg_contrast
from neg_contrast import beir_preset, errors, jobs
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.evaluation import metrics
from neg_contrast.jobs.common import recipe_settings
from neg_contrast.report import expected
from neg_contrast.settings import config as config_lib

ROOT = pathlib.Path(__file__).parents[1]
CONFIGS = sorted((ROOT / 'configs').glob('*.py'))


def load(path, arg=None):
  spec = importlib.util.spec_from_file_location(path.stem, path)
  module = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(module)
  return module.get_config(arg)


@pytest.mark.parametrize('path', CONFIGS, ids=lambda p: p.stem)
def test_config_loads_and_is_locked(path):
  config = load(path)
  if path.stem in ('own_data', 'features'):
    config.data.source = 'csv:somewhere'
  if config.job not in ('train', 'train_generator'):
    config.checkpoint, config.data.source = 'somewhere', 'beir:somewhere'
    config.ensemble.members = ('somewhere',)
    config.compare.workdirs = ('somewhere',)
    config.candidates = 'bm25'
  parsed = config_lib.parse(config)
  jobs.check(parsed)
  assert parsed.job == config.job
  with pytest.raises(AttributeError):
    config.optim.learning_rat = 1
  with pytest.raises(errors.UserError, match='unknown key "nonsense"'):
    load(path, 'nonsense=1')
  assert '"""' in path.read_text()[:5]


def test_readme_lists_every_config():
  readme = (ROOT / 'configs' / 'README.md').read_text(encoding='utf-8')
  listed = re.findall(r'^\| \[(\w+)\.py\]\((\w+)\.py\)', readme,
                      re.MULTILINE)
  assert sorted(listed) == [(path.stem, path.stem) for path in CONFIGS]
  for path in CONFIGS:
    line = next(line for line in readme.splitlines()
                if line.startswith(f'| [{path.name}]'))
    with pytest.raises(errors.UserError, match='this config takes') as refused:
      load(path, 'nonsense=1')
    takes = str(refused.value).partition('this config takes ')[2]
    for name in () if takes == 'no argument' else takes.split(', '):
      assert f'`{name}`' in line, f'{path.name} takes {name}'
    needs = re.findall(r'`--config\.([\w.]+)`', line.split(' | ')[-1])
    config = load(path)
    if needs:
      with pytest.raises(errors.UserError):
        jobs.check(config_lib.parse(config))
    for key in needs:
      config_lib.set_key(config, key, ('a',) if key.endswith(
          ('members', 'workdirs')) else 'a')
    jobs.check(config_lib.parse(config))


EXPECTED = expected.read(ROOT / 'configs' / expected.FILE)


@pytest.mark.parametrize('row', EXPECTED, ids=lambda row: row.where[-20:])
def test_what_is_expected_is_of_a_recipe(row):
  """Of a config and flags that there are, measured or published."""
  file, _, argument = row.config.partition(':')
  recipe_settings.settings_of(
      str(ROOT / 'configs' / file), argument, row.flags)
  metrics.parse(row.metric) if not row.dataset.startswith('synth') else None
  if row.is_run_here:
    assert row.seconds and row.machine
    assert re.fullmatch('[0-9a-f]{7}', row.revision)
  else:
    assert re.search(r'\w+\.(com|co|org)/', row.source)
    assert row.tolerance is None and not (row.revision or row.seconds)


def test_published_retrievers_have_their_prompts():
  path = ROOT / 'configs' / 'beir_evaluate.py'
  for name in beir_preset.SETS:
    bge = config_lib.parse(load(path, f'set={name},model=bge'))
    assert bge.model.query_prefix == (
        '' if name == 'arguana' else
        'Represent this sentence for searching relevant passages: ')
    assert bge.model.query_length == bge.model.passage_length == 512
    assert not bge.model.passage_prefix and bge.index.kind == 'exact'
    assert bge.data.source == f'beir:data/{name}'
    assert f'{beir_preset.SETS[name]}) from' in bge.data.how_to_get
    assert 'BAAI/bge-base-en-v1.5 comes from' in bge.data.how_to_get
    minilm = config_lib.parse(load(path, f'set={name},model=minilm'))
    assert not minilm.model.query_prefix and minilm.checkpoint == 'minilm'
    assert minilm.model.query_length == minilm.model.passage_length == 256
    assert minilm.workdir != bge.workdir
  for wrong in ('set=msmarco', 'model=bert'):
    with pytest.raises(errors.UserError, match=f'"{wrong}": expected one of'):
      load(path, wrong)


def test_configs_hold_values_only():
  """`get_config`, and nothing else that others could import."""
  for path in CONFIGS:
    for node in ast.parse(path.read_text()).body:
      if isinstance(node, ast.FunctionDef | ast.ClassDef):
        assert node.name == 'get_config' or node.name.startswith('_'), path


@pytest.mark.parametrize('size', ['full', 'small'])
@pytest.mark.parametrize('name', ['squad', 'nq', 'msmarco'])
def test_tables_are_the_papers_grid(name, size):
  config = load(ROOT / 'configs' / f'{name}_table.py', f'size={size}')
  config.data.source, config.optim.steps = 'beir:here', 7
  config.index.embedding_dtype = 'int8'
  config.cells.generated.random.stage1.optim.steps = 9
  cells = config_lib.parse(config).cells
  strategies = {'random', 'coarse', 'fine', 'bm25', 'mixed'} | (
      set() if name == 'msmarco' else {'context'}
  )
  mixed = 'coarse+fine+bm25' + '+context' * (name != 'msmarco')
  for group in ('generated', 'no_hard_negatives', 'none'):
    assert cells[group].keys() == strategies
    for strategy, cell in cells[group].items():
      assert cell.negatives.sources == (
          () if strategy == 'random' else (f'{mixed}:2',)
          if strategy == 'mixed' else (f'{strategy}:2',))
      assert (cell.data.source, cell.optim.steps) == ('beir:here', 7)
      assert cell.index.embedding_dtype == 'int8'
      assert (cell.stage1 is None) == (group == 'none')
  stage1 = [cell.stage1 for cell in cells['generated'].values()]
  assert {of.optim.steps for of in stage1} == {9}
  assert {of.negatives.sources for of in stage1} == (
      {('coarse:2',)} if name == 'msmarco' else {('context:2',)}
  )
  plain = cells['no_hard_negatives']['bm25'].stage1
  assert not plain.negatives.sources and plain.optim.steps != 9
  dpr = cells['baselines']['dpr_single']
  assert not dpr.model.shared and not dpr.model.normalize
  assert dpr.model.projection_dim == 0 and dpr.loss.scale == 1
  assert not dpr.loss.bidirectional and dpr.negatives.sources == ('bm25:1',)
  assert dpr.stage1 is None and dpr.optim.steps == 7


@pytest.mark.parametrize('path', [
    path for path in CONFIGS if path.stem.startswith('study_')],
    ids=lambda path: path.stem)
def test_rows_of_studies_follow_them(path):
  """All but what is studied is equal, whatever flags say."""
  config = load(path)
  config.data.source, config.data.train_split = 'beir:here', 'mine'
  config.optim.weight_decay = 0.5
  parsed = config_lib.parse(config)
  rows = [cell for cells in parsed.cells.values() for cell in cells.values()]
  assert len(rows) >= 5 and len({str(row) for row in rows}) == len(rows)
  is_of_two_sets = path.stem == 'study_adaptation'  # The start has its own.
  firsts = [row.stage1 for row in rows if row.stage1 and not is_of_two_sets]
  for row in (*rows, *firsts):
    assert row.data.source == 'beir:here' and row.job == 'train'
    assert row.data.train_split == 'mine'
    assert row.optim.weight_decay == 0.5
    assert row.model.init == 'minilm'
  names = {name for cells in parsed.cells.values() for name in cells}
  assert set(parsed.study.rows) == names
  assert parsed.compare.baseline in {
      *names, *parsed.compare.systems} - {'trained'}


def test_written_queries_are_a_row_where_they_are_named():
  path = ROOT / 'configs' / 'study_adaptation.py'
  assert 'written' not in load(path).cells.pairs
  config = load(path, 'written=asked')
  config.data.train_split = 'mine'
  cells = config_lib.parse(config).cells['pairs']
  assert cells['written'].data.train_split == 'asked'
  assert cells['title'].data.train_split == 'mine'
  assert not cells['written'].synthetic.pairs
  assert cells['written'].stage1 == cells['title'].stage1


@pytest.mark.parametrize('name', ['nq_stage2', 'squad_stage2'])
def test_stage_1_has_the_prefixes_of_the_data_set(name):
  config = load(ROOT / 'configs' / f'{name}.py')
  config.data.query_prefix, config.data.passage_prefix = 'query: ', 'text: '
  first = config_lib.parse(config).stage1
  assert first.data.query_prefix == 'query: '
  assert first.data.passage_prefix == 'text: '
  assert first.generator.data.query_prefix is None  # It writes queries.


def test_a_study_starts_from_its_warm_start():
  config = load(ROOT / 'configs' / 'study_negatives.py')
  config.cells.strategies.warm_start.optim.steps = 7
  config.cells.strategies.fine.optim.steps = 9
  cells = config_lib.parse(config).cells['strategies']
  assert cells['warm_start'].stage1 is None
  assert cells['warm_start'].seed not in (*range(10), *config.study.seeds)
  assert cells['fine'].optim.steps == 9 and cells['bm25'].optim.steps == 16
  for name in ('random', 'fine', 'mixed'):
    assert cells[name].stage1.optim.steps == 7
    assert cells[name].stage1 == dataclasses.replace(
        cells['warm_start'], workdir='warm_start')


def test_a_whole_study_has_an_epoch_and_refreshed_rows():
  config = load(ROOT / 'configs' / 'study_negatives.py', 'size=whole')
  config.optim.epochs = 0.5
  config.cells.strategies.warm_start.optim.epochs = 1.0
  cells = config_lib.parse(config).cells['strategies']
  assert cells['bm25'].model.layers is None  # All of them.
  assert cells['bm25'].optim.epochs == 0.5
  assert cells['bm25'].stage1.optim.epochs == 1.0
  for name in ('fine', 'mixed'):
    again = cells[f'{name}_refreshed']
    assert again.negatives.refresh_steps == 40
    assert again == dataclasses.replace(
        cells[name], negatives=again.negatives)
    assert cells[name].negatives == dataclasses.replace(
        again.negatives, refresh_steps=0)
  for name, together in ('document', 'document:2'), ('topic', 'topic:64'):
    assert cells[f'same_{name}'] == dataclasses.replace(
        cells['random'], data=dataclasses.replace(
            cells['random'].data, together=together))


def test_an_adaptation_has_gold_pairs_of_another_domain_alone():
  config = load(ROOT / 'configs' / 'study_adaptation.py',
                'gold=beir:gold,split=judged,steps=7')
  config.data.source, config.data.test_split = 'beir:target', 'mine'
  cells = config_lib.parse(config).cells['pairs']
  assert len(cells) == 10
  assert len({repr(cell.stage1) for cell in cells.values()}) == 1
  for name, cell in cells.items():
    assert (cell.data.source, cell.data.test_split) == ('beir:target', 'mine')
    assert cell.optim.steps == 7 and cell.synthetic.pairs
    assert not cell.negatives.sources
    for inner in filter(None, (cell.stage1, cell.generator)):
      assert inner.data.source == 'beir:gold'
      assert inner.data.train_split == 'judged'
      assert not inner.synthetic.pairs
    assert (cell.generator is not None) == (
        name in ('generated', 'round_trip'))
    assert cell.stage1.model == cell.model
  assert cells['round_trip'].synthetic == dataclasses.replace(
      cells['generated'].synthetic, round_trip_rank=5)
  given = config_lib.parse(load(
      ROOT / 'configs' / 'study_adaptation.py', 'generator=here',
  )).cells['pairs']['generated']
  assert (given.generator, given.checkpoint) == (None, 'here')


@pytest.mark.parametrize('name', [
    m.name for m in pkgutil.walk_packages(
        neg_contrast.__path__, 'neg_contrast.')
])
def test_module_imports(name):
  importlib.import_module(name)


@pytest.mark.parametrize('name', ['nq_stage2', 'msmarco_stage2',
                                  'squad_stage2'])
def test_paper_values(name):
  config = load(ROOT / 'configs' / f'{name}.py')
  assert config.data.batch_size == 2048
  assert config.optim.learning_rate == 1e-5
  assert config.optim.epochs == 200
  assert (config.model.query_length, config.model.passage_length) == (64, 384)
  assert config.model.projection_dim == 768


@pytest.mark.parametrize('name', ['nq', 'msmarco', 'squad'])
@pytest.mark.parametrize('size', ['small', 'full'])
def test_groups_of_a_table_share_a_generator(name, size):
  config = load(ROOT / 'configs' / f'{name}_table.py', f'size={size}')
  first = config.cells.generated.random
  first.stage1.generator.optim.steps = 7
  found = [cell.stage1.generator for cells in config.cells.values()
           for cell in cells.values() if cell.stage1 is not None]
  assert {one.optim.steps for one in found} == {7}
  assert len({one.workdir for one in found}) == 1


def test_the_papers_squad_columns(tmp_path, monkeypatch):
  """DPR's SQuAD questions against Wikipedia, from the stage 1 of NQ."""
  path = ROOT / 'configs' / 'squad_stage2.py'
  config = load(path, 'corpus=wikipedia')
  for name in ('psgs_w100.tsv.gz', 'biencoder-squad1-train.json.gz',
               'biencoder-squad1-dev.json.gz', 'squad1-test.qa.csv'):
    assert f'/{name}' in config.data.how_to_get
  assert config.stage1.data.source == 'dpr:data/nq'
  assert config.stage1.synthetic.pairs == 'generated'
  for arg in ('stage1=generated', 'stage1=nq,corpus=squad'):
    other = load(path, arg)
    assert other.data.source == 'squad:data/squad'
  ours = load(path, 'corpus=wikipedia,stage1=generated').stage1
  assert ours.data.source == ours.generator.data.source == 'dpr:data/squad1'
  assert {ours.workdir, ours.generator.workdir}.isdisjoint(
      {other.stage1.workdir, other.stage1.generator.workdir})
  table = load(ROOT / 'configs' / 'squad_table.py', 'corpus=wikipedia')
  assert table.workdir == 'workdirs/squad_table-full-wikipedia'
  for cells in config_lib.parse(table).cells.values():
    for cell in cells.values():
      assert cell.data == config_lib.parse(config).data
  # The files as DPR has them, in small.
  monkeypatch.chdir(tmp_path)
  folder = tmp_path / 'data' / 'squad1'
  folder.mkdir(parents=True)
  (folder / 'psgs_w100.tsv').write_text(
      'id\ttext\ttitle\n' + ''.join(
          f'{n}\ttext {n}\t{"Paris" if n < 3 else "Rome"}\n'
          for n in range(1, 6)))
  for split, n in (('train', 1), ('dev', 4)):
    (folder / f'biencoder-squad1-{split}.json').write_text(json.dumps([{
        'question': f'of {split}', 'answers': ['a'],
        'positive_ctxs': [{'title': '', 'text': '', 'psg_id': str(n)}],
        'hard_negative_ctxs': [{'title': '', 'text': '', 'psg_id': '5'}],
    }]))
  (folder / 'squad1-test.qa.csv').write_text("of test\t['b']\n")
  data = dataset_lib.Dataset(config_lib.parse(config).data)
  assert [len(of.queries) for of in (
      data.splits.train, data.splits.tune, data.splits.test)] == [1, 1, 1]
  assert data.documents.tolist() == [0, 0, 1, 1, 1]
  assert data.own_passages is None


@pytest.mark.parametrize('name', ['nq', 'msmarco', 'squad'])
def test_paper_values_of_stage1(name):
  """Two of M = 100 hard negatives of every generated question."""
  config = config_lib.parse(load(ROOT / 'configs' / f'{name}_stage1.py'))
  assert config.synthetic.per_passage == 3
  assert (config.negatives.per_query, config.negatives.pool_size) == (2, 100)
  assert config.negatives.depth > 100


def test_natural_questions_have_short_answers():
  """Lu et al., section 5.1; so does what stage 1 is tuned by."""
  config = config_lib.parse(load(ROOT / 'configs' / 'nq_stage2.py'))
  generator = config.stage1.generator
  for one in (config, config.stage1, generator):
    assert one.data.answer_words == 5
  squad = load(ROOT / 'configs' / 'squad_stage2.py', 'corpus=wikipedia')
  assert squad.data.answer_words == 0 and squad.stage1.data.answer_words == 5


def test_paper_values_of_linking():
  config = load(ROOT / 'configs' / 'zeshel_retriever.py')
  assert not config.model.shared and not config.model.normalize
  assert config.model.projection_dim == 0 and config.loss.scale == 1
  assert (config.model.query_length, config.model.passage_length) == (128, 128)
  assert config.data.batch_size == 4 and config.optim.epochs == 4
  assert config.negatives.sources == ('sampled:63',)
  assert not config.loss.bidirectional
  assert config.optim.learning_rate in (5e-5, 2e-5, 1e-5)
  assert config.optim.optimizer == 'adam' and config.evaluation.depth == 64
  ncbi = load(ROOT / 'configs' / 'ncbi_retriever.py')
  assert (ncbi.model.query_length, ncbi.model.passage_length) == (64, 48)


@pytest.mark.parametrize('name, table, rows', [
    ('zeshel_retriever', '1', 15), ('aida_retriever', '4', 6)])
def test_papers_tables_of_linking(name, table, rows):
  """What a config's docstring prints is what lies beside it as data."""
  with open(ROOT / 'configs' / 'zhang_stratos.csv', newline='') as f:
    cells = [row for row in csv.DictReader(f) if row['table'] == table]
  wanted = {}
  for row in cells:
    wanted.setdefault((row['model'], row['negatives']), []).append(row['value'])
  printed = [line.split() for line in
             (ROOT / 'configs' / f'{name}.py').read_text().splitlines()
             if line.startswith('    ') and line[-2:].isdigit()]
  assert len(printed) == rows and printed == [
      [*f'{model} {negatives}'.split(), *values]
      for (model, negatives), values in wanted.items()]


def test_papers_percentages_of_hard_negatives():
  """Appendix A; what Table 1 has too is the same there."""
  with open(ROOT / 'configs' / 'zhang_stratos.csv', newline='') as f:
    cells = [row for row in csv.DictReader(f)
             if row['metric'] == 'accuracy@64' and row['split'] == 'val']
  of = {table: {(row['model'], row['negatives']): row['value']
                for row in cells if row['table'] == table} for table in '1A'}
  assert len(of['A']) == 15
  both = of['1'].keys() & of['A'].keys()
  assert len(both) >= 7
  differing = {key for key in both if of['1'][key] != of['A'][key]}
  assert differing <= {('DUAL', 'Hard'), ('MULTI-8', 'Hard'), ('SOM', 'Hard')}


def test_papers_values_of_rerankers():
  with open(ROOT / 'configs' / 'zhang_stratos.csv', newline='') as f:
    cells = [row for row in csv.DictReader(f) if row['table'] == '2'
             and 'et al.' not in row['model']]
  wanted = {}
  for row in cells:
    key = row['model'], row['negatives'], row['reranker']
    wanted.setdefault(key, []).append(row['value'])
  path = ROOT / 'configs' / 'zeshel_reranker.py'
  printed = [line.split() for line in path.read_text().splitlines()
             if line.startswith('    ') and line[-3:-2] == '.']
  assert printed == [[*key, *values] for key, values in wanted.items()]
  config = load(path)
  assert config.negatives.sources == ('model:63',)
  assert config.negatives.pool_size == 63
  assert config.data.batch_size == 2 and config.evaluation.depth == 64
  assert config.optim.epochs == 4 and config.optim.optimizer == 'adam'
  assert (config.model.query_length, config.model.passage_length) == (128, 128)


@pytest.mark.parametrize('name', ['zeshel', 'aida', 'ncbi'])
def test_several_vectors_on_two_cores(name):
  """MiniLM pools a mean, and SOM of unit vectors is a sum."""
  path = ROOT / 'configs' / f'{name}_retriever.py'
  for score, pooling, scale in (('dual', None, 20.0), ('poly-16', 'cls', 20.0),
                                ('som', 'cls', 1.0)):
    config = load(path, f'size=small,score={score}')
    assert (config.model.pooling, config.loss.scale) == (pooling, scale)
  full = load(path, 'score=som')
  assert (full.model.pooling, full.loss.scale) == (None, 1.0)
