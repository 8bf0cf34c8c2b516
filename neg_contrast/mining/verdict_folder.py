"""What a judge says of the candidates of a source, in a folder.

Kept are its scores, before calibration: neither that nor thresholds judge
anything again.
"""

import dataclasses
import functools
import pathlib
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from neg_contrast import errors, progress
from neg_contrast.artifacts import arrays, artifact, folders, kept_parts
from neg_contrast.evaluation import candidate_scores
from neg_contrast.mining import candidates as candidates_lib
from neg_contrast.mining import judge_model as judge_lib
from neg_contrast.mining import mining_task as task_lib
from neg_contrast.retrieval import embedder, pair_scorer

FOLDER = 'verdicts'  # Of `negatives.mined_dir`.
PAIRS_AT_ONCE = 4096
"""Of a part: a minute or two on a few cores."""
_LOGITS = 'logits'


@dataclasses.dataclass(frozen=True)
class Positives(artifact.InMemory):
  """The positives of the queries of a task, as candidates of a source.

  Attributes:
    task: whose queries.
  """

  kind = 'positives of queries'
  name = 'positives'
  task: task_lib.Task

  def describe(self) -> str:
    """Whose."""
    return f'positives of {self.task.split}'

  def needs(self) -> dict[str, artifact.Artifact]:
    """The judgements."""
    return {'data': self.task.data}

  def settings(self) -> dict[str, Any]:
    """Which queries."""
    return self.task.settings()

  def read(self) -> tuple[candidates_lib.Candidates, np.ndarray]:
    """As `candidates.read`; rows ascend."""
    task = self.task.open()
    judged = task.judgements
    keep = judged.grades > 0
    lines = np.searchsorted(task.query_rows, judged.query_rows[keep])
    lines = np.minimum(lines, len(task.query_rows) - 1)
    rows = [list[int]() for _ in task.query_rows]
    for line, query, row in zip(
        lines.tolist(), judged.query_rows[keep].tolist(),
        judged.passage_rows[keep].tolist(), strict=True,
    ):
      if task.query_rows[line] == query:
        rows[line].append(row)
    rows = [sorted(set(some)) for some in rows]
    return candidates_lib.listed(
        rows, None, max(map(len, rows), default=1)
    ), np.zeros((0, 3), np.int32)


@dataclasses.dataclass(frozen=True)
class VerdictFolder(artifact.Cached):
  """Scores of candidates by a judge; loads as `[queries, depth] float32`.

  They are nan where there is no candidate, and of half passages.

  Attributes:
    candidates: what is judged; loads as candidates and half passages.
    task: whose queries they are for.
    judge: scores them.
  """

  kind = 'verdicts on candidates'
  is_divided = True
  candidates: artifact.Artifact
  task: task_lib.Task
  judge: judge_lib.Judge

  @property
  def name(self) -> str:
    """Of what."""
    return f'verdicts on {self.candidates.name}'

  @property
  def root(self) -> pathlib.Path:
    """Of all verdicts."""
    return self.task.mined_dir / FOLDER

  @property
  def label(self) -> str:
    """Data and source."""
    return f'{self.task.data.load().name}-{self.candidates.name}'

  def describe(self) -> str:
    """By whom, and where."""
    return f'scores by {self.judge.model.checkpoint} in {self.root}'

  def needs(self) -> dict[str, artifact.Artifact]:
    """Texts, candidates and the judge."""
    return {'texts': self.task.data, 'candidates': self.candidates,
            'model': self.judge.model}

  def settings(self) -> dict[str, Any]:
    """How scores are computed."""
    return embedder.vectors_identity(
        self.judge.encoding, self.task.data.load(), self.judge.model.load()
    )

  def prepare(self) -> None:
    """Scores the candidates of all queries, in parts."""
    task, blocks = self.task.open(), self._blocks()
    found, _ = self.candidates.load()
    say = progress.Ticker(self.name, len(found.rows))
    passages = len(task.prepared.passages)

    @functools.cache  # Nothing is compiled where nothing is left to do.
    def scorer() -> pair_scorer.PairScorer:
      return pair_scorer.PairScorer(self.judge.model.load(),
                                    self.judge.encoding)

    def fill(
        part: int, scratch: pathlib.Path, manifest: dict[str, Any]
    ) -> None:
      del manifest
      lines = blocks[part]
      rows = np.asarray(found.rows[lines])
      np.save(scratch / f'{_LOGITS}.npy', score(
          scorer(), task, task.query_rows[lines],
          np.where(rows < passages, rows, -1),
      ))
      say(lines.stop)

    self.parts(_LOGITS, len(blocks)).make(fill)

  def write(self, scratch: pathlib.Path, manifest: dict[str, Any]) -> None:
    """Joins the parts."""
    found, _ = self.candidates.load()
    blocks = self._blocks()
    parts = self.parts(_LOGITS, len(blocks))
    depth = found.rows.shape[1]
    logits = arrays.create_array(
        scratch / f'{_LOGITS}.npy', np.float32, found.rows.shape
    )
    for part, lines in enumerate(blocks):
      logits[lines] = parts.array(
          part, _LOGITS, (lines.stop - lines.start, depth), np.float32
      )
    manifest['pairs'] = int(np.isfinite(logits).sum())

  def read(self) -> np.ndarray:
    """Maps the scores.

    Raises:
      UserError: they are of other candidates, or damaged.
    """
    manifest = folders.read_manifest(self.folder, self._format)
    assert manifest is not None, f'{self.folder}: not made'
    if manifest['identity'] != self.identity:
      raise errors.UserError(
          f'{self.folder}: holds verdicts on other candidates, or by another '
          'judge; remove the folder to have these judged'
      )
    found, _ = self.candidates.load()
    return arrays.load_array(
        self.folder / f'{_LOGITS}.npy', found.rows.shape, np.float32
    )

  def _blocks(self) -> list[slice]:
    """The queries of each part."""
    lines, depth = self.candidates.load()[0].rows.shape
    return kept_parts.divide(lines, max(1, PAIRS_AT_ONCE // max(1, depth)))


def score(
    scorer: pair_scorer.PairScorer,
    task: task_lib.OpenTask,
    query_rows: Int[np.ndarray, ' queries'],
    rows: Int[np.ndarray, 'queries depth'],
) -> Float[np.ndarray, 'queries depth']:
  """Scores of some candidates, in this process.

  Args:
    scorer: the judge at work.
    task: has the texts.
    query_rows: `[queries] int32`.
    rows: `[queries, depth] int32` passages; -1 pads.

  Returns:
    `[queries, depth] float32`, nan for padding.
  """
  pairs, is_there = candidate_scores.pairs_of(query_rows, rows)
  scores = np.full(rows.shape, np.nan, np.float32)
  if len(pairs):
    texts = candidate_scores.texts_of(task.dataset, scorer.model)
    scores[is_there] = scorer.score(*texts, pairs)[:, 0]
  return scores
