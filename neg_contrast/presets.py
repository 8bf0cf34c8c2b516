"""What the experiments in `configs/` share; only those files use it."""

import functools
import pathlib
import re
import runpy
from typing import Any

import ml_collections

from neg_contrast.settings import config as config_lib

DATA_KEYS = (
    'data.source', 'data.how_to_get', 'data.prepared_dir', 'data.on_invalid',
    'data.train_split', 'data.tune_split', 'data.tune_fraction',
    'data.test_split', 'data.document', 'data.drop_own_passage',
    'data.answer_words', 'synthetic.dir', 'negatives.mined_dir',
)
"""Keys that configs within another have from it, where the data is one."""

_PREFIX_KEYS = ('data.query_prefix', 'data.passage_prefix')
"""Likewise, but for a generator, which reads texts as they are."""

MODEL_KEYS = tuple(f'model.{name}' for name in (
    'init', 'layers', 'shared', 'pooling', 'projection_dim', 'normalize',
    'score', 'query_length', 'passage_length', 'query_prefix', 'passage_prefix',
    'mention_start', 'mention_end', 'title_end', 'dtype',
))
"""Keys that stage 1 has from stage 2, which goes on with its model."""

STAGE1 = ('generated', 'no_hard_negatives', 'judged',
          *config_lib.PRETEXTS.names)
"""What stage 1 can be trained on; a value of the argument `stage1`."""

_OWN = ('job', 'workdir', 'checkpoint', 'query', 'table', 'ensemble', 'compare',
        'study', 'stage1', 'generator', 'cells')  # What a cell has of its own.

MIXED = 'coarse+fine+bm25+context'
"""What the argument `negatives=mixed` stands for (Lu et al., section 4.1)."""

STRATEGIES = ('random', 'corpus', 'mixed', *config_lib.MINED.names)
"""Values of the argument `negatives`; or several, joined by +."""


def beside(file: str, name: str, **arguments: str) -> ml_collections.ConfigDict:
  """The config that another file of the same folder makes.

  Args:
    file: `__file__` of the asking config.
    name: of the other, without `.py`.
    **arguments: its argument.
  """
  path = pathlib.Path(file).with_name(f'{name}.py')
  arg = ','.join(f'{key}={value}' for key, value in arguments.items())
  return runpy.run_path(str(path))['get_config'](arg)


def follow(
    inner: ml_collections.ConfigDict,
    outer: ml_collections.ConfigDict,
    keys: tuple[str, ...],
) -> ml_collections.ConfigDict:
  """Makes keys of a config within another follow it, whatever flags say.

  Args:
    inner: for instance the later `outer.stage1`.
    outer: the config around it.
    keys: those of the data, or of the model.

  Returns:
    `inner`.
  """
  for key in keys:
    place, source = inner, outer
    *sections, name = key.split('.')
    for section in sections:
      place, source = place[section], source[section]
    place[name] = source.get_oneway_ref(name)
  return inner


def follow_unchanged(
    cell: ml_collections.ConfigDict,
    config: ml_collections.ConfigDict,
    plain: dict[str, Any],
) -> None:
  """Makes a cell of a table or a study follow it, but for what it changes.

  Args:
    cell: changed in place.
    config: of the table or the study.
    plain: what all cells were before they were changed.
  """
  own = cell.to_dict()
  follow(cell, config, tuple(
      key for key in leaves(cell) if key.partition('.')[0] not in _OWN
      and _value(own, key) == _value(plain, key)
  ))


def leaves(config: ml_collections.ConfigDict) -> list[str]:
  """All keys of a config and those within it, but for empty configs within."""
  return [key for key in config_lib.flat(config)
          if key.rpartition('.')[2] not in ('stage1', 'generator', 'cells')]


def _value(values: dict[str, Any], key: str) -> Any:
  return functools.reduce(lambda at, name: at[name], key.split('.'), values)


def set_size(config: ml_collections.ConfigDict, size: str) -> None:
  """Sets model and training: the paper's values, or what a laptop can do.

  Args:
    config: changed in place.
    size: `full` (Lu et al., section 5.3) or `small`.

  Raises:
    UserError: another size.
  """
  if size == 'full':
    config.data.groups = 32
    config.data.batch_size = 2048
    config.model.init = 'bert-base-uncased'
    config.model.projection_dim = 768
    config.model.query_length = 64
    config.model.passage_length = 384
    config.model.remat = 'attention'  # Else it keeps every attention matrix.
    config.optim.learning_rate = 1e-5
    config.optim.epochs = 200
    config.evaluation.eval_steps = 100
    config.evaluation.patience = 10
  elif size == 'small':
    config.data.batch_size = 64
    config.model.init = 'minilm'
    config.model.query_length = 64
    config.model.passage_length = 256
    config.optim.optimizer = 'adamw'
    config.optim.learning_rate = 3e-5
    config.optim.epochs = 1
    config.evaluation.eval_steps = 60
    config.checkpointing.log_steps = 5
  else:
    raise config_lib.unknown_argument('size', size, ('full', 'small'))


