"""Score functions and hard-negative NCE in the one training loop."""

import jax.numpy as jnp
import numpy as np
import pytest

from neg_contrast import errors, jobs, sharding
from neg_contrast.artifacts import folders as folders_lib
from neg_contrast.artifacts import plan
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import examples
from neg_contrast.jobs import train
from neg_contrast.jobs.common import settings_of_rooms
from neg_contrast.models import by_name as model_lib
from neg_contrast.negatives import sampled, sampling, sources
from neg_contrast.negatives.sources import sampled_source
from neg_contrast.retrieval import device_scan, mesh_search, text_encoder
from neg_contrast.retrieval import embedder as embedder_lib
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.settings import config as config_lib
from neg_contrast.training import run_log, state
from tests import tiny
from tests.jobs import test_train

NCE = {'loss__candidates': 'own', 'loss__bidirectional': False,
       'loss__scale': 1.5, 'model__shared': False, 'model__normalize': False,
       'negatives__sources': ('sampled:7',),
       'evaluation__bm25': False, 'checkpointing__save_steps': 100,
       'mesh__data': 1, 'data__groups': 1, 'optim__steps': 8,
       'evaluation__eval_steps': 8}
SCORES = ['dual', 'multi-4', 'poly-3', 'genpoly-3', 'som']


@pytest.fixture(scope='module')
def root(tmp_path_factory):
  """A folder for a corpus and a model."""
  return tmp_path_factory.mktemp('scores')


class Parts:
  """What drawing negatives is made of, for a model with random weights."""

  def __init__(self, root, work, run='', **overrides):
    self.config = config_lib.parse(
        tiny.make_config(root, **{**NCE, **overrides})
    )
    self.dataset = dataset_lib.Dataset(self.config.data)
    self.model = model_lib.load_checkpoint(
        self.config.model.init, self.config.model, self.config.seed
    )
    self.pairs = examples.make_examples(
        self.dataset.prepared, self.dataset.train_and_tune[0]
    )
    config = self.config
    self.negatives = sources.SOURCES['sampled'](sources.Material(
        config.negatives, config.loss, config.seed, config.data.batch_size,
        self.dataset, self.pairs, None, {},
        sharding.make_local_mesh(config.mesh),
        self.embed, work, run=run, count=config.negatives.per_query,
    ))
    self.params = state.dual_encoder_params(self.model.params, None)

  def embed(self, params, rows):
    encoder = text_encoder.TextEncoder(
        self.model, settings_of_rooms.encoding(self.config)
    )
    return embedder_lib.Embedder(
        self.dataset, encoder.with_params(params), rows=rows
    )

  def embedder(self):
    return embedder_lib.Embedder(
        self.dataset, text_encoder.TextEncoder(
            self.model, settings_of_rooms.encoding(self.config)
        ),
    )

  def scores_and_usable(self):
    embedder = self.embedder()
    scores = self.model.spec.score(
        jnp.asarray(embedder.query_vecs(self.pairs.query_rows)),
        jnp.asarray(np.asarray(embedder.passage_vecs)),
    )
    known = self.pairs.positive_groups[self.pairs.query_rows]
    groups = self.dataset.prepared.passage_groups
    usable = ~(groups[None, :, None] == known[:, None, :]).any(2)
    return self.config.loss.scale * scores, usable


@pytest.mark.parametrize(('score', 'percent', 'greedy', 'blocks'), [
    ('dual', 100, False, 'small'), ('som', 50, False, 'small'),
    ('poly-3', 50, True, 'small'), ('som', 50, False, 'whole'),
])
def test_negatives_are_those_of_the_sampler(
    root, tmp_path, monkeypatch, score, percent, greedy, blocks
):
  """Of all labels at once; streamed in blocks over 4 devices."""
  parts = Parts(root, tmp_path, model__score=score, mesh__data=4,
                data__groups=4, negatives__greedy=greedy,
                negatives__hard_percent=float(percent))
  if blocks == 'small':
    features = parts.model.spec.features('passage')
    monkeypatch.setattr(mesh_search, '_BLOCK_BYTES', 4 * features * 5)
    monkeypatch.setattr(device_scan, '_PART_BYTES', 4 * features * 10)
    monkeypatch.setattr(sampled, '_EXAMPLES_AT_ONCE', 10)
  how = sampling.mixed(7, percent, greedy)
  scores, usable = parts.scores_and_usable()
  count = len(parts.pairs)
  for epoch in (0, 1):
    step = epoch * parts.negatives.refresh_steps
    parts.negatives.refresh(parts.params, step)
    found = parts.negatives.draw(
        step, np.arange(count), parts.pairs.query_rows
    )
    want = sampling.draw(
        sampling.draw_key(parts.config.seed, epoch), np.arange(count), scores,
        usable, how,
    )
    np.testing.assert_array_equal(found.rows, want.rows)
    assert (found.sources == np.repeat(
        [0, 1], [how.hard, how.random])).all()
    assert np.take_along_axis(usable, found.rows, axis=1).all()


