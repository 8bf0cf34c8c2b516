"""Mines hard negatives: trains miners, collects candidates, makes the pool."""

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from absl import logging

from neg_contrast import errors, hosts, progress
from neg_contrast.artifacts import folders, plan
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import examples, synthetic_pairs
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.data import tokenizer as tokenizer_lib
from neg_contrast.evaluation import runs
from neg_contrast.mining import candidates, context, filters
from neg_contrast.mining import texts as texts_lib
from neg_contrast.models import by_name as model_lib
from neg_contrast.models import loading
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.retrieval import bm25, bm25_search, hits
from neg_contrast.retrieval import embedder as embedder_lib
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.settings import config as config_lib
from neg_contrast.training import encoder_run, run

_TRAINED = ('coarse', 'fine')
_MEASURED = 200  # Queries that the recall of a ScaNN index is measured with.


class Negatives:
  """The pool of a job: mined as `config.negatives` says, or given."""

  def __init__(
      self,
      config: config_lib.Config,
      workdir: pathlib.Path,
      dataset: Callable[[], dataset_lib.Dataset],
      max_queries: int = 0,
  ):
    """Reads nothing yet.

    Args:
      config: of the job.
      workdir: the pool goes to its folder `pool`.
      dataset: makes the data; not called before a step runs or is looked at.
      max_queries: where there are more, so many of them, drawn at random; 0:
        all.
    """
    self._config, self._dataset = config, dataset
    self._max_queries = max_queries
    self._settings = config.negatives
    given = self._settings.pool
    self._folder = pathlib.Path(given) if given else workdir / pool_lib.FOLDER
    self._mined = pathlib.Path(self._settings.mined_dir)
    self._trained: dict[str, encoder_run.DualEncoderTraining] = {}

  def steps(self) -> list[plan.Step]:
    """What has to be there before there is a pool; quick sources first."""
    settings = self._settings
    if settings.pool:
      return [plan.Step(
          'pool', f'hard negatives in {self._folder}',
          lambda: self._is_given_right, lambda: None, self._missing_pool,
      )]
    if not settings.sources:
      return []
    steps = []
    for source in sorted(settings.sources, key=lambda name: name in _TRAINED):
      if source in _TRAINED:
        steps.append(plan.Step(
            f'{source} miner', f'an encoder of {self._dim(source)} features in '
            f'{self._mined / "miners"}',
            functools.partial(self._is_trained, source),
            missing=functools.partial(self._missing, source),
            share=functools.partial(self._train, source),
        ))
      mine = functools.partial(self._mine, source)
      divides = source in config_lib.RETRIEVED
      steps.append(plan.Step(
          source, f'top {settings.depth} of {source} for every query of '
          f'{self._split} in {self._mined / "candidates"}',
          functools.partial(self._is_mined, source),
          run=plan.nothing if divides else mine,
          missing=functools.partial(self._missing, source),
          share=mine if divides else plan.nothing,
      ))
    return [*steps, plan.Step(
        'pool', f'hard negatives of {" + ".join(settings.sources)} in '
        f'{self._folder}', self.is_made, self._make_pool,
    )]

  @functools.cached_property
  def pool(self) -> pool_lib.Pool:
    """The finished pool.

    Raises:
      UserError: there is none, a file is damaged, or it belongs to something
        else.
    """
    pool = pool_lib.read(self._folder)
    if self._settings.pool:
      _ = self._is_given_right
    return pool

  def release(self) -> None:
    """Lets go of the weights of miners; they are read again when asked for."""
    self._trained.clear()
    vars(self).pop('_given_model', None)

  @property
  def dataset(self) -> dataset_lib.Dataset:
    """The data whose queries the negatives are for."""
    return self._dataset()

  @functools.cached_property
  def texts(self) -> texts_lib.Texts:
    """Passages and half passages of the pool."""
    return self._texts_with(self.pool.halves)

  def is_made(self) -> bool:
    """Whether the pool is there.

    Raises:
      UserError: one of another corpus, other queries or another checkpoint is.
    """
    if self._settings.pool:
      return self._missing_pool() is None and self._is_given_right
    made, wanted = folders.read_manifest(self._folder), self.identity
    if made is None or wanted is None:
      return False
    self._refuse(_foreign(made['identity'], wanted))
    return made['identity'] == wanted

  @property
  def identity(self) -> dict[str, Any] | None:
    """What the pool depends on, made or not; None: that is not known yet."""
    if self._settings.pool:
      made = folders.read_manifest(self._folder)
      return None if made is None else made['identity']
    sources = self._settings.sources
    if any(map(self._missing, sources)) or not all(
        self._is_trained(source)
        for source in sources if source in _TRAINED
    ):
      return None
    return folders.as_json(self._identity)

  @functools.cached_property
  def _identity(self) -> dict[str, Any]:
    settings, evaluation = self._settings, self._config.evaluation
    return {
        'sources': list(settings.sources),  # Their order counts.
        'inputs': {source: self._source_identity(source)
                   for source in settings.sources},
        'filters': {
            **{key: getattr(settings, key)
               for key in ('pool_size', 'first_rank', 'last_rank', 'margin',
                           'relative_margin', 'drop_duplicates')},
            'drop_answers': [source for source in settings.sources
                             if source in settings.drop_answers],
            'answer_rule': evaluation.answer_rule,
        },
    }

  def _source_identity(self, source: str) -> dict[str, Any]:
    """What the candidates of a source depend on."""
    manifest = self._dataset().prepared.manifest
    return {
        'corpus': manifest['corpus_fingerprint'],
        'queries': manifest['queries_fingerprint'],
        'data': manifest['fingerprint'],  # Judgements too.
        'split': self._split,
        'depth': self._settings.depth,
        **({'max_queries': self._max_queries} if self._max_queries else {}),
        **self._settings_of(source),
    }

  def _settings_of(self, source: str) -> dict[str, Any]:
    evaluation = self._config.evaluation
    words = {'k1': evaluation.bm25_k1, 'b': evaluation.bm25_b}
    if source == 'given':
      return {}
    if source == 'bm25':
      return words
    if source == 'run':
      return {'runs': [folders.sha256_file(path) for path in self._runs]}
    if source == 'context':
      return {
          'document': self._config.data.document,
          'tokenizer': self._tokenizer.sha256,
          'answer_rule': evaluation.answer_rule, **words,
      }
    return self._model_identity(source)

  def _model_identity(self, source: str) -> dict[str, Any]:
    config, model = self._search_config, self._model(source)
    made = embedder_lib.identity(config, self._dataset(), model)
    settings = retriever_lib.index_settings(config, self._dataset().prepared)
    return {
        'embeddings': made,
        'index': 'exact' if settings is None else dataclasses.asdict(settings),
    }

  def _checkpoint_of(self, source: str) -> str:
    if source in _TRAINED:
      return str(self._miner(source).workdir)
    return self._settings.checkpoint or self._config.checkpoint

  def _model(self, source: str) -> loading.Model:
    if source in _TRAINED:
      return self._miner(source).trained
    return self._given_model

  @functools.cached_property
  def _given_model(self) -> loading.Model:
    return model_lib.load_as_it_comes(
        self._config, self._checkpoint_of('model')
    )

  @functools.cached_property
  def _search_config(self) -> config_lib.Config:
    """With the depth of mining, which an index is tuned for."""
    return dataclasses.replace(
        self._config, evaluation=dataclasses.replace(
            self._config.evaluation, depth=self._settings.depth, metrics=(),
            answer_ks=(),
        )
    )

  @functools.cached_property
  def _tokenizer(self) -> tokenizer_lib.Tokenizer:
    return model_lib.load_tokenizer(self._config.model.init)

  def _dim(self, source: str) -> int:
    settings = self._settings
    return {'coarse': settings.coarse_dim, 'fine': settings.fine_dim}[source]

  @property
  def _split(self) -> str:
    """The judgements that need negatives."""
    return (synthetic_pairs.SPLIT if self._config.synthetic.pairs
            else self._config.data.train_split)

  @property
  def _miner_init(self) -> str:
    return self._settings.miner_init or self._config.model.init

  def _miner(self, source: str) -> encoder_run.DualEncoderTraining:
    """Coarse or fine: gold pairs, in-batch negatives (Lu et al., section 4.2).

    They start from `model.init` or `negatives.miner_init`, never from stage 1.
    """
    if source in self._trained:
      return self._trained[source]
    config, settings = self._config, self._settings
    config = dataclasses.replace(
        config,
        job='train',
        stage1=None,
        synthetic=config_lib.SyntheticConfig(),
        negatives=config_lib.NegativesConfig(),
        nce=config_lib.NceConfig(),
        model=dataclasses.replace(
            config.model, init=self._miner_init,
            projection_dim=self._dim(source),
        ),
        optim=dataclasses.replace(
            config.optim, steps=settings.miner_steps or config.optim.steps,
            epochs=settings.miner_epochs or config.optim.epochs,
        ),
    )
    make = functools.partial(
        encoder_run.DualEncoderTraining, run.settings_for(config),
        dataset=lambda: self._dataset().gold,
    )
    code = folders.sha256_json(make(self._mined).identity)[:12]
    name = f'{self._dataset().gold.name}-{source}-{code}'
    self._trained[source] = make(self._mined / 'miners' / name)
    return self._trained[source]

  def _is_trained(self, source: str) -> bool:
    return self._miner(source).is_trained()

  def _train(self, source: str) -> None:
    self._miner(source).train_once()

  @functools.cached_property
  def _judgements(self) -> prepared_lib.Judgements:
    return self._dataset().prepared.judgements(self._split)

  @functools.cached_property
  def query_rows(self) -> np.ndarray:
    """`[queries] int32`, those with a positive, or `max_queries` of them."""
    judgements = self._judgements
    rows = np.unique(judgements.query_rows[judgements.grades > 0])
    if not 0 < self._max_queries < len(rows):
      return rows
    rng = np.random.default_rng(0)
    return np.sort(rng.choice(rows, self._max_queries, replace=False))

  @functools.cached_property
  def _positives(self) -> examples.Positives:
    return examples.known_positives(self._dataset().prepared)

  def _candidates(self, source: str) -> pathlib.Path:
    code = folders.sha256_json(self._source_identity(source))[:12]
    return self._mined / 'candidates' / (
        f'{self._dataset().name}-{source}-{code}'
    )

  def _is_mined(self, source: str) -> bool:
    if source in _TRAINED and not self._is_trained(source):
      return False
    return folders.read_manifest(self._candidates(source)) is not None

  def _missing(self, source: str) -> str | None:
    if source == 'model':
      return model_lib.missing(self._checkpoint_of(source))
    if source == 'context':
      return model_lib.missing(self._config.model.init)
    if source == 'run':
      lacks = map(runs.missing_run, self._runs)
      return next((lack for lack in lacks if lack), None)
    if source not in _TRAINED:
      return None
    if model_lib.is_workdir(self._miner_init):
      return (f'{self._miner_init}: {source} starts from a model that was not '
              'trained yet; name it with --config.negatives.miner_init')
    return model_lib.missing(self._miner_init)

  def _mine(self, source: str) -> None:
    if not len(self.query_rows):
      raise errors.UserError(
          f'{self._config.data.source}: no query of the split '
          f'"{self._split}" has a positive passage, so '
          'there is nothing to mine negatives for'
      )
    if hosts.are_several():  # They may mine together, and none may wait.
      self._write_candidates(source)
      return
    with folders.only_one(self._candidates(source)):
      if not self._is_mined(source):  # Not mined while waiting.
        self._write_candidates(source)

  def _write_candidates(self, source: str) -> None:
    miner, facts = {
        'given': self._given_miner,
        'bm25': self._bm25_miner,
        'context': self._context_miner,
        'run': self._run_miner,
    }.get(source, functools.partial(self._dense_miner, source))()
    candidates.write(
        self._candidates(source), self._source_identity(source),
        self.query_rows, self._settings.depth, miner,
        progress.Ticker(f'mining {source}', len(self.query_rows)), facts,
        miner.halves if isinstance(miner, context.ContextMiner) else (),
        divide=source in config_lib.RETRIEVED,
    )

  def _dense_miner(self, source: str):
    config, folder = self._search_config, self._mined / retriever_lib.FOLDER
    encoder = embedder_lib.make_encoder(config, self._model(source))
    retriever = retriever_lib.Retriever(
        config, self._dataset(),
        embedder_lib.Embedder(config, self._dataset(), encoder, folder),
        folder, among=self._among,
    )
    depth, facts = self._settings.depth, {'kind': 'exact'}
    if retriever_lib.index_settings(
        self._search_config, self._dataset().prepared
    ):
      some = self.query_rows[np.linspace(
          0, len(self.query_rows) - 1, min(_MEASURED, len(self.query_rows)),
          dtype=int,
      )]
      facts = retriever.measure_index(some, retriever.search_rows(some, depth))
    return candidates.SearchMiner(
        lambda rows, others: retriever.search_and_score(rows, depth, others),
        self._positives,
    ), {'index': facts}

  @functools.cached_property
  def _among(self) -> np.ndarray | None:
    """The passages that are searched for negatives: of the queries' worlds."""
    return self._dataset().prepared.rows_of_worlds(self.query_rows)

  @functools.cached_property
  def _bm25(self) -> bm25.Bm25Index:
    logging.info('indexing the corpus for BM25')
    return bm25_search.index_bm25(
        self._config.evaluation, self._dataset(), self._among
    )

  def _bm25_miner(self):
    queries, depth = self._dataset().prepared.queries, self._settings.depth

    def search(rows: np.ndarray, others: np.ndarray):
      if self._among is not None:
        places = np.searchsorted(self._among[:-1], others)
        others = np.where(self._among[places] == others, places, -1)
      found, scores = self._bm25.search_and_score(
          [queries[int(row)].text for row in rows], depth, others
      )
      return hits.renumber(found, self._among), scores

    return candidates.SearchMiner(search, self._positives), {}

  def _given_miner(self):
    judgements = self._judgements
    negative = judgements.grades <= 0
    if not negative.any():
      raise errors.UserError(
          f'{self._named("given")}: {self._config.data.source} has no '
          'passages judged not relevant (grade 0). Choose another, such as '
          '"bm25"'
      )
    return candidates.GivenMiner(
        judgements.query_rows[negative], judgements.passage_rows[negative],
        self._settings.depth,
    ), {}

  @property
  def _runs(self) -> list[pathlib.Path]:
    return list(map(pathlib.Path, self._settings.runs))

  def _run_miner(self):
    return candidates.RunMiner(
        runs.read_runs(self._runs), self._dataset().prepared,
        self._settings.depth,
    ), {}

  def _context_miner(self):
    dataset, judgements = self._dataset(), self._judgements
    documents, queries = dataset.documents, dataset.prepared.queries
    trained = (judgements.grades > 0) & judgements.is_example
    query_rows = judgements.query_rows[trained]
    passage_rows = judgements.passage_rows[trained]
    unknown = int((documents[passage_rows] < 0).sum())
    if unknown == len(passage_rows):
      raise errors.UserError(
          f'{self._named("context")}: it is not known which passages of '
          f'{self._config.data.source} belong to one document. Choose '
          '"coarse"; or, if passages of one document have one title, set '
          '--config.data.document=title'
      )
    if unknown:
      logging.warning('%d of %d positives belong to no document and get no '
                      'context negatives', unknown, len(passage_rows))

    def score(query: str, some: Sequence[str]) -> Sequence[float]:
      return self._bm25.score_texts(query, some)

    halves = context.HalfMaker(
        self._tokenizer, score, self._config.evaluation.answer_rule
    )

    def half(query_row: int, row: int):
      query = queries[query_row]
      return halves.negative_half(
          query.text, query.answers, dataset.prepared.passages[row].text
      )

    def positives(query_row: int):
      return passage_rows[slice(*np.searchsorted(
          query_rows, [query_row, query_row + 1]
      ))].tolist()

    return context.ContextMiner(
        documents, dataset.prepared.passage_groups, positives,
        self._positives, half, self._settings.depth,
    ), {}

  def _named(self, source: str) -> str:
    """The key that asks for a source."""
    settings = self._settings
    return (f'config.negatives.strategy="{source}"'
            if settings.strategy == source else
            f'config.negatives.members={settings.members}: {source}')

  def _texts_with(self, halves: np.ndarray) -> texts_lib.Texts:
    return texts_lib.Texts(
        self._dataset().prepared.passages, halves, lambda: self._tokenizer
    )

  def _make_pool(self) -> None:
    mined, halves = {}, np.zeros((0, 3), np.int32)
    for source in self._settings.sources:
      mined[source], own = candidates.read(self._candidates(source))
      halves = own if len(own) else halves
    prepared, read = self._dataset().prepared, self._texts_with(halves)
    rule = self._config.evaluation.answer_rule
    identity = self.identity
    assert identity is not None  # The steps before saw to that.
    pool_lib.write(
        self._folder, identity, self.query_rows, mined, halves,
        pool_lib.Corpus(
            prepared.passage_groups, self._positives,
            lambda queries, rows, where: texts_lib.find_answers(
                read, [prepared.queries[int(row)].answers for row in queries],
                rows, where, rule,
            ),
        ),
        self._settings,
        progress.Ticker('filtering', len(self.query_rows)),
        {'checkpoints': {source: _absolute(self._checkpoint_of(source))
                         for source in self._settings.sources
                         if source in ('coarse', 'fine', 'model')}},
    )
    self.__dict__.pop('pool', None)
    for source, counts in self.pool.counts().items():
      logging.info('%s: %d negatives; dropped: %s', source,
                   counts['negatives'], ', '.join(
                       f'{name} {counts[name]}' for name in
                       filters.DROPPED_BY[1:] if counts[name]
                   ) or 'none')
      if not counts['negatives']:
        logging.warning('%s gives no hard negative at all; loosen the filters '
                        'of config.negatives, or leave it out', source)

  def _missing_pool(self) -> str | None:
    try:
      pool_lib.read(self._folder)
    except errors.UserError as e:
      return f'config.negatives.pool: {e}'
    return None

  @functools.cached_property
  def _is_given_right(self) -> bool:
    """Whether a given pool belongs to the data at hand; always True.

    Raises:
      UserError: it does not, or its checkpoint changed since.
    """
    pool = pool_lib.read(self._folder)
    made = pool.manifest
    identity, checkpoints = made['identity'], made['checkpoints']
    manifest = self._dataset().prepared.manifest
    here = {'corpus': manifest['corpus_fingerprint'],
            'queries': manifest['queries_fingerprint'],
            'data': manifest['fingerprint'],
            'split': self._split}
    lines = []
    for source, there in identity['inputs'].items():
      lines += folders.differences({key: there[key] for key in here}, here)
      if 'tokenizer' in there and len(pool.halves):
        lines += folders.differences(
            there['tokenizer'], self._tokenizer.sha256, f'{source}.tokenizer'
        )
      if source in checkpoints:
        lines += self._changed_model(
            source, checkpoints[source], there['embeddings']['model']
        )
    if self._settings.quotas and pool.sources != self._settings.members:
      lines.append(f'quotas are for {self._settings.members}, and its sources '
                   f'are {pool.sources}; set config.negatives.members to these')
    self._refuse(sorted(set(lines)))
    return True

  def _changed_model(self, source: str, checkpoint: str, mined_with: str):
    """What changed in the checkpoint that a source was mined with."""
    if not pathlib.Path(checkpoint).is_dir():
      logging.warning('%s: whether %s is still the model that %s was mined '
                      'with is not checked; it is not there', self._folder,
                      checkpoint, source)
      return []
    model = model_lib.load_as_it_comes(self._config, checkpoint)
    return folders.differences(
        mined_with, model.fingerprint, f'the model of {source} ({checkpoint})'
    )

  def _refuse(self, lines: list[str]) -> None:
    remedy = (
        'Put that back, or name a pool of what is here; without '
        'config.negatives.pool one is mined' if self._settings.pool else
        'Put that back, or remove the folder to have it mined anew, or name '
        'another --workdir'
    )
    if lines:
      raise errors.UserError(
          f'{self._folder}: these negatives were mined from something else:\n'
          + '\n'.join(f'  {line}' for line in lines) + f'\n{remedy}'
      )


def _absolute(checkpoint: str) -> str:
  """The place of a folder; other names stay."""
  path = pathlib.Path(checkpoint)
  return str(path.resolve()) if path.is_dir() else checkpoint


def _foreign(there: dict[str, Any], here: dict[str, Any]) -> list[str]:
  """How the sources that two pools share differ in more than their settings.

  A pool of other sources or filters is made again from the candidates; one of
  other data or another checkpoint is not ours to replace.
  """
  lines = []
  for source in there['inputs'].keys() & here['inputs'].keys():
    ours, theirs = here['inputs'][source], there['inputs'][source]
    for key in ('corpus', 'queries', 'data'):
      lines += folders.differences(theirs[key], ours[key], key)
    if 'embeddings' in ours:
      lines += folders.differences(
          theirs['embeddings']['model'], ours['embeddings']['model'],
          f'the model of {source}',
      )
  return sorted(set(lines))
