"""Writes down what must not change while the code moves.

    python -m tests.golden.record

`plans.txt`: the plan of every config, in an empty folder; of every argument
its hash and number of lines.
`errors.txt`: the answer to a wrong name and to wrong values of every key.
`artifacts.json`: every folder that four tiny runs leave, with the identity in
its manifest. Fingerprints of weights, and weights of ensembles that were tuned,
are masked: processors round differently.

`tests/golden/test_golden.py` compares. A change that means to change a line
records again, and its commit says why.
"""

import collections
import contextlib
import functools
import hashlib
import io
import json
import os
import pathlib
import re
import runpy
import sys
import tempfile

import jax
import numpy as np
from safetensors.numpy import save_file

from neg_contrast import errors, jobs
from neg_contrast.artifacts import folders as folders_lib
from neg_contrast.artifacts import plan
from neg_contrast.settings import config as config_lib
from tests import tiny

FOLDER = pathlib.Path(__file__).parent
ROOT = FOLDER.parents[1]
_PRETEXTS = ('inverse_cloze', 'crops', 'recurring_spans', 'neighbours', 'title')
_STRATEGIES = ('random', 'corpus', 'mixed', 'given', 'bm25', 'context',
               'coarse', 'fine', 'model', 'run')
_STAGE1 = ('generated', 'no_hard_negatives', 'none', *_PRETEXTS)
_TRAIN_STAGE2 = (
    '', 'size=small', 'nonsense=1', 'size=huge', 'stage1=bogus',
    'negatives=bogus',
    *(f'size={size},stage1={kind}' for size in ('full', 'small')
      for kind in _STAGE1),
    *(f'negatives={name},stage1=none' for name in _STRATEGIES),
)
_LINKING = ('', 'size=small', 'score=som', 'size=small,score=poly-16',
            'score=genpoly-4', 'score=multi-8', 'negatives=random',
            'negatives=hard', 'negatives=adjusted', 'negatives=mixed-120',
            'score=bogus')
_SIZES = ('', 'size=full', 'size=small', 'size=huge')
ARGUMENTS = {
    'aida_retriever': _LINKING,
    'benchmark': ('', *(f'{task},size={size}' for size in ('small', 'full')
                        for task in ('train', 'encode', 'search', 'mine',
                                     'input')),
                  'train,versus=sentence-transformers', 'nap'),
    'mine': tuple(f'negatives={name}' for name in (*_STRATEGIES, 'bogus')),
    'msmarco_generator': _SIZES, 'msmarco_stage1': _SIZES,
    'msmarco_stage2': _TRAIN_STAGE2, 'msmarco_table': _SIZES,
    'ncbi_reranker': _SIZES, 'ncbi_retriever': _LINKING,
    'nce_bias': ('', 'scores=dot', 'scores=bogus'),
    'nq_generator': _SIZES, 'nq_stage2': (*_TRAIN_STAGE2, 'stage1=nq'),
    'nq_stage1': (*_SIZES, *(f'stage1={kind}' for kind in _STAGE1)),
    'nq_table': _SIZES,
    'quickstart': ('', 'stage1=inverse_cloze', 'stage1=bogus'),
    'squad_generator': _SIZES, 'squad_stage1': _SIZES,
    'squad_stage2': (
        *_TRAIN_STAGE2, 'stage1=nq', 'corpus=wikipedia', 'corpus=bogus',
        'corpus=wikipedia,stage1=generated', 'corpus=wikipedia,stage1=none'),
    'squad_table': (*_SIZES, 'corpus=wikipedia'),
    'study_negatives': ('', 'size=whole', 'size=huge'),
    'zeshel_reranker': _SIZES, 'zeshel_retriever': _LINKING,
}
_GIVEN = {  # What those configs leave to flags.
    'data.source': 'beir:data', 'checkpoint': 'minilm', 'candidates': 'bm25',
    'ensemble.members': ('minilm',), 'data.split': 'test',
}


