"""The config: every setting of one command, by section.

The dataclasses of this room are the only list of keys; KEYS.md in `configs/` is
made from them. `base_config()` makes the mutable ConfigDict that files in
`configs/` fill in and flags override; `parse()` turns it back into frozen
dataclasses and checks each section. What a job asks of several sections is
checked by the job; see `jobs.check`.
"""

import dataclasses
import functools
import typing
from collections.abc import Iterable, Iterator
from typing import Any

import ml_collections
from ml_collections import config_dict

from neg_contrast import errors
from neg_contrast.settings import keys, unknown_keys
from neg_contrast.settings.benchmark_settings import BENCHMARKS, BenchmarkConfig
from neg_contrast.settings.checkpointing_settings import CheckpointingConfig
from neg_contrast.settings.compare_settings import CompareConfig
from neg_contrast.settings.data_settings import DataConfig
from neg_contrast.settings.ensemble_settings import EnsembleConfig
from neg_contrast.settings.evaluation_settings import EvaluationConfig
from neg_contrast.settings.export_settings import ExportConfig
from neg_contrast.settings.index_settings import IndexConfig
from neg_contrast.settings.loss_settings import LossConfig
from neg_contrast.settings.mesh_settings import MeshConfig
from neg_contrast.settings.mixture_settings import MixtureConfig, SetConfig
from neg_contrast.settings.model_settings import ModelConfig
from neg_contrast.settings.nce_settings import NceConfig
from neg_contrast.settings.negatives_settings import FORMATS, NegativesConfig
from neg_contrast.settings.optim_settings import OptimConfig
from neg_contrast.settings.serve_settings import ServeConfig
from neg_contrast.settings.source_list import MINED
from neg_contrast.settings.study_settings import StudyConfig
from neg_contrast.settings.synthetic_settings import PRETEXTS, SyntheticConfig
from neg_contrast.settings.table_settings import TableConfig

__all__ = [
    'BENCHMARKS', 'FORMATS', 'MINED', 'PRETEXTS',
    'BenchmarkConfig', 'CheckpointingConfig', 'CompareConfig', 'Config',
    'DataConfig', 'EnsembleConfig', 'EvaluationConfig', 'ExportConfig',
    'IndexConfig', 'LossConfig', 'MeshConfig', 'MixtureConfig', 'ModelConfig',
    'NceConfig', 'NegativesConfig', 'OptimConfig', 'ServeConfig', 'SetConfig',
    'StudyConfig', 'SyntheticConfig', 'TableConfig',
    'arguments', 'base_config', 'flat', 'from_dict',
    'inner_configs', 'named_sets', 'parse', 'set_key',
    'to_dict', 'unknown_argument',
]


@dataclasses.dataclass(frozen=True)
class Config(keys.Section):
  """All settings of one command.

  Attributes:
    job: `train`, `evaluate`, `search`, `export`, `split`, `mine`, `audit`,
      `train_generator`, `generate_questions`, `ensemble`, `table`, `benchmark`,
      `nce_synthetic`, `nce_bias`, `train_reranker`, `rerank`, `judge`,
      `compare`, `study`, `follow` or `serve`.
    workdir: folder of the results, unless `--workdir` names one; empty:
      `workdirs/<config name>`.
    stage1: the config of the training whose checkpoint this one starts from,
      instead of `model.init`; it runs first where it is not done yet. Without a
      workdir of its own it lies in `stage1` in that of this one.
    generator: the config of the training of the generator whose questions are
      trained on; it runs first where it is not done yet.
    checkpoint: a trained workdir, or a BERT-family or sentence-transformers
      folder, for jobs that read a model; a T5 for `generate_questions`, and for
      training on generated questions without a `generator`; a reranker or a
      dual encoder for `rerank`.
    candidates: what `rerank` ranks again, the first `evaluation.depth` of each
      query: `bm25`, a TREC run file or one of Zeshel's tfidf_candidates, or a
      checkpoint, which retrieves them. `train_reranker` tunes and evaluates on
      them; empty: on those of its negatives (source `bm25`, `model` or
      `run`).
    query: what `job=search` answers; empty: it asks for queries.
    query_features: a json object, the features beside text of what is asked,
      for models that read some (`model.features`); empty: it has none.
    seed: seed of initialisation, data order, negatives and dropout. A training
      that goes on from another on the same data wants another seed: with the
      same it has the same batches in the same order.
    data: see DataConfig.
    mixture: see MixtureConfig.
    model: see ModelConfig.
    loss: see LossConfig.
    synthetic: see SyntheticConfig.
    negatives: see NegativesConfig.
    optim: see OptimConfig.
    mesh: see MeshConfig.
    checkpointing: see CheckpointingConfig.
    evaluation: see EvaluationConfig.
    index: see IndexConfig.
    ensemble: see EnsembleConfig.
    table: see TableConfig.
    benchmark: see BenchmarkConfig.
    nce: see NceConfig.
    compare: see CompareConfig.
    study: see StudyConfig.
    serve: see ServeConfig.
    export: see ExportConfig.
    cells: configs by group and name: trainings for `job=table`, any runs that
      are evaluated for `job=study`.
  """

  job: str = keys.key('train', counts=False)
  workdir: str = keys.key('', counts=False)
  stage1: 'Config | None' = keys.key(None, counts=False)
  generator: 'Config | None' = keys.key(None, counts=False)
  checkpoint: str = keys.key('', counts=False)
  candidates: str = keys.key(
      '', counts=False, read=keys.jobs('rerank', 'train_reranker')
  )
  query: str = keys.key(
      '', keys.readable(), counts=False, read=keys.jobs('search')
  )
  query_features: str = keys.key(
      '', counts=False, read=keys.jobs('search')
  )
  seed: int = keys.key(0, keys.from_to(0, 2**32 - 1))
  data: DataConfig = keys.section(DataConfig)
  mixture: MixtureConfig = keys.section(MixtureConfig, counts=keys.Where(
      'it has `sets`', lambda config: bool(config.mixture.sets)
  ))
  model: ModelConfig = keys.section(ModelConfig)
  loss: LossConfig = keys.section(LossConfig)
  synthetic: SyntheticConfig = keys.section(SyntheticConfig)
  negatives: NegativesConfig = keys.section(NegativesConfig)
  optim: OptimConfig = keys.section(OptimConfig)
  mesh: MeshConfig = keys.section(MeshConfig, counts=False)
  checkpointing: CheckpointingConfig = keys.section(
      CheckpointingConfig, counts=False
  )
  evaluation: EvaluationConfig = keys.section(EvaluationConfig)
  index: IndexConfig = keys.section(IndexConfig, counts=False)
  ensemble: EnsembleConfig = keys.section(EnsembleConfig, counts=False)
  table: TableConfig = keys.section(
      TableConfig, counts=False, read=keys.jobs('table')
  )
  benchmark: BenchmarkConfig = keys.section(
      BenchmarkConfig, counts=False, read=keys.jobs('benchmark')
  )
  nce: NceConfig = keys.section(NceConfig, counts=False)
  compare: CompareConfig = keys.section(CompareConfig, counts=False)
  study: StudyConfig = keys.section(StudyConfig, counts=False)
  serve: ServeConfig = keys.section(
      ServeConfig, counts=False, read=keys.jobs('serve')
  )
  export: ExportConfig = keys.section(
      ExportConfig, counts=False, read=keys.jobs('export')
  )
  cells: 'dict[str, dict[str, Config]] | None' = keys.key(None, counts=False)