def test_random_negatives_need_no_vectors(root, tmp_path, monkeypatch):
  parts = Parts(root, tmp_path, negatives__hard_percent=0.0)
  scores, usable = parts.scores_and_usable()
  monkeypatch.setattr(embedder_lib, 'Embedder', None)
  parts.negatives.refresh(parts.params, 0)
  count = len(parts.pairs)
  found = parts.negatives.draw(0, np.arange(count), parts.pairs.query_rows)
  np.testing.assert_array_equal(found.rows, sampling.draw(
      sampling.draw_key(parts.config.seed, 0), np.arange(count), scores, usable,
      sampling.mixed(7, 0),
  ).rows)


def test_adjusted_draws_are_to_the_bit_those_of_one_device(
    root, tmp_path, monkeypatch
):
  features = Parts(root, tmp_path).model.spec.features('passage')
  monkeypatch.setattr(mesh_search, '_BLOCK_BYTES', 4 * features * 5)
  monkeypatch.setattr(device_scan, '_PART_BYTES', 4 * features * 10)
  made = []
  for devices in (1, 4):
    parts = Parts(root, tmp_path / str(devices), loss__adjusted=True,
                  mesh__data=devices, data__groups=4)
    parts.negatives.refresh(parts.params, 0)
    made.append(parts.negatives.draw(
        0, np.arange(len(parts.pairs)), parts.pairs.query_rows))
  for name in ('rows', 'log_proposal'):
    one, four = (getattr(drawn, name) for drawn in made)
    np.testing.assert_array_equal(one, four)


def test_adjusted_draws_tell_their_chance(root, tmp_path):
  parts = Parts(root, tmp_path, loss__adjusted=True)
  parts.negatives.refresh(parts.params, 0)
  found = parts.negatives.draw(0, np.arange(5), parts.pairs.query_rows[:5])
  scores, usable = parts.scores_and_usable()
  masked = np.where(usable, np.asarray(scores, np.float64), -np.inf)
  want = masked - np.log(np.exp(masked).sum(axis=1, keepdims=True))
  np.testing.assert_allclose(
      found.log_proposal, np.take_along_axis(want[:5], found.rows, axis=1),
      rtol=1e-4, atol=1e-4,
  )


def test_lost_negatives_are_told_of(root, tmp_path):
  parts = Parts(root, tmp_path)
  with pytest.raises(errors.UserError, match='sampled/00000: .* put them back'):
    parts.negatives.draw(0, np.arange(2), parts.pairs.query_rows[:2])


def test_draws_of_another_training_are_not_taken(root, tmp_path):
  """Of a workdir whose checkpoints were deleted, and no more."""
  def rows(parts):
    return parts.negatives.draw(
        0, np.arange(5), parts.pairs.query_rows[:5]).rows

  first = Parts(root, tmp_path / 'kept', run='a', negatives__hard_percent=0.0)
  first.negatives.refresh(first.params, 0)
  before = rows(first)
  other = {'run': 'b', 'seed': 1, 'negatives__hard_percent': 0.0}
  second, alone = (Parts(root, tmp_path / place, **other)
                   for place in ('kept', 'alone'))
  with pytest.raises(errors.UserError, match='put them back'):
    rows(second)
  for parts in (second, alone):
    parts.negatives.refresh(parts.params, 0)
  np.testing.assert_array_equal(rows(second), rows(alone))
  assert (before != rows(second)).any()


