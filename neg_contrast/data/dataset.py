"""The data of a job: prepared corpus, splits, and tokens for a model."""

import dataclasses
import functools
from typing import Any, Protocol, runtime_checkable

import numpy as np
from absl import logging

from neg_contrast import errors, hosts
from neg_contrast.artifacts import artifact, places
from neg_contrast.data import (
  examples,
  feature_store,
  preparation,
  records,
  shared_ids,
  sources,
  statistics,
  synthetic_pairs,
  thin_data,
  tokenized,
)
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.data import tokenizer as tokenizer_lib
from neg_contrast.settings import config as config_lib


@runtime_checkable
class Model(Protocol):
  """What tells how texts become input of an encoder or a cross-encoder.

  Attributes:
    tokenizer: of the model.
    text: gives `length(role)`, `prefix(role)` and `markers`.
  """

  @property
  def tokenizer(self) -> tokenizer_lib.Tokenizer:
    """Makes token ids."""

  @property
  def text(self) -> Any:
    """Lengths, prefixes and markers."""


@dataclasses.dataclass(frozen=True)
class Splits:
  """Judgements to train on, to tune on, and to report."""

  train: prepared_lib.Judgements
  tune: prepared_lib.Judgements
  test: prepared_lib.Judgements


class Dataset:
  """A prepared corpus; what is derived from it is made once, when asked."""

  def __init__(self, config: config_lib.DataConfig):
    """Prepares the source, or opens what was prepared before.

    Raises:
      UserError: the source is missing or broken; says how to get it.
    """
    try:
      self.prepared = preparation.prepare(
          config.source,
          places.path(config.prepared_dir),
          skip_invalid=config.on_invalid == 'skip',
          answer_words=config.answer_words,
      )
    except errors.UserError as e:
      raise errors.UserError(f'{e}\n{config.how_to_get}'.rstrip()) from None
    self._config = config

  @property
  def name(self) -> str:
    """Short name, for the keys of `metrics.json`."""
    return name_of(self._config)

  @property
  def gold(self) -> 'Dataset':
    """The data with judgements that people made, for tuning and miners."""
    return self

  @property
  def skips_invalid(self) -> bool:
    """Whether what can't be used is left out, instead of an error."""
    return self.gold._config.on_invalid == 'skip'

  @property
  def train_split(self) -> str:
    """Name of the judgements that are trained on."""
    return self._config.train_split

  @functools.cached_property
  def train_and_tune(
      self,
  ) -> tuple[prepared_lib.Judgements, prepared_lib.Judgements]:
    """What training reads; miners need no test split.

    Raises:
      UserError: nothing is judged for tuning.
    """
    config = self._config
    train = self.prepared.judgements(config.train_split)
    if config.tune_split:
      tune = self.prepared.judgements(config.tune_split)
    else:
      train, tune = examples.split_by_document(
          self.prepared, train, config.tune_fraction, self.documents
      )
    if not (tune.grades > 0).any():
      raise errors.UserError(
          f'{errors.key("data.tune_split")}="{config.tune_split}": has answers '
          'but no positive passages, by which training is tuned; name another '
          'split'
      )
    return train, tune

  @functools.cached_property
  def splits(self) -> Splits:
    """The three splits of a training job; raises as `apart`."""
    train, tune = self.train_and_tune
    return Splits(train, tune, self.apart(self._config.test_split))

  def apart(self, split: str) -> prepared_lib.Judgements:
    """The judgements of a split that numbers are reported on.

    Raises:
      UserError: tuning and reporting share queries, or nothing is judged for
        tuning.
    """
    config = self._config
    train, tune = self.train_and_tune
    test = self.prepared.judgements(split)
    shared = np.intersect1d(tune.queries, test.queries)
    if len(shared):
      key = errors.key('data.test_split')
      by_key = f' ({key})' if split == config.test_split else ''
      query = self.prepared.queries[int(shared[0])]
      raise errors.UserError(
          f'{config.source}: the tune split and the split "{split}", which is '
          f'reported{by_key}, have {len(shared)} queries in common, such as '
          f'"{query.id}": {query.text:.60}. Numbers tuned on test queries mean '
          'nothing; name other splits, or take these queries out of one'
      )
    seen = np.intersect1d(train.queries, test.queries)
    if len(seen):
      logging.log_first_n(
          logging.WARNING, '%d test queries are also trained on', 1, len(seen)
      )
    return test

  @functools.cached_property
  def documents(self) -> np.ndarray:
    """`[passages] int32`: number of the document, -1 where unknown."""
    if self._config.document == 'reader':
      return self.prepared.passage_documents
    return prepared_lib.documents_by_title(self.prepared)

  @property
  def documents_by(self) -> dict[str, str]:
    """What makes documents of passages, where the reader does not say it."""
    by = self._config.document
    return {} if by == 'reader' else {'document': by}

  def document_of(self, passage: records.Passage) -> str:
    """Name of a passage's document, as in `documents`; empty where unknown."""
    if self._config.document == 'reader':
      return passage.document_id
    return prepared_lib.fold_title(passage.title)

  @functools.cached_property
  def own_passages(self) -> np.ndarray | None:
    """`[queries] int32`: the passage that a query never retrieves; -1: none.

    None: no query has any; see `shared_ids.py`.
    """
    if not shared_ids.has_rule(self._config):
      return None
    return shared_ids.find(self.prepared)

  def prefix(self, model: Model, role: str) -> str:
    """What is put before its `query` or `passage` texts."""
    own = self.own_prefixes(role)
    return own.get(f'{role}_prefix', model.text.prefix(role))

  def own_prefixes(self, *roles: str) -> dict[str, str]:
    """Those of the roles that stand in the place of any model's."""
    read = {key: getattr(self._config, key)
            for key in (f'{role}_prefix' for role in roles)}
    return {key: value for key, value in read.items() if value is not None}

  def tokenize(
      self, model: Model, role: str, is_for_part: bool = False
  ) -> tokenized.TokenizedTexts:
    """The `query` or `passage` texts as input of a model.

    Args:
      model: whose.
      role: `query` or `passage`.
      is_for_part: as `token_store.make_token_store`'s.
    """
    texts = tokenized.tokenize(
        self.prepared, role, model.tokenizer, model.text.length(role),
        self.prefix(model, role), model.text.markers, model.text.title_end,
        is_for_part,
    )
    if len(texts.store) and texts.marker_ids is None and hosts.is_first():
      folder = (self.prepared.corpus_folder if role == 'passage'
                else self.prepared.folder)
      key = (folder, role, model.tokenizer.sha256, texts.max_length,
             texts.prefix_ids, texts.template)
      if key not in _MEASURED:
        _MEASURED.add(key)
        _warn_of_cuts(role, texts)
    features = getattr(model, 'side_features', ())
    return dataclasses.replace(texts, side_features=feature_store.table_of(
        self.prepared, role, features, self.skips_invalid,
    )) if features else texts