def plans() -> str:
  """The plan of every config and argument, where nothing is there yet."""
  blocks = []
  with tempfile.TemporaryDirectory() as empty, contextlib.chdir(empty):
    for path in sorted((ROOT / 'configs').glob('*.py')):
      for arg in ARGUMENTS.get(path.stem, ('',)):
        text = _plan(path, arg)
        if arg and not text.startswith('error'):
          code = hashlib.sha256(text.encode()).hexdigest()[:16]
          text = f'{len(text.splitlines())} lines, {code}'
        blocks.append(f'# {path.stem}:{arg}\n{text}')
  return '\n'.join(blocks) + '\n'


def _plan(path: pathlib.Path, arg: str) -> str:
  try:
    config = runpy.run_path(str(path))['get_config'](arg or None)
    for key, value in _GIVEN.items():
      place, name = config, key
      if '.' in key:
        section, name = key.split('.')
        place = config[section]
      if not place[name] and config.job not in ('train', 'train_generator',
                                                'benchmark', 'nce_synthetic'):
        config_lib.set_key(config, key, value)
    parsed = config_lib.parse(config)
    workdir = pathlib.Path(parsed.workdir or f'workdirs/{path.stem}')
    text = plan.describe(jobs.make_job(parsed, workdir).targets())
    return text.replace(str(pathlib.Path(np.__file__).parents[1]), 'LIBRARIES')
  except errors.UserError as e:
    return f'error: {e}'


def mistakes() -> str:
  """The answers to a wrong name and to wrong values of every key."""
  lines = []
  for key in config_lib.flat(config_lib.base_config()):
    if key in ('stage1', 'generator', 'cells'):
      continue
    base = config_lib.base_config()
    base.data.source, base.model.init = 'beir:data', 'minilm'
    place = base
    *sections, name = key.split('.')
    for section in sections:
      place = place[section]
    for wrong in (*_wrong(place[name]), None):
      config = base.copy_and_resolve_references()
      try:
        if wrong is None:
          config_lib.set_key(config, f'{key}x', 1)
        else:
          config_lib.set_key(config, key, wrong)
        jobs.check(config_lib.parse(config))
        said = 'accepted'
      except errors.UserError as e:
        said = str(e)
      except (AttributeError, TypeError) as e:
        said = f'TRACEBACK: {e}'
      lines.append(f'{key}{"x" if wrong is None else ""}={wrong!r}: {said}')
  return '\n'.join(lines) + '\n'


def _wrong(value):
  if isinstance(value, bool):
    return 'yes', not value
  if isinstance(value, int | float):
    return type(value)(-1), type(value)(0), 'many'
  if isinstance(value, tuple):
    return ('bogus',), ()
  if isinstance(value, str):
    return 'bogus', 3
  return -1, 'bogus', 0.5, 0


def write_model(folder: pathlib.Path, seed: int) -> None:
  """A tiny BERT whose weights are the same on every processor."""
  tiny.write_model(folder, words=[*tiny.WORDS, '.'], vocab_size=66)
  from safetensors.numpy import load_file

  path, rng = folder / 'model.safetensors', np.random.default_rng(seed)
  weights = {name: (0.3 * rng.standard_normal(array.shape)).astype(np.float32)
             for name, array in sorted(load_file(str(path)).items())}
  save_file(weights, str(path), metadata={'format': 'pt'})


def make(**overrides):
  """A tiny config; paths in it are relative."""
  root = pathlib.Path('.')
  return tiny.make_config(root, **{
      'data__prepared_dir': 'prepared', 'negatives__mined_dir': 'mined',
      'synthetic__dir': 'synthetic', 'optim__steps': 2,
      'evaluation__eval_steps': 2, 'evaluation__depth': 5,
      'evaluation__metrics': ('accuracy@1', 'accuracy@5'), 'data__groups': 1,
      'mesh__data': 1, 'model__query_length': 24, 'model__passage_length': 40,
      **overrides,
  })


def run(config, name: str) -> None:
  """Runs a job to its end."""
  workdir = pathlib.Path('workdirs') / name
  folders_lib.make_folder(workdir)
  job = jobs.make_job(config_lib.parse(config), workdir)
  plan.run(job.targets())
  job.finish()


