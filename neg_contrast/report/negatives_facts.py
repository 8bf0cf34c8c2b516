"""Gathers what a pool of hard negatives holds, for `report.html`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from absl import logging

from neg_contrast import errors
from neg_contrast.data import answers as answers_lib
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import examples, records
from neg_contrast.mining import analysis, strategies
from neg_contrast.mining import texts as texts_lib
from neg_contrast.negatives import drawing
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.report import negatives_page as page
from neg_contrast.settings import config as config_lib

_SHOWN = 4  # Queries.
_HUBS = 5
_RANDOM = 50  # Passages of the corpus for each sampled query.
_SEED = 0


@runtime_checkable
class Mined(Protocol):
  """A finished pool, as `mining.pool_folder.PoolFolder` has it."""

  @property
  def pool(self) -> pool_lib.Pool:
    """The candidates and which of them are negatives."""
    ...

  @property
  def dataset(self) -> dataset_lib.Dataset:
    """The data whose queries they are for."""
    ...

  @property
  def texts(self) -> texts_lib.Texts:
    """Their words."""
    ...


def describe(
    negatives: Mined,
    evaluation: config_lib.EvaluationConfig,
) -> page.Negatives:
  """All that the page says of a pool.

  Args:
    negatives: pool and texts.
    evaluation: how answers are found.
  """
  pool, texts, prepared = (
      negatives.pool, negatives.texts, negatives.dataset.prepared
  )
  lines = analysis.sample_lines(len(pool))
  query_rows = np.asarray(pool.query_rows[lines])
  answers = [prepared.queries[int(row)].answers for row in query_rows]
  positives = examples.known_positives(prepared)[query_rows]
  random = drawing.draw_from_corpus(
      len(prepared.passages), prepared.passage_groups, positives, _RANDOM,
      _SEED, 0, query_rows,
  ).rows
  suspects = _suspects(
      pool, texts, lines, random, positives, answers, evaluation.answer_rule
  )
  chosen = analysis.telling_lines(pool, lines, _SHOWN)
  shown = [
      _show_query(
          prepared.queries[int(query_rows[place])], texts,
          [int(row) for row in positives[place] if row >= 0],
          _negatives_of(pool, int(lines[place])), int(random[place, 0]),
          evaluation.answer_rule,
      )
      for place in np.searchsorted(lines, chosen)
  ]
  return page.Negatives(
      analysis.summarize(pool, prepared.passage_groups), len(lines),
      suspects[:-1], suspects[-1], tuple(shown), _hubs(pool, texts, lines),
  )


def _hubs(
    pool: pool_lib.Pool, texts: texts_lib.Texts, lines: np.ndarray
) -> page.Hubs:
  """The passages that are negatives of most queries."""
  drawn = np.asarray(pool.rows[lines])[pool.is_negative(lines)]
  rows, counts = np.unique(drawn, return_counts=True)
  top = []
  for place in np.argsort(-counts, kind='stable')[:_HUBS]:
    passage = texts(int(rows[place]))
    top.append((passage.id, passage.title or passage.text, int(counts[place])))
  return page.Hubs(len(drawn), len(rows), tuple(top))


def _suspects(
    pool: pool_lib.Pool,
    texts: texts_lib.Texts,
    lines: np.ndarray,
    random: np.ndarray,
    positives: np.ndarray,
    answers: Sequence[Sequence[str]],
    rule: str,
) -> tuple[analysis.Suspects, ...]:
  """Of each source, and of random passages at last."""
  answerable = np.array([bool(some) for some in answers])

  def count(rows, where, gaps, parts):
    try:
      hits = texts_lib.find_answers(texts.some, answers, rows, where, rule)
      known = answerable
    except errors.UserError as e:  # A pattern that backtracks without end.
      logging.warning('the report does not look for answers: %s', e)
      hits, known = np.zeros_like(where), np.zeros_like(answerable)
    copies = analysis.near_copies(texts, positives, rows, where)
    return [analysis.count_suspects(name, ours, known, hits, copies, gaps)
            for name, ours in parts.items()]

  rows, negative = np.asarray(pool.rows[lines]), pool.is_negative(lines)
  source, drawn = pool.source[lines], random >= 0
  return (
      *count(rows, negative, analysis.score_gaps(pool, lines), {
          name: negative & (source == number)
          for number, name in enumerate(pool.sources)
      }),
      *count(random, drawn, np.full(random.shape, np.nan), {'random': drawn}),
  )


def _negatives_of(
    pool: pool_lib.Pool, line: int
) -> dict[int, list[page.Place]]:
  """Rows of the best negatives of the sources for a query, and their places."""
  found: dict[int, list[page.Place]] = {}
  for name, place in analysis.best_of_each(pool, line).items():
    own = float(pool.positive_scores[line, pool.sources.index(name)])
    is_compared = strategies.is_ranked(name) and np.isfinite(own)
    found.setdefault(int(pool.rows[line, place]), []).append(page.Place(
        name, int(pool.rank[line, place]),
        None if name == 'given' else float(pool.score[line, place]),
        own if is_compared else None,
    ))
  return found


def _show_query(
    query: records.Query,
    texts: Callable[[int], records.Passage],
    positives: Sequence[int],
    negatives: Mapping[int, Sequence[page.Place]],
    random: int,
    rule: str,
) -> page.ShownQuery:
  """A query with its positive, a negative of each source and a random one."""

  def show(role: str, row: int, places: Sequence[page.Place] = ()):
    passage = texts(row)
    try:
      has_answer = answers_lib.has_answer(passage.text, query.answers, rule)
    except errors.UserError:
      has_answer = False
    return page.ShownPassage(role, passage.id, passage.title, passage.text,
                             tuple(places), has_answer)

  return page.ShownQuery(query.id, query.text, query.answers, len(positives), (
      *(show('positive', row) for row in positives[:1]),
      *(show('negative', *found) for found in negatives.items()),
      *(show('random', row) for row in [random] if row >= 0),
  ))


def read_refreshes(
    told: Mapping[int, Mapping[str, Any]],
) -> page.Refreshes:
  """What the log says of negatives that were made again, as a table.

  Args:
    told: first step -> what `RunLog.write_refresh` took.
  """

  def value_of(facts: Mapping[str, Any], path: str) -> Any:
    group, _, name = path.rpartition('/')
    return (facts.get(group, {}) if group else facts).get(name)

  shown = {path: column for path, column in page.REFRESH_COLUMNS.items()
           if any(value_of(facts, path) is not None for facts in told.values())}
  text = lambda value, form: '–' if value is None else form.format(value)
  return page.Refreshes(
      tuple(heading for heading, _ in shown.values()),
      tuple((step, tuple(text(value_of(facts, path), form)
                         for path, (_, form) in shown.items()))
            for step, facts in told.items()),
  )


def read_contrast(
    steps: Mapping[int, Mapping[str, Mapping[str, float]]],
) -> page.Contrast:
  """What the positives were up against, as curves.

  Args:
    steps: step -> source -> `score`, `mass` and `accuracy` of its log record.
      Where a source gave no negatives, its curves have no point.
  """
  points: dict[str, list[tuple[int, Mapping[str, float]]]] = {}
  for step, by_source in steps.items():
    for source, values in by_source.items():
      if values['mass'] or values['score']:
        points.setdefault(source, []).append((step, values))
  return {
      kind: {
          source: (np.array([step for step, _ in some]),
                   np.array([values[kind] for _, values in some]))
          for source, some in points.items()
      }
      for kind in page.KINDS if points
  }
