"""A corpus of random words with the lengths of a real one, and vectors.

What takes time does not depend on what the words mean.
"""

import json
import pathlib
import statistics
from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from neg_contrast import errors
from neg_contrast.artifacts import arrays, folders
from neg_contrast.data import tokenizer as tokenizer_lib
from neg_contrast.data.formats import qrels

SPLIT = 'train'
"""The judgements of all queries but one, which is in `TUNE`."""
TUNE = 'tune'

_SPREAD = 0.18  # Standard deviation of lengths by their mean: assumed.
_TITLE = 4  # Tokens.
_MOST_KNOWN = 8  # Positives of a query; from 1, all as likely.
_AT_ONCE = 4096
_VECTORS_AT_ONCE = 50_000
_FORMAT = 1


def lengths(count: int, mean: int, most: int) -> Int[np.ndarray, ' count']:
  """`[count] int64` lengths in no particular order, normal about a mean.

  Args:
    count: how many.
    mean: of them, before they are cut.
    most: what they are cut to; 3 is the least.
  """
  normal = statistics.NormalDist(mean, _SPREAD * mean)
  parts = (np.random.default_rng(0).permutation(count) + 0.5) / count
  drawn = np.rint([normal.inv_cdf(part) for part in parts.tolist()])
  return np.clip(drawn, 3, most).astype(np.int64)


def vectors(
    count: int, features: int
) -> Float[np.ndarray, 'count features']:
  """`[count, features] float32` unit vectors, see `fill_vectors`."""
  made = np.empty((count, features), np.float32)
  fill_vectors(made, np.random.default_rng(0))
  return made


def fill_vectors(
    made: Float[np.ndarray, 'count features'], rng: np.random.Generator
) -> None:
  """Writes unit vectors that are like those of passages.

  They lie about articles, and these about topics, of uneven sizes: 0.15 of the
  variance is that of topics, 0.35 that of articles.

  Args:
    made: `[count, features] float32`, mapped or not; gets them.
    rng: draws them.
  """
  count, features = made.shape
  draw = lambda some: draw_normal(rng, some, features)

  def choose(some: int, among: int) -> np.ndarray:
    weights = np.arange(1, among + 1) ** -0.6
    return rng.choice(among, some, p=weights / weights.sum())

  articles = max(4, count // 40)
  topics = max(8, articles // 40)
  centres = 0.15**0.5 * draw(topics)[choose(articles, topics)]
  centres += 0.35**0.5 * draw(articles)
  for begin in range(0, count, _VECTORS_AT_ONCE):
    part = made[begin : begin + _VECTORS_AT_ONCE]
    part[:] = centres[choose(len(part), articles)]
    part += 0.5**0.5 * draw(len(part))
    part /= np.linalg.norm(part, axis=1, keepdims=True)


def draw_normal(
    rng: np.random.Generator, count: int, features: int
) -> Float[np.ndarray, 'count features']:
  """`[count, features] float32` normal vectors of mean 0 and variance 1 in all.

  Features vary less and less, as those of sentence embeddings do along their
  principal axes: of 384, the first 20 hold 0.42 of the variance and the first
  100 hold 0.85. Of all-MiniLM-L6-v2 on SQuAD dev they hold 0.42 and 0.82.

  Args:
    rng: draws them.
    count: of vectors.
    features: of each.
  """
  place = np.arange(features)
  variances = np.exp(-place / 130) / (1 + place / 16)
  deviations = np.sqrt(variances / variances.sum()).astype(np.float32)
  drawn = rng.standard_normal((count, features), dtype=np.float32)
  return drawn * deviations


def write(
    folder: pathlib.Path,
    tokenizer: tokenizer_lib.Tokenizer,
    passages: int,
    queries: int,
    passage_tokens: int,
    query_tokens: int,
) -> None:
  """Writes a BEIR folder, unless it is there.

  Args:
    folder: to make.
    tokenizer: of which every word is one token.
    passages: of the corpus, each with a title.
    queries: with one to eight positives each.
    passage_tokens: of an input sequence on average, special ones included.
    query_tokens: the same of queries.

  Raises:
    UserError: the tokenizer has no whole words.
  """
  made: dict[str, Any] = {
      'format': _FORMAT, 'tokenizer': tokenizer.sha256, 'passages': passages,
      'queries': queries, 'tokens': [passage_tokens, query_tokens],
  }
  if folders.read_manifest(folder) == made:
    arrays.check_folder(folder)
    return
  words = np.array(tokenizer.whole_words)
  if not len(words):
    raise errors.UserError(
        'the tokenizer of this model has no whole words to make a corpus of; '
        f'name one with --{errors.key("data.source")}'
    )
  rng = np.random.default_rng(0)

  def texts(counts: np.ndarray) -> Iterator[str]:
    for begin in range(0, len(counts), _AT_ONCE):
      some = counts[begin : begin + _AT_ONCE]
      drawn = rng.integers(0, len(words), some.sum())
      for part in np.split(words[drawn], np.cumsum(some)[:-1]):
        yield ' '.join(part.tolist())

  least = lambda mean, count, special: np.maximum(
      1, lengths(count, mean, 10 * mean) - special
  )
  with folders.writing(folder, made) as scratch:
    (scratch / 'qrels').mkdir()
    _write_lines(scratch / 'corpus.jsonl', (
        {'_id': f'p{row}', 'title': title, 'text': text}
        for row, (title, text) in enumerate(zip(
            texts(np.full(passages, _TITLE)),
            texts(least(passage_tokens, passages, _TITLE + 3)), strict=True,
        ))
    ))
    _write_lines(scratch / 'queries.jsonl', (
        {'_id': f'q{row}', 'text': text} for row, text in enumerate(
            texts(least(query_tokens, queries + 1, 2))
        )
    ))
    known = rng.integers(1, 1 + min(_MOST_KNOWN, passages), queries + 1)
    for split, rows in ((SPLIT, range(queries)), (TUNE, [queries])):
      with open(scratch / 'qrels' / f'{split}.tsv', 'w') as f:
        f.write(qrels.header())
        for row in rows:
          for passage in set(rng.integers(0, passages, known[row]).tolist()):
            f.write(qrels.line(f'q{row}', f'p{passage}', 1))


def _write_lines(path: pathlib.Path, rows: Iterator[dict[str, str]]) -> None:
  with open(path, 'w', encoding='utf-8') as f:
    for row in rows:
      f.write(json.dumps(row) + '\n')
