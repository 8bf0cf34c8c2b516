"""Rules of hard negatives that several jobs' configs have to keep."""

from neg_contrast.settings import config as config_lib

_SAME_MODEL = (
    'shared', 'layers', 'pooling', 'projection_dim', 'normalize',
    'query_length', 'passage_length', 'query_prefix', 'passage_prefix',
    'mention_start', 'mention_end',
)  # Keys of stage 1's model that stage 2 can't change.


def check_drawn(config: config_lib.Config) -> None:
  """Refuses a number of drawn negatives that the strategy does not give."""
  negatives = config.negatives
  if (negatives.strategy == 'random') != (negatives.per_query == 0):
    raise config.error(
        'negatives.per_query', 'is 0 for strategy "random" and at least 1 for '
        f'any other; negatives.strategy is "{negatives.strategy}"'
    )


def check_mined(config: config_lib.Config) -> None:
  """Refuses to mine without the models that the strategies mine with."""
  negatives = config.negatives
  if negatives.pool:
    return
  if 'model' in negatives.sources and not (
      negatives.checkpoint or config.checkpoint
  ):
    raise config.error(
        'negatives.checkpoint', 'is needed by strategy "model": a trained '
        'workdir, or a BERT-family or sentence-transformers folder'
    )
  if not config.model.init and {'coarse', 'fine', 'context'} & set(
      negatives.sources
  ):
    raise config.error('model.init', 'is needed: coarse and fine train from '
                       'it, and context halves passages by its tokens')


def check_trained_with(config: config_lib.Config) -> None:
  """Raises UserError where strategy, number, loss and model disagree."""
  negatives = config.negatives
  if negatives.pool and negatives.strategy in ('random', 'corpus', 'sampled'):
    raise config.error('negatives.strategy', 'draws nothing from '
                       f'negatives.pool={negatives.pool}; name the strategy '
                       'that the pool was made by, or "mixed"')
  check_drawn(config)
  if config.loss.candidates == 'own' and negatives.per_query == 0:
    raise config.error('loss.candidates', 'leaves a query without any '
                       'negative; choose a negatives.strategy and per_query')
  if config.loss.adjusted and (
      negatives.strategy != 'sampled' or negatives.hard_percent < 100
      or negatives.greedy
  ):
    raise config.error('loss.adjusted', 'needs negatives that are drawn '
                       'independently: negatives.strategy=sampled with '
                       'hard_percent=100 and greedy=False')
  check_mined(config)
