"""Compares strategies for hard negatives, equal in all else.

    python launch/compare_negatives.py --train_split=split-train \\
        --test_split=split-dev --source=beir:../shared/data/squad-v1.1-dev

A shared warm start is trained on in-batch negatives (all-MiniLM-L6-v2, its
first two layers, 128 tokens). From it every strategy goes on for the
same number of steps, once a seed. Beside accuracy and MRR over
the whole corpus it measures the mean rank of the positive in a fixed pool: the
top 100 of BM25 and of the warm start, and the positives. Differences to
`random` are paired by query, means over the seeds, with bootstrap intervals:
they cover the choice of queries, not that of seeds.

With `--hold_out=0.2` the queries of a fifth of the documents of the training
split are the test split (`beir:` sources that have only one split).

Each `--row` is `NAME:key=value,...` with keys of config.negatives, or
`mask=False` for config.loss.mask_known_positives; without rows it compares the
strategies of Lu et al. The same command goes on where it stopped, and
everything is kept in the workdir.
"""

import argparse
import ast
import dataclasses
import pathlib
import sys
import time
from typing import Any

import jax
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import beir_parts

from neg_contrast.artifacts import folders, plan
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import examples
from neg_contrast.evaluation import confidence, rankings
from neg_contrast.jobs import settings_of_rooms
from neg_contrast.mining import mined_negatives as negatives_lib
from neg_contrast.retrieval import bm25_search, hits, text_encoder
from neg_contrast.retrieval import embedder as embedder_lib
from neg_contrast.settings import config as config_lib
from neg_contrast.training import encoder_run

_STRATEGIES = ('coarse', 'fine', 'bm25', 'context', 'mixed')
_METRICS = ('accuracy@1', 'accuracy@5', 'accuracy@20', 'accuracy@100', 'mrr@10')
_RANK = 'mean rank'
_POOL_DEPTH = 100


def main() -> None:
  """Trains and measures every row, and prints the table."""
  args = _parse()
  jax.config.update('jax_compilation_cache_dir', str(args.workdir / 'xla'))
  jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.5)
  Comparison(args).run()


