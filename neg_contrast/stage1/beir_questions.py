"""Questions in the layout of BEIR's generated queries, for any trainer."""

import dataclasses
import json
import pathlib
from typing import Any

from absl import logging

from neg_contrast.artifacts import artifact
from neg_contrast.data import synthetic_pairs
from neg_contrast.data.formats import qrels
from neg_contrast.stage1 import question_shards

FOLDER = 'beir'  # Of a workdir.


@dataclasses.dataclass(frozen=True)
class BeirQuestions(artifact.Named):
  """Generated questions, to lie beside a `corpus.jsonl`.

  Attributes:
    questions: that are used.
    workdir: of the job.
  """

  kind = 'questions for BEIR'
  name = 'files'
  questions: question_shards.ShardedQuestions
  workdir: pathlib.Path

  @property
  def folder(self) -> pathlib.Path:
    """Of queries and judgements."""
    return self.workdir / FOLDER

  def describe(self) -> str:
    """Which files, and where."""
    return f'gen-queries.jsonl and gen-qrels in {self.folder}'

  def needs(self) -> dict[str, artifact.Artifact]:
    """The questions."""
    return {'questions': self.questions}

  def write(self, scratch: pathlib.Path, manifest: dict[str, Any]) -> None:
    """Numbers the questions, and writes them."""
    (scratch / 'gen-qrels').mkdir()
    count = -1
    with (
        open(scratch / 'gen-queries.jsonl', 'w', encoding='utf-8') as queries,
        open(scratch / 'gen-qrels' / 'train.tsv', 'w',
             encoding='utf-8') as judged,
    ):
      judged.write(qrels.header())
      for count, pair in enumerate(
          synthetic_pairs.read_pairs(self.questions.files())
      ):
        name = f'gen-{count}'
        queries.write(json.dumps({'_id': name, 'text': pair['query']},
                                 ensure_ascii=False) + '\n')
        judged.write(qrels.line(name, pair['passage_id'], 1))
    manifest['questions'] = count + 1
    logging.info('%s: %d questions', self.folder, count + 1)
