"""Compares score functions, and negatives to train them with, on mentions.

    python launch/compare_scores.py --test_split=dev \\
        --source=beir:../shared/data/ncbi-disease-el

Table 1 of Zhang and Stratos, "Understanding Hard Negatives in Noise Contrastive
Estimation", for two cores: DUAL, POLY-16, MULTI-8 and SOM by Random, Hard and
Mixed-50 negatives, each trained by the same number of steps on the same
mentions from the same checkpoint (all-MiniLM-L6-v2), with [CLS] and plain dot
products as in the paper. SOM's sum over the 32 tokens of a mention is divided
by 32: MiniLM's vectors are long, and the sum of their products has all of the
softmax at once. Every cell is `configs/ncbi_retriever.py` with other arguments,
and a workdir of its own. JOINT, `configs/ncbi_reranker.py`, is then trained on
the top entities of the cell whose accuracy@64 came out best on the queries that
JOINT is measured on as well, and ranks them anew.

`--mentions` mentions of the training split are trained on, drawn by seed 0.
With `--tune` all is measured on as many others of it, and not on the test
split, to choose the learning rate (`--rate`) and `--scale` by, for all cells or
for one score function (`--rate=som=1e-4`).

The same command goes on where it stopped, and everything is kept in the
workdir.
"""

import argparse
import csv
import json
import pathlib
import runpy
import sys
import time

import jax
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import beir_parts

from neg_contrast import jobs
from neg_contrast.artifacts import folders as folders_lib
from neg_contrast.artifacts import plan
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.evaluation import confidence, per_query
from neg_contrast.settings import config as config_lib

_SCORES = ('dual', 'poly-16', 'multi-8', 'som')
_NEGATIVES = ('random', 'hard', 'mixed-50')
_METRICS = ('accuracy@1', 'accuracy@10', 'accuracy@64')
_CONFIGS = pathlib.Path(__file__).parents[1] / 'configs'
_UNTRAINED = ('bm25', 'initial')


def main() -> None:
  """Trains and measures every cell, and prints the table."""
  args = _parse()
  jax.config.update('jax_compilation_cache_dir', str(args.workdir / 'xla'))
  jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.5)
  _sample_mentions(args)
  seconds: dict[str, float] = {}
  folders: dict[tuple[str, str], pathlib.Path] = {}
  for score in args.scores:
    for negatives in args.negatives:
      began = time.monotonic()
      folder = args.workdir / f'{score}-{negatives}'
      folders[score, negatives] = folder
      config = _make(args, 'ncbi_retriever', score=score, negatives=negatives)
      _run(config, folder, with_untrained=negatives == args.negatives[0])
      seconds[folder.name] = time.monotonic() - began
      print(f'{folder.name}: {seconds[folder.name]:.0f} s', flush=True)
  _print(args, folders)
  if args.joint_steps:
    best = max(folders.values(), key=lambda folder: _values(
        args, folder, 'trained')['accuracy@64'].mean())
    began = time.monotonic()
    config = _make(args, 'ncbi_reranker')
    config.checkpoint = str(best)
    config.optim.steps = args.joint_steps
    config.negatives.mined_dir = str(args.workdir / 'mined')
    folder = args.workdir / f'joint-{best.name}'
    _run(config, folder)
    seconds[folder.name] = time.monotonic() - began
    print(f'\nJOINT on the top 64 of {best.name}, {args.joint_steps} steps')
    for name, value in json.loads(
        (folder / 'metrics.json').read_text()
    ).items():
      print(f'{name}: {value:.4f}')
  print('\nseconds of this run: ' + ', '.join(
      f'{name} {value:.0f}' for name, value in seconds.items()
  ) + f'; {sum(seconds.values()):.0f} in all', flush=True)


def _make(args: argparse.Namespace, name: str, **arguments: str):
  """The config of a cell, or of the reranker."""
  arg = ','.join(f'{key}={value}' for key, value in
                 {'size': 'small', **arguments}.items())
  config = runpy.run_path(str(_CONFIGS / f'{name}.py'))['get_config'](arg)
  score = arguments.get('score', 'joint')
  config.data.source = f'beir:{args.workdir / "data"}'
  config.data.tune_split = 'spare'  # Evaluated never.
  config.data.test_split = 'tune' if args.tune else args.test_split
  config.data.prepared_dir = str(args.workdir / 'prepared')
  config.data.batch_size = args.batch_size
  config.data.groups = 1
  config.model.init = args.init
  config.model.layers = args.layers or None
  config.model.query_length, config.model.passage_length = args.lengths
  config.model.dtype = args.dtype
  config.negatives.per_query = args.candidates - 1
  config.optim.steps = args.steps
  config.optim.learning_rate = _for(args.rate, score)
  config.optim.schedule = 'linear'
  config.optim.warmup_steps = args.steps // 10
  config.evaluation.eval_steps = 0
  config.checkpointing.save_steps = 10**6
  config.checkpointing.log_steps = 10
  if name == 'ncbi_reranker':
    config.negatives.pool_size = args.candidates - 1
    config.negatives.depth = 2 * args.candidates
  else:
    config.model.pooling = 'cls'
    config.model.normalize = False
    config.loss.scale = _for(args.scale, score)
    config.negatives.refresh_epochs = args.refresh_epochs
    config.evaluation.metrics = _METRICS
  return config


