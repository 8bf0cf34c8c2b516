"""Declares the judge that a config names, with its calibration."""

import dataclasses

from neg_contrast.artifacts import artifact, folders, places
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.evaluation import calibrated, first_stage, judged
from neg_contrast.jobs.common import settings_of_rooms
from neg_contrast.mining import judge_model as judge_lib
from neg_contrast.models import kinds
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.settings import config as config_lib

_QUERY_LENGTH, _PASSAGE_LENGTH = 64, 384  # Of judges that others trained.
_FOLDER = 'calibrations'  # Of `negatives.mined_dir`.


def judge_of(
    config: config_lib.Config, gold: dataset_lib.Data, name: str = '',
) -> judge_lib.Judge | None:
  """The judge of `negatives.judge`, or another; None: nobody judges.

  Args:
    config: of the job.
    gold: the data with judgements that people made, whose tune split it is
      calibrated on, unless its training left a calibration.
    name: of the other.
  """
  name = name or config.negatives.judge
  if not name:
    return None
  settings = config_lib.ModelConfig(init=name, dtype=config.model.dtype)
  kind = kinds.kind_of(name)
  if kind is None:  # Ours bring lengths of their own.
    settings = dataclasses.replace(
        settings, query_length=config.model.query_length or _QUERY_LENGTH,
        passage_length=config.model.passage_length or _PASSAGE_LENGTH,
    )
  model = judge_lib.JudgeModel(name, config.seed, settings)
  encoding = dataclasses.replace(
      settings_of_rooms.encoding(config), model=settings, row_length=0
  )
  kept = places.path(name) / calibrated.FILE
  return judge_lib.Judge(
      model,
      calibrated.GivenCalibration(model, kept) if kind and kept.exists()
      else _fitted(config, gold, model, encoding),
      encoding,
  )


def _fitted(config, gold, model, encoding) -> artifact.Artifact:
  """On the candidates of the strategy that needs no training, or on BM25's."""
  negatives, data = config.negatives, config.data
  mined = places.path(negatives.mined_dir)
  queries = judged.TuneJudged(gold, dataclasses.replace(
      config.evaluation, depth=negatives.depth
  ))
  by_model = negatives.strategies == ('model',)
  names = (negatives.checkpoint or config.checkpoint) if by_model else 'bm25'
  ranking = first_stage.candidates(
      queries, (names,), settings_of_rooms.encoding(config),
      dataclasses.replace(settings_of_rooms.search(config),
                          depth=negatives.depth),
      mined / retriever_lib.FOLDER, config.seed,
  )
  code = folders.sha256_json([
      model.checkpoint, data.source, data.train_split, data.tune_split,
      data.tune_fraction, data.document, names, negatives.depth,
  ])[:12]
  return calibrated.FittedCalibration(
      model, ranking, encoding, mined / _FOLDER / code
  )