_MEASURED = set[tuple[Any, ...]]()
"""Texts, as input of some length, that this process has measured. Once
is enough: 21 million passages take a second and 340 MB."""


def _warn_of_cuts(role: str, texts: tokenized.TokenizedTexts) -> None:
  """Warns where much of the texts is cut."""
  found = statistics.measure_lengths(texts)
  for line in thin_data.of_lengths(
      role, found.sequences, found.cut_sequences, found.cut, found.longest
  ):
    logging.warning('%s', line)


class SyntheticDataset(Dataset):
  """Synthetic queries for the passages of another data set."""

  def __init__(self, gold: Dataset, prepared: prepared_lib.Prepared, kind: str):
    """Wraps what `stage1/pair_folder.py` made.

    Args:
      gold: the data set with the passages.
      prepared: synthetic queries for them.
      kind: of the pairs.
    """
    self.prepared, self._gold, self._kind = prepared, gold, kind

  @property
  def name(self) -> str:
    """Short name, with the kind of the pairs."""
    return f'{self._gold.name}-{self._kind}'

  @property
  def gold(self) -> Dataset:
    """The data set with the passages."""
    return self._gold

  @property
  def train_split(self) -> str:
    """The split of all pairs."""
    return synthetic_pairs.SPLIT

  @functools.cached_property
  def train_and_tune(
      self,
  ) -> tuple[prepared_lib.Judgements, prepared_lib.Judgements]:
    """All pairs to train on; the tune queries are those of the gold data."""
    return (self.prepared.judgements(synthetic_pairs.SPLIT),
            self._gold.train_and_tune[1])

  @property
  def splits(self) -> Splits:
    """All pairs, and the tune and test splits of the gold data."""
    gold = self._gold.splits
    return Splits(self.train_and_tune[0], gold.tune, gold.test)

  @property
  def documents(self) -> np.ndarray:
    """`[passages] int32`: number of the document, -1 where unknown."""
    return self._gold.documents

  def own_prefixes(self, *roles: str) -> dict[str, str]:
    """Those of the data set with the passages."""
    return self._gold.own_prefixes(*roles)

  @property
  def own_passages(self) -> None:
    """None: ids of synthetic queries are made here, and name no passages."""
    return None