_WITHIN = ('stage1', 'generator')  # Keys that hold whole configs.
_CELLS = 'cells'  # And the key that holds groups of them.
_SETS = 'sets'  # The key that holds data sets.


def base_config() -> ml_collections.ConfigDict:
  """All keys with their defaults, locked against new ones."""
  return config_dict.ConfigDict(_defaults(Config)).lock()


def parse(config: ml_collections.ConfigDict) -> Config:
  """The frozen form of a config, each section checked.

  Raises:
    UserError: a key is unknown, or a value has a wrong type or is out of range;
      names key and remedy.
  """
  return _build(Config, config.to_dict())


def from_dict(values: dict[str, Any]) -> Config:
  """The config that a json of `to_dict` holds, its lists as tuples.

  Raises:
    UserError: as `parse`.
  """
  return _build(Config, _with_tuples(values))


def inner_configs(config: Config) -> Iterator[tuple[str, Config]]:
  """The configs that a config holds, each with its key."""
  for name in _WITHIN:
    inner = getattr(config, name)
    if inner is not None:
      yield name, inner
  for group, cells in (config.cells or {}).items():
    for name, cell in cells.items():
      yield f'{_CELLS}.{group}.{name}', cell


_FORMS = {bool: 'True or False', int: 'a whole number', float: 'a number',
          str: 'text', tuple: 'a tuple, in brackets'}


def set_key(
    config: ml_collections.ConfigDict, key: str, value: Any
) -> None:
  """Sets a key such as `data.source`, as a flag would: one text makes a tuple.

  Raises:
    UserError: there is no such key, or it holds another type.
  """
  form = ''
  try:
    *sections, last = key.split('.')
    section = functools.reduce(lambda at, name: at[name], sections, config)
    before, kind = section[last], section.get_type(last)
    form = _FORMS.get(kind, 'keys of it, one by one')
    if isinstance(value, str) and isinstance(before, tuple):
      value = (value,)
    config.update_from_flattened_dict({key: value})
  except (AttributeError, KeyError, OverflowError, TypeError,
          ValueError) as e:
    known = flat(config)
    why = (f'no such key{unknown_keys.hint(key, known)}' if key not in known
           else f'write {form}')
    raise errors.SettingError(key, value, why) from e


def named_sets(
    **sets: dict[str, Any]
) -> ml_collections.ConfigDict:
  """What `config.mixture.sets` holds, all keys with their defaults.

  Args:
    **sets: name of a data set -> its keys and their values.

  Raises:
    UserError: a key is unknown.
  """
  made = config_dict.ConfigDict()
  for name, values in sets.items():
    made[name] = config_dict.ConfigDict(_defaults(SetConfig)).lock()
    with errors.within(f'mixture.sets.{name}'):
      for key, value in values.items():
        set_key(made[name], key, value)
  return made.lock()