def _run(config, folder: pathlib.Path, with_untrained: bool = True) -> None:
  folders_lib.make_folder(folder)
  job = jobs.make_job(config_lib.parse(config), folder)
  plan.run([step for step in job.steps()
            if with_untrained or step.name not in _UNTRAINED])
  job.finish()


def _for(values: list[str], score: str) -> float:
  """The last value that is of all scores, or of this one."""
  found = [value.rpartition('=') for value in values]
  return float([value for name, _, value in found if name in ('', score)][-1])


def _sample_mentions(args: argparse.Namespace) -> None:
  """Makes a source of fewer mentions to train on, and as many to tune on."""
  dataset = dataset_lib.Dataset(config_lib.DataConfig(
      source=args.source, prepared_dir=str(args.workdir / 'prepared')
  ))
  prepared, count = dataset.prepared, args.mentions
  judged = prepared.judgements(args.train_split)
  order = np.random.default_rng(0).permutation(judged.queries)
  beir_parts.write(args.source, args.workdir / 'data', prepared, {
      split: judged.select(np.isin(judged.query_rows, rows))
      for split, rows in (('train', order[:count]),
                          ('tune', order[count : 2 * count]),
                          ('spare', order[2 * count : 3 * count]))
  } | {args.test_split: prepared.judgements(args.test_split)})


def _values(
    args: argparse.Namespace, folder: pathlib.Path, system: str
) -> dict[str, np.ndarray]:
  """Metric -> `[queries] float64` of a system of a cell."""
  split = 'tune' if args.tune else args.test_split
  path = folder / 'evaluation' / f'data-{split}-{system}' / 'per_query.tsv'
  by_metric = per_query.read(path)
  return {name: np.array([value for _, value in sorted(
      by_metric[name].items())]) for name in _METRICS}


def _print(
    args: argparse.Namespace, folders: dict[tuple[str, str], pathlib.Path]
) -> None:
  """The table, and what tells a cell from the first of its score function."""
  first = args.negatives[0]
  paper = {(row['model'].lower(), row['negatives'].lower(), row['split']):
           row['value'] for row in csv.DictReader(
               (_CONFIGS / 'zhang_stratos.csv').open())
           if row['table'] == '1'}
  print('\n| score | negatives | ' + ' | '.join(_METRICS)
        + f' | accuracy@64 - {first}, 95% | paper, val | test |')
  print('|---|---|' + '---:|' * len(_METRICS) + '---|---:|---:|')
  untrained = {'BM25': (args.scores[0], 'bm25'), **{
      score: (score, 'initial') for score in args.scores}}
  for name, (score, system) in untrained.items():
    values = _values(args, folders[score, first], system)
    _print_row(name if system == 'bm25' else score.upper(),
               'none' if system == 'initial' else '', values, '',
               paper.get((name.lower(), '', 'val'), ''),
               paper.get((name.lower(), '', 'test'), ''))
  for (score, negatives), folder in folders.items():
    values = _values(args, folder, 'trained')
    base = _values(args, folders[score, first], 'trained')
    low, high = confidence.interval(
        values['accuracy@64'] - base['accuracy@64'])
    _print_row(score.upper(), negatives.capitalize(), values,
               '' if negatives == first else f'{low:+.4f} to {high:+.4f}',
               *(paper.get((score, negatives, split), '')
                 for split in ('val', 'test')))


def _print_row(score, negatives, values, *others) -> None:
  numbers = [f'{values[name].mean():.4f}' for name in _METRICS]
  print(f'| {" | ".join([score, negatives, *numbers, *others])} |', flush=True)


def _parse() -> argparse.Namespace:
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawTextHelpFormatter
  )
  add = parser.add_argument
  add('--source', required=True)
  add('--train_split', default='train')
  add('--test_split', default='test')
  add('--tune', action='store_true')
  add('--workdir', type=pathlib.Path, default='workdirs/compare_scores')
  add('--init', default='minilm')
  add('--layers', type=int, default=0, help='of init; 0: all')
  add('--lengths', type=int, nargs=2, default=(32, 32),
      help='tokens of mentions and concepts')
  add('--dtype', default='bfloat16')
  add('--scores', nargs='+', default=list(_SCORES))
  add('--negatives', nargs='+', default=list(_NEGATIVES))
  add('--mentions', type=int, default=500)
  add('--candidates', type=int, default=8, help='K')
  add('--batch_size', type=int, default=8)
  add('--steps', type=int, default=60)
  add('--joint_steps', type=int, default=60, help='0: no JOINT')
  add('--refresh_epochs', type=float, default=0.5,
      help='passes over the mentions between draws of hard negatives')
  add('--rate', action='append', default=['1e-4'])
  add('--scale', action='append', default=['1', 'som=0.03125'])
  return parser.parse_args()


if __name__ == '__main__':
  main()
