"""Says, before any training, which hard negatives suit a data set."""

import dataclasses
import functools
import pathlib
from typing import Any

from neg_contrast.artifacts import folders, plan
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.jobs import assembly, checks, reporting, settings_of_rooms
from neg_contrast.mining import audit_evidence, audit_verdict, pool_folder
from neg_contrast.models import by_name as model_lib
from neg_contrast.retrieval import embedder as embedder_lib
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.retrieval import text_encoder
from neg_contrast.settings import config as config_lib

FILE = 'audit.json'

_QUERIES = 2000  # A share over so many is known to 2 points.
_FORMAT = 1  # Of the file, raised when an estimate changes.


def check(config: config_lib.Config) -> None:
  """Refuses a config that does not suit `job=audit`."""
  checks.check_source(config)
  if not config.checkpoint:
    raise config.error('checkpoint', 'is needed: the judge, a trained workdir, '
                       'a BERT-family or sentence-transformers folder, or '
                       '"minilm"')


class AuditJob:
  """`job=audit`: candidates of all that needs no training, and a verdict."""

  def __init__(self, config: config_lib.Config, workdir: pathlib.Path):
    """Reads nothing yet."""
    self._config, self._workdir = config, workdir

  def steps(self) -> list[plan.Step]:
    """The plan. Which sources there are, the data says."""
    return [
        dataset_lib.preparation_step(self._config.data, lambda: self._dataset),
        plan.Step(
            'candidates', f'top {self._config.negatives.depth} of all sources '
            f'for {_QUERIES:,} queries of {self._config.data.train_split} in '
            f'{self._config.negatives.mined_dir}/candidates',
            lambda: all(step.is_done() for step in self._negatives.steps()),
            missing=lambda: model_lib.missing(self._config.checkpoint),
            share=lambda: plan.run(self._negatives.steps()),
        ),
        plan.Step('audit', f'evidence and verdict in {self._path}',
                  self._is_done, self._audit),
    ]

  def finish(self) -> None:
    """Prints table and verdict, and makes the report of the candidates."""
    reporting.write_report(self._workdir, self._config, self._dataset,
                           negatives=self._negatives)
    print(audit_verdict.describe(folders.read_json(self._path)), flush=True)

  @property
  def _path(self) -> pathlib.Path:
    return self._workdir / FILE

  @functools.cached_property
  def _dataset(self) -> dataset_lib.Dataset:
    return dataset_lib.Dataset(self._config.data)

  @functools.cached_property
  def _negatives(self) -> pool_folder.PoolFolder:
    """Mines by every source that applies, without filters."""
    judgements = self._dataset.prepared.judgements(
        self._config.data.train_split
    )
    positives = judgements.passage_rows[
        (judgements.grades > 0) & judgements.is_example
    ]
    has_documents = (self._dataset.documents[positives] >= 0).any()
    members = (
        'model', 'bm25', *(['context'] if has_documents else []),
        *(['given'] if (judgements.grades <= 0).any() else []),
    )
    config, settings = self._config, self._config.negatives
    config = dataclasses.replace(
        config,
        model=dataclasses.replace(
            config.model, init=config.model.init or config.checkpoint
        ),
        negatives=config_lib.NegativesConfig(
            strategy='mixed', members=members, depth=settings.depth,
            pool_size=settings.depth, drop_answers=(), drop_duplicates=False,
            mined_dir=settings.mined_dir,
        ),
    )
    return assembly.negatives(config, self._workdir / 'candidates',
                              lambda: self._dataset, _QUERIES)

  @functools.cached_property
  def _identity(self) -> dict[str, Any]:
    return folders.as_json({
        'format': _FORMAT, 'scale': self._config.loss.scale,
        'pool_size': self._config.negatives.pool_size,
        'candidates': self._negatives.pool.manifest['identity'],
    })

  def _is_done(self) -> bool:
    return (
        self._path.exists() and self._negatives.is_made()
        and folders.read_json(self._path)['identity'] == self._identity
    )

  def _audit(self) -> None:
    """Writes the file."""
    config = self._config
    gathered = audit_evidence.Gatherer(
        self._dataset, config.data.train_split, self._negatives.pool,
        self._judge(), config.evaluation.answer_rule,
    ).gather()
    folders.write_json(self._path, {
        **audit_verdict.plain({
            'identity': self._identity,
            'dataset': self._dataset.name,
            'split': config.data.train_split,
            'checkpoint': config.checkpoint,
        }),
        **audit_verdict.judge(
            gathered, config.loss.scale, config.negatives.depth,
            config.negatives.pool_size, config.checkpoint,
        ),
    })

  def _judge(self) -> embedder_lib.Embedder:
    """The vectors of the model that judges, where mining keeps them."""
    config = self._config
    model = model_lib.check_one_vector(
        model_lib.load_as_it_comes(config.checkpoint, config.seed),
        'the judge of an audit has',
    )
    return embedder_lib.Embedder(
        self._dataset, text_encoder.TextEncoder(
            model, settings_of_rooms.encoding(config)
        ),
        pathlib.Path(config.negatives.mined_dir) / retriever_lib.FOLDER,
    )
