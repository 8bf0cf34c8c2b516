"""launch/studies: the scripts that divide and join data for studies."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

from neg_contrast.evaluation import trec
from tests import tiny

STUDIES = pathlib.Path(__file__).parents[2] / 'launch' / 'studies'


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


def test_hubs_and_the_age_of_negatives(tmp_path):
  folder = tmp_path / 'hard-seed0' / 'evaluation' / 'data-dev-trained'
  folder.mkdir(parents=True)
  trec.write_run(folder / 'run.trec', {
      'q1': [('hub', 2.0), ('a', 1.0)], 'q2': [('hub', 2.0)],
      'q3': [('b', 2.0), ('hub', 1.0)], 'q4': [('hub', 3.0), ('c', 1.0)],
  }, 'trained')
  for number, start in enumerate((0, 4)):
    drawn = tmp_path / 'hard-seed0' / 'sampled' / f'{number:05}'
    drawn.mkdir(parents=True)
    (drawn / 'manifest.json').write_text(json.dumps({'step': start}))
  (tmp_path / 'hard-seed0' / 'log.jsonl').write_text(''.join(
      json.dumps({'step': step,
                  'contrast': {'hard': {'accuracy': solved}}}) + '\n'
      for step, solved in enumerate((0, .3, .6, .9, .6, .9, .9, 1), start=1)
  ))
  table = run_script('hubs', tmp_path / 'hard-seed0').splitlines()
  assert table[-1] == '| hard-seed0 | 0.750 | 4 | 2 | 0.55 | 0.77 |'
  # The same of a pool that was made again after step 4.
  shutil.rmtree(tmp_path / 'hard-seed0' / 'sampled')
  (tmp_path / 'hard-seed0' / 'refreshed' / '0000004').mkdir(parents=True)
  log = tmp_path / 'hard-seed0' / 'log.jsonl'
  log.write_text(log.read_text().replace('"hard"', '"model"'))
  table = run_script('hubs', tmp_path / 'hard-seed0').splitlines()
  assert table[-1] == '| hard-seed0 | 0.750 | 4 | 2 | 0.55 | 0.77 |'