class Comparison:
  """All runs on one data set."""

  def __init__(self, args: argparse.Namespace):
    """Reads the data."""
    self._args, self._workdir = args, args.workdir
    if args.hold_out:
      _hold_out(args)
    self._base = _base_config(args)
    self._dataset = dataset_lib.Dataset(self._base.data)
    self._test = rankings.Evaluation(
        self._base.evaluation, self._dataset, self._dataset.splits.test
    )
    self._began = time.monotonic()

  def run(self) -> None:
    """Trains, measures and prints."""
    rows = dict(_parse_row(row) for row in self._args.row) or {
        name: {'strategy': name} for name in ('random', *_STRATEGIES)
    }
    warm = encoder_run.DualEncoderTraining(
        _changed(self._base, steps=self._args.warm_steps),
        self._workdir / 'warm', lambda: self._dataset,
    )
    self._do([warm.step('warm start')])
    values = {'warm start': [self._measure(warm)]}
    base = dataclasses.replace(self._base, model=dataclasses.replace(
        self._base.model, init=str(warm.workdir), layers=None
    ), optim=dataclasses.replace(  # Adam's first steps would undo the start.
        self._base.optim, learning_rate=self._args.row_learning_rate,
        schedule='linear', warmup_steps=self._args.steps // 4,
    ))
    for seed in range(self._args.seeds):
      for name, settings in rows.items():
        values.setdefault(name, []).append(
            self._row(base, name, dict(settings), seed)
        )
    self._print(values)

  def _row(self, base, name, settings, seed) -> dict[str, np.ndarray]:
    """Values by query of a row."""
    mask = settings.pop('mask', True)
    config = dataclasses.replace(
        base, loss=dataclasses.replace(base.loss, mask_known_positives=mask)
    )
    if settings.get('strategy', 'random') != 'random':
      settings = {'per_query': self._args.negatives, **settings}
    mined = dataclasses.replace(self._base, negatives=dataclasses.replace(
        self._base.negatives, **settings
    ))
    negatives = None
    if mined.negatives.sources:
      negatives = negatives_lib.Negatives(
          mined, self._workdir / 'pools' / name, lambda: self._dataset
      )
      self._do(negatives.steps())
    if mined.negatives.strategy != 'random':
      config = dataclasses.replace(config, negatives=mined.negatives)
    run = encoder_run.DualEncoderTraining(
        dataclasses.replace(config, seed=seed),
        self._workdir / 'runs' / f'{name}-{seed}', lambda: self._dataset,
        negatives,
    )
    self._do([run.step(f'{name}, seed {seed}')])
    return self._measure(run)

  def _do(self, steps) -> None:
    plan.run(steps)
    print(f'{time.monotonic() - self._began:.0f} s', flush=True)

  def _measure(
      self, run: encoder_run.DualEncoderTraining
  ) -> dict[str, np.ndarray]:
    """Metric -> `[queries] float64`; kept in the run's folder."""
    path = run.workdir / 'values.npz'
    if path.exists():
      with np.load(path) as saved:
        return dict(saved)
    rows = self._test.query_rows
    embedder = embedder_lib.Embedder(
        self._dataset, text_encoder.TextEncoder(
            run.trained, settings_of_rooms.encoding(self._base)
        ),
    )
    scores = embedder.query_vecs(rows) @ embedder.passage_vecs[:].T
    ranks = self._dataset.prepared.tie_ranks
    found = hits.top_k(scores, ranks, self._base.evaluation.depth)
    by_query = self._test.score(
        self._test.run_of(found), found
    ).per_query
    ids = [self._dataset.prepared.query_ids[row].decode() for row in rows]
    values = {name: np.array([by_query[name][i] for i in ids])
              for name in _METRICS}
    values[_RANK] = self._ranks(found, scores, run).astype(np.float64)
    np.savez(path, allow_pickle=False, **values)
    return values

  def _ranks(self, found, scores, run) -> np.ndarray:
    """The rank of each query's best positive in the fixed pool."""
    path = self._workdir / 'pool.npz'
    if not path.exists():  # The first to be measured is the warm start.
      assert run.workdir.name == 'warm'
      sparse = bm25_search.search_bm25(
          self._base.evaluation, self._dataset, self._test.query_rows,
          _POOL_DEPTH,
      )
      np.savez(path, rows=np.concatenate(
          [found.rows[:, :_POOL_DEPTH], sparse.rows], axis=1
      ))
    with np.load(path) as saved:
      pool = saved['rows']
    judged = self._test.judgements
    ranks = np.empty(len(pool))
    for line, query in enumerate(self._test.query_rows):
      own = judged.passage_rows[
          (judged.query_rows == query) & (judged.grades > 0)
      ]
      others = np.setdiff1d(pool[line][pool[line] >= 0], own)
      ranks[line] = 1 + (scores[line][others] > scores[line][own].max()).sum()
    return ranks

  def _print(self, values) -> None:
    """The table, and each row's difference to `random`."""
    names = (*_METRICS, _RANK)
    first = next(name for name in values if name != 'warm start')
    mean = {row: {name: np.mean([run[name] for run in runs], axis=0)
                  for name in names} for row, runs in values.items()}
    result: dict[str, Any] = {}
    print(f'\n{self._dataset.name}: {len(self._test.query_rows)} queries, '
          f'{len(self._dataset.prepared.passages)} passages, '
          f'{self._args.steps} steps of {self._base.data.batch_size}, '
          f'{self._args.seeds} seeds\n')
    print('| negatives | ' + ' | '.join(names) + ' |')
    print('|---' * (1 + len(names)) + '|')
    for row, by_metric in mean.items():
      print(f'| {row} | ' + ' | '.join(
          f'{by_metric[name].mean():.{2 if name == _RANK else 4}f}'
          for name in names
      ) + ' |')
    print(f'\ndifference to {first} (95% of paired bootstrap; seed by seed)\n')
    print('| negatives | ' + ' | '.join(names) + ' |')
    print('|---' * (1 + len(names)) + '|')
    for row in mean:
      if row in (first, 'warm start'):
        continue
      cells = []
      for name in names:
        low, high = confidence.interval(mean[row][name] - mean[first][name])
        each = [float(ours[name].mean() - theirs[name].mean())
                for ours, theirs in zip(values[row], values[first],
                                        strict=True)]
        separable = low > 0 or high < 0
        cells.append(f'{low:+.4f} to {high:+.4f}'
                     f'{"" if separable else " (not separable)"}; '
                     + ', '.join(f'{value:+.4f}' for value in each))
        result[f'{row}/{name}'] = {
            'value': float(mean[row][name].mean()), 'low': low, 'high': high,
            'seeds': each,
        }
      print(f'| {row} | ' + ' | '.join(cells) + ' |')
    folders.write_json(self._workdir / 'comparison.json', {
        'arguments': {key: str(value)
                      for key, value in vars(self._args).items()},
        'means': {row: {name: float(value.mean())
                        for name, value in by_metric.items()}
                  for row, by_metric in mean.items()},
        f'differences to {first}': result,
        'seconds': time.monotonic() - self._began,
        'environment': folders.environment(),
    })


