"""Runs the cells of launch/colab.ipynb, with a small training."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

from tests import processes

ROOT = pathlib.Path(__file__).parents[2]
NOTEBOOK = json.loads((ROOT / 'launch' / 'colab.ipynb').read_text('utf-8'))
CELLS = [cell for cell in NOTEBOOK['cells'] if cell['cell_type'] == 'code']

# Instead of the cell of parameters: one package of the library, one layer, two
# steps a stage.
SMALL = '''
root, SHOWN = pathlib.Path('workdirs'), 40
DATA = f'python_docs:{pathlib.Path(subprocess.__file__).with_name("email")}'
CONFIG, WORKDIR = 'quickstart:stage1=inverse_cloze', root / 'small'
CHANGES = dict(
    data__source=DATA, data__batch_size=8,
    data__prepared_dir='workdirs/prepared',
    evaluation__eval_steps=0, evaluation__hybrid=False,
    evaluation__untouched=False,
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
  assert 'CpuDevice' in shown[0] and 'float32\n' in result.stdout
  assert "'bm25': 0." in shown[2] and "'trained': 0." in shown[2]
  assert 'HTML of ' in shown[3] and 'Figure' in shown[4]
  answers = result.stdout.partition('join two paths\n')[2]
  assert len(re.findall(r'^  -?\d\.\d{3}  \S', answers, re.MULTILINE)) == 9
  model = tmp_path / 'workdirs' / 'small-exported' / 'model'
  assert (model / 'modules.json').exists()
  assert model.with_suffix('.zip').stat().st_size > 10**6


def test_data_of_ones_own_has_a_workdir_and_a_config_of_its_own():
  form = next(''.join(cell['source']) for cell in CELLS if is_parameters(cell))
  start = 'import pathlib, types\nIN_COLAB = False\n' + (
      'jax = types.SimpleNamespace(device_count=lambda: 2)\n')
  found = {}
  exec(start + form.replace("'python_docs'  #", "'csv:a/my faq.csv?x=y'  #"),
       found)
  assert found['CONFIG'] == 'own_data'
  assert found['WORKDIR'] == pathlib.Path('workdirs/own-my faq')
  assert found['CHANGES']['data__batch_size'] == 32
  with pytest.raises(ValueError, match='UPLOAD and USE_DRIVE are for Colab'):
    exec(start + form.replace('UPLOAD = False', 'UPLOAD = True'), {})


def test_it_is_a_small_notebook_without_places_of_a_machine():
  assert (NOTEBOOK['nbformat'], NOTEBOOK['nbformat_minor']) == (4, 5)
  ids = [cell['id'] for cell in NOTEBOOK['cells']]
  assert len(set(ids)) == len(ids) and sum(map(is_parameters, CELLS)) == 1
  text = json.dumps(NOTEBOOK)
  assert len(text) < 300_000
  assert not re.search(r'[\s"\'(](/work|/tmp|/root|/home|/Users)/', text)


def test_its_outputs_are_saved():
  kinds = [list(output.get('data', {'stream': ''}))
           for cell in CELLS for output in cell['outputs']]
  assert sum('image/png' in kind or 'image/jpeg' in kind
             for kind in kinds) == 2
  for cell in CELLS:
    assert all(output['output_type'] != 'error' for output in cell['outputs'])
  text = json.dumps([cell['outputs'] for cell in CELLS])
  assert "'trained': 0." in text and 'join two paths' in text


def test_forms_have_defaults_that_work():
  code = '\n'.join(''.join(cell['source']) for cell in CELLS)
  forms = dict(re.findall(r'^(\w+) = (.*?)  # @param', code, re.MULTILINE))
  assert forms == {'SOURCE': "'auto'", 'USE_DRIVE': 'False',
                   'UPLOAD': 'False', 'STEPS': '34',
                   'DATA': "'python_docs'"}


HIDDEN = '''
import subprocess
find = importlib.util.find_spec
importlib.util.find_spec = lambda name: (
    None if name in ('neg_contrast', 'google') else find(name))
subprocess.run = lambda command, check: print('ran', command[4:])
'''


@pytest.mark.parametrize(('wheel', 'source', 'told'), [
    ('', 'auto', "ValueError: there is no neg_contrast-*.whl here: set"),
    ('neg_contrast-0.2-py3-none-any.whl', 'auto', 'neg_contrast-0.2-py3'),
    ('', 'https://example.org/x.git', "'git+https://example.org/x.git'"),
])
def test_where_it_is_installed_from(tmp_path, wheel, source, told):
  if wheel:
    (tmp_path / wheel).touch()
  install = ''.join(CELLS[0]['source']).replace("'auto'  #", f'{source!r}  #')
  before, line, after = install.partition('IN_COLAB =')
  result = run([before + HIDDEN + line + after.rpartition('\nfrom neg_')[0]],
               tmp_path)
  assert told in result.stdout + result.stderr
