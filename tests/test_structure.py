"""The house stands as neg_contrast/README.md draws it: read from the code."""

import ast
import collections
import functools
import importlib
import pathlib
import re
import sys

import pytest

from neg_contrast import jobs

ROOT = pathlib.Path(__file__).parents[1]
PACKAGE = ROOT / 'neg_contrast'
ROOMS = ('jobs', 'serving', 'report', 'benchmarks', 'mining', 'stage1',
         'training', 'bias', 'negatives', 'evaluation', 'losses', 'retrieval',
         'models', 'batches', 'data', 'artifacts', 'settings')
"""From the top down: a room imports only rooms behind it."""
GROUND = ('errors', 'hosts', 'workers', 'beams', 'sharding', 'scoring',
          'accelerators', 'cpu', 'device_memory', 'progress', 'listeners',
          'html_parts', 'terminal')
DOORS = ('main', '__main__', 'api')
PRESETS = ('presets', 'table_preset', 'study_preset', 'beir_preset')
"""For configs/ alone."""
PURE_LIBRARIES = {'jax', 'flax', 'optax', 'numpy', 'jaxtyping', 'regex'}
MOST_LINES, MOST_CLASS_LINES = 400, 200
MOST_JOB_LINES = {'ensemble': 400, 'table': 400}
MOST_LAMBDAS = 30


@functools.cache
def modules() -> dict[str, pathlib.Path]:
  """Dotted name below the package -> file."""
  return {
      '.'.join(path.relative_to(PACKAGE).with_suffix('').parts): path
      for path in sorted(PACKAGE.rglob('*.py'))
  }


@functools.cache
def tree(name: str) -> ast.Module:
  return ast.parse(modules()[name].read_text(encoding='utf-8'))


def names(pattern=lambda name: True):
  return [name for name in modules() if pattern(name)]


def imported(name: str) -> set[str]:
  """Dotted names of what a module imports, ours and others'."""
  found = set()
  for node in ast.walk(tree(name)):
    if isinstance(node, ast.Import):
      found |= {alias.name for alias in node.names}
    elif isinstance(node, ast.ImportFrom):
      assert node.level == 0, f'{name}: imports relatively'
      for alias in node.names:
        full = f'{node.module}.{alias.name}'
        is_module = full.removeprefix('neg_contrast.') in modules()
        found.add(full if is_module else str(node.module))
  return found


def ours(name: str) -> set[str]:
  return {one.removeprefix('neg_contrast.') for one in imported(name)
          if one.startswith('neg_contrast.')}


def level(name: str) -> int:
  """The higher, the more it may import."""
  room = name.split('.')[0]
  if room in DOORS:
    return len(ROOMS) + 1
  if room in ROOMS:
    return len(ROOMS) - ROOMS.index(room)
  return 0


@pytest.mark.parametrize('name', names())
def test_no_arrow_runs_back(name):
  room = name.split('.')[0]
  assert room in (*ROOMS, *GROUND, *DOORS, *PRESETS, '__init__'), (
      f'{name}: in no room of neg_contrast/README.md')
  if room in PRESETS:
    return
  for other in ours(name):
    assert other.split('.')[0] not in PRESETS, (
        f'{name}: presets are for configs/')
    is_ground = room in GROUND and other.startswith('settings')
    assert level(other) <= level(name) or is_ground, (
        f'{name} imports {other}: that arrow runs back')


def test_jobs_are_verbs_alone():
  """What takes a whole config apart for them lies in `jobs/common`."""
  verbs = {path.stem for path in (PACKAGE / 'jobs').glob('*.py')}
  assert verbs == {'__init__', *jobs.JOBS}
  for name, cls in jobs.JOBS.items():
    job = getattr(importlib.import_module(f'neg_contrast.jobs.{name}'), cls)
    public = {one for one in vars(job) if not one.startswith('_')}
    assert {'targets', 'finish'} <= public, name


def test_no_two_files_of_one_name():
  count = collections.Counter(
      path.name for path in PACKAGE.rglob('*.*')
      if path.suffix in ('.py', '.jinja') and path.name != '__init__.py')
  assert not [name for name, often in count.items() if often > 1]


@pytest.mark.parametrize('name', names())
def test_files_and_classes_are_short(name):
  lines = modules()[name].read_text(encoding='utf-8').count('\n')
  is_job = name.startswith('jobs.')
  most = MOST_JOB_LINES.get(name.partition('.')[2], 150) if is_job else (
      MOST_LINES)
  assert lines <= most, f'{name} has {lines} lines'
  for node in ast.walk(tree(name)):
    if isinstance(node, ast.ClassDef):
      length = (node.end_lineno or 0) - node.lineno + 1
      assert length <= MOST_CLASS_LINES, f'{name}.{node.name}: {length} lines'


@pytest.mark.parametrize('name', names(
    lambda name: name.split('.')[0] in (*ROOMS[1:], *GROUND)
    and not name.startswith('settings.')))
def test_only_jobs_see_the_whole_config(name):
  for node in ast.walk(tree(name)):
    sees = (isinstance(node, ast.Attribute) and node.attr == 'Config'
            and isinstance(node.value, ast.Name)
            and node.value.id in ('config_lib', 'config'))
    sees |= isinstance(node, ast.ImportFrom) and any(
        alias.name == 'Config' and 'settings' in (node.module or '')
        for alias in node.names)
    assert not sees, f'{name}:{getattr(node, "lineno", 0)}: the whole Config'


def is_pure(name: str) -> bool:
  docstring = ast.get_docstring(tree(name)) or ''
  first = docstring.split('\n\n')[0]
  return 'Pure' in re.split(r'[\s.:]+', first)


@pytest.mark.parametrize('name', names(is_pure))
def test_pure_modules_import_only_pure_ones(name):
  for other in imported(name):
    top = other.split('.')[0]
    if top == 'neg_contrast':
      rest = other.removeprefix('neg_contrast.')
      assert rest == 'neg_contrast' or is_pure(rest), f'{name}: {other}'
    else:
      assert top in PURE_LIBRARIES | sys.stdlib_module_names, f'{name}: {other}'
      assert top not in ('pathlib', 'os', 'io', 'logging', 'time', 'shutil'), (
          f'{name}: {other}')


def test_what_should_be_pure_is():
  for name in names():
    if name.startswith('losses.') and name != 'losses.loss_table' and (
        '__init__' not in name):
      assert is_pure(name), name
  for name in ('scoring', 'models.bert', 'models.layers', 'models.dual_encoder',
               'models.cross_encoder', 'training.step', 'batches.packed'):
    assert is_pure(name), name


def test_few_lambdas_without_arguments():
  count = sum(
      isinstance(node, ast.Lambda) and not (
          node.args.args or node.args.vararg or node.args.kwonlyargs)
      for name in modules() for node in ast.walk(tree(name)))
  assert count < MOST_LAMBDAS, count


def test_tests_mirror_the_package():
  for path in (ROOT / 'tests').iterdir():
    if path.is_dir() and path.name not in ('launch', 'golden', '__pycache__'):
      assert path.name in (*ROOMS, 'api'), path
