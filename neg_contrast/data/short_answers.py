"""A source whose queries have short answers: Natural Questions' rule.

Lu et al., section 5.1, after Lee et al. (2019): only questions with an answer
of at most five tokens are kept. A token is a word between white space here.
Natural Questions counts tokens of its own, which are never fewer; so files that
were made by the rule, such as DPR's, stay as they are.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Iterator
from typing import Any

from absl import logging

from neg_contrast.data import records


class ShortAnswers:
  """A source without long answers, and without queries that have no others.

  Their judgements are left out too; passages stay as they are. Ids of the
  queries that are left out are in memory.
  """

  def __init__(
      self,
      source: records.Source,
      most_words: int,
      invalid: records.InvalidRecords,
  ):
    """Wraps a source.

    Args:
      source: gives queries with answers.
      most_words: of an answer that is kept.
      invalid: of that source.
    """
    self._source, self._most_words = source, most_words
    self._invalid = invalid

  @property
  def files(self) -> tuple[pathlib.Path, ...]:
    """Those of the source."""
    return self._source.files

  @property
  def splits(self) -> tuple[str, ...]:
    """Those of the source."""
    return self._source.splits

  @property
  def passage_files(self) -> tuple[pathlib.Path, ...]:
    """Those of the source."""
    source = records.in_lines(self._source)
    return source.passage_files if source else ()

  def passages_of(self, lines: Any) -> Iterator[records.Passage]:
    """Those of the source."""
    source = records.in_lines(self._source)
    return source.passages_of(lines) if source else iter(())

  def passages(self) -> Iterator[records.Passage]:
    """All of the source."""
    return self._source.passages()

  def queries(self) -> Iterator[records.Query]:
    """Those with a short answer, with their short answers."""
    for query in self._source.queries():
      answers = self._short(query)
      if answers:
        yield dataclasses.replace(query, answers=answers)

  def judgements(self, split: str) -> Iterator[records.Judgement]:
    """Those of the queries that are kept."""
    for judgement in self._source.judgements(split):
      if judgement.query_id not in self._left_out:
        yield judgement

  @functools.cached_property
  def _left_out(self) -> frozenset[str]:
    """Ids of queries without a short answer."""
    with self._invalid.quiet():
      found = frozenset(query.id for query in self._source.queries()
                        if not self._short(query))
    logging.info('%d queries without an answer of at most %d words are left '
                 'out', len(found), self._most_words)
    return found

  def _short(self, query: records.Query) -> tuple[str, ...]:
    return tuple(answer for answer in query.answers
                 if len(answer.split()) <= self._most_words)