def runs() -> None:
  """Two stages with all miners; a pool; an ensemble; a reranker."""
  pathlib.Path('model').mkdir()
  tiny.write_sentences(pathlib.Path('data'))
  write_model(pathlib.Path('model'), 0)
  two = make(
      negatives__sources=('coarse+fine+bm25+context:2',),
      negatives__miner_steps=2,
      negatives__coarse_dim=4, negatives__fine_dim=8, negatives__depth=12,
      negatives__pool_size=6,
  )
  first = make(
      workdir='workdirs/stage1', synthetic__pairs='crops',
      synthetic__per_passage=1, negatives__sources=(),
  )
  two.stage1 = first
  run(two, 'two')
  run(make(job='mine', negatives__sources=('bm25+context:2',),
           negatives__depth=12, negatives__pool_size=6,
           negatives__formats=('dpr', 'triplets')), 'mine')
  run(make(job='ensemble',
           ensemble__members=('workdirs/two', 'workdirs/stage1')), 'ensemble')
  run(make(job='train_reranker', negatives__sources=('bm25:2',),
           negatives__depth=12, negatives__pool_size=3,
           negatives__drop_answers=(), model__query_length=12,
           model__passage_length=24), 'reranker')


_WEIGHTS = re.compile(r'\b[0-9a-f]{64}\b')
_KEPT = ('corpus', 'data', 'queries', 'tokenizer', 'tune_queries', 'tuned_on',
         'corpus_fingerprint', 'queries_fingerprint', 'fingerprint')


def _masked(value, key=''):
  """Without fingerprints of weights."""
  if isinstance(value, dict):
    return {name: _masked(one, name) for name, one in sorted(value.items())}
  if isinstance(value, list):
    return '<tuned>' if value and key == 'weights' else [
        _masked(one, key) for one in value]
  if isinstance(value, str) and key not in _KEPT:
    return _WEIGHTS.sub('<weights>', value)
  return value


def identities() -> dict:
  """Folder -> files and identity, of all that `runs` leaves."""
  found = {}
  for path in sorted(pathlib.Path('.').rglob('*.json')):
    if path.name not in ('manifest.json', 'run.json'):
      continue
    value = json.loads(path.read_text())
    if 'identity' in value:
      found[path.as_posix()] = _masked(value['identity'])
    elif 'fingerprint' in value:
      found[path.as_posix()] = _masked(
          {key: value[key] for key in value if 'fingerprint' in key})
  code = re.compile('[-/](?:[0-9a-f]{12}|[0-9a-f]{8})(?=/|$)')
  names = collections.defaultdict(list)
  for name, value in found.items():
    names[code.sub('-<hash>', name)].append(value)
  return {  # Hashes of weights differ by processor, and so does their order.
      name: values[0] if len(values) == 1 else sorted(
          values, key=functools.partial(json.dumps, sort_keys=True)
      ) for name, values in names.items()
  }


def folders() -> str:
  """`artifacts.json` as text."""
  with tempfile.TemporaryDirectory() as empty, contextlib.chdir(empty):
    with contextlib.redirect_stdout(io.StringIO()):
      runs()
    return json.dumps(identities(), indent=1, sort_keys=True) + '\n'


GOLDEN = {'plans.txt': plans, 'errors.txt': mistakes, 'artifacts.json': folders}


def main() -> None:
  """Writes all files, or those that are named; elsewhere if `into=` says so."""
  os.environ.setdefault('JAX_PLATFORMS', 'cpu')
  jax.config.update('jax_platforms', 'cpu')
  into = [arg[5:] for arg in sys.argv if arg.startswith('into=')]
  folder = pathlib.Path(into[0]) if into else FOLDER
  names = [name for name in GOLDEN if name in sys.argv] or list(GOLDEN)
  for name in names:
    (folder / name).write_text(GOLDEN[name](), encoding='utf-8')
    print(folder / name)


if __name__ == '__main__':
  main()
