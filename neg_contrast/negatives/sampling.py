"""Draws a query's negatives by the scores of all labels. Pure.

Zhang and Stratos, "Understanding Hard Negatives in Noise Contrastive
Estimation", 2021, section 6.3. With s the scaled score of a label, the known
positives of a query excluded, negatives are

* random: uniform, without replacement;
* hard: one after another without replacement, each in proportion to exp(s)
  among the labels left (successive sampling; Plackett-Luce in order of draw);
* greedy: the labels that score highest, what hard draws tend to;
* mixed: some hard, the rest random among the other labels;
* iid: with replacement, in proportion to exp(s), for the score-adjusted loss
  (equation 10).

The K labels with the highest s + G are a hard draw, exactly and in order, where
G is standard Gumbel noise (Yellott, 1977; Vieira, 2014; Kool et al., 2019); the
highest G alone are a random draw, and the highest s + G is an iid one. So each
is a top-K, and streams over a corpus in blocks: `start_race`, `run_race` for
every block in any order, `finish_race`. Noise is a function of (seed, epoch,
query, label) alone, one threefry block each: a result depends neither on the
size of blocks nor on who computes them. Processes that have seen different
blocks join theirs with `join_races`.

Equation 8 is another distribution than the hard draws that section 6.3
describes: P(y_2..y_K) ∝ Π p(y_k) over distinct labels, i.e. K - 1 iid draws,
all thrown away unless distinct. Drawing one after another instead has
Π p(y_k) / (1 - Σ_{j<k} p(y_j)): the heavy labels, which collide most, are drawn
more often. The two agree at K = 2, and where no label has much of the mass.
"""

import dataclasses
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from neg_contrast.batches.packed import AnyArray

_HARD, _RANDOM, _IID = range(3)  # Kinds of draws have noise of their own.
_SALT = 0x4E4345  # Keys of dropout are folded with a step, from the same seed.
_BELOW_ONE = 1 - 2.0**-24


@dataclasses.dataclass(frozen=True)
class Sampling:
  """How many negatives of which kind, without replacement.

  Attributes:
    hard: drawn in proportion to exp(score).
    random: drawn uniformly from the others.
    greedy: take the best-scoring labels for the hard ones instead.
  """

  hard: int = 0
  random: int = 0
  greedy: bool = False

  def __post_init__(self):
    """Checks ranges.

    Raises:
      ValueError: a negative number, or nothing to draw.
    """
    if min(self.hard, self.random) < 0 or not self.count:
      raise ValueError(f'{self}: draws nothing')

  @property
  def count(self) -> int:
    """K - 1."""
    return self.hard + self.random


def mixed(count: int, percent: float, greedy: bool = False) -> Sampling:
  """Mixed-p: `percent` of `count` negatives are hard, a half rounded up.

  Mixed-0 is Random, Mixed-100 is Hard. The published code of the paper rounds
  every part of one up, takes the best-scoring labels for the hard ones
  (`greedy`) where it mixes, and lets a random negative repeat a hard one, which
  here none does.
  """
  hard = int(count * percent / 100 + 0.5)
  return Sampling(hard, count - hard, greedy)


def kind_of(percent: int) -> str:
  """The name of `mixed`: Random, Hard, or Mixed-p."""
  return {0: 'random', 100: 'hard'}.get(percent, f'mixed-{percent}')


@flax.struct.dataclass
class Kept:
  """The labels with the highest keys so far, of each query.

  Attributes:
    keys: `[queries, kept] float32`, perturbed scores, descending; -inf where
      there are fewer.
    rows: `[queries, kept] int32`, labels; -1 where there are fewer.
    scores: `[queries, kept] float32`, without noise.
  """

  keys: Any
  rows: Any
  scores: Any


@flax.struct.dataclass
class Race:
  """A draw without replacement, half done.

  Attributes:
    hard: `Sampling.hard` labels.
    random: as many as there are negatives: some may be hard ones too.
  """

  hard: Kept
  random: Kept


@flax.struct.dataclass
class Draw:
  """Negatives of each query.

  Attributes:
    rows: `[queries, K - 1] int32`, labels: the hard ones in order of draw, then
      the random ones; -1 where there are too few labels.
    scores: `[queries, K - 1] float32`, theirs when they were drawn.
  """

  rows: Any
  scores: Any


