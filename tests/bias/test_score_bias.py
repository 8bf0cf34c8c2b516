"""The theorems of Zhang and Stratos (2021), by enumeration."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neg_contrast.bias import score_bias
from neg_contrast.losses import candidate_softmax as candidates_lib
from neg_contrast.negatives import sampling

INPUTS, LABELS, K = 3, 5, 3


def init(seed=0):
  rng = np.random.default_rng(seed)
  return {name: jnp.asarray(rng.normal(size=shape), jnp.float32)
          for name, shape in (('one', (INPUTS, 4)), ('two', (4, LABELS)),
                              ('bias', (LABELS,)))}


def scores_of(params):
  """`[inputs, labels]`: a network with a hidden layer, not normalised."""
  return 2 * jnp.tanh(params['one']) @ params['two'] + params['bias']


def population(seed=5):
  pop = np.random.default_rng(seed).dirichlet(np.ones(INPUTS * LABELS))
  return pop.reshape(INPUTS, LABELS)


def uniform(p, gold, negatives):
  del p
  return (gold not in negatives and len(set(negatives)) == K - 1) / 12


def equation_8(p, gold, negatives):
  """Up to a constant."""
  distinct = gold not in negatives and len(set(negatives)) == K - 1
  return distinct * np.prod(p[list(negatives)])


def successive(p, gold, negatives):
  first, second = negatives
  if gold in negatives or first == second:
    return 0.0
  left = 1 - p[gold]
  return p[first] / left * p[second] / (left - p[first])


def half_random(p, gold, negatives):
  first, second = negatives
  if gold in negatives or first == second:
    return 0.0
  return p[first] / (1 - p[gold]) / 3


def iid_model(p, gold, negatives):
  del gold
  return np.prod(p[list(negatives)])


LAWS = (uniform, equation_8, successive, half_random, iid_model)


def enumerate_law(law, scores):
  """All (input, candidates) with their chances, as arrays."""
  p = np.asarray(jax.nn.softmax(scores), np.float64)
  inputs, candidates, chances = [], [], []
  for x, gold in itertools.product(range(INPUTS), range(LABELS)):
    ours = [(negatives, law(p[x], gold, negatives)) for negatives in
            itertools.product(range(LABELS), repeat=K - 1)]
    total = sum(chance for _, chance in ours)
    for negatives, chance in ours:
      inputs.append(x)
      candidates.append((gold, *negatives))
      chances.append(chance / total)
  return np.array(inputs), np.array(candidates), np.array(chances)


def gradients(law, params, pop, score=scores_of):
  """∇J_CE and ∇J_HARD by autodiff, and pop(x) (p - γ) by equation 6."""
  scores = score(params)
  inputs, candidates, chances = enumerate_law(law, scores)
  golds = candidates[:, 0]
  joint = jnp.asarray(pop[inputs, golds] * chances, jnp.float32)

  def hard(params):
    own = score(params)[inputs[:, None], candidates]
    there = np.ones(own.shape, bool)
    return jnp.sum(joint * candidates_lib.candidate_softmax(own, there))

  def cross_entropy(params):
    return -jnp.sum(pop * jax.nn.log_softmax(score(params)))

  selected = score_bias.selection(scores[inputs], candidates)
  everything = np.ones(scores.shape, bool)
  marginal = pop.sum(axis=1, keepdims=True)
  weighted = marginal * candidates_lib.masked_softmax(scores, everything)
  bias = weighted - jnp.zeros_like(scores).at[inputs].add(
      joint[:, None] * selected
  )
  return jax.grad(cross_entropy)(params), jax.grad(hard)(params), bias


def flat(tree):
  return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


@pytest.mark.parametrize('law', LAWS)
def test_theorem_3_1_the_bias_is_p_less_gamma(law):
  params = init()
  exact, hard, bias = gradients(law, params, population())
  vjp = jax.vjp(scores_of, params)[1]
  by_theorem = flat(vjp(bias)[0])
  difference = flat(exact) - flat(hard)
  np.testing.assert_allclose(by_theorem, difference, atol=2e-6)
  assert np.linalg.norm(difference) > 0.01
  products = score_bias.gradient_products(vjp, bias[None])
  assert products[0, 0] == pytest.approx(difference @ difference, rel=1e-4)


@pytest.mark.parametrize('law', LAWS)
def test_at_the_population_only_uniform_negatives_are_unbiased(law):
  """Theorem 3.2 says so of `iid_model`, but see the next test."""
  pop = population()
  params = {'shift': jnp.arange(3.0)[:, None],
            'scores': jnp.asarray(np.log(pop), jnp.float32)}
  exact, hard, _ = gradients(
      law, params, pop, lambda params: params['scores'] + params['shift']
  )
  assert np.linalg.norm(flat(exact)) < 1e-6
  difference = np.linalg.norm(flat(exact) - flat(hard))
  assert difference < 1e-6 if law is uniform else difference > 0.01


@pytest.mark.parametrize(('negatives', 'gamma'), [
    (1, (0.657, 0.293, 0.050)), (2, (0.6, 0.3, 0.1)),
])
def test_three_labels_under_equation_8(negatives, gamma):
  """bias/README.md has these; by the definition, and by what is drawn here."""
  p = np.array([0.6, 0.3, 0.1])
  exact = np.zeros(3)
  for gold in range(3):
    others = [law for law in itertools.permutations(range(3), negatives)
              if gold not in law]
    chances = np.array([np.prod(p[list(law)]) for law in others])
    for law, chance in zip(others, chances / chances.sum(), strict=True):
      candidates = [gold, *law]
      exact[candidates] += p[gold] * chance * p[candidates] / p[
          candidates].sum()
  np.testing.assert_allclose(exact, gamma, atol=5e-4)
  golds = np.arange(3)
  usable = jnp.asarray(golds != golds[:, None])
  scores = jnp.tile(jnp.log(jnp.asarray(p, jnp.float32)), (3, 1))
  chosen = sampling.mixed(negatives, 100)
  bias = score_bias.score_bias(
      scores, golds, jnp.ones_like(usable),
      lambda key: sampling.draw(key, golds, scores, usable, chosen).rows,
      jax.random.split(jax.random.key(0), 20_000), jnp.asarray(p, jnp.float32))
  np.testing.assert_allclose(p - bias.mean.sum(axis=0), gamma, atol=5e-3)


@pytest.mark.parametrize('p', [0.5, 0.9, 0.999])
def test_theorem_3_2_has_a_counterexample(p):
  """Two labels, K = 2, gold and negative iid from p = pop."""
  scores = jnp.log(jnp.asarray([p, 1 - p]))
  chances = np.array([p, 1 - p])
  pairs = np.array(list(itertools.product(range(2), repeat=2)))

  def loss(scores):
    own = scores[pairs]
    each = candidates_lib.candidate_softmax(own, np.ones((4, 2), bool))
    return jnp.sum(np.prod(chances[pairs], axis=1) * each)

  gamma = np.prod(chances[pairs], axis=1) @ np.asarray(
      score_bias.selection(jnp.tile(scores, (4, 1)), pairs))
  assert gamma[0] == pytest.approx(p**2 * (3 - 2 * p), rel=1e-5)
  np.testing.assert_allclose(
      jax.grad(loss)(scores), gamma - chances, atol=1e-6)


def missed_mass(law, seed):
  """TV(γ, p) of every input, and its bound."""
  params, pop = init(seed), population(seed)
  scores = scores_of(params)
  inputs, candidates, chances = enumerate_law(law, scores)
  given = pop / pop.sum(axis=1, keepdims=True)
  joint = given[inputs, candidates[:, 0]] * chances
  p = np.asarray(jax.nn.softmax(scores))
  gamma, bound = np.zeros_like(p), np.zeros(INPUTS)
  np.add.at(gamma, inputs, joint[:, None] * np.asarray(
      score_bias.selection(scores[inputs], candidates)))
  np.add.at(bound, inputs, joint * (1 - p[
      inputs[:, None], candidates].sum(axis=1)))
  return 0.5 * np.abs(gamma - p).sum(axis=1), bound


@pytest.mark.parametrize('law', LAWS[:4])
def test_the_bias_is_bounded_by_the_mass_that_candidates_miss(law):
  for seed in range(5):
    distance, bound = missed_mass(law, seed)
    assert (distance <= bound + 1e-6).all()
    if law is not uniform:
      assert bound.sum() < missed_mass(uniform, seed)[1].sum()


@pytest.mark.parametrize('law', [uniform, iid_model])
def test_beside_the_population_neither_is_unbiased(law):
  exact, hard, _ = gradients(law, init(), population())
  assert np.linalg.norm(flat(exact) - flat(hard)) > 0.01


def test_theorem_3_3_the_best_scoring_negatives_maximise_the_loss():
  scores = jnp.asarray(np.random.default_rng(0).normal(size=(4, 7)),
                       jnp.float32)
  gold = np.array([2, 0, 6, 3])
  usable = np.arange(7) != gold[:, None]
  greedy = sampling.draw(
      sampling.draw_key(0, 0), np.arange(4), scores, usable,
      sampling.Sampling(hard=3, greedy=True),
  ).rows

  def loss(negatives):
    candidates = np.concatenate([gold[:, None], negatives], axis=1)
    own = jnp.take_along_axis(scores, candidates, axis=1)
    return np.asarray(candidates_lib.candidate_softmax(own, candidates >= 0))

  most = loss(greedy)
  for places in itertools.combinations(range(6), 3):
    negatives = np.stack([np.flatnonzero(line)[list(places)]
                          for line in usable])
    other = loss(negatives)
    same = [set(a) == set(b) for a, b in
            zip(negatives.tolist(), np.asarray(greedy).tolist(), strict=True)]
    assert (np.isclose(other, most) == same).all()
    assert (other < most + 1e-6).all()


def meter(seed=1, draws=6):
  params = init(seed)
  gold = np.array([0, 3, 4])
  is_label = np.ones((INPUTS, LABELS), bool)
  is_label[1, 0] = False
  usable = is_label & (np.arange(LABELS) != gold[:, None])
  scores = scores_of(params)

  def draw(key):
    return sampling.draw(
        key, np.arange(INPUTS), scores, usable, sampling.Sampling(1, 1)
    ).rows

  keys = jax.random.split(sampling.draw_key(0, 0), draws)
  return params, gold, is_label, draw, keys


def test_the_meter_equals_autodiff_over_its_draws():
  params, gold, is_label, draw, keys = meter()
  scores, vjp = jax.vjp(scores_of, params)
  bias = score_bias.score_bias(scores, gold, is_label, draw, keys)
  norms = score_bias.norms_of(score_bias.gradient_products(
      vjp, jnp.stack([bias.cross_entropy, bias.mean])
  ))

  def exact(params):
    kept = jnp.where(is_label, scores_of(params), -jnp.inf)
    return -jnp.mean(jax.nn.log_softmax(kept)[np.arange(INPUTS), gold])

  def sampled(params, keys):
    total = 0.0
    for key in keys:
      rows = jnp.concatenate([gold[:, None], draw(key)], axis=1)
      own = jnp.take_along_axis(scores_of(params), rows, axis=1)
      total += jnp.mean(candidates_lib.candidate_softmax(own, rows >= 0))
    return total / len(keys)

  g = flat(jax.grad(exact)(params))
  halves = [flat(jax.grad(sampled)(params, part))
            for part in (keys[:3], keys[3:])]
  mean = (halves[0] + halves[1]) / 2
  assert norms.cross_entropy == pytest.approx(np.linalg.norm(g), rel=1e-4)
  assert norms.nce == pytest.approx(np.linalg.norm(mean), rel=1e-4)
  assert norms.bias == pytest.approx(np.linalg.norm(g - mean), rel=1e-4)
  both = score_bias.gradient_products(vjp, bias.bias)
  assert both[0, 1] == pytest.approx(
      (g - halves[0]) @ (g - halves[1]), rel=1e-4)
  assert norms.cosine == pytest.approx(
      g @ mean / np.linalg.norm(g) / np.linalg.norm(mean), rel=1e-4)
  assert bias.cross_entropy_loss == pytest.approx(
      float(exact(params)), rel=1e-5)
  assert bias.nce_loss == pytest.approx(
      float(sampled(params, keys)), rel=1e-5)
  assert 1 <= bias.effective_negatives <= 2


def test_all_labels_as_candidates_have_no_bias():
  params, gold, _, _, keys = meter()
  others = np.array([[y for y in range(LABELS) if y != one] for one in gold])
  bias = score_bias.score_bias(
      scores_of(params), gold, np.ones((INPUTS, LABELS), bool),
      lambda _: jnp.asarray(others), keys,
  )
  assert np.abs(bias.bias).max() < 1e-7
  assert bias.nce_loss == pytest.approx(float(bias.cross_entropy_loss))


def test_the_meter_wants_two_halves():
  params, gold, is_label, draw, keys = meter()
  with pytest.raises(ValueError, match='5 draws'):
    score_bias.score_bias(scores_of(params), gold, is_label, draw, keys[:5])
