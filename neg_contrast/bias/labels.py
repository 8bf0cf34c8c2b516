"""The queries that a bias is measured on, and all labels there are for them."""

import dataclasses

import numpy as np
from jaxtyping import Bool, Float, Int

from neg_contrast import errors
from neg_contrast.data import answers as answers_lib
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import examples
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.retrieval import bm25_search, own_passages
from neg_contrast.settings import config as config_lib

_DEPTH = 100  # Of BM25, for the labels that are no positives.


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


def choose_labels(
    settings: config_lib.NceConfig,
    bm25: config_lib.EvaluationConfig,
    seed: int,
    dataset: dataset_lib.Dataset,
    judgements: prepared_lib.Judgements,
    split: str,
) -> LabelSpace:
  """Random queries of distinct positives, and what BM25 finds for them.

  Half of the labels in Appendix C are gold for some query; the others contain
  its mention. Here BM25 gives them: the best passage of each query in turn that
  is no positive of any of the queries and not taken yet.

  Args:
    settings: how many queries and labels.
    bm25: of its `bm25_k1` and `bm25_b`, and the rule for answers.
    seed: of the choice.
    dataset: of the passages.
    judgements: of the queries to choose from.
    split: names them in an error, by what sets them.

  Raises:
    UserError: the split has too few queries of distinct positives, or BM25
      finds too few passages.
  """
  prepared = dataset.prepared
  groups, known = prepared.passage_groups, examples.known_positives(prepared)
  query_rows, golds = _choose_pairs(
      settings.queries, seed, groups,
      judgements.select(judgements.grades > 0), split,
  )
  others = _find_others(settings.labels, bm25, dataset, query_rows, golds)
  passage_rows = np.concatenate([golds, others])
  is_positive = (
      groups[passage_rows][None, :, None] == known[query_rows][:, None, :]
  ).any(axis=2)
  own = np.eye(*is_positive.shape) > 0
  texts = [prepared.passages[int(row)].text for row in passage_rows]
  holds_answer = np.array([
      [bool(answers) and answers_lib.has_answer(
          text, answers, bm25.answer_rule) for text in texts]
      for answers in (prepared.queries[int(row)].answers for row in query_rows)
  ])
  return LabelSpace(
      query_rows, passage_rows, own | ~is_positive,
      holds_answer & ~is_positive,
  )


def _choose_pairs(
    count: int,
    seed: int,
    groups: np.ndarray,
    judged: prepared_lib.Judgements,
    split: str,
) -> tuple[np.ndarray, np.ndarray]:
  """Rows of random queries, and of a positive of each; no two of one group."""
  pairs: dict[int, tuple[int, int]] = {}  # Group -> query and passage.
  queries: set[int] = set()
  order = np.random.default_rng(seed).permutation(len(judged.grades))
  for query, passage in zip(judged.query_rows[order].tolist(),
                            judged.passage_rows[order].tolist(), strict=True):
    group = int(groups[passage])
    if len(pairs) < count and (
        group not in pairs and query not in queries
    ):
      pairs[group] = query, passage
      queries.add(query)
  if len(pairs) < count:
    raise errors.UserError(
        f'{errors.key("nce.queries")}={count}: {split} has '
        f'{len(pairs)} with distinct positives; name another split, or ask for '
        'fewer'
    )
  query_rows, golds = (
      np.array(column, np.int32) for column in zip(*pairs.values(), strict=True)
  )
  return query_rows, golds


def _find_others(
    count: int,
    bm25: config_lib.EvaluationConfig,
    dataset: dataset_lib.Dataset,
    query_rows: np.ndarray,
    golds: np.ndarray,
) -> np.ndarray:
  """Rows of passages that BM25 finds; `count` labels with the gold ones."""
  prepared = dataset.prepared
  groups, known = prepared.passage_groups, examples.known_positives(prepared)
  positives = set(known[query_rows].reshape(-1).tolist())
  found = own_passages.search_rows(
      bm25_search.Bm25Search(bm25, dataset), dataset, query_rows,
      min(_DEPTH, len(prepared.passages)),
  ).rows
  taken: dict[int, int] = {}  # Group -> passage.
  for passage in found.T.reshape(-1).tolist():
    if passage < 0 or len(golds) + len(taken) == count:
      continue
    group = int(groups[passage])
    if group not in positives:
      taken.setdefault(group, passage)
  if len(golds) + len(taken) < count:
    raise errors.UserError(
        f'{errors.key("nce.labels")}={count}: BM25 finds '
        f'{len(taken)} passages beside the {len(golds)} positives; ask for '
        'fewer'
    )
  return np.fromiter(taken.values(), np.int32)


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