@flax.struct.dataclass
class IidRace:
  """Draws with replacement: finished when all labels have been seen.

  Attributes:
    kept: the winner so far of each of K - 1 races.
    log_total: `[queries] float32`, logsumexp of the scores seen.
  """

  kept: Kept
  log_total: Any

  @property
  def log_proposal(self) -> Float[Array, 'queries draws']:
    """log ν of each draw, over the labels that could be drawn (equation 10).

    The total is a sum over blocks: their size may change its last bits.
    """
    return self.kept.scores - self.log_total[:, None]


def draw_key(seed: int, epoch: int) -> Key[Array, '']:
  """The key of an epoch's draws, whatever `jax_default_prng_impl` says."""
  key = jax.random.key(seed, impl='threefry2x32')
  return jax.random.fold_in(jax.random.fold_in(key, _SALT), epoch)


def gumbel(
    key: Key[Array, ''],
    query_ids: Int[AnyArray, ' queries'],
    rows: Int[AnyArray, ' labels'],
) -> Float[Array, 'queries labels']:
  """Standard Gumbel noise, each value a function of (key, query, label).

  What decides is the upper tail: among millions of labels a race is won by
  noise of 15 and more. -log(-log(u)) with a float32 u below 1 ends at 16.6, in
  steps; here -log1p(-v) with v near 0, from 64 bits, has all digits to 44.

  Args:
    key: of the draw.
    query_ids: `[queries] int`, stable names such as the rows of the queries.
    rows: `[labels] int`, the same of the labels.

  Returns:
    `[queries, labels] float32`.
  """
  fold = jax.vmap(jax.random.fold_in, (None, 0))
  of_query = fold(key, jnp.asarray(query_ids))
  words = jax.random.key_data(
      jax.vmap(fold, (0, None))(of_query, jnp.asarray(rows))
  )
  high, low = (words[..., i].astype(jnp.float32) for i in range(2))
  uniform = high * 2.0**-32 + (low + 0.5) * 2.0**-64
  return -jnp.log(-jnp.log1p(-jnp.minimum(uniform, _BELOW_ONE)))


def draw(
    key: Key[Array, ''],
    query_ids: Int[AnyArray, ' queries'],
    scores: Float[Array, 'queries labels'],
    usable: Bool[AnyArray, 'queries labels'],
    sampling: Sampling,
) -> Draw:
  """Negatives from all labels at once.

  Args:
    key: see `draw_key`.
    query_ids: `[queries] int`, see `gumbel`.
    scores: `[queries, labels] float32`, scaled.
    usable: `[queries, labels] bool`; False for every known positive.
    sampling: which negatives.
  """
  rows = jnp.arange(scores.shape[1], dtype=jnp.int32)
  race = start_race(scores.shape[0], sampling)
  race = run_race(race, key, query_ids, rows, scores, usable, sampling)
  return finish_race(race, sampling)


def start_race(queries: int, sampling: Sampling) -> Race:
  """The state before any label."""
  return Race(
      _nothing(queries, sampling.hard),
      _nothing(queries, sampling.count if sampling.random else 0),
  )


def run_race(
    race: Race,
    key: Key[Array, ''],
    query_ids: Int[AnyArray, ' queries'],
    rows: Int[AnyArray, ' labels'],
    scores: Float[Array, 'queries labels'],
    usable: Bool[AnyArray, 'queries labels'],
    sampling: Sampling,
) -> Race:
  """Takes a block of labels into account.

  Args:
    race: the state before.
    key: see `draw_key`; the same for all blocks.
    query_ids: `[queries] int`, see `gumbel`.
    rows: `[labels] int32`, ascending; no label in two blocks.
    scores: `[queries, labels] float32`, scaled.
    usable: `[queries, labels] bool`; False for known positives and padding.
    sampling: which negatives.
  """
  noise = lambda kind: gumbel(
      jax.random.fold_in(key, kind), query_ids, rows
  )
  hard, random = race.hard, race.random
  if sampling.hard:
    keys = scores if sampling.greedy else scores + noise(_HARD)
    hard = _keep_best(hard, keys, rows, scores, usable)
  if sampling.random:
    random = _keep_best(random, noise(_RANDOM), rows, scores, usable)
  return Race(hard, random)


