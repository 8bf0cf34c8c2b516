"""Checks of a config that several jobs share; each job adds its own."""

from neg_contrast import errors
from neg_contrast.mining import strategies
from neg_contrast.settings import config as config_lib

_SAME_MODEL = (
    'shared', 'layers', 'pooling', 'projection_dim', 'normalize', 'score',
    'query_length', 'passage_length', 'query_prefix', 'passage_prefix',
    'mention_start', 'mention_end', 'title_end',
)  # Keys of stage 1's model that stage 2 can't change.


def check_models_before(config: config_lib.Config) -> None:
  """Refuses models that are trained first and do not suit any job so.

  Raises:
    UserError: names the key and the remedy.
  """
  for name, inner, job in (('stage1', config.stage1, 'train'),
                           ('generator', config.generator, 'train_generator')):
    if inner is None:
      continue
    if inner.job != job:
      raise config.error(f'{name}.job', f'must be {job}')
    if not inner.workdir and name != 'stage1':
      raise config.error(f'{name}.workdir', 'is needed: where it is trained')
  if config.generator is not None and config.checkpoint:
    raise config.error(
        'checkpoint', f'and {errors.key("generator")} both name a question '
        'generator; leave one of them out'
    )
  if config.job == 'train':
    return
  if config.stage1 is not None:
    raise errors.SettingError(
        'stage1', '...', f'is for job=train, not {config.job}; add '
        ':stage1=none to the name of the config file'
    )
  if config.synthetic.pairs:
    raise config.error('synthetic.pairs',
                       f'is for job=train, not {config.job}')


def check_same_model(config: config_lib.Config) -> None:
  """Refuses another model than that of stage 1, which training goes on with.

  Raises:
    UserError: names the key and the remedy.
  """
  if config.stage1 is None:
    return
  for name in _SAME_MODEL:
    value = getattr(config.model, name)
    first = getattr(config.stage1.model, name)
    if value not in (None, first) and (value, first) != ('dual', None):
      raise config.error(
          f'model.{name}', f'is {first!r} in {errors.key("stage1")}, whose '
          'model this goes on with; set both'
      )


def check_source(config: config_lib.Config) -> None:
  """Refuses a config without data."""
  if not config.data.source:
    raise config.error('data.source', 'is needed, e.g. beir:data/msmarco or '
                       'squad:data/squad')


def check_one_set(config: config_lib.Config) -> None:
  """Refuses several data sets where one is read."""
  inner = [f'cells.{group}.{name}' for group, cells in (
      config.cells or {}).items() for name, cell in cells.items()
      if cell.mixture.sets]
  if inner:
    raise errors.SettingError(
        f'{inner[0]}.mixture.sets', '...', f'job={config.job} compares cells '
        'on one data set; name it as data.source of each'
    )
  if config.mixture.sets and config.job != 'train':
    raise errors.SettingError(
        'mixture.sets', tuple(config.mixture.sets), 'is for job=train, and '
        f'this is job={config.job}; name one data set as data.source'
    )


def check_init(config: config_lib.Config) -> None:
  """Refuses a training without a BERT to start from."""
  if not config.model.init:
    raise config.error('model.init', 'is needed: a folder or hub name of a '
                       'BERT-family model, or "minilm"')


def check_checkpoint(config: config_lib.Config) -> None:
  """Refuses a job that reads a model, without one."""
  if not config.checkpoint:
    raise config.error('checkpoint', 'is needed: a trained workdir, or a '
                       'BERT-family or sentence-transformers folder')


def check_question_writer(config: config_lib.Config) -> None:
  """Refuses to write questions without a generator."""
  if config.generator is None and not config.checkpoint:
    raise config.error('checkpoint', 'is needed: the workdir of a trained '
                       'question generator, or a T5 folder that writes '
                       'questions')


def check_no_answers(config: config_lib.Config) -> None:
  """Refuses generators that read an answer, where passages have none."""
  if config.synthetic.with_answer:
    raise config.error('synthetic.with_answer', 'is for generators that are '
                       'trained to be studied: passages of a corpus have no '
                       'answers to ask for')


def check_tuning(config: config_lib.Config) -> None:
  """Refuses to stop a training by what it trains on."""
  data = config.data
  if (config.evaluation.eval_steps and config.job.startswith('train')
      and data.tune_split == data.train_split):
    raise config.error('data.tune_split', 'is also the train_split, and '
                       'training stops by it; name another, or leave it empty '
                       'to take a part of the training documents')


def check_kind_of_training(config: config_lib.Config) -> None:
  """Refuses what belongs to a training of another kind."""
  model = config.model
  has_miner = any(strategies.STRATEGIES[name].trains_miner
                  for name in config.negatives.strategies)
  for key, is_set in (('loss.matryoshka', config.loss.matryoshka),
                      ('model.lora_rank', model.lora_rank),
                      ('model.freeze', model.freeze and not has_miner),
                      ('model.shared', not (model.shared or has_miner)),
                      ('nce.log_steps', config.nce.log_steps)):
    if is_set and config.job.startswith('train_'):
      raise config.error(key, 'is for dual encoders (job=train), and this is '
                         f'job={config.job}; leave it out')
  if config.optim.head_learning_rate and config.job != 'train_reranker':
    raise config.error('optim.head_learning_rate', 'is for rerankers '
                       f'(job=train_reranker), and this is job={config.job}; '
                       'leave it out')


def check_steps(config: config_lib.Config) -> None:
  """Refuses a job without epochs to run for no steps."""
  if not config.optim.steps:
    raise config.error('optim.steps', f'is needed by job={config.job}, which '
                       'knows no epochs')
