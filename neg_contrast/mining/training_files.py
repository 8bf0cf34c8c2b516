"""A pool as training files of other libraries, a query at a time.

The negatives of a query stand source by source, in the order of the pool's
sources, and within a source by rank. Passages with a title are, where a format
has no field for it, the text that stands for them in sentence-transformers
folders that we write (`models/exporting.py`): `title [SEP] text`.

| format | a file of | a query without negatives |
|---|---|---|
| `dpr` | one array, a query an item | has its positives only |
| `tevatron` | lines, a query each | is left out: its loader draws from none |
| `flag_embedding` | lines, a query each | is left out: it divides by none |
| `triplets` | lines, a negative each, for sentence-transformers | is left out |

Scores are those of a judge, where the pool has one, which a student is taught
by, with `probability`, calibrated, in `dpr`; else those of a search, where all
are of one. What a judge made a positive stands behind the others.
Keys that the libraries do not ask for are the ids: `question_id` in `dpr`;
`query_id`, `pos_id` and `neg_id` in `flag_embedding`. All text is ASCII with
json's escapes, so that no locale and no line separator in it can break a file.
"""

import contextlib
import dataclasses
import json
import pathlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from jaxtyping import Int

from neg_contrast.data import examples, records
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.mining import strategies
from neg_contrast.models import exporting
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.negatives import verdicts as verdicts_lib

Row = dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Item:
  """A query, and what it is trained with and against.

  Attributes:
    query: with its answers.
    positives: those trained on, then others that are known; none twice.
    negatives: in the order of the pool.
    scores: of the negatives; empty: they can't be compared.
    positive_scores: of the positives, comparable with `scores`; empty: unknown;
      None: that of one is.
    probabilities: of the negatives, by a judge, that they are positives; empty:
      there is none. None: of one it has no verdict.
  """

  query: records.Query
  positives: Sequence[records.Passage]
  negatives: Sequence[records.Passage]
  scores: Sequence[float | None] = ()
  positive_scores: Sequence[float | None] = ()
  probabilities: Sequence[float | None] = ()


def read_items(
    pool: pool_lib.Pool,
    queries: Sequence[records.Query],
    positives: Callable[[int], Int[np.ndarray, ' positives']],
    texts: Callable[[int], records.Passage],
    one_positive: bool,
) -> Iterator[Item]:
  """The queries of a pool with their texts, one in memory at a time.

  Args:
    pool: whose negatives are taken.
    queries: of the data set, by row.
    positives: query row -> `[positives] int32` passage rows, see
      `positives_of`.
    texts: row, of a half passage too -> passage.
    one_positive: no query of the data set has more than one positive, so that
      the pool's score of the best one is that of it.
  """
  has_scores = (len(pool.sources) == 1
                and strategies.is_ranked(pool.sources[0]))
  relabelled = pool.relabelled()
  for line, query in enumerate(pool.query_rows.tolist()):
    places = np.flatnonzero(pool.is_negative(slice(line, line + 1))[0])
    more = relabelled[slice(*np.searchsorted(
        relabelled[:, 0], [query, query + 1]
    )), 1]
    rows = np.concatenate([positives(query), more])
    scores: Sequence[float | None] = ()
    of_positives: Sequence[float | None] = ()
    if pool.verdicts is not None:
      scores = list(map(_known, pool.verdicts.logit[line, places]))
      of_positives = _judged(pool, pool.verdicts, line, rows)
    elif has_scores:
      scores = _decimals(pool.score[line, places])
      own = _known(pool.positive_scores[line, 0]) if one_positive else None
      of_positives = [own] * len(rows)
    yield Item(
        queries[query],
        [texts(row) for row in rows.tolist()],
        [texts(row) for row in pool.rows[line, places].tolist()],
        scores, of_positives, () if pool.verdicts is None else list(
            map(_known, pool.verdicts.probability[line, places])
        ),
    )


def _judged(
    pool: pool_lib.Pool, verdicts: verdicts_lib.Verdicts, line: int,
    rows: Int[np.ndarray, ' positives'],
) -> list[float | None]:
  """The judge's scores of the positives of a query."""
  lines = np.array([line])
  return list(map(_known, verdicts.scores_of(
      lines, rows[None], pool.rows[lines]
  )[0]))


def _known(score: np.float32) -> float | None:
  """A score as `_decimals` has it; None for nan: there is none."""
  return None if np.isnan(score) else _decimals(np.array([score]))[0]


def positives_of(
    judgements: prepared_lib.Judgements,
) -> Callable[[int], Int[np.ndarray, ' positives']]:
  """Query row -> rows of its positives, those that are trained on first."""
  keep = np.flatnonzero(judgements.grades > 0)
  order = keep[np.lexsort((
      judgements.passage_rows[keep], ~examples.are_trained(judgements)[keep],
      judgements.query_rows[keep],
  ))]
  queries = judgements.query_rows[order]
  passages = judgements.passage_rows[order]
  return lambda query: passages[
      slice(*np.searchsorted(queries, [query, query + 1]))
  ]


