"""Generated questions of a corpus beside those that people asked."""

import collections
import dataclasses
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from neg_contrast.data import prepared as prepared_lib
from neg_contrast.stage1 import question_statistics

_COMPARED = 5000  # Passages that both kinds of questions are compared on.


def compare_with_gold(
    prepared: prepared_lib.Prepared,
    split: str,
    pairs: Iterable[Mapping[str, Any]],
) -> dict[str, dict[str, Any]]:
  """Statistics of generated questions, beside gold ones where there are any.

  Args:
    prepared: corpus, queries and judgements.
    split: judgements whose queries are the gold questions, if it has them.
    pairs: `query` and `passage_id` of the generated questions, passage by
      passage; those of the first 5,000 passages are compared.

  Returns:
    `generated`, `gold` and `agreement` -> name -> value, as json.
  """
  made: dict[str, list[str]] = collections.defaultdict(list)
  for pair in pairs:
    if len(made) >= _COMPARED and pair['passage_id'] not in made:
      break
    made[pair['passage_id']].append(pair['query'])
  asked = _gold_questions(prepared, split, made) if made else {}

  def describe(questions):
    text_of = {
        name: prepared.passages[prepared.passage_ids.row_of(name)].text
        for name in questions
    }
    return dataclasses.asdict(question_statistics.describe_questions([
        (question, text_of[name]) for name, some in questions.items()
        for question in some
    ]))

  result = {'generated': describe(made)} if made else {}
  if asked:
    result['gold'] = describe(asked)
    result['agreement'] = dataclasses.asdict(
        question_statistics.compare_questions(made, asked)
    )
  return result


def _gold_questions(
    prepared: prepared_lib.Prepared, split: str, passages: Collection[str]
) -> dict[str, list[str]]:
  """Passage id -> questions that people asked of it, for some passages."""
  asked: dict[str, list[str]] = collections.defaultdict(list)
  if split not in prepared.splits:
    return asked
  judgements = prepared.judgements(split)
  positive = judgements.grades > 0
  for query, row in zip(judgements.query_rows[positive],
                        judgements.passage_rows[positive], strict=True):
    name = prepared.passage_ids[int(row)].decode()
    if name in passages:
      asked[name].append(prepared.queries[int(query)].text)
  return asked
