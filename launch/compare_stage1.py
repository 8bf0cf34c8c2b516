r"""Compares what stage 1 can be trained on, on one data set, with intervals.

    python launch/compare_stage1.py --train_split=split-train \
        --source=beir:../shared/data/squad-v1.1-dev --test_split=split-dev \
        --generator=workdirs/squad_generator-small

Every row is stage 1 on one kind of pairs and then stage 2 on gold pairs, both
with the rows of the batch as the only negatives and of equal numbers of steps
and pairs; `none` is stage 2 alone. Each is done from `--init` and per seed, and
measured once, at the end. Differences are to `none`, by a paired bootstrap over
the queries of the test split.

`--generator` names a trained question generator, whose questions are the row
`generated`; without it there is no such row. Small on purpose, and resumable:
finished runs are kept in the workdir. Of shallow models and short runs like
these nothing follows for large ones but how to compare.
"""

import argparse
import dataclasses
import pathlib
import re
import sys
import time
from typing import Any

import jax
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from neg_contrast.artifacts import folders, plan
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.evaluation import confidence, rankings
from neg_contrast.jobs import settings_of_rooms
from neg_contrast.models import by_name as model_lib
from neg_contrast.retrieval import embedder as embedder_lib
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.retrieval import text_encoder
from neg_contrast.settings import config as config_lib
from neg_contrast.stage1 import pairs, questions
from neg_contrast.training import encoder_run

_METRICS = ('accuracy@1', 'accuracy@5', 'accuracy@20', 'accuracy@100', 'mrr@10')
_NONE = 'none'


def main() -> None:
  """Trains and measures every row, and prints the table."""
  args = _parse()
  jax.config.update('jax_compilation_cache_dir', str(args.workdir / 'xla'))
  jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.5)
  Comparison(args).run()


class Comparison:
  """All rows on one data set, from one initial checkpoint."""

  def __init__(self, args: argparse.Namespace):
    """Reads the data."""
    self._args, self._workdir = args, args.workdir
    self._base = _base_config(args)
    self._gold = dataset_lib.Dataset(self._base.data)
    self._test = rankings.Evaluation(
        self._base.evaluation, self._gold, self._gold.splits.test
    )
    self._name = re.sub(r'[^\w.-]+', '-', args.init)
    self._began = time.monotonic()

  def run(self) -> None:
    """Trains, measures and prints."""
    kinds = [_NONE, *config_lib.PRETEXTS]
    kinds += ['generated'] if self._args.generator else []
    values: dict[str, list[dict[str, np.ndarray]]] = {}
    for seed in range(self._args.seeds):
      for kind in kinds:
        values.setdefault(kind, []).append(self._row(kind, seed))
        print(f'{time.monotonic() - self._began:.0f} s', flush=True)
    self._print(values)

  def _row(self, kind: str, seed: int) -> dict[str, np.ndarray]:
    """Metric -> `[queries] float64`; kept beside the run."""
    place = self._workdir / 'runs' / f'{self._name}-{kind}-{seed}'
    path = place / 'values.npz'
    if path.exists():
      with np.load(path) as saved:
        return dict(saved)
    base = dataclasses.replace(self._base, seed=seed)
    init: dict[str, Any] = {}
    if kind != _NONE:
      stage1 = encoder_run.DualEncoderTraining(
          _changed(base, 'optim', steps=self._args.stage1_steps),
          place / 'stage1', lambda: self._pairs(kind),
      )
      plan.run([stage1.step(f'{kind}, seed {seed}, stage 1')])
      init = {'init': str(stage1.workdir), 'layers': None}
    run = encoder_run.DualEncoderTraining(
        _changed(_changed(base, 'model', **init), 'optim',
                 steps=self._args.steps),
        place / 'stage2', lambda: self._gold,
    )
    plan.run([run.step(f'{kind}, seed {seed}, stage 2')])
    embedder = embedder_lib.Embedder(
        self._gold, text_encoder.TextEncoder(
            run.trained, settings_of_rooms.encoding(self._base)
        ),
    )
    found = retriever_lib.Retriever(
        settings_of_rooms.search(self._base), self._gold, embedder
    ).search_rows(self._test.query_rows, self._base.evaluation.depth)
    by_query = self._test.score(
        self._test.run_of(found), found
    ).per_query
    ids = [self._gold.prepared.query_ids[row].decode()
           for row in self._test.query_rows]
    values = {name: np.array([by_query[name][i] for i in ids])
              for name in _METRICS}
    np.savez(path, allow_pickle=False, **values)
    return values

  def _pairs(self, kind: str) -> dataset_lib.Dataset:
    """The data of stage 1, made where it is missing."""
    config = _changed(
        dataclasses.replace(self._base, checkpoint=self._args.generator),
        'synthetic', pairs=kind,
        per_passage=self._args.questions if kind == 'generated' else 1,
    )
    asked = None if kind != 'generated' else questions.Questions(
        config, lambda: self._gold,
        lambda: model_lib.load_generator(
            self._args.generator, config.model, config.seed
        ),
    )
    made = pairs.Synthetic(config, lambda: self._gold, asked)
    plan.run(made.steps())
    return made.dataset

  def _print(self, values: dict[str, list[dict[str, np.ndarray]]]) -> None:
    mean = {row: {name: np.mean([run[name] for run in runs], axis=0)
                  for name in _METRICS} for row, runs in values.items()}
    args, result = self._args, dict[str, dict[str, Any]]()
    print(f'\n{self._gold.name} from {args.init}: '
          f'{len(self._test.query_rows)} queries, '
          f'{len(self._gold.prepared.passages)} passages, {args.stage1_steps} '
          f'+ {args.steps} steps of {args.batch_size}, {args.seeds} seeds\n')
    print('| stage 1 | ' + ' | '.join(_METRICS)
          + ' | accuracy@1 - none, 95%; by seed |')
    print('|---' + '|---:' * len(_METRICS) + '|---|')
    for row, by_metric in mean.items():
      cells = [f'{by_metric[name].mean():.4f}' for name in _METRICS]
      for name in _METRICS:
        if row == _NONE:
          continue
        low, high = confidence.interval(by_metric[name] - mean[_NONE][name])
        each = [float(ours[name].mean() - theirs[name].mean()) for ours, theirs
                in zip(values[row], values[_NONE], strict=True)]
        result[f'{row}/{name}'] = {'low': low, 'high': high, 'seeds': each}
      told = result.get(f'{row}/accuracy@1')
      cells.append('' if told is None else (
          f'{told["low"]:+.4f} to {told["high"]:+.4f}; '
          + ', '.join(f'{value:+.4f}' for value in told['seeds'])
      ))
      print(f'| {row} | ' + ' | '.join(cells) + ' |')
    folders.write_json(self._workdir / f'{self._name}.json', {
        'arguments': {key: str(value) for key, value in vars(args).items()},
        'means': {row: {name: float(value.mean())
                        for name, value in by_metric.items()}
                  for row, by_metric in mean.items()},
        'differences to none': result,
        'seconds': time.monotonic() - self._began,
        'environment': folders.environment(),
    })