def write(
    folder: pathlib.Path,
    split: str,
    formats: Iterable[str],
    items: Iterable[Item],
) -> dict[str, dict[str, int]]:
  """Writes the files of some formats in one reading of the items.

  Args:
    folder: for the files, `<format>-<split>.json` or `.jsonl`.
    split: of the queries.
    formats: some of `config.FORMATS`.
    items: queries without positives are left out of all files.

  Returns:
    File name -> `rows` it has, and queries `left_out` of it.
  """
  with contextlib.ExitStack() as stack:
    files = [stack.enter_context(_File(folder, split, name))
             for name in formats]
    for item in items:
      for file in files:
        file.add(item)
  return {file.path.name: {'rows': file.rows, 'left_out': file.left_out}
          for file in files}


class _File:
  """A json file that grows by items."""

  def __init__(self, folder: pathlib.Path, split: str, name: str):
    self._rows_of = _ROWS[name]
    ending, self._start, self._between, self._end = (
        ('json', '[\n', ',\n', '\n]\n') if name == 'dpr' else
        ('jsonl', '', '\n', '\n')
    )
    self.path = folder / f'{name}-{split}.{ending}'
    self.rows = self.left_out = 0

  def __enter__(self) -> '_File':
    self._f = open(self.path, 'w', encoding='ascii')
    return self

  def __exit__(self, kind, *_) -> None:
    with self._f:
      if kind is None:
        self._f.write(('' if self.rows else self._start) + self._end)

  def add(self, item: Item) -> None:
    """Writes what the format makes of a query."""
    before = self.rows
    for row in self._rows_of(item) if item.positives else ():
      self._f.write(self._between if self.rows else self._start)
      self._f.write(json.dumps(row))
      self.rows += 1
    self.left_out += self.rows == before


def _dpr(item: Item) -> Iterator[Row]:
  """DPR takes other negatives where a question has no hard ones."""
  nothing = [None] * len(item.negatives)
  scores = item.scores or nothing
  probabilities = item.probabilities or nothing
  of_positives = item.positive_scores or [None] * len(item.positives)
  yield {
      'question_id': item.query.id,
      'question': item.query.text,
      'answers': list(item.query.answers),
      'positive_ctxs': [_context(passage, score)
                        for passage, score in zip(
                            item.positives, of_positives, strict=True)],
      'negative_ctxs': [],
      'hard_negative_ctxs': list(map(
          _context, item.negatives, scores, probabilities
      )),
  }


def _context(
    passage: records.Passage, score: float | None,
    probability: float | None = None,
) -> Row:
  return {
      'title': passage.title,
      'text': passage.text,
      **({} if score is None else {'score': score}),
      **({} if probability is None else {'probability': probability}),
      'passage_id': passage.id,
  }


def _tevatron(item: Item) -> Iterator[Row]:
  if item.negatives:
    yield {
        'query_id': item.query.id,
        'query': item.query.text,
        'answers': list(item.query.answers),
        'positive_passages': list(map(_document, item.positives)),
        'negative_passages': list(map(_document, item.negatives)),
    }


def _document(passage: records.Passage) -> Row:
  """A passage of a title alone has it as its text: no text may be empty."""
  title, text = passage.title, passage.text
  if not text.strip():
    title, text = '', title
  return {'docid': passage.id, 'title': title, 'text': text}


def _flag_embedding(item: Item) -> Iterator[Row]:
  """Scores are the teacher's, which distillation needs of every passage."""
  if item.negatives:
    has_scores = item.scores and item.positive_scores and not (
        {None} & {*item.scores, *item.positive_scores}
    )
    yield {
        'query_id': item.query.id,
        'query': item.query.text,
        'pos': list(map(_text, item.positives)),
        'neg': list(map(_text, item.negatives)),
        'pos_id': [passage.id for passage in item.positives],
        'neg_id': [passage.id for passage in item.negatives],
        **({
            'pos_scores': list(item.positive_scores),
            'neg_scores': list(item.scores),
        } if has_scores else {}),
    }


def _triplets(item: Item) -> Iterator[Row]:
  positive = _text(item.positives[0])
  for negative in item.negatives:
    yield {'anchor': item.query.text, 'positive': positive,
           'negative': _text(negative)}


_ROWS: dict[str, Callable[[Item], Iterator[Row]]] = {
    'dpr': _dpr, 'tevatron': _tevatron, 'flag_embedding': _flag_embedding,
    'triplets': _triplets,
}


def _text(passage: records.Passage) -> str:
  return exporting.passage_text(passage.title, passage.text)


def _decimals(scores: np.ndarray) -> list[float]:
  """The shortest decimals that read back as these float32."""
  return [float(str(score)) for score in np.asarray(scores, np.float32)]
