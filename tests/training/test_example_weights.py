"""Weights of judgements reach the batches of a training, and its loss."""

from typing import Any

import numpy as np
import pytest

from neg_contrast.artifacts import plan
from neg_contrast.jobs import train
from neg_contrast.settings import config as config_lib
from neg_contrast.training import run_log
from tests import tiny

WEIGHTS = (0.25, 1.0, 4.0)


def weigh(folder):
  """Adds weights to the judgements of the tiny corpus, grades 1 and 2."""
  tiny.make_config(folder)
  for path in (folder / 'data' / 'qrels').iterdir():
    header, *lines = path.read_text().splitlines()
    rows = [f'{line}\t{WEIGHTS[n % 3]}' for n, line in enumerate(lines)]
    path.write_text('\n'.join([f'{header}\tweight', *rows, '']))


@pytest.mark.parametrize('kind', ['train', 'train_reranker'])
def test_batches_have_the_weights_of_the_data(tmp_path, kind):
  from neg_contrast.jobs import train_reranker

  weigh(tmp_path)
  job_type: Any = {'train': train.TrainJob,
                   'train_reranker': train_reranker.TrainRerankerJob}[kind]
  seen = {}
  for value in ('given', 'graded', 'equal'):
    config = tiny.make_config(
        tmp_path, loss__example_weights=value, job=kind,
        negatives__sources=('bm25:2',),
        negatives__mined_dir=str(tmp_path / 'mined'))
    job = job_type(config_lib.parse(config), tmp_path / value)
    plan.run([need for need in job.run.needs().values()])
    make_batch, _ = job.run.training()._make_batch()
    examples = make_batch.examples
    seen[value] = make_batch(1)[0].weights
  assert seen['equal'] is None
  assert {*seen['given'].tolist()} <= {*WEIGHTS}
  assert len({*seen['given'].tolist()}) > 1
  np.testing.assert_array_equal(seen['graded'], seen['given'])  # Grade 1.
  assert examples.weights is None


def test_a_training_minimises_a_weighted_loss(tmp_path):
  weigh(tmp_path)
  losses = {}
  for value in ('given', 'equal'):
    tiny.train_only(tmp_path, tmp_path / value, optim__steps=2,
                    loss__example_weights=value, negatives__sources=())
    read = run_log.read(tmp_path / value / run_log.FILE)
    losses[value] = [one['loss'] for one in read if 'loss' in one]
  assert len(losses['given']) == len(losses['equal']) > 0
  assert np.abs(np.subtract(losses['given'], losses['equal'])).max() > 1e-4