def set_linking(
    config: ml_collections.ConfigDict,
    size: str,
    score: str = 'dual',
    negatives: str = 'mixed-50',
) -> None:
  """Sets model and training of an entity retriever.

  Args:
    config: changed in place.
    size: `full` (Zhang and Stratos, 2021, sections 6.2 and 6.3) or `small`, for
      two cores.
    score: see `config.model.score`.
    negatives: `random`, `hard`, or `mixed-P` with P percent hard; `adjusted`:
      hard, with the score-adjusted loss.

  Raises:
    UserError: another size, or other negatives.
  """
  config.model.shared = False
  config.model.score = score
  config.loss.bidirectional = False
  config.loss.candidates = 'own'
  kinds = {'random': 0.0, 'hard': 100.0, 'adjusted': 100.0}
  mixed = re.fullmatch('mixed-([0-9]+)', negatives)
  if negatives not in kinds and (mixed is None or int(mixed[1]) > 100):
    raise config_lib.unknown_argument(
        'negatives', negatives, (*kinds, 'mixed-50')
    )
  config.negatives.hard_percent = (
      float(mixed[1]) if mixed else kinds[negatives]
  )
  config.loss.adjusted = negatives == 'adjusted'
  config.evaluation.depth = 64
  config.evaluation.metrics = ('accuracy@1', 'accuracy@64')
  if size == 'full':
    config.data.batch_size = 4
    config.model.init = 'bert-base-uncased'
    config.model.projection_dim = 0
    config.model.normalize = False
    config.model.query_length = config.model.passage_length = 128
    config.model.remat = 'attention'
    config.loss.scale = 1.0
    config.negatives.sources = ('sampled:63',)
    config.optim.learning_rate = 2e-5
    config.optim.epochs = 4
    config.checkpointing.log_steps = 100
  elif size == 'small':
    config.data.batch_size = 16
    config.model.init = 'minilm'
    config.model.query_length = config.model.passage_length = 64
    if score != 'dual':
      config.model.pooling = 'cls'  # MiniLM has the mean, which is one vector.
    if score == 'som':
      config.loss.scale = 1.0  # A sum over the query's tokens, as ColBERT's.
    config.negatives.sources = ('sampled:7',)
    config.optim.optimizer = 'adamw'
    config.optim.learning_rate = 5e-5
    config.optim.epochs = 1
  else:
    raise config_lib.unknown_argument('size', size, ('full', 'small'))


def set_reranker(config: ml_collections.ConfigDict, size: str) -> None:
  """Makes an entity retriever's config train a reranker (JOINT) instead.

  Args:
    config: changed in place, from what `set_linking` made of it.
    size: as there.
  """
  config.job = 'train_reranker'
  config.model.shared = True
  config.model.projection_dim = config.model.normalize = None
  config.model.score = None
  config.loss.candidates = 'batch'
  config.negatives.pool_size = 63
  config.negatives.depth = 126  # The positive and copies drop out.
  if size == 'full':
    config.negatives.sources = ('model:63',)
    config.data.batch_size = 2
  else:
    config.negatives.sources = ('model:7',)
    config.optim.head_learning_rate = 1e-3  # Of random weights.


def set_negatives(
    config: ml_collections.ConfigDict, strategy: str, count: int = 2,
    mixed: str = MIXED,
) -> None:
  """Sets where hard negatives come from.

  Args:
    config: changed in place.
    strategy: one of `STRATEGIES`, or several that are mined, joined by +.
    count: N of their union; 0 for `random`, whatever it says.
    mixed: what `mixed` stands for.

  Raises:
    UserError: an unknown strategy.
  """
  names = strategy.split('+')
  known = config_lib.MINED.names if len(names) > 1 else STRATEGIES
  for name in names:
    if name not in known:
      raise config_lib.unknown_argument('negatives', name, known)
  config.negatives.sources = () if strategy == 'random' else (
      f'{mixed if strategy == "mixed" else strategy}:{count}',
  )


