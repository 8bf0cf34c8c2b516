"""Made-up finished runs: evaluation folders as jobs leave them."""

import json
import pathlib

import numpy as np

from neg_contrast.artifacts import folders
from neg_contrast.evaluation import evaluations, per_query

METRICS = ('accuracy@1', 'mrr@10')


def write(workdir: pathlib.Path, config=None, shift=0.0, *, system='trained',
          split='test', queries=40, metrics=METRICS, passages=48, seed=0,
          state='fingerprint', log=(), rules=()):
  """A run whose values by query are random numbers of a seed, plus a shift."""
  rng = np.random.default_rng(seed)
  names = [f'q"{n}' for n in range(queries)]
  values = {metric: dict(zip(names, rng.random(queries) + shift, strict=True))
            for metric in metrics}
  manifest = {
      'identity': {'needs': {'data': {'data': state}},
                   'settings': dict(rules)},
      'key': f'data/{split}/{system}', 'queries': queries,
      'passages': passages, 'index': {},
      'metrics': {metric: float(np.mean([*of.values()]))
                  for metric, of in values.items()},
  }
  place = workdir / 'evaluation' / f'data-{split}-{system}'
  place.parent.mkdir(parents=True, exist_ok=True)
  with folders.writing(place, manifest, format=evaluations.FORMAT) as scratch:
    per_query.write(scratch / per_query.FILE, [
        per_query.Result(name, 'a query', 1, 'p', True, (), {
            metric: float(of[name]) for metric, of in values.items()})
        for name in names], metrics)
  if config is not None:
    (workdir / 'run.json').write_text(json.dumps({'config': config}))
  if log:
    (workdir / 'log.jsonl').write_text(''.join(
        json.dumps(record) + '\n' for record in log))
  return values


def rewrite(place: pathlib.Path, run, values):
  """An evaluation with other values by query."""
  manifest = {
      'identity': {'needs': {'data': run.state[1]}, 'settings': {}},
      'key': f'{run.dataset}/{run.system}', 'queries': 40,
      'passages': run.state[0], 'index': {}, 'metrics': run.means}
  names = list(dict.fromkeys(name for of in values.values() for name in of))
  with folders.writing(place, manifest, format=evaluations.FORMAT) as scratch:
    per_query.write(scratch / per_query.FILE, [
        per_query.Result(name, 'a query', 1, 'p', True, (), {
            metric: of[name] for metric, of in values.items() if name in of})
        for name in names], [*values])


def config_of(seed=0, strategy='bm25', **more):
  """A config as `run.json` holds it."""
  return {'job': 'train', 'workdir': f'workdirs/{strategy}{seed}',
          'seed': seed, 'negatives': {
              'sources': [] if strategy == 'random' else [f'{strategy}:2'],
              'mined_dir': 'm'},
          'optim': {'learning_rate': 1e-4}, **more}