def _base_config(args: argparse.Namespace) -> config_lib.Config:
  """Small on purpose: a part of MiniLM, short passages."""
  config = config_lib.base_config()
  config.data.source = args.source
  config.data.train_split, config.data.test_split = (
      args.train_split, args.test_split
  )
  if args.hold_out:  # The same hash chooses, and those documents are gone.
    config.data.tune_fraction = args.hold_out + 0.05
  config.data.batch_size = args.batch_size
  config.model.init = args.init
  config.model.layers = args.layers or None
  config.model.query_length, config.model.passage_length = 64, args.length
  config.optim.optimizer = 'adamw'
  config.optim.learning_rate = args.learning_rate
  config.optim.steps = args.steps
  config.checkpointing.save_steps = 10**6
  config.evaluation.metrics = _METRICS
  config.negatives.per_query = args.negatives
  config.negatives.strategy = 'bm25'
  config.negatives.miner_steps = args.warm_steps
  config.negatives.mined_dir = str(args.workdir / 'mined')
  parsed = config_lib.parse(config)
  return dataclasses.replace(parsed, negatives=dataclasses.replace(
      parsed.negatives, strategy='random', per_query=0
  ))


def _hold_out(args: argparse.Namespace) -> None:
  """Makes a source with a test split, by document, and names it."""
  config = config_lib.DataConfig(source=args.source)
  dataset = dataset_lib.Dataset(config)
  parts = examples.split_by_document(
      dataset.prepared, dataset.prepared.judgements(args.train_split),
      args.hold_out, dataset.documents,
  )
  args.source = beir_parts.write(
      args.source, args.workdir / 'data', dataset.prepared,
      dict(zip(('train', 'test'), parts, strict=True)),
  )
  args.train_split, args.test_split = 'train', 'test'


def _changed(config: config_lib.Config, steps: int) -> config_lib.Config:
  return dataclasses.replace(
      config, optim=dataclasses.replace(config.optim, steps=steps)
  )


def _parse_row(row: str) -> tuple[str, dict[str, Any]]:
  """`NAME:key=value,key=value`, values as in Python; words need no quotes."""
  name, _, settings = row.partition(':')
  call = ast.parse(f'dict({settings})', mode='eval').body
  assert isinstance(call, ast.Call)
  return name, {
      str(item.arg): item.value.id if isinstance(item.value, ast.Name)
      else ast.literal_eval(item.value) for item in call.keywords
  }


def _parse() -> argparse.Namespace:
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawTextHelpFormatter
  )
  add = parser.add_argument
  add('--source', required=True)
  add('--train_split', default='train')
  add('--test_split', default='test')
  add('--hold_out', type=float, default=0)
  add('--workdir', type=pathlib.Path, default='workdirs/compare')
  add('--init', default='minilm')
  add('--layers', type=int, default=2, help='of init; 0: all')
  add('--length', type=int, default=128, help='tokens of a passage')
  add('--negatives', type=int, default=2, help='N')
  add('--batch_size', type=int, default=32)
  add('--warm_steps', type=int, default=80)
  add('--steps', type=int, default=20)
  add('--seeds', type=int, default=2)
  add('--learning_rate', type=float, default=1e-4,
      help='of warm start and miners, constant')
  add('--row_learning_rate', type=float, default=5e-5,
      help='peak of the rows, linear')
  add('--row', action='append', default=[])
  return parser.parse_args()


if __name__ == '__main__':
  main()