def make_stage1(
    file: str, arg: str | None, negatives: str, epochs: float
) -> ml_collections.ConfigDict:
  """The config of a file called `NAME_stage1.py`.

  It is that of `NAME_stage2.py` from `model.init`, but for the pairs, and for
  the generator of `NAME_generator.py` if they are generated.

  Args:
    file: `__file__` of the config.
    arg: its argument, with `size` and `stage1`.
    negatives: strategy for generated questions.
    epochs: passes over the pairs, at `size=full`; 1 at `size=small`.

  Raises:
    UserError: an unknown argument.
  """
  args = config_lib.arguments(arg, size='full', stage1='generated')
  name, size = pathlib.Path(file).stem.partition('_')[0], args['size']
  config = beside(file, f'{name}_stage2', size=size, stage1='none')
  config.workdir = f'workdirs/{name}_stage1-{size}'
  set_stage1(config, args['stage1'], negatives)
  config.optim.epochs = float(epochs) if size == 'full' else 1.0
  if config.synthetic.pairs in ('generated', 'judged'):
    made = beside(file, f'{name}_generator', size=size)
    config.generator = follow(made, config, DATA_KEYS)
  return config


def make_generator(
    file: str, arg: str | None
) -> ml_collections.ConfigDict:
  """The config of a file called `NAME_generator.py`; takes `size`.

  Args:
    file: `__file__` of the config.
    arg: its argument.

  Raises:
    UserError: an unknown argument.
  """
  size = config_lib.arguments(arg, size='full')['size']
  name = pathlib.Path(file).stem.partition('_')[0]
  config = beside(file, f'{name}_stage2', size=size, stage1='none')
  config.workdir = f'workdirs/{name}_generator-{size}'
  set_generator(config, size)
  return config


def set_stage1(
    config: ml_collections.ConfigDict, kind: str, negatives: str
) -> None:
  """Makes a config train on pairs that nobody judged.

  Args:
    config: changed in place; its workdir gets the kind as a suffix.
    kind: one of `STAGE1`.
    negatives: strategy for generated questions (Lu et al., section 4.1). Other
      pairs come without: what lies near a positive there, the query may have
      been cut from.

  Raises:
    UserError: an unknown kind.
  """
  if kind not in STAGE1:
    raise config_lib.unknown_argument('stage1', kind, STAGE1)
  is_generated = kind in ('generated', 'no_hard_negatives')
  config.synthetic.pairs = 'generated' if is_generated else kind
  config.synthetic.per_passage = 3 if is_generated else 1
  set_negatives(config, {'generated': negatives, 'judged': 'given'}.get(
      kind, 'random'))
  config.negatives.miner_epochs = config.optim.epochs  # Of gold pairs.
  # The paper's M, and some more for positives and copies among them. Candidates
  # and pool, which coarse has and context has not: MS MARCO's 26.4 million
  # questions x 120 x (8 + 14) bytes = 70 GB.
  config.negatives.pool_size = 100
  config.negatives.depth = 120
  if kind != 'generated':
    config.workdir += f'-{kind}'


def set_first(
    config: ml_collections.ConfigDict, stage1: ml_collections.ConfigDict,
    is_same_data: bool = True,
) -> None:
  """Makes a config start from the checkpoint of a stage 1.

  Args:
    config: of stage 2, changed in place.
    stage1: the config of stage 1.
    is_same_data: whether it reads the data of stage 2.
  """
  keys = MODEL_KEYS + (DATA_KEYS + _PREFIX_KEYS if is_same_data else ())
  config.stage1 = follow(stage1, config, keys)


def check_stage1(kind: str, *others: str) -> None:
  """Raises UserError where stage 1 can't be of a kind."""
  known = (*STAGE1, 'none', *others)
  if kind not in known:
    raise config_lib.unknown_argument('stage1', kind, known)


def set_generator(config: ml_collections.ConfigDict, size: str) -> None:
  """Makes a config train a question generator.

  Args:
    config: changed in place, from what `set_size` made of it.
    size: `full` is T5 1.1, which was trained on plain text alone (the mixture
      of T5 1.0 holds SQuAD); the paper does not say which T5 it has. `small` is
      one of three layers, from scratch.

  Raises:
    UserError: another size.
  """
  config.job = 'train_generator'
  config.model.projection_dim = None
  config.evaluation.patience = 3
  config.data.groups = 8
  if size == 'full':
    config.model.init = 'google/t5-v1_1-base'
    config.data.batch_size = 128
    config.optim.optimizer = 'adafactor'
    config.optim.learning_rate = 1e-3
    config.optim.epochs = 5
    config.evaluation.eval_steps = 500
  elif size == 'small':
    config.model.init = 'random:t5-tiny'
    config.model.query_length = 32
    config.model.passage_length = 192
    config.model.hidden_dropout = 0.0
    config.data.groups = 1
    config.data.batch_size = 16
    config.optim.optimizer = 'adafactor'
    config.optim.learning_rate = 1e-2  # From scratch.
    config.optim.schedule = 'linear'
    config.optim.warmup_steps = 20
    config.optim.steps = 900
    config.evaluation.eval_steps = 150
    config.evaluation.patience = 0
    config.checkpointing.log_steps = 10
  else:
    raise config_lib.unknown_argument('size', size, ('full', 'small'))
