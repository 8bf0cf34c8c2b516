"""Runs the cells of launch/colab.ipynb, with a small training."""

import json
import os
import pathlib
import re
import subprocess
import sys

from tests import processes

ROOT = pathlib.Path(__file__).parents[2]
NOTEBOOK = json.loads((ROOT / 'launch' / 'colab.ipynb').read_text('utf-8'))
CELLS = [cell for cell in NOTEBOOK['cells'] if cell['cell_type'] == 'code']

# Instead of the cell of parameters: one layer, two steps a stage.
SMALL = '''
WORKDIR = pathlib.Path('workdirs/small')
CHANGES = dict(
    data__batch_size=8, data__prepared_dir='workdirs/prepared',
    evaluation__eval_steps=0,
    model__layers=1, model__passage_length=32, optim__steps=2,
    stage1__optim__steps=2, stage1__data__batch_size=8,
    stage1__workdir='workdirs/small-stage1',
    negatives__mined_dir='workdirs/mined')
'''
# A kernel's part: what a cell ends with is shown, and IPython is there.
KERNEL = '''
import ast, json, sys, types

display = types.ModuleType('IPython.display')
display.HTML = lambda text: f'HTML of {len(text)} characters'
ipython = types.ModuleType('IPython')
ipython.version_info, ipython.get_ipython = (9, 0), lambda: None
sys.modules |= {'IPython': ipython, 'IPython.display': display}
shared = {'__name__': '__main__'}
for source in json.load(sys.stdin):
  cell = ast.parse(source)
  last = (cell.body.pop() if isinstance(cell.body[-1], ast.Expr) else None)
  exec(compile(cell, 'cell', 'exec'), shared)
  if last:
    print('shown:', eval(compile(ast.Expression(last.value), 'cell', 'eval'),
                         shared))
'''


def is_parameters(cell):
  return 'parameters' in cell['metadata'].get('tags', ())


def run(sources, folder):
  return subprocess.run(
      [sys.executable, '-c', KERNEL], input=json.dumps(sources), cwd=folder,
      env={**os.environ, 'PYTHONPATH': str(ROOT),
           'XLA_FLAGS': processes.with_devices(1)},
      text=True, capture_output=True, check=False, timeout=1800)


def test_cells_train_and_search(tmp_path):
  result = run([SMALL if is_parameters(cell) else ''.join(cell['source'])
                for cell in CELLS], tmp_path)
  assert result.returncode == 0, result.stderr[-3000:]
  shown = [line for line in result.stdout.splitlines() if 'shown: ' in line]
  assert 'CpuDevice' in shown[0]
  assert "{'bm25': 0." in shown[2] and "'trained': 0." in shown[2]
  assert 'HTML of ' in shown[3]
  answers = result.stdout.partition('join two paths\n')[2]
  assert len(re.findall(r'^  -?\d\.\d{3}  \S', answers, re.MULTILINE)) == 9
  model = tmp_path / 'workdirs' / 'small-exported' / 'model'
  assert (model / 'modules.json').exists()


def test_it_is_a_clean_notebook():
  assert (NOTEBOOK['nbformat'], NOTEBOOK['nbformat_minor']) == (4, 5)
  ids = [cell['id'] for cell in NOTEBOOK['cells']]
  assert len(set(ids)) == len(ids) and sum(map(is_parameters, CELLS)) == 1
  for cell in CELLS:
    assert cell['outputs'] == [] and cell['execution_count'] is None


def test_the_repository_has_to_be_named(tmp_path):
  install = ''.join(CELLS[0]['source'])
  hidden = install.replace("find_spec('neg_contrast')", "find_spec('nothing')")
  assert hidden != install
  result = run([hidden], tmp_path)
  assert 'ValueError: set REPOSITORY' in result.stderr

