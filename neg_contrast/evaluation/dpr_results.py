"""Rankings as DPR's retrieval results, which its readers are trained on.

A json array of `{question, answers, ctxs}` with `{id, title, text, score,
has_answer}` in ctxs, best first; the score is a string. As `save_results` in
DPR's `dense_retriever.py` writes it, in ASCII with an indent of 4.
"""

import dataclasses
import json
import pathlib
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from neg_contrast.artifacts import atomic
from neg_contrast.data import answers as answer_rule


@dataclasses.dataclass(frozen=True)
class Passage:
  """A passage in a ranking.

  Attributes:
    id: in the corpus.
    title: may be empty; no answer is looked for in it.
    text: the passage without its title.
    score: of the system, rounded to float32 in the file.
  """

  id: str
  title: str
  text: str
  score: float


@dataclasses.dataclass(frozen=True)
class Result:
  """What was found for a question.

  Attributes:
    question: its text.
    answers: strings, or patterns under the rule `regex`.
    passages: best first.
  """

  question: str
  answers: Sequence[str]
  passages: Sequence[Passage]


def write(
    path: pathlib.Path, results: Iterable[Result], rule: str = 'string'
) -> None:
  """Writes results atomically; one question is in memory at a time.

  Args:
    path: the file to write, gzip if it ends in .gz.
    results: in the order of the file.
    rule: what `has_answer` means, see `answers.has_answer`.

  Raises:
    UserError: an answer pattern backtracks without end.
    ValueError: a score is not finite, or the rule is unknown.
  """
  with atomic.writing(path) as f:
    before = '[\n'
    for result in results:
      item = json.dumps(_item(result, rule), indent=4)
      f.write(before + textwrap.indent(item, ' ' * 4))
      before = ',\n'
    f.write('[]\n' if before == '[\n' else '\n]\n')


def _item(result: Result, rule: str) -> dict[str, Any]:
  return {
      'question': result.question,
      'answers': list(result.answers),
      'ctxs': [_context(passage, result, rule) for passage in result.passages],
  }


def _context(passage: Passage, result: Result, rule: str) -> dict[str, Any]:
  score = np.float32(passage.score)
  if not np.isfinite(score):
    raise ValueError(
        f'passage {passage.id!r} has {score} for {result.question!r}'
    )
  return {
      'id': passage.id,
      'title': passage.title,
      'text': passage.text,
      'score': str(score),
      'has_answer': answer_rule.has_answer(passage.text, result.answers, rule),
  }
