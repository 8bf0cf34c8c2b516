"""Pairs that pretexts make of passages alone, in parts."""

import dataclasses
import functools
import pathlib
from collections.abc import Sequence
from typing import Any, TextIO

import numpy as np
from jaxtyping import Int

from neg_contrast import errors, progress
from neg_contrast.artifacts import artifact, kept_parts
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import pair_files, records, synthetic_pairs
from neg_contrast.models import given
from neg_contrast.stage1 import pair_folder, pretexts

_PRETEXTS, _FILE = 'pretexts', 'pairs.jsonl'  # Parts of it.
_DOCUMENTS_AT_ONCE = 256


@dataclasses.dataclass(frozen=True)
class PretextPairs(pair_folder.Pairs):
  """Pairs of passages alone.

  Attributes:
    seed: of all random choices.
    tokenizer: cuts passages.
    teacher: chooses among what is drawn, see `teachers.py`; None: nothing does.
  """

  seed: int
  tokenizer: given.Tokenizer
  teacher: artifact.Artifact | None = None

  def needs(self) -> dict[str, artifact.Artifact]:
    """Passages and tokenizer, and what teaches."""
    needs = {**super().needs(), 'tokenizer': self.tokenizer}
    return needs if self.teacher is None else {**needs, 'teacher': self.teacher}

  def most(self, passages: int, questions: int) -> int:
    """A pretext may have one pair of a passage."""
    is_single = pretexts.PRETEXTS[self.config.pairs].is_single
    return passages if is_single else super().most(passages, questions)

  def settings(self) -> dict[str, Any]:
    """Which pairs, how many, of what documents."""
    return {
        **super().settings(),
        'per_passage': self.config.per_passage,
        'seed': self.seed,
        'document': self.data.config.document,
    }

  @property
  def _needed(self) -> str:
    pretext = pretexts.PRETEXTS[self.config.pairs]
    other = ('; or, if passages of one document have one title, set '
             f'--{errors.key("data.document")}=title'
             if pretext.needs_documents else '')
    return f'{pretext.needs}. {pair_folder.REMEDY}{other}'

  def prepare(self) -> None:
    """Makes the pairs of all passages first, in parts."""
    dataset, tokenizer = self.data.load(), self.tokenizer.load()
    passages, (order, borders) = dataset.prepared.passages, _documents(dataset)
    blocks = self._blocks(borders)
    kind = self.config.pairs
    count = pretexts.PRETEXTS[kind].candidates or self.config.per_passage
    teacher = None if self.teacher is None else self.teacher.load()
    say = progress.Ticker('making pairs', len(order))

    def fill(
        part: int, scratch: pathlib.Path, manifest: dict[str, Any]
    ) -> None:
      del manifest
      drawn: list[pretexts.Candidates] = []
      for number in range(blocks[part].start, blocks[part].stop):
        rows = order[borders[number] : borders[number + 1]].tolist()
        drawn += pretexts.draw_candidates(
            kind, [(row, passages[row]) for row in rows], tokenizer.offsets,
            self.seed, count,
        )
      with open(scratch / _FILE, 'w', encoding='utf-8') as f:
        for pair in pretexts.settle(
            kind, drawn, teacher, self.config.per_passage
        ):
          _write(f, pair, passages)
      say(int(borders[blocks[part].stop]))

    self.parts(_PRETEXTS, len(blocks)).make(fill)
    super().prepare()

  def _files(self) -> list[pair_files.File]:
    blocks = self._blocks(_documents(self.data.load())[1])
    parts = self.parts(_PRETEXTS, len(blocks))
    return [functools.partial(parts.file, number, _FILE)
            for number in range(len(blocks))]

  def _blocks(self, borders: Int[np.ndarray, ' borders']) -> list[slice]:
    """The documents of each part."""
    return kept_parts.divide(len(borders) - 1, _DOCUMENTS_AT_ONCE)


def _write(
    f: TextIO, pair: pretexts.Pair, passages: Sequence[records.Passage]
) -> None:
  """Appends a pair, by the ids of its passages."""
  synthetic_pairs.write_pair(
      f, pair.query, passages[pair.row].id,
      (pair.first, pair.end, int(pair.title)),
      passages[pair.home].id if pair.home >= 0 else '',
  )


def _documents(
    dataset: dataset_lib.Dataset,
) -> tuple[Int[np.ndarray, ' passages'], Int[np.ndarray, ' borders']]:
  """Rows by document, and where each document begins, and the last one ends.

  A passage of an unknown document stands alone.
  """
  documents = dataset.documents
  order = np.argsort(documents, kind='stable')
  documents = documents[order]
  begins = np.ones(len(order) + 1, bool)
  begins[1:-1] = (documents[1:] < 0) | (documents[1:] != documents[:-1])
  return order, np.flatnonzero(begins)