def name_of(config: config_lib.DataConfig) -> str:
  """Short name of a data set: its folder or file, or what it is."""
  if config.name:
    return config.name
  scheme, _, place = config.source.partition('?')[0].partition(':')
  return places.path(place or scheme).resolve().name if scheme else ''


def _told(manifest: dict[str, Any]) -> str:
  """How much there is: `9 passages, 5 queries, judgements: train 4, test 1`."""
  counts = manifest['counts']
  judged = ', '.join(f'{split} {number:,}' for split, number
                     in counts['judgements'].items())
  skipped = ', '.join(f'{name} {number:,}' for name, number
                      in counts['skipped'].items())
  return (f'{counts["passages"]:,} passages, {counts["queries"]:,} queries'
          + (f', judgements: {judged}' if judged else '')
          + (f'; skipped: {skipped}' if skipped else ''))


_READ = ('source', 'name', 'prepared_dir', 'how_to_get', 'on_invalid',
         'document', 'answer_words', 'drop_own_passage', 'query_prefix',
         'passage_prefix',
         'train_split', 'tune_split', 'tune_fraction', 'test_split', 'split')


@dataclasses.dataclass(frozen=True)
class Data(artifact.Artifact):
  """A source in its prepared form; loads as a `Dataset`.

  Attributes:
    config: source, splits, and where prepared corpora are kept.
  """

  kind = 'data'
  name = 'data'
  has_roles = True
  is_elsewhere = True
  config: config_lib.DataConfig

  def describe(self) -> str:
    """Source and place."""
    return f'{self.config.source} prepared in {self.config.prepared_dir}'

  def lacks(self) -> str | None:
    """What is wrong with the source, and how to get it."""
    try:
      if self.is_made() or not sources.is_here(self.config.source):
        return None
      sources.open_source(
          self.config.source, records.InvalidRecords(skip=True)
      )
    except errors.UserError as e:
      return f'{e}\n{self.config.how_to_get}'.rstrip()
    return None

  def fetch(self) -> None:
    """Downloads a source that lies elsewhere."""
    if not self.is_made():
      sources.fetch(self.config.source)

  def is_made(self) -> bool:
    """Whether it was prepared before."""
    return preparation.is_prepared(
        self.config.source, places.path(self.config.prepared_dir),
        self.config.on_invalid == 'skip', self.config.answer_words,
    )

  def build(self) -> None:
    """Prepares it."""
    dataset = self.load()
    logging.info('%s: %s', dataset.name, _told(dataset.prepared.manifest))

  def read(self) -> Dataset:
    """Opens what was prepared; prepares it where it was not."""
    return Dataset(self.config)

  def _find_contents(self, role: str) -> dict[str, Any] | None:
    """See `contents_of`; and whether queries have passages they never find."""
    if not self.is_made():
      return None
    dataset = self.load()
    contents = contents_of(dataset, role)
    if role != 'corpus' and dataset.own_passages is not None:
      return {**contents, 'drop_own_passage': (
          True if role == 'texts' else 'in batches too')}
    return contents


def contents_of(dataset: Dataset, role: str) -> dict[str, Any]:
  """The fingerprints of what a role reads, and own prefixes of that.

  Passages are `corpus`, they and queries are `texts`, and all is any other.
  """
  keys = {'corpus': ('corpus',), 'texts': ('corpus', 'queries')}.get(role)
  roles = ('passage',) if role == 'corpus' else ('query', 'passage')
  return {**({'data': dataset.prepared.fingerprint} if keys is None else {
      key: dataset.prepared.manifest[f'{key}_fingerprint'] for key in keys
  }), **dataset.own_prefixes(*roles)}


def data_of(config: config_lib.DataConfig) -> Data:
  """The data of a config, without what only trainings read of it."""
  return Data(config_lib.DataConfig(
      **{name: getattr(config, name) for name in _READ}
  ))
