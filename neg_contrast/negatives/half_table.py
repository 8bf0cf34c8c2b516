"""The half passages of a split, in parts that processes divide."""

import dataclasses
import pathlib
from typing import Any

import numpy as np
from absl import logging
from jaxtyping import Int

from neg_contrast import errors, progress
from neg_contrast.artifacts import arrays, artifact, checksums, folders, parts
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import examples
from neg_contrast.negatives import document_neighbours as neighbours_lib
from neg_contrast.negatives import halves as halves_lib

FOLDER = 'halves'  # Of `negatives.mined_dir`.
_PAIRS_AT_ONCE = 65536  # Judgements of a part: 47 s if all are halved.


@dataclasses.dataclass(frozen=True)
class Halves:
  """Half passages by pair; 20 bytes of each.

  Attributes:
    keys: `[halves] int64`, query row · 2³² + passage row, ascending.
    spans: `[halves, 3] int32`: parent row, first and end token.
  """

  keys: Int[np.ndarray, ' halves']
  spans: Int[np.ndarray, 'halves 3']

  def lines_of(
      self,
      query_rows: Int[np.ndarray, ' pairs'],
      positive_rows: Int[np.ndarray, ' pairs'],
  ) -> Int[np.ndarray, ' pairs']:
    """The line of each pair's half, -1 where it has none."""
    if not len(self.keys):
      return np.full(len(query_rows), -1)
    keys = _keys(query_rows, positive_rows)
    lines = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
    return np.where(self.keys[lines] == keys, lines, -1)


@dataclasses.dataclass(frozen=True)
class HalfTable(artifact.Artifact):
  """The negative half of each positive without a neighbour; loads as `Halves`.

  Attributes:
    data: whose pairs need negatives; loads as a `Dataset`.
    split: the judgements of these pairs.
    document: what makes a document.
    answer_rule: finds answers.
    tokenizer: halves passages.
    bm25: of the same data; loads as a `bm25_search.Bm25Search`.
    root: of the half passages of all splits; `negatives.mined_dir`.
    asked_by: key that asks for context negatives, for error messages.
  """

  kind = 'half passages'
  name = 'halves'
  is_large = True
  is_divided = True
  data: artifact.Artifact
  split: str
  document: str
  answer_rule: str
  tokenizer: artifact.Artifact
  bm25: artifact.Artifact
  root: pathlib.Path
  asked_by: str = dataclasses.field(default='', compare=False)

  def describe(self) -> str:
    """Of what, and where."""
    return (f'half passages of documents with one passage, for {self.split} in '
            f'{self.root / FOLDER}')

  def needs(self) -> dict[str, artifact.Artifact]:
    """Texts, judgements, what halves, and what chooses between halves."""
    return {'texts': self.data, 'data': self.data, 'bm25': self.bm25,
            'tokenizer': self.tokenizer}

  def settings(self) -> dict[str, Any]:
    """Pairs, documents, and what an answer is."""
    return {'split': self.split, 'document': self.document,
            'answer_rule': self.answer_rule}

  def is_made(self) -> bool:
    """Whether all parts are there."""
    return self.identity is not None and all(map(_is_made, self._parts()))

  def build(self) -> None:
    """Makes the parts that are missing.

    Raises:
      UserError: no positive's document is known.
    """
    dataset, places = self._dataset(), self._parts()
    documents, prepared = dataset.documents, dataset.prepared
    judgements = prepared.judgements(self.split)
    rows = judgements.passage_rows
    is_trained = (judgements.grades > 0) & judgements.is_example
    self._check(documents[rows[is_trained]])
    neighbours = neighbours_lib.Neighbours(
        documents, prepared.passage_groups, examples.known_positives(prepared),
        dataset.own_passages,
    )
    maker = halves_lib.HalfMaker(
        self.tokenizer.load(),
        self.bm25.load().scorer(judgements.query_rows), self.answer_rule,
    )
    say = progress.Ticker('halving passages', len(rows))

    def make(part: int) -> None:
      begin, end = part * _PAIRS_AT_ONCE, (part + 1) * _PAIRS_AT_ONCE
      lines = begin + np.flatnonzero(
          is_trained[begin:end] & (documents[rows[begin:end]] >= 0)
      )
      nearest = neighbours.of(judgements.query_rows[lines], rows[lines], 1)
      lines = lines[nearest[:, 0] < 0]
      spans = maker.negative_halves(
          prepared, judgements.query_rows[lines], rows[lines]
      )
      has_half = spans[:, 0] >= 0
      lines = lines[has_half]
      self._write(places[part], Halves(
          _keys(judgements.query_rows[lines], rows[lines]), spans[has_half]
      ))
      say(min(end, len(rows)))

    parts.make_all(places, lambda part: _is_made(places[part]), make)

  def read(self) -> Halves:
    """All parts in memory.

    Raises:
      UserError: one is damaged, or of another format.
    """
    made = list(map(self._read, self._parts()))
    return Halves(np.concatenate([part.keys for part in made]),
                  np.concatenate([part.spans for part in made]))

  def _write(self, place: pathlib.Path, made: Halves) -> None:
    manifest = {'identity': self.identity}
    with folders.writing(place, manifest, format=self._format) as scratch:
      np.save(scratch / 'keys.npy', made.keys)
      np.save(scratch / 'spans.npy', made.spans)

  def _read(self, place: pathlib.Path) -> Halves:
    manifest = folders.read_manifest(place, self._format)
    assert manifest is not None, f'{place}: not made'
    keys = arrays.load_array(place / 'keys.npy', (None,), np.int64)
    spans = arrays.load_array(
        place / 'spans.npy', (len(keys), 3), np.int32
    )
    passages = len(self._dataset().prepared.passages)
    if (np.diff(keys) <= 0).any() or (len(spans) and not (
        spans.min() >= 0 and spans[:, 0].max() < passages)):
      raise checksums.damaged(place / 'spans.npy', 'no half passages')
    return Halves(keys, spans)

  def _parts(self) -> list[pathlib.Path]:
    """Their folders."""
    identity = self.identity
    assert identity is not None
    code = folders.sha256_json(identity)[:12]
    folder = self.root / FOLDER / f'{self._dataset().name}-{code}'
    judged = self._dataset().prepared.manifest['counts']['judgements']
    count = max(1, -(-judged[self.split] // _PAIRS_AT_ONCE))
    return [folder / f'{part:05d}-of-{count:05d}' for part in range(count)]

  def _check(self, documents: np.ndarray) -> None:
    """Raises UserError if no positive's document is known."""
    unknown = neighbours_lib.check_documents(
        documents, self._dataset().prepared.manifest['spec'],
        errors.key(self.asked_by),
    )
    if unknown:
      logging.warning('%d of %d positives belong to no document and get no '
                      'context negatives', unknown, len(documents))

  def _dataset(self) -> dataset_lib.Dataset:
    return self.data.load()


def _is_made(place: pathlib.Path) -> bool:
  return (place / folders.MANIFEST).exists()


def _keys(query_rows, passage_rows):
  return query_rows.astype(np.int64) << 32 | passage_rows
