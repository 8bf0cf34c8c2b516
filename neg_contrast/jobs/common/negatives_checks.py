"""Rules of hard negatives that several jobs' configs have to keep."""

from neg_contrast.losses import loss_table
from neg_contrast.mining import strategies
from neg_contrast.negatives import sources
from neg_contrast.settings import config as config_lib
from neg_contrast.training import encoder_run


def check_mined(config: config_lib.Config) -> None:
  """Refuses to mine without the models that the strategies mine with."""
  negatives = config.negatives
  if negatives.pool:
    return
  for name in negatives.strategies:
    reads = strategies.STRATEGIES[name].reads
    if 'checkpoint' in reads and not (
        negatives.checkpoint or config.checkpoint
    ):
      raise config.error(
          'negatives.checkpoint', f'is needed by source "{name}": a trained '
          'workdir, or a BERT-family or sentence-transformers folder'
      )
    if {'miners', 'tokenizer'} & set(reads) and not config.model.init:
      raise config.error('model.init', f'is needed by source "{name}", which '
                         'trains a miner from it or cuts passages by its '
                         'tokens')


def check_unfiltered(config: config_lib.Config) -> None:
  """Refuses a filter of what is drawn for each example, without a pool."""
  negatives = config.negatives
  both = sorted({*negatives.drop_answers} & {*negatives.drawn})
  if both:
    raise config.error(
        'negatives.drop_answers', f'looks at pools, and "{both[0]}" is drawn '
        'for each example without one. Leave it out; or have a pool of it made '
        'by configs/mine.py, and name that as negatives.pool'
    )


def check_judged(config: config_lib.Config) -> None:
  """Refuses a judge of what is not in a pool, or changes while training."""
  negatives = config.negatives
  if not negatives.judge:
    return
  if not (negatives.pooled or negatives.pool):
    raise config.error('negatives.judge', 'judges mined candidates, and '
                       f'negatives.sources={negatives.sources} have none; name '
                       'bm25 or another that is mined, or leave it out')
  if negatives.drawn:
    raise config.error(
        'negatives.judge', f'looks at pools, and "{negatives.drawn[0]}" is '
        'drawn for each example without one. Leave that out; or have a pool '
        'made by job=judge, and name that as negatives.pool'
    )
  if negatives.refresh_steps:
    raise config.error('negatives.judge', 'has judged what was mined, and '
                       'negatives.refresh_steps replaces that; leave one of '
                       'them out')


def check_shared(config: config_lib.Config) -> None:
  """Refuses what all queries of a batch share where it can't, or counts not.
  """
  negatives = config.negatives
  for entry in negatives.shared:
    sources.SHARED[entry.names[0]].check(negatives, config.data.batch_size)
    if not loss_table.make(config.loss).shares:
      raise config.error(
          'negatives.sources', f'"{entry}" gives all queries the same '
          f'candidates, and loss.candidates={config.loss.candidates!r} '
          "compares a query with its own alone; choose 'batch'"
      )
  if config.data.together and not loss_table.make(config.loss).shares:
    raise config.error(
        'data.together', 'makes the examples of a batch negatives of each '
        f'other, and loss.candidates={config.loss.candidates!r} compares a '
        "query with its own alone; choose 'batch', or leave it out"
    )


def check_frozen(config: config_lib.Config) -> None:
  """Refuses to freeze half a tower, and to search passages that move."""
  model, negatives = config.model, config.negatives
  if model.freeze and model.shared:
    raise config.error(
        'model.freeze', 'leaves one of two towers as it is; set '
        'model.shared=False'
    )
  if sources.in_steps(negatives):
    if model.freeze != 'passage':
      raise config.error(
          'negatives.sources', f'"{negatives.label}" searches vectors that '
          "are made once; set model.freeze='passage' and model.shared=False"
      )
    if loss_table.make(config.loss).shares:
      raise config.error(
          'negatives.sources', f'"{negatives.label}" gives each query '
          'candidates of its own; set loss.candidates=own and '
          'loss.bidirectional=False'
      )


def check_refreshed(config: config_lib.Config) -> None:
  """Refuses to make a pool again where the model can't."""
  negatives = config.negatives
  if not negatives.refresh_steps:
    return
  if config.job == 'train_reranker':
    raise config.error('negatives.refresh_steps', 'is for dual encoders: a '
                       'reranker has no vectors to search by. Leave it at 0')
  if negatives.count_of('sampled'):
    raise config.error('negatives.refresh_steps', 'is for pools; source '
                       '"sampled" is drawn again every '
                       'negatives.refresh_epochs. Leave it at 0')
  if negatives.pool:
    raise config.error('negatives.refresh_steps', 'makes the pool of this '
                       'training again, and negatives.pool is given, with '
                       'filters of its own; leave that out, and the pool is '
                       'mined by negatives.sources')
  if not negatives.dense:
    raise config.error('negatives.refresh_steps', 'replaces candidates of '
                       f'{", ".join(strategies.DENSE)}, and negatives.sources='
                       f'{negatives.sources} has none of them; name one, or '
                       'leave it at 0')


def check_trained_with(config: config_lib.Config) -> None:
  """Raises UserError where sources, loss and model disagree."""
  negatives = config.negatives
  if negatives.pool and not negatives.listed:
    raise config.error('negatives.sources', 'draw nothing from '
                       f'negatives.pool={negatives.pool}; name what it has, or '
                       'all of it by pool:2')
  loss_table.check(config.loss, encoder_run.held_by(
      config.negatives, config.loss, config.model.score in (None, 'dual')
  ))
  check_shared(config)
  check_frozen(config)
  check_unfiltered(config)
  check_judged(config)
  check_mined(config)
  check_refreshed(config)
