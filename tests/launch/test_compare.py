"""launch/studies: a tiny study from end to end, and the studies that ship."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from neg_contrast import errors
from tests import tiny

STUDIES = pathlib.Path(__file__).parents[2] / 'launch' / 'studies'
SHIPPED = ('negatives', 'false_negatives', 'stage1', 'scores')
CONFIG = '''
import pathlib
from tests import tiny

def get_config(arg=None):
  config = tiny.make_config(pathlib.Path({root!r}))
  config.update_from_flattened_dict({{
      'optim.steps': 2, 'evaluation.eval_steps': 0, 'evaluation.bm25': False,
      'evaluation.metrics': ('accuracy@1', 'mrr@10'), 'data.groups': 1,
      'mesh.data': 1,
      'negatives.strategy': 'random', 'negatives.per_query': 0,
      'model.layers': 1,
  }})
  return config
'''
STUDY = '''
from study import Line, Run, Study

STUDY = Study(
    runs={{
        'warm start': Run({config!r}, {{'evaluation.bm25': True}}, True),
        'again': Run({config!r}, {{
            'job': 'evaluate', 'checkpoint': '{{runs[warm start]}}',
            'data.split': 'test'}}),
        'slow': Run({config!r}, {{'model.init': '{{runs[warm start]}}',
                                  'model.layers': None}}),
        'fast': Run({config!r}, {{'model.init': '{{runs[warm start]}}',
                                  'model.layers': None,
                                  'optim.learning_rate': 0.3}}),
    }},
    lines={{
        'bm25': Line('warm start', 'bm25'), 'again': Line('again'),
        'slow': Line('slow'),
        'fast': Line('fast', versus='slow', note='a note'),
        'unused': Line('fast', 'nothing'),
    }},
    metrics=('accuracy@1', 'mrr@10'), shown='mrr@10',
    pool=(('warm start', 'bm25'), ('warm start', 'trained')),
)
'''


@pytest.fixture
def compare(monkeypatch):
  monkeypatch.syspath_prepend(str(STUDIES))
  import compare

  return compare


@pytest.fixture
def study(tmp_path):
  config, path = tmp_path / 'config.py', tmp_path / 'study.py'
  config.write_text(CONFIG.format(root=str(tmp_path)))
  path.write_text(STUDY.format(config=str(config)))
  return path


def test_a_study_from_end_to_end(study, tmp_path):
  work = tmp_path / 'work'
  command = [study, f'--workdir={work}', '--lines=bm25,again',
             'warm *:optim.steps=1']
  shown = run_script('compare', *command)
  made = {path.name for path in (work / 'runs').iterdir() if path.is_dir()}
  assert made - {'.locks'} == {'warm-start-0', 'again-0'}
  manifest = json.loads((work / 'runs/warm-start-0/manifest.json').read_text())
  assert manifest['config']['optim']['steps'] == 1
  # The pool is the whole corpus here: it is the rank in the corpus.
  ranks = json.loads((work / 'runs/again-0/pool_ranks.json').read_text())
  table = (work / 'runs/again-0/evaluation').glob('*-trained/per_query.tsv')
  lines = [line.split('\t') for line in next(table).read_text().splitlines()]
  assert {line[0]: float(line[2]) for line in lines[1:]} == ranks
  kept = json.loads((work / 'comparison.json').read_text())
  rows = [line.split(' | ') for line in kept['table']]
  assert [row[0] for row in rows[2:]] == ['| bm25', '| again']
  assert float(rows[3][3]) == pytest.approx(sum(ranks.values()) / 12, abs=.01)
  assert '\n'.join(kept['table']) in shown
  assert kept['settings'] == ['warm *:optim.steps=1']


def test_differences_are_paired_over_seeds(compare, study):
  loaded = compare.load(study)
  rng = np.random.default_rng(0)
  metrics = ('accuracy@1', 'mrr@10', 'mean rank')
  make = lambda shift: {
      metric: {f'q{n}': value + shift for n, value in
               enumerate(rng.random(50))} for metric in metrics}
  values = {'bm25': [make(0)], 'slow': [make(0), make(0)],
            'fast': [make(2), make(4)]}
  values['fast'][1]['mrr@10'] = dict(  # In another order.
      reversed([*values['fast'][1]['mrr@10'].items()]))
  text, differences = compare.describe(loaded, values)
  assert differences.keys() == {f'fast/{metric}' for metric in metrics}
  mean = lambda name, seed: np.mean([*values[name][seed]['mrr@10'].values()])
  shown = differences['fast/mrr@10']
  np.testing.assert_allclose(shown['seeds'], [
      mean('fast', seed) - mean('slow', seed) for seed in (0, 1)])
  assert 2.5 < shown['low'] < np.mean(shown['seeds']) < shown['high'] < 3.5
  bm25, slow, fast = (line.split(' | ') for line in text.splitlines()[2:])
  assert fast[2].endswith('*') and '*' not in slow[2] and slow[4] == ''
  assert fast[4].endswith(', '.join(f'{v:+.4f}' for v in shown['seeds']))
  assert fast[5] == 'a note |'


def test_shared_runs_are_done_once(compare, study, tmp_path, monkeypatch):
  loaded = compare.load(study, ['slow', 'fast'])
  runs = []
  monkeypatch.setattr(compare.api, 'run', lambda file, folder, **settings:
                      runs.append((folder.name, settings['seed'])))
  monkeypatch.setattr(compare.Comparison, '_measure', lambda *_: {})
  values = compare.Comparison(loaded, tmp_path / 'work', []).measure(2)
  assert runs == [('warm-start-0', 0), ('slow-0', 0), ('fast-0', 0),
                  ('slow-1', 1), ('fast-1', 1)]
  assert [len(seeds) for seeds in values.values()] == [2, 2]


@pytest.mark.parametrize('name', SHIPPED)
def test_configs_of_shipped_studies(compare, name, tmp_path, monkeypatch):
  study = compare.load(STUDIES / f'{name}.py')
  compare.Comparison(study, tmp_path, ['data.source=beir:x']).check()
  assert not list(tmp_path.iterdir())
  for line in study.lines.values():
    assert not line.versus or line.versus in study.lines


@pytest.mark.parametrize('given,message', [
    ('optim.step=3', 'fits no run'), ('optim.steps', 'is no KEY=VALUE'),
    ('nothing:optim.steps=3', 'fits no run; runs are again'),
    ('optim.steps=a', 'optim.steps')])
def test_wrong_settings(compare, study, tmp_path, given, message):
  loaded = compare.load(study)
  with pytest.raises(errors.UserError, match=message):
    compare.Comparison(loaded, tmp_path, [given]).check()


def test_unknown_lines_and_files(compare, study, tmp_path):
  with pytest.raises(errors.UserError, match="'none' is none of bm25, again"):
    compare.load(study, ['none'])
  with pytest.raises(errors.UserError, match='no such file'):
    compare.load(tmp_path / 'nothing.py')


def run_script(name, *arguments):
  result = subprocess.run(
      [sys.executable, STUDIES / f'{name}.py', *map(str, arguments)],
      env={**os.environ, 'PYTHONPATH': str(STUDIES.parents[1]),
           'XLA_FLAGS': ''},
      capture_output=True, text=True, check=False,
  )
  assert result.returncode == 0, result.stderr
  return result.stdout


def judged(folder, split):
  lines = (folder / 'qrels' / f'{split}.tsv').read_text().splitlines()
  return {line.split('\t')[0] for line in lines[1:]}


def test_beir_folders_are_divided_and_joined(tmp_path):
  tiny.write_beir(tmp_path / 'data')
  parts, split = tmp_path / 'parts', judged(tmp_path / 'data', 'train')
  run_script('split_beir', parts, tmp_path / 'data', '--split=train',
             '--queries', 'train=7', 'tune=5', '--keep', 'test')
  train, tune = judged(parts, 'train'), judged(parts, 'tune')
  assert (len(train), len(tune)) == (7, 5)
  assert not train & tune and train | tune < split
  assert judged(parts, 'test') == judged(tmp_path / 'data', 'test')
  joined = tmp_path / 'joined'
  run_script('join_beir', joined, f'{tmp_path / "data"}:test',
             f'{parts}:train,tune')
  names = {f'parts-{name}' for name in train | tune}
  assert judged(joined, 'train') == names | {
      f'data-{name}' for name in judged(parts, 'test')}
  corpus = (joined / 'corpus.jsonl').read_text().splitlines()
  assert len(corpus) == 2 * 48 and json.loads(corpus[-1])['_id'] == (
      'parts-d11p3')


def test_documents_are_set_apart(tmp_path):
  tiny.write_beir(tmp_path / 'data')
  parts = tmp_path / 'parts'
  run_script('split_beir', parts, tmp_path / 'data', '--split=train',
             '--documents', 'test=0.3', 'train=0.7')
  documents = [{name.split('-')[0] for name in judged(parts, split)}
               for split in ('train', 'test')]
  assert all(documents) and not documents[0] & documents[1]
  assert len(documents[0] | documents[1]) == 9
