"""How synthetic questions differ from those people asked. Pure.

Words are case folded, as in `data/likeness.py`.
"""

import collections
import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from typing import TypeVar

from neg_contrast.data import scripts

QUESTION_WORDS = frozenset((
    'who', 'whom', 'whose', 'what', 'which', 'when', 'where', 'why', 'how',
    'am', 'is', 'are', 'was', 'were', 'do', 'does', 'did', 'has', 'have', 'had',
    'can', 'could', 'will', 'would', 'shall', 'should', 'may', 'might', 'must',
))
"""First words that mark a question: wh-words and auxiliaries of English."""
TOP_FIRST_WORDS = 10

Key = TypeVar('Key')


@dataclasses.dataclass(frozen=True)
class Questions:
  """What a list of questions looks like.

  Attributes:
    count: how many there are.
    mean_words: of a question.
    distinct_share: different questions, words alone compared, as a part of all.
    copy_rate: part of all questions' words that occur in their passage.
    mean_copied_run: words of the longest run of a question's words that stands
      in its passage without a gap, on average.
    question_word_share: part that begins with one of `QUESTION_WORDS`.
    first_words: the most frequent first words and their parts, falling.
  """

  count: int
  mean_words: float
  distinct_share: float
  copy_rate: float
  mean_copied_run: float
  question_word_share: float
  first_words: tuple[tuple[str, float], ...]


@dataclasses.dataclass(frozen=True)
class Agreement:
  """How near made questions come to the asked ones of the same passage.

  Attributes:
    passages: that have both.
    made_f1: of the made questions, the mean best `overlap_f1` with an asked
      one: low where they ask for other things.
    asked_f1: of the asked questions, the mean best with a made one: low where
      what people ask is missed.
  """

  passages: int
  made_f1: float
  asked_f1: float


def describe_questions(pairs: Sequence[tuple[str, str]]) -> Questions:
  """Statistics of (question, text of its passage).

  Raises:
    ValueError: there are no pairs, or no question has a word.
  """
  asked = [_words(question) for question, _ in pairs]
  total = sum(map(len, asked))
  if not total:
    raise ValueError('there are no questions to describe')
  texts = [_words(text) for _, text in pairs]
  firsts = collections.Counter(words[0] for words in asked if words)
  frequent = sorted(((times, word) for word, times in firsts.items()),
                    key=lambda pair: (-pair[0], pair[1]))
  marked = sum(firsts[word] for word in QUESTION_WORDS)
  shared = sum(word in known
               for words, known in zip(asked, map(set, texts), strict=True)
               for word in words)
  return Questions(
      count=len(asked),
      mean_words=total / len(asked),
      distinct_share=len(set(map(tuple, asked))) / len(asked),
      copy_rate=shared / total,
      mean_copied_run=statistics.fmean(map(copied_run, asked, texts)),
      question_word_share=marked / len(asked),
      first_words=tuple((word, times / len(asked)) for times, word
                        in frequent[:TOP_FIRST_WORDS]),
  )


def compare_questions(
    made: Mapping[Key, Sequence[str]],
    asked: Mapping[Key, Sequence[str]],
) -> Agreement:
  """Compares the questions of the passages that have both kinds.

  Args:
    made: passage -> its synthetic questions.
    asked: passage -> its gold questions.

  Raises:
    ValueError: no passage has both.
  """
  common = [key for key, questions in made.items()
            if questions and asked.get(key)]
  if not common:
    raise ValueError('no passage has both made and asked questions')
  best = lambda ours, theirs: [max(overlap_f1(question, other)
                                   for other in theirs) for question in ours]
  return Agreement(
      passages=len(common),
      made_f1=statistics.fmean(
          f1 for key in common for f1 in best(made[key], asked[key])),
      asked_f1=statistics.fmean(
          f1 for key in common for f1 in best(asked[key], made[key])),
  )


def overlap_f1(ours: str, theirs: str) -> float:
  """F1 of shared words, each as often as both have it; 0 if none is shared.

  The measure of SQuAD's answers (Rajpurkar et al. 2016, section 6.1), without
  dropping articles.
  """
  ours_words, theirs_words = _words(ours), _words(theirs)
  shared = collections.Counter(ours_words) & collections.Counter(theirs_words)
  return 2 * shared.total() / max(1, len(ours_words) + len(theirs_words))


def copied_run(words: Sequence[str], text: Sequence[str]) -> int:
  """Words of the longest run that two lists of words share."""
  inside = f' {" ".join(text)} '
  longest = 0
  for first in range(len(words)):
    while first + longest < len(words) and (
        f' {" ".join(words[first : first + longest + 1])} ' in inside):
      longest += 1
  return longest


def _words(text: str) -> list[str]:
  return scripts.words(text.casefold())
