"""Draws have the distributions they claim, and do not depend on blocks."""

import collections
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neg_contrast.negatives import sampling

SCORES = np.array([1.5, 0.3, 2.4, -0.5, 0.9, 5.0], np.float32)
GOLD = 5  # Scores best, and must never be drawn.
MANY = 40_000  # The TV of an empirical distribution over 60 events is .015.


def draw_many(chosen, epoch=0, scores=SCORES):
  usable = np.arange(len(scores)) != GOLD
  tile = lambda a: jnp.asarray(np.tile(a, (MANY, 1)))
  made = jax.jit(sampling.draw, static_argnames='sampling')(
      sampling.draw_key(3, epoch), np.arange(MANY), tile(scores),
      tile(usable), sampling=chosen,
  )
  return np.asarray(made.rows)


def sequential(weights, count):
  """Ordered draws without replacement -> probability."""
  result = {}
  for labels in itertools.permutations(range(len(weights)), count):
    chance, left = 1.0, weights.sum()
    for label in labels:
      chance *= weights[label] / left
      left -= weights[label]
    result[labels] = chance
  return result


def rejective(weights, count):
  """Equation 8: iid draws, kept if they are distinct."""
  chances = {labels: np.prod(weights[list(labels)])
             for labels in itertools.permutations(range(len(weights)), count)}
  total = sum(chances.values())
  return {labels: chance / total for labels, chance in chances.items()}


def distance(rows, law):
  """Total variation between what was drawn and a law."""
  counts = collections.Counter(map(tuple, rows.tolist()))
  return 0.5 * sum(abs(counts[key] / len(rows) - law.get(key, 0))
                   for key in counts.keys() | law.keys())


def weights(scores=SCORES):
  return np.exp(scores[:GOLD].astype(float))


def test_hard_draws_are_successive_and_not_equation_8():
  ours = draw_many(sampling.Sampling(hard=2))
  assert distance(ours, sequential(weights(), 2)) < 0.015
  assert distance(ours, rejective(weights(), 2)) > 0.1
  assert distance(draw_many(sampling.Sampling(hard=1)),
                  rejective(weights(), 1)) < 0.01


def test_random_draws_are_uniform():
  ours = draw_many(sampling.Sampling(random=3))
  law = sequential(np.ones(GOLD), 3)
  assert distance(ours, law) < 0.03
  assert distance(ours, sequential(weights(), 3)) > 0.3


def test_mixed_draws_the_random_ones_from_what_is_left():
  ours = draw_many(sampling.mixed(3, 50))
  law = {
      (*hard, last): chance / (GOLD - 2)
      for hard, chance in sequential(weights(), 2).items()
      for last in set(range(GOLD)) - set(hard)
  }
  assert distance(ours, law) < 0.03


def test_greedy_takes_the_best():
  ours = draw_many(sampling.Sampling(hard=2, greedy=True))
  assert (ours == [2, 0]).all()
  assert (sampling.mixed(7, 50), sampling.mixed(7, 100)) == (
      sampling.Sampling(4, 3), sampling.Sampling(7, 0))


def test_iid_draws_repeat():
  race = sampling.start_iid(MANY, 2)
  usable = jnp.asarray(np.tile(np.arange(6) != GOLD, (MANY, 1)))
  race = jax.jit(sampling.run_iid)(
      race, sampling.draw_key(3, 0), np.arange(MANY), np.arange(6),
      jnp.asarray(np.tile(SCORES, (MANY, 1))), usable,
  )
  chances = weights() / weights().sum()
  law = {(a, b): chances[a] * chances[b]
         for a in range(GOLD) for b in range(GOLD)}
  rows = np.asarray(race.kept.rows)
  assert distance(rows, law) < 0.015
  assert (rows[:, 0] == rows[:, 1]).mean() > 0.3
  np.testing.assert_allclose(race.log_proposal, np.log(chances)[rows],
                             rtol=1e-4, atol=1e-5)


