"""Pseudo-labels: pairs of queries and passages that a cross-encoder believes.

RocketQA (Qu et al., 2021, section 3.3, "data augmentation"): passages retrieved
for unlabelled queries are positives where the cross-encoder is sure of it, and
negatives where it is sure of the contrary.
"""

import collections
import dataclasses
import functools
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from absl import logging

from neg_contrast import errors, progress
from neg_contrast.artifacts import arrays, artifact, kept_parts, places
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import pair_files, synthetic_pairs
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.evaluation import calibrated, candidate_scores
from neg_contrast.retrieval import embedder, encoding, pair_scorer
from neg_contrast.stage1 import pair_folder, searched_queries

_LOGITS, _PARTS, _FILE = 'logits', 'judged', 'pairs.jsonl'
_PAIRS_AT_ONCE = 4096
"""Of a part: a minute or two on a few cores."""
_QUERIES_AT_ONCE = 4096
COUNTS = 'judged'
"""In the manifest: counts by what a pair was judged to be."""


@dataclasses.dataclass(frozen=True)
class PairVerdicts(artifact.Cached):
  """A cross-encoder's scores of searched pairs; loads as `[pairs] float32`.

  They are in the order of the judgements of `pairs`, before calibration:
  thresholds change without judging again.

  Attributes:
    pairs: what is judged.
    model: loads as a `Reranker`.
    encoding: how it scores.
  """

  kind = 'verdicts on pairs'
  name = 'verdicts on candidates'
  is_divided = True
  pairs: searched_queries.SearchedQueries
  model: artifact.Artifact
  encoding: encoding.EncodingSettings

  @property
  def root(self) -> pathlib.Path:
    """Of the verdicts on all pairs."""
    return places.path(self.pairs.config.dir) / 'verdicts'

  @property
  def label(self) -> str:
    """Data."""
    return self.pairs.label

  def describe(self) -> str:
    """By whom, and where."""
    return f'scores by {self.pairs.config.judge} in {self.root}'

  def needs(self) -> dict[str, artifact.Artifact]:
    """The pairs and the judge."""
    return {'pairs': self.pairs, 'model': self.model}

  def settings(self) -> dict[str, Any]:
    """How scores are computed."""
    return embedder.vectors_identity(
        self.encoding, self.pairs.load(), self.model.load()
    )

  def prepare(self) -> None:
    """Scores all pairs, in parts."""
    dataset, pairs, blocks = self.pairs.load(), self._rows, self._blocks
    say = progress.Ticker('judging pairs', len(pairs))

    @functools.cache  # Nothing is compiled where nothing is left to do.
    def scorer() -> tuple[pair_scorer.PairScorer, Any]:
      made = pair_scorer.PairScorer(self.model.load(), self.encoding)
      return made, candidate_scores.texts_of(dataset, made.model)

    def fill(
        part: int, scratch: pathlib.Path, manifest: dict[str, Any]
    ) -> None:
      del manifest
      judge, (queries, passages) = scorer()
      np.save(scratch / f'{_LOGITS}.npy', judge.score(
          queries, passages, pairs[blocks[part]])[:, 0])
      say(blocks[part].stop)

    self.parts(_LOGITS, len(blocks)).make(fill)

  def write(self, scratch: pathlib.Path, manifest: dict[str, Any]) -> None:
    """Joins the parts."""
    parts = self.parts(_LOGITS, len(self._blocks))
    logits = np.concatenate([
        parts.array(part, _LOGITS, (None,), np.float32)
        for part in range(len(self._blocks))
    ])
    np.save(scratch / f'{_LOGITS}.npy', logits)
    manifest['pairs'] = len(logits)

  def read(self) -> np.ndarray:
    """Maps the scores.

    Raises:
      UserError: they are damaged, or not of these pairs.
    """
    return arrays.load_array(
        self.folder / f'{_LOGITS}.npy', (len(self._rows),), np.float32
    )

  @property
  def _rows(self) -> np.ndarray:
    """`[pairs, 2] int32`, query and passage rows."""
    judged = self.judgements
    return np.stack([judged.query_rows, judged.passage_rows], axis=1)

  @property
  def judgements(self) -> prepared_lib.Judgements:
    """The pairs, as judgements; their grades mean nothing."""
    return self.pairs.load().prepared.judgements(synthetic_pairs.SPLIT)

  @property
  def _blocks(self) -> list[slice]:
    return kept_parts.divide(len(self._rows), _PAIRS_AT_ONCE)


