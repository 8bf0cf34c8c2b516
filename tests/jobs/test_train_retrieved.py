"""LTRe: queries are trained against what they find in the whole corpus."""

import re
import shutil

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest

from neg_contrast import errors
from neg_contrast.artifacts import checkpoints, plan
from neg_contrast.jobs import train
from neg_contrast.losses import table_search
from neg_contrast.models import by_name
from neg_contrast.settings import config as config_lib
from neg_contrast.training import encoder_run, run_log
from tests import tiny
from tests.jobs import test_train

LTRE = {'model__shared': False, 'model__freeze': 'passage',
        'negatives__sources': ('retrieved:5',),
        'loss__candidates': 'own', 'loss__bidirectional': False,
        'optim__steps': 6}


def records(workdir):
  return [r for r in run_log.read(workdir / run_log.FILE) if 'loss' in r]


def write_own_passages(folder):
  """Each query is a passage that it begins like; the next one answers it."""
  tiny.write_beir(folder)
  queries = folder / 'queries.jsonl'
  queries.write_text(
      re.sub(r'"q(\d+)-(\d+)"', r'"d\1p\2"', queries.read_text()))
  for qrels in (folder / 'qrels').iterdir():
    qrels.write_text(re.sub(
        r'^q(\d+)-(\d+)(\td\d+p)\d+(\t\d)$', lambda one: (
            f'd{one[1]}p{one[2]}{one[3]}{(int(one[2]) + 1) % 4}{one[4]}'),
        qrels.read_text(), flags=re.M))


@pytest.fixture(scope='module')
def finished(tmp_path_factory):
  """A finished run, and a copy of it at step 3 of 6."""
  root = tmp_path_factory.mktemp('ltre')
  write_own_passages(root / 'data')
  with test_train.copied_at(3, root / 'work', root / 'cut'):
    tiny.run(train.TrainJob, tiny.make_config(root, **LTRE), root / 'work')
  return root


@pytest.mark.parametrize(('changes', 'is_other'), [
    ({'index__embedding_dtype': 'bfloat16'}, True),
    ({'index__block_rows': 7}, False),
])
def test_how_searched_vectors_are_kept_counts(finished, changes, is_other):
  config = tiny.make_config(finished, **LTRE, **changes)
  job = train.TrainJob(config_lib.parse(config), finished / 'work')
  if is_other:
    with pytest.raises(errors.UserError, match=r"stored: None .*'bfloat16'"):
      job.run.is_made()
  else:
    assert job.run.is_made()


def test_queries_alone_are_trained(finished):
  began = by_name.load_start(config_lib.parse(
      tiny.make_config(finished, **LTRE)).model, 0)
  model = by_name.load_workdir(finished / 'work')
  same = lambda a, b: bool((np.asarray(a) == np.asarray(b)).all())
  towers = {name: jax.tree.leaves(jax.tree.map(
      same, model.params[name], began.params[name]
  )) for name in ('query', 'passage')}
  assert all(towers['passage']) and not all(towers['query'])
  # And the optimizer keeps nothing for the other.
  folder = (finished / 'work' / checkpoints.FOLDER / '6').absolute()
  kept = ocp.StandardCheckpointer().restore(folder / 'optimizer')
  moments = sum(leaf.size for leaf in jax.tree.leaves(kept) if leaf.ndim)
  trained = sum(leaf.size for leaf in jax.tree.leaves(model.params['query']))
  assert moments == 2 * trained


def test_the_log_knows_what_was_found(finished):
  for one in records(finished / 'work'):
    assert set(one['contrast']) == {'retrieved'}
    assert 0 < one['contrast']['retrieved']['mass'] < 1


def test_any_mesh_gives_the_same_losses(finished, tmp_path):
  """With a gradient cache, too; the other run used eight devices."""
  tiny.train_only(finished, tmp_path, **LTRE, mesh__data=2, mesh__model=2,
                  model__chunk_groups=2)
  want, got = records(finished / 'work'), records(tmp_path)
  assert len(want) == len(got) == 6
  for one, other in zip(want, got, strict=True):
    assert abs(one['loss'] - other['loss']) <= 1e-5 * max(1, one['loss'])


def test_a_run_that_dies_goes_on_to_the_last_bit(finished, tmp_path):
  work = tmp_path / 'work'
  shutil.copytree(finished / 'cut', work)
  assert len(records(work)) == 3
  config = config_lib.parse(tiny.make_config(finished, **LTRE))
  plan.run([train.TrainJob(config, work).run])
  test_train.assert_same_run(finished / 'work', work, 6)


def test_the_loss_is_that_of_a_loop(finished, tmp_path, monkeypatch):
  """No dropout; the first step, whose model is known."""
  seen = {}
  make = encoder_run.DualEncoderTraining._make_batch

  def keep(self):
    seen['training'] = self
    seen['batcher'], count = make(self)
    return seen['batcher'], count

  monkeypatch.setattr(encoder_run.DualEncoderTraining, '_make_batch', keep)
  still = {'model__hidden_dropout': 0.0, 'model__attention_dropout': 0.0}
  tiny.train_only(finished, tmp_path, **{**LTRE, **still, 'optim__steps': 1})
  training, batcher = seen['training'], seen['batcher']
  batch, _ = batcher(0)
  assert isinstance(batch.table, table_search.Table)
  embedder = training._embed(training.model.params, None)
  numbers = batcher.example_numbers(0)
  pairs = batcher.examples
  queries = embedder.query_vecs(pairs.query_rows[numbers]).astype(float)
  passages = embedder.passage_vecs.astype(float)
  wanted, own_places = [], []
  for query, row, positive in zip(
      queries, pairs.query_rows[numbers], pairs.positive_rows[numbers],
      strict=True):
    scores = 20 * passages @ query
    known = np.isin(batcher.passage_groups, pairs.positive_groups[int(row)])
    assert known.any()
    own = training._dataset.own_passages[row]
    own_places.append((~known & (scores > scores[own])).sum())
    known[own] = True
    best = np.sort(np.where(known, -np.inf, scores))[::-1][:5]
    wanted.append(np.log(np.exp(best - scores[positive]).sum() + 1))
  got, = records(tmp_path)
  np.testing.assert_allclose(got['loss'], np.mean(wanted), rtol=1e-4)
  assert min(own_places) < 5  # They would be found.


@pytest.mark.parametrize(('change', 'message'), [
    ({'model__freeze': ''}, "set model.freeze='passage'"),
    ({'model__shared': True}, 'set model.shared=False'),
    ({'loss__candidates': 'batch'}, 'set loss.candidates=own'),
    ({'negatives__sources': ('retrieved:5', 'queue:8')},
     'compares a query with its own alone'),
    ({'negatives__sources': ()}, 'there are none'),
    ({'model__freeze': 'query'}, 'must be one of'),
])
def test_refused(tmp_path, change, message):
  config = tiny.make_config(tmp_path, **{**LTRE, **change})
  with pytest.raises(errors.UserError, match=message):
    train.check(config_lib.parse(config))


def test_worlds_are_refused(tmp_path):
  config = tiny.make_linking_config(
      tmp_path, **{**LTRE, 'evaluation__bm25': False})
  with pytest.raises(errors.UserError, match='of its own world alone'):
    tiny.run(train.TrainJob, config, tmp_path / 'work')
