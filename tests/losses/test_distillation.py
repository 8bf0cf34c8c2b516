"""Distillation: loops, finite differences, masks, and sentence-transformers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neg_contrast import errors, scoring
from neg_contrast.losses import (
  distillation,
  dual_encoder_loss,
  kl_divergence,
  loss_table,
  margin_mse,
  own_candidates,
)
from neg_contrast.settings import config as config_lib
from tests.losses import test_reranker_loss, vector_batches

LOSSES = {'margin_mse': margin_mse.margin_mse,
          'kl': kl_divergence.kl_divergence}


def make(seed, batch=6, candidates=5):
  """Scores of student and teacher; some not judged, a query without any."""
  rng = np.random.default_rng(seed)
  scores, teacher = rng.normal(0, 3, (2, batch, candidates))
  is_taught = rng.random((batch, candidates)) < 0.6
  is_taught[0], is_taught[1] = True, False
  is_taught[2, 0], is_taught[2, 1:] = False, True  # Its positive alone is not.
  is_taught[3] = np.arange(candidates) == 0
  return scores, teacher, is_taught


def as_floats(scores, teacher) -> tuple[jax.Array, jax.Array]:
  return jnp.asarray(scores, jnp.float32), jnp.asarray(teacher, jnp.float32)


def by_loop(name, scores, teacher, is_taught):
  total, count = 0.0, 0
  for s, t, taught in zip(scores, teacher, is_taught, strict=True):
    places = [k for k, real in enumerate(taught) if real]
    if name == 'margin_mse':
      for k in places:
        if k and taught[0]:
          total += ((s[0] - s[k]) - (t[0] - t[k])) ** 2
          count += 1
      continue
    if len(places) < 2:
      continue
    p, q = ([np.exp(x[k]) / sum(np.exp(x[j]) for j in places) for k in places]
            for x in (t, s))
    total += sum(a * np.log(a / b) for a, b in zip(p, q, strict=True))
    count += 1
  return total / max(1, count)


@pytest.mark.parametrize('seed', range(4))
@pytest.mark.parametrize('name', LOSSES)
def test_it_is_a_loop(name, seed):
  scores, teacher, is_taught = make(seed)
  value = LOSSES[name](*as_floats(scores, teacher), is_taught)
  assert float(value) == pytest.approx(
      by_loop(name, scores, teacher, is_taught), rel=2e-5)


@pytest.mark.parametrize('name', LOSSES)
def test_slopes_are_finite_differences(name):
  scores, teacher, is_taught = make(7)
  with jax.enable_x64(True):
    compare = lambda s: LOSSES[name](s, jnp.asarray(teacher), is_taught)
    slopes = np.asarray(jax.grad(lambda s: compare(s).sum())(
        jnp.asarray(scores)))
  step, want = 1e-6, np.zeros_like(scores)
  for place in np.ndindex(scores.shape):
    up, down = scores.copy(), scores.copy()
    up[place] += step
    down[place] -= step
    want[place] = (by_loop(name, up, teacher, is_taught)
                   - by_loop(name, down, teacher, is_taught)) / (2 * step)
  np.testing.assert_allclose(slopes, want, atol=1e-7)
  assert np.abs(slopes).max() > 0.01
  assert (slopes[~is_taught] == 0).all()


@pytest.mark.parametrize('name', LOSSES)
def test_what_is_not_taught_may_hold_anything(name):
  scores, teacher, is_taught = make(2)
  others = np.where(is_taught, teacher, 1e30)
  plain = LOSSES[name](*as_floats(scores, teacher), is_taught)
  assert plain == LOSSES[name](*as_floats(scores, others), is_taught)
  wider = [np.pad(x, ((0, 2), (0, 3)), constant_values=5.0)
           for x in (scores, teacher)]
  padded = LOSSES[name](
      *as_floats(*wider), np.pad(is_taught, ((0, 2), (0, 3))))
  np.testing.assert_allclose(padded, plain, rtol=1e-6)


@pytest.mark.parametrize('name', LOSSES)
def test_nothing_taught_is_no_loss(name):
  scores, teacher, is_taught = make(3)
  compare = lambda s: LOSSES[name](
      s, jnp.asarray(teacher, jnp.float32), is_taught & False)
  value, slopes = jax.value_and_grad(compare)(jnp.asarray(scores, jnp.float32))
  assert value == 0 and not np.asarray(slopes).any()


@pytest.mark.parametrize('name', LOSSES)
def test_a_student_like_its_teacher_has_no_loss(name):
  _, teacher, is_taught = make(4)
  teacher = jnp.asarray(teacher, jnp.float32)
  assert float(LOSSES[name](teacher + 1.5, teacher, is_taught)) < 1e-6


def test_margin_mse_is_that_of_sentence_transformers():
  torch = pytest.importorskip('torch')
  losses = pytest.importorskip('sentence_transformers.losses')
  rng = np.random.default_rng(1)
  query, positive, negative = rng.normal(size=(3, 5, 7)).astype(np.float32)
  teacher = rng.normal(0, 4, (5, 2)).astype(np.float32)
  theirs = losses.MarginMSELoss(model=None).compute_loss_from_embeddings(
      [torch.tensor(x) for x in (query, positive, negative)],
      torch.tensor(teacher[:, 0] - teacher[:, 1]))
  scores = np.stack([(query * positive).sum(1), (query * negative).sum(1)], 1)
  ours = margin_mse.margin_mse(
      jnp.asarray(scores), jnp.asarray(teacher), np.ones((5, 2), bool))
  assert float(ours) == pytest.approx(theirs.item(), rel=1e-5)


def test_kl_is_that_of_torch():
  torch = pytest.importorskip('torch')
  scores, teacher, _ = make(5)
  want = torch.nn.functional.kl_div(
      torch.log_softmax(torch.tensor(scores), 1),
      torch.softmax(torch.tensor(teacher), 1), reduction='batchmean').item()
  ours = kl_divergence.kl_divergence(
      *as_floats(scores, teacher), np.ones(scores.shape, bool))
  assert float(ours) == pytest.approx(want, rel=1e-5)


def settings(**values):
  return config_lib.LossConfig(**{'distil': 'margin_mse', **values})


@pytest.mark.parametrize('weight', [0.25, 1.0])
@pytest.mark.parametrize('kind', ['softmax', 'bce'])
def test_it_is_added_to_the_loss_of_a_batch(kind, weight):
  vectors, batch = vector_batches.make(3, batch=5, negatives=3)
  teacher = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
  teacher[2, 1], teacher[4, 0] = np.nan, np.nan
  batch = batch.replace(teacher_scores=teacher)
  arguments = vectors, batch, 3.0, scoring.DUAL, vector_batches.SOURCES
  whole, metrics = loss_table.make(
      settings(kind=kind, distil_weight=weight))(*arguments)
  plain, plain_metrics = loss_table.make(
      config_lib.LossConfig(kind=kind))(*arguments)
  own = own_candidates.score_own(
      vectors, batch, 3.0, sources=vector_batches.SOURCES)
  is_taught = np.isfinite(teacher) & np.asarray(own.is_candidate)
  taught = by_loop('margin_mse', np.asarray(own.scores), teacher, is_taught)
  assert float(metrics['contrastive_loss']) == float(plain)
  assert float(metrics['distil_loss']) == pytest.approx(taught, rel=1e-5)
  assert float(metrics['distilled']) == pytest.approx(
      is_taught.sum() / np.asarray(own.is_candidate).sum())
  assert float(whole) == pytest.approx(
      (1 - weight) * float(plain) + weight * taught, rel=1e-5)
  assert plain_metrics.keys() < metrics.keys()


def test_it_is_added_to_that_of_a_reranker():
  scores, batch = test_reranker_loss.make(1)
  teacher = np.random.default_rng(2).normal(
      size=batch.is_candidate.shape).astype(np.float32)
  batch = batch.replace(teacher_scores=teacher)
  added = distillation.Distillation(kl_divergence.kl_divergence, 0.4)
  (value, metrics), _ = test_reranker_loss.loss_of(
      scores, batch, added, kind='bce', hardest=1)
  (plain, _), _ = test_reranker_loss.loss_of(
      scores, batch, kind='bce', hardest=1)
  taught = by_loop('kl', scores[batch.candidate_slots], teacher,
                   batch.is_candidate)
  assert float(metrics['distil_loss']) == pytest.approx(taught, rel=1e-5)
  assert float(value) == pytest.approx(
      0.6 * float(plain) + 0.4 * taught, rel=1e-5)


def test_without_a_teacher_nothing_is_added():
  loss = loss_table.make(config_lib.LossConfig())
  assert not isinstance(loss, distillation.DistilledLoss)


def test_it_needs_a_judge_and_hard_negatives():
  held = [dual_encoder_loss.HARD_NEGATIVES]
  with pytest.raises(errors.UserError, match='loss.distil.*negatives.judge'):
    loss_table.check(settings(), held)
  with pytest.raises(errors.UserError, match='hard negatives'):
    loss_table.check(settings(), [dual_encoder_loss.TEACHER])
  loss_table.check(settings(), [*held, dual_encoder_loss.TEACHER])
  with pytest.raises(errors.UserError, match='distil_weight'):
    config_lib.LossConfig(distil_weight=0.2)