@dataclasses.dataclass(frozen=True)
class JudgedPairs(pair_folder.Pairs):
  """Pseudo-labels: p above `judge_above` a positive, below `judge_below` a
  known negative, between them nothing.

  Queries without a positive are left out, and counted.

  Attributes:
    verdicts: scores of the candidates.
    calibration: what they mean; see `evaluation.calibrated`.
  """

  verdicts: PairVerdicts
  calibration: artifact.Artifact

  def describe(self) -> str:
    """By whom, and where."""
    return (f'pairs that {self.config.judge} believes (above '
            f'{self.config.judge_above:g}) in {self.config.dir}')

  def needs(self) -> dict[str, artifact.Artifact]:
    """Passages, scores, and what they mean."""
    return {**super().needs(), 'verdicts': self.verdicts,
            'calibration': self.calibration}

  def settings(self) -> dict[str, Any]:
    """The thresholds."""
    return {**super().settings(), 'above': self.config.judge_above,
            'below': self.config.judge_below}

  def most(self, passages: int, questions: int) -> int:
    """All that is found for a query, if it is of a file."""
    asked = self.verdicts.pairs.queries
    if not isinstance(asked, searched_queries.QueryFile):
      return super().most(passages, questions)
    return len(asked.load()) * self.config.teacher_depth

  @property
  def _needed(self) -> str:
    return ('a query with a passage that the judge believes to answer it, with '
            f'a probability above {errors.key("synthetic.judge_above")}='
            f'{self.config.judge_above:g}, and the highest is '
            f'{self._probabilities.max(initial=0):.3f}. Lower that, raise '
            f'{errors.key("synthetic.teacher_depth")}, or give other queries')

  @property
  def _probabilities(self) -> np.ndarray:
    """`[pairs] float32`, what the judge believes of each."""
    return calibrated.of(self.calibration.load()).probabilities(
        self.verdicts.load()
    )

  def prepare(self) -> None:
    """Labels the candidates of some queries a part."""
    dataset: dataset_lib.Dataset = self.verdicts.pairs.load()
    judged = self.verdicts.judgements
    probabilities = self._probabilities
    borders = np.append(np.unique(judged.query_rows, return_index=True)[1],
                        len(judged.query_rows))
    blocks = self._blocks

    def fill(
        part: int, scratch: pathlib.Path, manifest: dict[str, Any]
    ) -> None:
      counts: collections.Counter[str] = collections.Counter()
      some = range(blocks[part].start, blocks[part].stop)
      with open(scratch / _FILE, 'w', encoding='utf-8') as f:
        for number in some:
          own = slice(borders[number], borders[number + 1])
          p, rows = probabilities[own], judged.passage_rows[own]
          positives = rows[p > self.config.judge_above]
          negatives = rows[p < self.config.judge_below]
          counts.update({
              'pairs': len(rows), 'positives': len(positives),
              'negatives': len(negatives),
              'between': len(rows) - len(positives) - len(negatives),
              'queries': 1, 'queries_with_positives': len(positives) > 0,
          })
          if not len(positives):
            continue
          text = dataset.prepared.queries[
              int(judged.query_rows[borders[number]])].text
          for is_negative, those in ((False, positives), (True, negatives)):
            for row in those.tolist():
              synthetic_pairs.write_pair(
                  f, text, dataset.prepared.passages[row].id,
                  is_negative=is_negative,
              )
      manifest[COUNTS] = dict(counts)

    self.parts(_PARTS, len(blocks)).make(fill)
    super().prepare()

  def write(self, scratch: pathlib.Path, manifest: dict[str, Any]) -> None:
    """Stores them, with counts."""
    super().write(scratch, manifest)
    parts = self.parts(_PARTS, len(self._blocks))
    total: collections.Counter[str] = collections.Counter()
    for part in range(parts.count):
      total.update(parts.manifest(part)[COUNTS])
    manifest[COUNTS] = dict(total)
    logging.info('%s: %s', self.folder, self._told(total))

  def summary(self) -> str:
    """What was judged to be what, for the report."""
    return self._told(self.load().prepared.manifest[COUNTS])

  def _told(self, counts: Mapping[str, int]) -> str:
    return (
        f'of {counts["pairs"]:,} pairs of {counts["queries"]:,} queries the '
        f'judge believes {counts["positives"]:,} positive (above '
        f'{self.config.judge_above:g}) and {counts["negatives"]:,} negative '
        f'(below {self.config.judge_below:g}), {counts["between"]:,} are '
        f'between; {counts["queries_with_positives"]:,} queries have a positive'
    )

  def _files(self) -> list[pair_files.File]:
    parts = self.parts(_PARTS, len(self._blocks))
    return [functools.partial(parts.file, number, _FILE)
            for number in range(parts.count)]

  @property
  def _blocks(self) -> list[slice]:
    """The queries of each part, of those that have candidates."""
    queries = len(np.unique(self.verdicts.judgements.query_rows))
    return kept_parts.divide(queries, _QUERIES_AT_ONCE)
