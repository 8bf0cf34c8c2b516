"""How far NCE is from the cross-entropy, for a model and held-out queries.

Zhang and Stratos, "Understanding Hard Negatives in Noise Contrastive
Estimation", Appendix C. `job=nce_bias` and the log of a training measure alike,
but that the log knows a learned scale (`loss.learn_scale`), a parameter too.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from neg_contrast import errors, sharding
from neg_contrast.batches import packed, packing
from neg_contrast.data import answers as answers_lib
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import examples, sequences
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.losses import gradient_cache, nce
from neg_contrast.models import by_name as model_lib
from neg_contrast.models import dual_encoder, loading
from neg_contrast.negatives import sampling
from neg_contrast.retrieval import bm25_search
from neg_contrast.settings import config as config_lib
from neg_contrast.training import step as step_lib

_DEPTH = 100  # Of BM25, for the labels that are no positives.
_CHUNK_TOKENS = 2048  # Encoded at once: BERT-base's activations are 1.3 GB.


@dataclasses.dataclass(frozen=True)
class LabelSpace:
  """The queries that are measured on, and all labels there are for them.

  Attributes:
    query_rows: `[queries] int32`.
    passage_rows: `[labels] int32`: the positive of each query, in order, then
      passages that BM25 finds for them.
    is_label: `[queries, labels] bool`; False for positives of a query other
      than its own, here.
    holds_answer: `[queries, labels] bool`, labels other than its positives
      that hold an answer of the query: likely false negatives.
  """

  query_rows: Int[np.ndarray, ' queries']
  passage_rows: Int[np.ndarray, ' labels']
  is_label: Bool[np.ndarray, 'queries labels']
  holds_answer: Bool[np.ndarray, 'queries labels']

  @property
  def gold(self) -> Int[np.ndarray, ' queries']:
    """Label of each query."""
    return np.arange(len(self.query_rows), dtype=np.int32)


class BiasMeter:
  """Measures any parameters of a model on a label space, on one device."""

  def __init__(
      self,
      config: config_lib.Config,
      dataset: dataset_lib.Dataset,
      model: loading.Model,
      space: LabelSpace,
  ):
    """Packs the texts.

    Args:
      config: kinds and numbers of negatives, draws, scale and precision.
      dataset: of the labels.
      model: whose parameters will be measured.
      space: what they are measured on.
    """
    self._config, self._spec, self._space = config, model.spec, space
    mesh = sharding.make_mesh(config_lib.MeshConfig(), jax.local_devices()[:1])
    self._place = sharding.replicated(mesh)
    # Dropout at rate 0 rather than none, for what makes gradients cheap.
    self._encoder = model_lib.make_module(
        dataclasses.replace(model.spec, bert=dataclasses.replace(
            model.spec.bert, hidden_dropout=0.0, attention_dropout=0.0
        )), config.model, config.data.row_length, mesh, is_training=True,
    )
    texts = {}
    for role, rows in (('query', space.query_rows),
                       ('passage', space.passage_rows)):
      tokens = dataset.tokenize(model, role).tokens(rows)
      texts[role] = _pack(tokens, model.text.length(role))
    self.texts = jax.device_put(texts, self._place)

  def scores(self, params: Any, texts: Any) -> Float[Array, 'queries labels']:
    """Scaled scores of all labels, without dropout.

    Args:
      params: of a `TrainState`.
      texts: `self.texts`; an argument, lest they be compiled in.
    """
    vecs = {}
    for role, (one, slots) in texts.items():
      by_group = gradient_cache.encode(
          self._encoder.clone(role=role),
          dual_encoder.tower(params['encoder'], role), one, jax.random.key(0),
          gradient_cache.Chunks(1),
      )
      vecs[role] = by_group.reshape(-1, by_group.shape[-1])[slots]
    scale = step_lib.scale_of(params, self._config.loss.scale)
    return scale * self._spec.score(vecs['query'], vecs['passage'])

  def draw(
      self, scores: Float[Array, 'queries labels'], percent: int,
      key: Key[Array, ''],
  ) -> Int[Array, 'queries negatives']:
    """Labels of K - 1 negatives of each query; -1: none.

    Args:
      scores: `[queries, labels] float32`, scaled.
      percent: of the negatives that are hard.
      key: see `sampling.draw_key`.
    """
    space = self._space
    usable = space.is_label.copy()
    usable[space.gold, space.gold] = False
    chosen = sampling.mixed(self._config.nce.negatives, percent)
    return sampling.draw(key, space.query_rows, scores, usable, chosen).rows

  def measure(
      self, params: Any, key: Key[Array, '']
  ) -> dict[str, dict[str, Any]]:
    """Bias and gradients at some parameters.

    Args:
      params: of a `TrainState`, which this process has whole.
      key: of the draws, see `sampling.draw_key`.

    Returns:
      `model`: `facts_of`, and `loss` and norm of the `gradient` of the
      cross-entropy. `kinds`: kind of negatives -> norm of the `bias`, and of
      the `gradient` of NCE; its `cosine` with that of the cross-entropy;
      `loss`; `effective_negatives`; `missed_mass`; `score_error`, the standard
      error of all draws as a part of the bias, in the scores.
    """
    scores, exact, kinds = self._compute(
        jax.device_put(params, self._place), self.texts, key
    )
    return jax.tree.map(float, {
        'model': {**facts_of(np.asarray(scores), self._space), **exact},
        'kinds': kinds,
    })

  @functools.cached_property
  def _compute(self) -> Callable[[Any, Any, Any], Any]:
    """(θ, texts, key) -> scores, and what `measure` says of both losses."""
    space, settings = self._space, self._config.nce

    def compute(params, texts, key):
      scores, vjp = jax.vjp(lambda params: self.scores(params, texts), params)
      keys = jax.random.split(key, settings.draws)
      found = {
          sampling.kind_of(percent): nce.score_bias(
              scores, space.gold, space.is_label,
              functools.partial(self.draw, scores, percent), keys,
          ) for percent in settings.percents
      }
      exact = next(iter(found.values()))
      products = nce.gradient_products(vjp, jnp.stack(
          [exact.cross_entropy, *(one.mean for one in found.values())]
      ))
      kinds = {}
      for number, (name, one) in enumerate(found.items(), start=1):
        norms = nce.norms_of(products[np.ix_([0, number], [0, number])])
        halves = one.bias[0] - one.bias[1]
        kinds[name] = {
            'bias': norms.bias,
            'gradient': norms.nce, 'cosine': norms.cosine, 'loss': one.nce_loss,
            'effective_negatives': one.effective_negatives,
            'missed_mass': one.missed_mass,
            'score_error': jnp.linalg.norm(halves) / 2
                           / jnp.linalg.norm(one.mean),
        }
      return scores, {'loss': exact.cross_entropy_loss,
                      'gradient': jnp.sqrt(products[0, 0])}, kinds

    return jax.jit(compute)


def choose_labels(
    config: config_lib.Config,
    dataset: dataset_lib.Dataset,
    judgements: prepared_lib.Judgements,
    split: str,
) -> LabelSpace:
  """Random queries of distinct positives, and what BM25 finds for them.

  Half of the labels in Appendix C are gold for some query; the others contain
  its mention. Here BM25 gives them: the best passage of each query in turn that
  is no positive of any of the queries and not taken yet.

  Args:
    config: how many, and the seed.
    dataset: of the passages.
    judgements: of the queries to choose from.
    split: names them in an error, by what sets them.

  Raises:
    UserError: the split has too few queries of distinct positives, or BM25
      finds too few passages.
  """
  settings, prepared = config.nce, dataset.prepared
  judged = judgements.select(judgements.grades > 0)
  groups, known = prepared.passage_groups, examples.known_positives(prepared)
  pairs: dict[int, tuple[int, int]] = {}  # Group -> query and passage.
  queries: set[int] = set()
  order = np.random.default_rng(config.seed).permutation(len(judged.grades))
  for query, passage in zip(judged.query_rows[order].tolist(),
                            judged.passage_rows[order].tolist(), strict=True):
    group = int(groups[passage])
    if len(pairs) < settings.queries and (
        group not in pairs and query not in queries
    ):
      pairs[group] = query, passage
      queries.add(query)
  if len(pairs) < settings.queries:
    raise errors.UserError(
        f'config.nce.queries={settings.queries}: {split} has {len(pairs)} with '
        'distinct positives; name another split, or ask for fewer'
    )
  query_rows, golds = (
      np.array(column, np.int32) for column in zip(*pairs.values(), strict=True)
  )
  positives = set(known[query_rows].reshape(-1).tolist())
  found = bm25_search.search_bm25(
      config.evaluation, dataset, query_rows,
      min(_DEPTH, len(prepared.passages)),
  ).rows
  taken: dict[int, int] = {}  # Group -> passage.
  for passage in found.T.reshape(-1).tolist():
    if passage < 0 or len(golds) + len(taken) == settings.labels:
      continue
    group = int(groups[passage])
    if group not in positives:
      taken.setdefault(group, passage)
  if len(golds) + len(taken) < settings.labels:
    raise errors.UserError(
        f'config.nce.labels={settings.labels}: BM25 finds {len(taken)} '
        f'passages beside the {len(golds)} positives; ask for fewer'
    )
  passage_rows = np.concatenate([golds, np.fromiter(taken.values(), np.int32)])
  is_positive = (
      groups[passage_rows][None, :, None] == known[query_rows][:, None, :]
  ).any(axis=2)
  own = np.eye(*is_positive.shape) > 0
  texts = [prepared.passages[int(row)].text for row in passage_rows]
  holds_answer = np.array([
      [bool(answers) and answers_lib.has_answer(
          text, answers, config.evaluation.answer_rule) for text in texts]
      for answers in (prepared.queries[int(row)].answers for row in query_rows)
  ])
  return LabelSpace(
      query_rows, passage_rows, own | ~is_positive,
      holds_answer & ~is_positive,
  )


def facts_of(
    scores: Float[np.ndarray, 'queries labels'], space: LabelSpace
) -> dict[str, float]:
  """What the model makes of the labels, without sampling.

  Returns:
    `accuracy` (the gold scores best of the labels); `gold_mass`; and of the
    softmax over everything, other known positives included, the mean mass on
    them and on other labels that hold an answer.
  """
  exponents = np.exp(scores - scores.max(axis=1, keepdims=True))
  mass = exponents / exponents.sum(axis=1, keepdims=True)
  gold = space.gold
  others = np.where(space.is_label, scores, -np.inf)
  others[gold, gold] = -np.inf
  return {
      'accuracy': np.mean(scores[gold, gold] > others.max(axis=1)),
      'gold_mass': np.mean(mass[gold, gold]),
      'known_positive_mass': np.mean((mass * ~space.is_label).sum(axis=1)),
      'answer_mass': np.mean((mass * space.holds_answer).sum(axis=1)),
      'answer_labels': np.mean(space.holds_answer.sum(axis=1)),
  }


def _pack(
    tokens: sequences.AnySequences, longest: int
) -> tuple[packed.PackedSequences, Int[np.ndarray, ' sequences']]:
  """Small groups, in the rows that take less padding; and the slots."""
  groups = -(-int(tokens.lengths.sum()) // _CHUNK_TOKENS)
  layout = min(
      (packing.plan(tokens.lengths, groups, row_length)
       for row_length in (longest, packing.default_row_length(longest))),
      key=lambda layout: layout.tokens,
  )
  return packing.fill(layout, tokens), layout.flat_slot