def join_races(one: Race, other: Race) -> Race:
  """The state that has seen the blocks of both."""
  return Race(_join(one.hard, other.hard), _join(one.random, other.random))


def finish_race(race: Race, sampling: Sampling) -> Draw:
  """The negatives, when all labels have been seen."""
  hard, random = race.hard, race.random
  if not sampling.random:
    return Draw(hard.rows, hard.scores)
  is_left = (random.rows >= 0) & ~jnp.any(
      random.rows[:, :, None] == hard.rows[:, None, :], axis=2
  )
  first = jnp.argsort(~is_left, axis=1, stable=True)[:, :sampling.random]
  take = lambda values: jnp.take_along_axis(values, first, axis=1)
  rows = jnp.where(take(is_left), take(random.rows), -1)
  return Draw(
      jnp.concatenate([hard.rows, rows], axis=1),
      jnp.concatenate([hard.scores, take(random.scores)], axis=1),
  )


def start_iid(queries: int, count: int) -> IidRace:
  """The state before any label, of `count` draws with replacement."""
  return IidRace(_nothing(queries, count), jnp.full(queries, -jnp.inf))


def run_iid(
    race: IidRace,
    key: Key[Array, ''],
    query_ids: Int[AnyArray, ' queries'],
    rows: Int[AnyArray, ' labels'],
    scores: Float[Array, 'queries labels'],
    usable: Bool[AnyArray, 'queries labels'],
) -> IidRace:
  """Takes a block of labels into account; arguments as of `run_race`.

  Every draw is a race of its own: K - 1 times the noise of a draw without
  replacement, a race at a time.
  """
  key = jax.random.fold_in(key, _IID)

  def one(number):
    noise = gumbel(jax.random.fold_in(key, number), query_ids, rows)
    return _keep_best(
        _nothing(scores.shape[0], 1), scores + noise, rows, scores, usable
    )

  winners = jax.lax.map(one, jnp.arange(race.kept.keys.shape[1]))
  winners = jax.tree.map(lambda a: a[:, :, 0].T, winners)
  kept = jnp.where(usable, scores, -jnp.inf)
  return join_iid(race, IidRace(winners, jax.nn.logsumexp(kept, axis=1)))


def join_iid(one: IidRace, other: IidRace) -> IidRace:
  """The state that has seen the blocks of both."""
  ours, theirs = one.kept, other.kept
  is_ours = (ours.keys > theirs.keys) | (
      (ours.keys == theirs.keys) & (ours.rows <= theirs.rows)
  )
  return IidRace(
      jax.tree.map(lambda a, b: jnp.where(is_ours, a, b), ours, theirs),
      jnp.logaddexp(one.log_total, other.log_total),
  )


def _nothing(queries: int, count: int) -> Kept:
  lowest = jnp.full((queries, count), -jnp.inf)
  return Kept(lowest, jnp.full((queries, count), -1, jnp.int32), lowest)


def _keep_best(kept, keys, rows, scores, usable) -> Kept:
  """The best of a block and of what was kept; of equals the lower row."""
  keys = jnp.where(usable, keys, -jnp.inf)
  best, at = jax.lax.top_k(keys, min(kept.keys.shape[1], keys.shape[1]))
  is_there = best > -jnp.inf
  return _join(kept, Kept(
      best, jnp.where(is_there, jnp.asarray(rows, jnp.int32)[at], -1),
      jnp.where(is_there, jnp.take_along_axis(scores, at, axis=1), -jnp.inf),
  ))


def _join(one: Kept, other: Kept) -> Kept:
  """As many as `one` has."""
  count = one.keys.shape[1]
  keys, rows, scores = (
      jnp.concatenate([a, b], axis=1)
      for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
  )
  descending, rows, scores = jax.lax.sort((-keys, rows, scores), num_keys=2)
  return Kept(-descending[:, :count], rows[:, :count], scores[:, :count])