def flat(config: ml_collections.ConfigDict, prefix: str = '') -> list[str]:
  """All keys, with their sections."""
  names = []
  for key in config:
    value = config[key]
    if isinstance(value, ml_collections.ConfigDict):
      names += flat(value, f'{prefix}{key}.')
    else:
      names.append(prefix + key)
  return names


def to_dict(config: Any) -> dict[str, Any]:
  """Plain json values of a config or a section of it."""
  return dataclasses.asdict(config)


def arguments(arg: str | None, **defaults: str) -> dict[str, str]:
  """Reads the argument of `--config=FILE.py:ARGUMENT`.

  Args:
    arg: comma-separated `key=value`; a bare word w means `preset=w`.
    **defaults: the keys this config knows, and their defaults; where that is a
      whole number, only such numbers are taken.

  Raises:
    UserError: an unknown key, with those that are known; or no number.
  """
  values = dict(defaults)
  for item in filter(None, (arg or '').split(',')):
    key, _, value = item.rpartition('=')
    key = key or 'preset'
    if key not in values:
      raise errors.UserError(
          f'config argument "{item}": unknown key "{key}"'
          f'{unknown_keys.hint(key, values)}; this config takes '
          + (', '.join(sorted(values)) or 'no argument')
      )
    if defaults[key].isdecimal() and not value.isdecimal():
      raise errors.UserError(
          f'config argument "{item}": write a whole number, such as '
          f'{key}={defaults[key]}'
      )
    values[key] = value
  return values


def unknown_argument(key: str, value: str, known: Iterable[str]):
  """The error for a value that a config's argument does not take."""
  return errors.UserError(
      f'config argument "{key}={value}": expected one of {", ".join(known)}'
  )


def _defaults(cls: type) -> dict[str, Any]:
  values: dict[str, Any] = {}
  for field in dataclasses.fields(cls):
    if dataclasses.is_dataclass(field.type):
      values[field.name] = _defaults(typing.cast(type, field.type))
    elif field.name in (*_WITHIN, _CELLS, _SETS):
      values[field.name] = config_dict.placeholder(config_dict.ConfigDict)
    elif field.default is None:
      values[field.name] = config_dict.placeholder(keys.plain_type(field.type))
    else:
      values[field.name] = field.default
  return values


def _with_tuples(value: Any) -> Any:
  if isinstance(value, dict):
    return {key: _with_tuples(one) for key, one in value.items()}
  return tuple(map(_with_tuples, value)) if isinstance(value, list) else value


def _build(cls: type[keys.Section], values: Any) -> Any:
  """A section, or the whole config, of plain values.

  Raises:
    UserError: as `parse`.
  """
  fields = {field.name: field for field in dataclasses.fields(
      typing.cast(Any, cls)
  )}
  checked = {}
  for name, value in values.items():
    path = f'{cls.section}.{name}' if cls.section else name
    if name not in fields:
      raise _unknown(path, fields)
    annotation = fields[name].type
    if dataclasses.is_dataclass(annotation):
      _check_keys(path, value)
      value = _build(typing.cast(type, annotation), value)
    elif name in _WITHIN:
      value = None if value is None else _build_within(name, value)
    elif name == _CELLS:
      value = None if value is None else _build_cells(value)
    elif name == _SETS:
      value = None if value is None else _build_sets(path, value)
    else:
      keys.check_type(path, value, annotation)
    checked[name] = value
  return cls(**checked)


def _build_within(name: str, values: Any) -> Config:
  """A config within another; its errors name the keys as flags do."""
  _check_keys(name, values)
  with errors.within(name):
    return _build(Config, values)


def _build_cells(groups: Any) -> dict[str, dict[str, Config]]:
  _check_keys(_CELLS, groups)
  for group, cells in groups.items():
    _check_keys(f'{_CELLS}.{group}', cells)
  return {
      group: {name: _build_within(f'{_CELLS}.{group}.{name}', values)
              for name, values in cells.items()}
      for group, cells in groups.items()
  }


def _build_sets(path: str, sets: Any) -> dict[str, SetConfig]:
  """Data sets in the order of their names."""
  _check_keys(path, sets)
  built = {}
  for name in sorted(sets):
    _check_keys(f'{path}.{name}', sets[name])
    with errors.within(f'{path}.{name}'):
      built[name] = _build(SetConfig, sets[name])
  return built


def _check_keys(name: str, values: Any) -> None:
  """Raises SettingError where a value stands in the place of keys."""
  if not isinstance(values, dict):
    raise errors.SettingError(name, values, 'must hold keys, not a value')


def _unknown(path: str, known: Iterable[str]) -> errors.UserError:
  """The error of a key that there is not.

  Args:
    path: of the key, below its config.
    known: keys of its section.
  """
  above, _, name = errors.key(path).removeprefix('config.').rpartition('.')
  prefix = f'{above}.' if above else ''
  hint = unknown_keys.hint(prefix + name, [prefix + other for other in known])
  return errors.UserError(f'config: unknown key {prefix}{name}{hint}')
