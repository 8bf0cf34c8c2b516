"""Questions that a generator writes while it is trained, for people to read."""

import pathlib
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from absl import logging
from jaxtyping import Int

from neg_contrast import hosts, sharding
from neg_contrast.artifacts import folders
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.data import sequences
from neg_contrast.models import decoding, generator, question_writer
from neg_contrast.training import run_settings

FOLDER = 'questions_shown'  # Of a workdir: a file for every evaluation.


def make_show(
    config: run_settings.RunSettings,
    workdir: pathlib.Path,
    model: generator.Generator,
    prepared: prepared_lib.Prepared,
    sources: sequences.AnySequences,
    query_rows: Int[np.ndarray, ' shown'],
    passage_rows: Int[np.ndarray, ' shown'],
) -> Callable[[Any], None]:
  """Parameters -> a greedy question of each passage, logged and kept.

  Args:
    config: settings of the run.
    workdir: of the run.
    model: what is trained.
    prepared: the data.
    sources: inputs of the generator.
    query_rows: `[shown] int32`, what people asked.
    passage_rows: `[shown] int32`, what they asked it of.
  """
  folder = workdir / FOLDER
  writer = question_writer.QuestionWriter(
      model, config.model,
      decoding.Decoding('greedy', max_tokens=model.text.question_length),
      config.synthetic.batch_passages, config.seed,
  )

  def show(params):
    params = sharding.local(params)
    if not hosts.is_first():
      return
    params = writer.put(jax.tree.map(np.asarray, params))
    rows = []
    for written in writer(params, sources, range(len(sources))):
      for place, (question,) in zip(
          written.numbers, written.questions, strict=True
      ):
        query = prepared.queries[int(query_rows[place])]
        passage = prepared.passages[int(passage_rows[place])]
        logging.info('wrote "%s" where people asked "%s"', question, query.text)
        rows.append({'passage_id': passage.id, 'passage': passage.text,
                     'written': question, 'gold': query.text})
    folders.make_folder(folder)
    count = len(list(folder.glob('*.json')))
    folders.write_json(folder / f'{count:05d}.json', rows)

  return show
