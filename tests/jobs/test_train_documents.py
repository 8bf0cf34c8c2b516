"""Trainings whose batches hold passages of one document (`same_document`)."""

import itertools

import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.artifacts import plan
from neg_contrast.jobs import train
from neg_contrast.jobs.common import declared_miners
from neg_contrast.settings import config as config_lib
from tests import tiny
from tests.jobs import test_mixture, test_train_shared


@pytest.fixture(scope='module')
def root(tmp_path_factory):
  return tmp_path_factory.mktemp('documents')


def batches_of(config, workdir, steps=12):
  """What a training makes its batches of, and the examples of each."""
  run = train.TrainJob(config_lib.parse(config), workdir).run
  plan.run(list(run.needs().values()))
  batcher, _ = run.training()._make_batch()
  return run, batcher, [batcher.example_numbers(step)
                        for step in range(steps)]


def lengths_of_runs(values):
  return [len(list(some)) for _, some in itertools.groupby(values)]


@pytest.mark.parametrize('together, least, most', [(1, 1, 1.5), (4, 4, 5)])
def test_a_batch_has_those_of_few_documents(
    root, tmp_path, together, least, most):
  run, batcher, numbers = batches_of(
      tiny.make_config(root, data__same_document=together), tmp_path / 'work')
  documents = run.data.load().documents[batcher.examples.positive_rows]
  lengths = lengths_of_runs(documents[np.concatenate(numbers)])
  assert least <= np.mean(lengths) < most


def test_they_are_negatives_of_each_other(root, tmp_path):
  run, batcher, numbers = batches_of(
      tiny.make_config(root, data__same_document=4, negatives__sources=()),
      tmp_path / 'work')
  documents = run.data.load().documents[batcher.examples.positive_rows]
  rivals = []
  for step, some in enumerate(numbers):
    batch, _ = batcher(step)
    of = documents[some]
    rivals.append((batch.forward_mask & (of[:, None] == of)).sum() / len(of))
  assert np.mean(rivals) > 2  # Itself, and others of its document.


def test_a_mixture_has_them_in_each_of_its_sets(root, tmp_path):
  for batches in 'one', 'mixed':
    run, batcher, numbers = batches_of(test_mixture.make_config(
        root, data__same_document=4, mixture__batches=batches,
        negatives__sources=()), tmp_path / batches)
    sets = [one.data.load() for one in run.mixture.sets]
    first = len(sets[0].prepared.passages)
    rows = batcher.examples.positive_rows[np.concatenate(numbers)]
    in_first = rows[rows < first]
    lengths = lengths_of_runs(sets[0].documents[in_first])
    assert np.mean(lengths) > 2, batches
    in_second = rows[rows >= first] - first
    titles = lengths_of_runs(sets[1].documents[in_second])
    assert np.mean(titles) > 1.5, batches


def test_any_mesh_trains_on_the_same(root, tmp_path):
  losses = []
  for data in 1, 4:
    work = tmp_path / str(data)
    tiny.train_only(root, work, data__same_document=4, mesh__data=data,
                    optim__steps=3)
    losses.append(test_train_shared.losses_of(work))
  assert losses[0].keys() == losses[1].keys() == {1, 2, 3}
  np.testing.assert_allclose(
      list(losses[0].values()), list(losses[1].values()), rtol=1e-5)


def test_data_without_documents_are_refused(root, tmp_path):
  tiny.write_beir(root / 'flat')
  lines = (root / 'flat' / 'corpus.jsonl').read_text()
  (root / 'flat' / 'corpus.jsonl').write_text(
      lines.replace('document_id', 'other'))
  config = tiny.make_config(
      root, data__source=f'beir:{root / "flat"}', data__same_document=4)
  with pytest.raises(errors.UserError) as raised:
    batches_of(config, tmp_path / 'work')
  said = str(raised.value)
  assert said.startswith(
      'config.data.same_document=4: it is not known which passages of beir:')
  assert 'Leave it out; or, if' in said and 'data.document=title' in said


def test_models_of_before_stay_the_same_models(root, tmp_path):
  identity = lambda **keys: train.TrainJob(
      config_lib.parse(tiny.make_config(root, **keys)), tmp_path).run.identity
  assert identity() == identity(data__same_document=1)
  assert identity() != identity(data__same_document=2)


def test_miners_have_shuffled_batches(root, tmp_path):
  config = config_lib.parse(tiny.make_config(
      root, data__same_document=4, negatives__sources=('fine:1',)))
  miner = declared_miners.of(
      config, train.TrainJob(config, tmp_path).run.data)
  assert config.data.same_document == 4
  assert miner.run('fine', 16).config.data.same_document == 1
