"""The passages that documents are cut into, as a BEIR folder."""

import contextlib
import dataclasses
import json
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

from absl import logging

from neg_contrast import beams, errors, progress
from neg_contrast.artifacts import artifact, folders, places
from neg_contrast.data import beam_documents, cut_documents
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data.formats import qrels

NEAREST, DOCUMENT = 'nearest', 'document'
_ALL = 'all'


def are_nearest(source: str) -> bool:
  """Whether a source was cut so that BM25 chose its judged passages.

  Args:
    source: `scheme:place`.
  """
  scheme, _, place = source.partition(':')
  path = places.path(place) / folders.MANIFEST
  if scheme != 'beir' or not path.is_file():
    return False
  with contextlib.suppress(errors.UserError):  # A manifest of something else.
    match folders.read_json(path):
      case {'identity': {'kind': Passages.kind,
                         'settings': {'judgements': judgements}}}:
        return judgements == NEAREST
  return False


@dataclasses.dataclass(frozen=True)
class Passages(artifact.Named):
  """The passages of all documents.

  Attributes:
    data: the documents.
    workdir: of the job.
    words: of a passage, where words count.
    tokens: of a passage; 0: words count.
    tokenizer: loads as what counts tokens; None: words count.
    judgements: which passages of a document that answers a question do: the
      `nearest` one, or `all`; or the one in `train_split` and all elsewhere
      (`document`).
    nearest: (question, texts of passages) -> place of the nearest.
    bm25_k1: constant of BM25, by which `nearest` chooses.
    bm25_b: the other one.
  """

  kind = 'passages'
  format = 3  # 3: words, and the nearest passage, of any script.
  name = 'passages'
  data: dataset_lib.Data
  workdir: pathlib.Path
  words: int
  tokens: int
  tokenizer: artifact.Artifact | None
  judgements: str = _ALL
  nearest: Callable[[str, Sequence[str]], int] | None = dataclasses.field(
      default=None, compare=False
  )
  train_split: str = 'train'
  bm25_k1: float = 0.9
  bm25_b: float = 0.4

  @property
  def folder(self) -> pathlib.Path:
    """Of the corpus."""
    return self.workdir / 'corpus'

  def describe(self) -> str:
    """The file."""
    return f'{self.folder / "corpus.jsonl"}'

  def needs(self) -> dict[str, artifact.Artifact]:
    """The documents, and what counts tokens."""
    if self.tokenizer is None:
      return {'data': self.data}
    return {'data': self.data, 'tokenizer': self.tokenizer}

  def settings(self) -> dict[str, Any]:
    """The length of a passage, and what becomes of judgements.

    Raises:
      UserError: passages would lose what the data's evaluation rests on.
    """
    self._check_kept()
    counts = self.data.load().prepared.manifest['counts']
    weighted, left_out = self._weighted(), [
        split for split, count in counts['judgements'].items()
        if not count and counts['unjudged'][split]]
    return {**({'words': self.words} if self.tokenizer is None else
               {'tokens': self.tokens}), 'judgements': self.judgements,
            **({'train_split': self.train_split}
               if self.judgements == DOCUMENT else {}),
            **({} if self.judgements == _ALL else self._unusual_constants()),
            **({'weighted': weighted} if weighted else {}),
            **({'left_out': left_out} if left_out else {})}

  def _check_kept(self) -> None:
    """Refuses data that passages would make another task of."""
    data = self.data.load()
    if data.prepared.worlds:
      raise self.data.config.error(
          'source', 'has worlds, and a BEIR folder has no place for them: its '
          'queries would be searched in all of them. Train on it as it is')
    if data.own_passages is not None:
      raise self.data.config.error(
          'source', 'has queries with the ids of documents, which BEIR never '
          'lets them find (ArguAna, Quora), and passages have ids of their '
          'own. Train on it as it is; or, where ids are equal by chance, set '
          f'--{errors.key("data.drop_own_passage")}=False')

  def _weighted(self) -> list[str]:
    """The splits that are written with weights; earlier versions had none."""
    prepared = self.data.load().prepared
    counts = prepared.manifest['counts']['judgements']
    return [split for split in counts if counts[split]
            and (prepared.judgements(split).training_weights != 1).any()]

  def _unusual_constants(self) -> dict[str, float]:
    """Those of BM25 that are not the default."""
    return {key: getattr(self, key) for key in ('bm25_k1', 'bm25_b')
            if getattr(self, key) != getattr(Passages, key)}

  def write(self, scratch: pathlib.Path, manifest: dict[str, Any]) -> None:
    """Cuts all documents, and carries judgements along."""
    cut = self._cut()
    counts = self._write_passages(scratch, cut)
    manifest |= {'counts': counts, 'source': self.data.config.source}
    logging.info('%s: %d passages', self.folder, counts['passages'])
    self._carry(scratch, cut, counts)

  def _write_passages(
      self, scratch: pathlib.Path, cut: cut_documents.Cutter
  ) -> dict[str, int]:
    """Writes the lines of all passages, by this process or by Beam."""
    prepared, path = self.data.load().prepared, scratch / 'corpus.jsonl'
    if beams.is_chosen() and len(prepared.passages):
      return beam_documents.write(prepared, cut, path, scratch / 'beam')
    with open(path, 'w', encoding='utf-8') as f:
      return cut_documents.write(f, prepared.passages, cut, progress.Ticker(
          'cutting documents', len(prepared.passages)))

  def _carry(self, scratch, cut, counts) -> None:
    """Writes questions, and judgements of the passages of their documents."""
    prepared = self.data.load().prepared
    judged = {split: prepared.judgements(split) for split in prepared.splits}
    unjudged = {split: len(some.unjudged) for split, some in judged.items()
                if len(some.unjudged)}
    if unjudged:
      logging.warning(
          '%s: a BEIR folder has no place for queries that have answers alone; '
          'they are left out: %s', self.folder,
          ', '.join(f'{n} of {split}' for split, n in unjudged.items()))
    judged = {split: some for split, some in judged.items() if len(some.grades)}
    if not judged:
      return
    with open(scratch / 'queries.jsonl', 'w', encoding='utf-8') as f:
      for query in prepared.queries:
        left, right = query.context or (None, None)
        f.write(json.dumps({
            '_id': query.id, 'text': query.text,
            'answers': list(query.answers),
            **({} if query.context is None else
               {'left': left, 'right': right}),
        }, ensure_ascii=False) + '\n')
    (scratch / 'qrels').mkdir()
    counts |= {'judgements': 0, 'lost_judgements': 0}
    for split, some in judged.items():
      with open(scratch / 'qrels' / f'{split}.tsv', 'w', encoding='utf-8') as f:
        self._write_judgements(f, split, some, cut, counts)
    if counts['lost_judgements']:
      logging.warning('%s: %d judgements of documents without text are left '
                      'out', self.folder, counts['lost_judgements'])

  def _write_judgements(self, f, split, judged, cut, counts) -> None:
    """Writes those of a split, with their weights if it has any."""
    prepared, weights = self.data.load().prepared, judged.training_weights
    takes_nearest = self.judgements == NEAREST or (
        self.judgements == DOCUMENT and split == self.train_split)
    has_weights = (weights != 1).any()
    f.write(qrels.header(has_weights))
    for query_row, row, grade, weight in zip(
        judged.query_rows.tolist(), judged.passage_rows.tolist(),
        judged.grades.tolist(), weights, strict=True,
    ):
      query = prepared.queries[query_row]
      document = prepared.passages[row]
      spans = cut(document.text)
      fitting = self._fitting(query.text, document.text, spans,
                              takes_nearest and grade > 0)
      counts['judgements'] += len(fitting)
      counts['lost_judgements'] += not spans
      f.writelines(
          qrels.line(query.id, cut_documents.passage_id(document.id, part),
                     grade, weight if has_weights else None)
          for part in fitting
      )

  def _fitting(self, question, text, spans, takes_nearest) -> list[int]:
    """The numbers of a document's passages that its judgement is of."""
    if takes_nearest and spans:
      assert self.nearest is not None
      texts = [text[start:end] for start, end in spans]
      return [self.nearest(question, texts) + 1]
    return list(range(1, len(spans) + 1))

  def _cut(self) -> cut_documents.Cutter:
    """Text -> spans of its passages."""
    return cut_documents.Cutter(
        self.words, self.tokens,
        None if self.tokenizer is None else self.tokenizer.load(),
    )
