"""Does a passage hold an answer? The rule of DPR, for metrics and mining.

Karpukhin et al. 2020, section 5, in the form of DPR's `qa_validation.py`, with
the tokenizer of DrQA (Chen et al. 2017).
"""

import functools
import unicodedata
from collections.abc import Sequence
from typing import Any

import regex

from neg_contrast import errors

_WORD = regex.compile(r'[\p{L}\p{N}\p{M}]+|[^\p{Z}\p{C}]')
_PATTERN_FLAGS = regex.IGNORECASE | regex.UNICODE | regex.MULTILINE
_PATTERN_TIMEOUT_SECONDS = 10.0  # a normal search takes microseconds


def has_answer(
    text: str, answers: Sequence[str], rule: str = 'string'
) -> bool:
  """Whether any of the answers is found in a passage.

  As in DPR, an answer without a single token (a blank one) is found everywhere:
  data should hold none.

  Args:
    text: the passage without its title.
    answers: strings, or patterns under the rule `regex`.
    rule: `string` compares runs of lower-cased tokens; `regex` searches the
      text for a pattern, ignoring case; a pattern that does not compile is
      never found. Both normalise to NFD first.

  Raises:
    UserError: a pattern backtracks without end.
    ValueError: an unknown rule.
  """
  if rule == 'string':
    text_words = _words(text)
    return any(_words(answer) in text_words for answer in answers)
  if rule == 'regex':
    text = _normalize(text)
    return any(_finds(answer, text) for answer in answers)
  raise ValueError(f'no answer rule {rule!r}; there are string and regex')


# A passage is asked about by many queries and an answer in many passages. 32k
# passages of 100 words are about 60 MB.
@functools.lru_cache(maxsize=32768)
def _words(text: str) -> str:
  """Lower-cased tokens, each preceded and followed by a space.

  No token holds a space, so a run of tokens is a substring. Tokens are
  lower-cased one by one: the Greek sigma depends on what follows it.
  """
  tokens = _WORD.findall(_normalize(text))
  return ' '.join(['', *(token.lower() for token in tokens), ''])


@functools.lru_cache(maxsize=32768)
def _compile(answer: str) -> Any:
  """The compiled pattern, or None where it is not a valid one."""
  try:
    return regex.compile(_normalize(answer), flags=_PATTERN_FLAGS)
  except Exception:  # not only regex.error: DPR, too, takes any failure so
    return None


def _finds(answer: str, normalized_text: str) -> bool:
  pattern = _compile(answer)
  if pattern is None:
    return False
  try:
    match = pattern.search(normalized_text, timeout=_PATTERN_TIMEOUT_SECONDS)
  except TimeoutError:
    raise errors.UserError(
        f'the answer pattern {answer!r} took over {_PATTERN_TIMEOUT_SECONDS} s '
        'on one passage: it backtracks without end. Simplify its nested '
        'repeats, or use the rule "string"'
    ) from None
  return match is not None


def _normalize(text: str) -> str:
  return unicodedata.normalize('NFD', text)