@pytest.mark.parametrize('score', SCORES)
def test_search_goes_by_the_score(root, tmp_path, score):
  parts = Parts(root, tmp_path, model__score=score)
  embedder = parts.embedder()
  retriever = retriever_lib.Retriever(
      settings_of_rooms.search(parts.config), parts.dataset, embedder
  )
  rows = np.arange(6, dtype=np.int32)
  found = retriever.search_rows(rows, 48)
  want = np.asarray(parts.model.spec.score(
      jnp.asarray(embedder.query_vecs(rows)),
      jnp.asarray(np.asarray(embedder.passage_vecs)),
  ))
  np.testing.assert_allclose(
      found.scores, np.take_along_axis(want, found.rows, axis=1), atol=1e-4
  )
  assert (np.diff(found.scores, axis=1) <= 0).all()
  np.testing.assert_allclose(
      retriever.score(embedder.query_vecs(rows), found.rows), found.scores,
      atol=1e-4,
  )
  text = parts.dataset.prepared.queries[0].text
  assert retriever.find(text, 3)[0].match[1] > 0


def drawn(workdir):
  """Rows of every epoch, `[epochs, examples, K - 1]`."""
  folders = sorted((workdir / sampled_source.FOLDER).glob('*'))
  return np.stack([np.load(folder / 'rows.npy') for folder in folders
                   if folders_lib.read_manifest(folder)])


def test_a_run_stopped_between_epochs_goes_on_the_same(
    root, tmp_path, monkeypatch
):
  config = tiny.make_config(
      root, model__score='multi-3', loss__adjusted=True, **NCE
  )
  tiny.run(train.TrainJob, config, tmp_path / 'whole')
  rows = drawn(tmp_path / 'whole')
  told = {one['step'] - 1: one['refresh'] for one in run_log.read(
      tmp_path / 'whole' / run_log.FILE) if 'refresh' in one}
  assert len(told) == len(rows)
  for facts, epoch in zip(told.values(), rows, strict=True):
    assert facts['passages'] == 48
    often = np.unique(epoch[epoch >= 0], return_counts=True)[1]
    assert facts['hubness'] == {
        'most_drawn': often.max() / often.sum(),
        'distinct': len(often) / often.sum()}
  assert len(rows) >= 2 and not np.array_equal(rows[0], rows[1])
  refresh = sampled_source.Sampled.refresh

  def stop(self, params, step):
    if step:
      raise KeyboardInterrupt
    refresh(self, params, step)

  monkeypatch.setattr(sampled_source.Sampled, 'refresh', stop)
  folders_lib.make_folder(tmp_path / 'work')
  run_of = lambda: train.TrainJob(
      config_lib.parse(config), tmp_path / 'work').run
  with pytest.raises(KeyboardInterrupt):
    plan.run([run_of()])
  monkeypatch.undo()
  plan.run([run_of()])
  test_train.assert_same_run(tmp_path / 'whole', tmp_path / 'work', 8)
  np.testing.assert_array_equal(drawn(tmp_path / 'work'), rows)


@pytest.mark.parametrize(('overrides', 'told'), [
    ({'loss__bidirectional': True}, 'loss.bidirectional=False'),
    ({'negatives__sources': ()}, 'there are none'),
    ({'loss__adjusted': True, 'negatives__hard_percent': 50.0},
     'hard_percent=100'),
    ({'loss__adjusted': True, 'loss__candidates': 'batch'}, 'candidates=own'),
    ({'negatives__hard_percent': 101.0}, 'between 0 and 100'),
    ({'model__score': 'max'}, 'must be dual, som'),
])
def test_what_does_not_go_together_is_refused(root, overrides, told):
  config = tiny.make_config(root, **{**NCE, **overrides})
  with pytest.raises(errors.UserError, match=told):
    jobs.check(config_lib.parse(config))


@pytest.mark.parametrize(('overrides', 'told'), [
    ({'model__score': 'poly-2', 'model__shared': True}, 'shared=False'),
    ({'model__score': 'som', 'model__pooling': 'mean'}, 'pooling=cls'),
])
def test_towers_that_a_score_cannot_have_are_refused(
    root, tmp_path, overrides, told
):
  with pytest.raises(errors.UserError, match=told):
    Parts(root, tmp_path, **overrides)
