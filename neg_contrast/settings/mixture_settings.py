"""Keys of a training on several data sets."""

import dataclasses

from neg_contrast import errors
from neg_contrast.settings import keys, source_list


@dataclasses.dataclass(frozen=True)
class SetConfig(keys.Section):
  """One of several data sets that are trained on together.

  Its name is its key: letters, digits, `_` and `-`.

  Attributes:
    source: as `data.source`.
    how_to_get: as `data.how_to_get`.
    weight: how often it is drawn from, in proportion to the other weights;
      None, for all sets: by its size, see `mixture.temperature`.
    train_split: as `data.train_split`.
    tune_split: as `data.tune_split`.
    tune_fraction: as `data.tune_fraction`.
    test_split: as `data.test_split`; empty: it is not evaluated at the end.
    document: as `data.document`.
    answer_words: as `data.answer_words`.
    drop_own_passage: as `data.drop_own_passage`.
    query_prefix: as `model.query_prefix`, for this set; None: that one.
    passage_prefix: as `model.passage_prefix`, for this set; None: that one.
    negatives: as `negatives.sources`, for this set: as many for each query;
      empty: those.
  """

  source: str = keys.key('', counts=False)
  how_to_get: str = keys.key('', counts=False)
  weight: float | None = keys.key(None, keys.above(0))
  train_split: str = keys.key('train')
  tune_split: str = keys.key('')
  tune_fraction: float = keys.key(0.1, keys.between(0, 1))
  test_split: str = keys.key('test', counts=False)
  document: str = keys.key('reader', keys.one_of('reader', 'title'))
  answer_words: int = keys.key(0, keys.at_least(0), counts=False)
  drop_own_passage: bool | None = keys.key(None, counts=False)
  query_prefix: str | None = keys.key(None, keys.readable())
  passage_prefix: str | None = keys.key(None, keys.readable())
  negatives: tuple[str, ...] = keys.key((), each=source_list.FORM)

  def __post_init__(self):
    """Checks ranges, and that tuning does not see the test queries."""
    super().__post_init__()
    if not self.source:
      raise self.error('source', 'is needed, e.g. beir:data/nq')
    if self.tune_split and self.tune_split == self.test_split:
      raise self.error('tune_split', 'is also the test_split of this set; '
                       'tuning must not see the test queries. Name another, '
                       'or leave it empty to take a part of the training '
                       'documents')


_IF_SETS = keys.Where('`sets` are given', lambda section: bool(section.sets))


@dataclasses.dataclass(frozen=True)
class MixtureConfig(keys.Section):
  """Several data sets in one training, instead of `data.source`.

  Attributes:
    sets: the data sets by name, see `mixture.sets.NAME`; None: there is one,
      `data.source`.
    temperature: without weights a set is drawn from in proportion to
      examples ** (1 / temperature); 1: as often as it has examples.
    batches: whether the examples of a batch are all of `one` set, whose
      passages are then their in-batch negatives, or of several (`mixed`).
  """

  section = 'mixture'

  sets: dict[str, SetConfig] | None = keys.key(None, counts=_IF_SETS)
  temperature: float = keys.key(1.0, keys.above(0), counts=_IF_SETS)
  batches: str = keys.key(
      'one', keys.one_of('one', 'mixed'), counts=_IF_SETS
  )

  def __post_init__(self):
    """Checks ranges, names and weights."""
    super().__post_init__()
    sets = self.sets or {}
    if not sets:
      for key in ('temperature', 'batches'):
        if getattr(self, key) != getattr(MixtureConfig, key):
          raise self.error(key, 'is for several data sets; name them as '
                           'mixture.sets, or leave it out')
    self._check_folders()
    for name in sets:
      if not name.replace('-', '').replace('_', '').isalnum():
        raise self.error('sets', f'"{name}" names folders and metrics; take '
                         'letters, digits, "_" and "-"')
    weighted = [name for name, one in sets.items() if one.weight is not None]
    if weighted and len(weighted) < len(sets):
      missing = next(name for name in sets if name not in weighted)
      raise errors.SettingError(
          f'mixture.sets.{missing}.weight', None, f'is needed, as "'
          f'{weighted[0]}" has one; or leave all of them out'
      )
    if weighted and self.temperature != 1:
      raise self.error('temperature', 'is for sets without weights; leave it '
                       'out, or leave their weights out')

  def _check_folders(self) -> None:
    """Refuses sets whose evaluations would have one folder."""
    taken: dict[str, str] = {}
    for name, one in (self.sets or {}).items():
      folder = f'{name}-{one.test_split}'
      if one.test_split and taken.setdefault(folder, name) != name:
        raise self.error('sets', f'"{taken[folder]}" and "{name}" would both '
                         f'be evaluated in evaluation/{folder}-SYSTEM; give '
                         'one of them another name')