def test_draws_of_epochs_queries_and_seeds_differ():
  key, other = sampling.draw_key(0, 0), sampling.draw_key(1, 0)
  rows = np.arange(500)
  noise = [np.asarray(sampling.gumbel(k, np.array([q]), rows))[0]
           for k in (key, other, sampling.draw_key(0, 1)) for q in (0, 1)]
  correlation = np.corrcoef(noise) - np.eye(6)
  assert np.abs(correlation).max() < 0.2
  np.testing.assert_array_equal(
      noise[1], np.asarray(sampling.gumbel(key, np.array([5, 1]), rows))[1])


def test_the_tail_of_the_noise_has_no_steps():
  """Of 2^22 values from uniforms of 24 bits many of the best 64 are equal."""
  noise = np.asarray(jax.jit(sampling.gumbel)(
      sampling.draw_key(0, 0), np.arange(4), np.arange(2**20)))
  assert np.isfinite(noise).all()
  assert noise.mean() == pytest.approx(np.euler_gamma, abs=0.003)
  assert noise.std() == pytest.approx(np.pi / 6**0.5, abs=0.003)
  best = np.sort(noise.reshape(-1))[-64:]
  assert len(np.unique(best)) == 64


def block_scores():
  rng = np.random.default_rng(1)
  scores = rng.normal(size=(5, 103)).astype(np.float32)
  return jnp.asarray(scores), jnp.asarray(rng.random((5, 103)) < 0.8)


CUTS = ([0, 1, 52, 103], [0, 51, 102, 103])


@pytest.mark.parametrize('chosen', [
    sampling.Sampling(hard=7), sampling.Sampling(random=7),
    sampling.Sampling(4, 3), sampling.Sampling(7, greedy=True),
    sampling.Sampling(60, 60),
], ids=str)
def test_streamed_is_unstreamed_to_the_bit(chosen):
  scores, usable = block_scores()
  if chosen.greedy:
    scores = jnp.round(scores)  # Ties.
  key, queries = sampling.draw_key(0, 2), np.array([4, 0, 17, 3, 2])
  whole = sampling.draw(key, queries, scores, usable, chosen)
  run = jax.jit(sampling.run_race, static_argnames='sampling')
  for cuts in CUTS:
    races = [sampling.start_race(5, chosen) for _ in range(2)]
    blocks = list(itertools.pairwise(cuts))
    for number, (begin, end) in enumerate(reversed(blocks)):
      races[number % 2] = run(
          races[number % 2], key, queries, np.arange(begin, end),
          scores[:, begin:end], usable[:, begin:end], sampling=chosen,
      )
    got = sampling.finish_race(sampling.join_races(*races), chosen)
    np.testing.assert_array_equal(got.rows, whole.rows)
    np.testing.assert_array_equal(got.scores, whole.scores)
  rows = np.asarray(whole.rows)
  for line, ok in zip(rows, np.asarray(usable), strict=True):
    real = line[line >= 0]
    assert len(set(real.tolist())) == len(real) == min(chosen.count, ok.sum())
    assert ok[real].all()


def test_streamed_iid_is_unstreamed():
  scores, usable = block_scores()
  key, queries = sampling.draw_key(0, 2), np.arange(5)
  made, run = [], jax.jit(sampling.run_iid)
  for cuts in ([0, 103], *CUTS):
    races = [sampling.start_iid(5, 4) for _ in range(2)]
    for number, (begin, end) in enumerate(itertools.pairwise(cuts)):
      races[number % 2] = run(
          races[number % 2], key, queries, np.arange(begin, end),
          scores[:, begin:end], usable[:, begin:end],
      )
    made.append(sampling.join_iid(*races))
  for one in made[1:]:
    jax.tree.map(np.testing.assert_array_equal, one.kept, made[0].kept)
    np.testing.assert_allclose(one.log_total, made[0].log_total, rtol=1e-6)


def test_nothing_to_draw_is_an_error():
  with pytest.raises(ValueError, match='draws nothing'):
    sampling.mixed(0, 50)