def _base_config(args: argparse.Namespace) -> config_lib.Config:
  config = config_lib.base_config()
  config.data.source = args.source
  config.data.train_split, config.data.test_split = (
      args.train_split, args.test_split
  )
  config.data.prepared_dir = str(args.workdir / 'prepared')
  config.data.batch_size = args.batch_size
  config.model.init = args.init
  config.model.layers = args.layers or None
  config.model.query_length, config.model.passage_length = 64, args.length
  config.synthetic.dir = str(args.workdir / 'synthetic')
  config.optim.optimizer = 'adamw'
  config.optim.learning_rate = args.learning_rate
  config.optim.schedule, config.optim.steps = 'linear', args.steps
  config.optim.warmup_steps = args.warmup_steps
  config.checkpointing.save_steps = 10**6
  config.evaluation.metrics = _METRICS
  return config_lib.parse(config)


def _changed(config: config_lib.Config, section: str, **values: Any):
  """A config with some keys of a section changed."""
  return dataclasses.replace(config, **{
      section: dataclasses.replace(getattr(config, section), **values)
  })


def _parse() -> argparse.Namespace:
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawTextHelpFormatter
  )
  add = parser.add_argument
  add('--source', required=True)
  add('--train_split', default='train')
  add('--test_split', default='test')
  add('--workdir', type=pathlib.Path,
      default=pathlib.Path('workdirs/compare_stage1'))
  add('--generator', default='', help='workdir of a question generator')
  add('--questions', type=int, default=3, help='generated for a passage')
  add('--init', default='minilm')
  add('--layers', type=int, default=2, help='of init; 0: all')
  add('--length', type=int, default=128, help='tokens of a passage')
  add('--batch_size', type=int, default=32)
  add('--stage1_steps', type=int, default=24)
  add('--steps', type=int, default=12)
  add('--warmup_steps', type=int, default=3)
  add('--seeds', type=int, default=2)
  add('--learning_rate', type=float, default=1e-4, help='peak, then linear')
  return parser.parse_args()


if __name__ == '__main__':
  main()
