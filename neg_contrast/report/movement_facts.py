"""Gathers the queries that two systems answer differently, for a report."""

from collections.abc import Collection, Mapping, Sequence

from neg_contrast import errors
from neg_contrast.data import answers as answers_lib
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.data import records
from neg_contrast.evaluation import metrics, trec
from neg_contrast.evaluation.metrics import metric
from neg_contrast.report import contents, data_facts, movement, system_facts
from neg_contrast.settings import config as config_lib

_SHOWN = 8  # Queries that rose, and as many that fell.


def moves(
    pair: tuple[system_facts.Evaluated, system_facts.Evaluated],
    split: str,
    evaluation: config_lib.EvaluationConfig,
    prepared: prepared_lib.Prepared,
) -> contents.Moves | None:
  """The queries that moved most between two rankings."""
  judgements = data_facts.judgements(prepared, split)
  if judgements is None or not all(system.run.exists() for system in pair):
    return None
  rows = {prepared.query_ids[row].decode(): int(row)
          for row in judgements.queries}
  positives = _positives(prepared, judgements)
  sides = [_ranks(system, positives) for system in pair]
  if not all(ranks for ranks, _ in sides):
    return None
  moved = movement.compare(sides[0][0], sides[1][0])
  names = tuple(
      tuple(query for query in side if query in rows)[:_SHOWN]
      for side in (moved.risen, moved.fallen)
  )
  found = []
  for system in pair:
    with open(system.run, 'rb') as lines:
      found.append(movement.rankings(lines, names[0] + names[1]))

  def show(query: str) -> contents.MovedQuery:
    return _show_query(
        prepared.queries[rows[query]], evaluation,
        positives.get(query, set()),
        (found[0][query], found[1][query]),
        [say(ranks[query]) for ranks, say in sides], prepared,
    )

  risen, fallen = ([show(query) for query in side] for side in names)
  return contents.Moves(
      pair[0].name, pair[1].name,
      'first positive passage' if positives else
      'first passage that holds an answer',
      tuple(risen), tuple(fallen),
      len(moved.risen), len(moved.fallen), moved.same,
      tuple((rank, sides[1][0][query]) for query, rank in sides[0][0].items()
            if query in sides[1][0]),
  )


def _positives(
    prepared: prepared_lib.Prepared, judgements: prepared_lib.Judgements
) -> dict[str, set[str]]:
  """Passage ids of each query that has a positive."""
  positives: dict[str, set[str]] = {}
  is_positive = judgements.grades > 0
  for query, passage in zip(judgements.query_rows[is_positive],
                            judgements.passage_rows[is_positive], strict=True):
    positives.setdefault(prepared.query_ids[query].decode(), set()).add(
        prepared.passage_ids[passage].decode()
    )
  return positives


def _ranks(system: system_facts.Evaluated, positives: Mapping[str, set[str]]):
  """Ranks of the first positives, and what to call a rank.

  Without judgements, those of the cut-offs of answer accuracy, if any.
  """
  if positives:
    with open(system.run, 'rb') as lines:
      ranks, depth = movement.first_ranks(lines, positives)
    return ranks, lambda rank: f'>{depth}' if rank is None else f'{rank}'
  cuts = {
      cut: system.per_query[metric] for metric in system.per_query
      if (cut := _cut_of_answers(metric))
  }
  deepest = max(cuts, default=0)
  return movement.first_cuts(cuts), lambda rank: (
      f'>{deepest}' if rank is None else f'top {rank}'
  )


def _show_query(
    query: records.Query,
    evaluation: config_lib.EvaluationConfig,
    positives: Collection[str],
    rankings: Sequence[trec.Ranking],
    ranks: Sequence[str],
    prepared: prepared_lib.Prepared,
) -> contents.MovedQuery:
  """A query with its positive and the first passages of two rankings."""
  before, after = (
      {passage: contents.Place(rank, score)
       for rank, (passage, score) in enumerate(ranking, 1)}
      for ranking in rankings
  )
  roles: dict[str, list[str]] = {}
  if positives:
    roles[_best_ranked(positives, rankings)] = ['positive']
  for role, ranking in zip(('first before', 'first after'), rankings,
                           strict=True):
    if ranking:
      roles.setdefault(ranking[0][0], []).append(role)
  # Patterns that no evaluation has tried may backtrack without end.
  is_tried = evaluation.answer_ks or evaluation.answer_rule != 'regex'
  answers = query.answers if is_tried else ()
  passages = []
  for passage, why in roles.items():
    row = prepared.passage_ids.row_of(passage)
    record = None if row is None else prepared.passages[row]
    passages.append(contents.ShownPassage(
        id=passage,
        title='' if record is None else record.title,
        text=None if record is None else record.text,
        roles=tuple(why),
        before=before.get(passage, contents.Place()),
        after=after.get(passage, contents.Place()),
        is_positive=passage in positives,
        has_answer=record is not None and answers_lib.has_answer(
            record.text, answers, evaluation.answer_rule
        ),
    ))
  return contents.MovedQuery(
      query.id, query.text, query.answers, ranks[0], ranks[1], len(positives),
      tuple(passages),
  )


def _best_ranked(
    positives: Collection[str], rankings: Sequence[trec.Ranking]
) -> str:
  """The positive that stands highest in either ranking, or the first id."""
  found = [
      (rank, passage) for ranking in rankings
      for rank, (passage, _) in enumerate(ranking) if passage in positives
  ]
  return min(found)[1] if found else min(positives)


def _cut_of_answers(name: str) -> int | None:
  """The k of a metric that is 1 where one of the top k passages answers."""
  try:
    parsed = metrics.parse(name)
  except errors.UserError:  # Of another revision.
    return None
  is_answer = parsed.metric.needs == (metric.ANSWERS,)
  return parsed.asked.cut if parsed.metric.first_passage and is_answer else None
