"""A study: the strategies of the survey, at equal steps from one start.

    python -m neg_contrast.main --config=configs/study_survey.py \\
        --config.data.source=beir:workdirs/mentions

with splits `train`, `spare` and `dev`, as configs/study_scores.py has them.

All-MiniLM-L6-v2 links 500 mentions to 11,915 concepts: 60 steps of 16 with the
batch softmax, query to passage. Rows differ in what a query is compared with
beside the positives of the batch:

- nothing (`random`); 2 passages of the corpus (`corpus`), of those that are
  positives of other queries (`gold`), by BM25 (`bm25`), by the model as it is,
  drawn once, or 3, 6 or 12 times (`hard_1` to `hard_12`), half of them so
  (`mixed_6`);
- 2 of the 100 nearest passages by the start (`model`), or by the model of every
  tenth step (`ance`); the same of ranks 101 to 500 (`model_101`, `ance_101`);
- one by the model as it is, and none, 10 or 100 of the corpus that all queries
  share (`hard_1to0`, `hard_1to10`, `hard_1to100`); 100 alone (`shared_100`);
- positives of earlier batches: 256, or all of the run (`queue_256`,
  `queue_960`), and these by a momentum encoder (`moco_960`);
- an average of the parameters is evaluated (`ema`);
- the hardest of the batch alone (`hardest_1`, `hardest_4`); another loss, with
  dot products (`triplet` of the hardest, `hinge`, `bce`; `bce_offset`: with the
  mean of all scores as probability 1/2; `lambdarank`);
- queries alone are trained, against the 100 that each step finds in the whole
  corpus (`ltre`; `ltre_lambdarank`: by that loss).

Paper: the survey of sampling strategies; launch/studies/ has ours.
"""

import functools

from neg_contrast import study_preset
from neg_contrast.settings import config as config_lib

_STEPS, _BATCH, _MENTIONS = 60, 16, 500


def get_config(arg=None):
  """Takes no argument."""
  config_lib.arguments(arg)
  config = study_preset.make_linking(__file__, baseline='random')
  config.checkpointing.log_steps = 1
  config.data.batch_size = _BATCH
  config.loss.candidates, config.loss.bidirectional = 'batch', False
  config.negatives.sources = ()
  return study_preset.make_study(config, {'linking': {
      'random': lambda config: None,
      'corpus': functools.partial(_set_sources, source='corpus:2'),
      'gold': functools.partial(_set_sources, source='gold:2'),
      'bm25': functools.partial(_set_sources, source='bm25:2'),
      'hard_1': functools.partial(_set_sampled, draws=1),
      'hard_3': functools.partial(_set_sampled, draws=3),
      'hard_6': functools.partial(_set_sampled, draws=6),
      'hard_12': functools.partial(_set_sampled, draws=12),
      'model': _set_mined,
      'ance': functools.partial(_set_mined, refresh_steps=10),
      'model_101': functools.partial(_set_mined, first=101, last=500),
      'ance_101': functools.partial(
          _set_mined, refresh_steps=10, first=101, last=500),
      'mixed_6': functools.partial(_set_sampled, draws=6, percent=50.0),
      'hard_1to0': functools.partial(
          _set_sampled, draws=6, sources=('sampled:1',)),
      'hard_1to10': functools.partial(
          _set_sampled, draws=6, sources=('sampled:1', 'shared_corpus:10')),
      'hard_1to100': functools.partial(
          _set_sampled, draws=6, sources=('sampled:1', 'shared_corpus:100')),
      'shared_100': functools.partial(
          _set_sources, source='shared_corpus:100'),
      'queue_256': functools.partial(_set_sources, source='queue:256'),
      'queue_960': functools.partial(_set_sources, source='queue:960'),
      'moco_960': functools.partial(
          _set_sources, source='queue:960', momentum=0.9),
      'ema': _set_average,
      'hardest_1': functools.partial(_set_loss, hardest=1),
      'hardest_4': functools.partial(_set_loss, hardest=4),
      'triplet': functools.partial(
          _set_loss, kind='triplet', distance='dot', margin=5.0, hardest=1),
      'hinge': functools.partial(_set_loss, kind='hinge', margin=5.0),
      'bce': functools.partial(_set_loss, kind='bce', positive_weight=15.0),
      'bce_offset': functools.partial(
          _set_loss, kind='bce', positive_weight=15.0, offset=34.0),
      'lambdarank': functools.partial(_set_loss, kind='lambdarank'),
      'ltre': _set_retrieved,
      'ltre_lambdarank': functools.partial(_set_retrieved, kind='lambdarank'),
  }}, seeds=(0, 1))


def _set_sources(config, source, momentum=0.0):
  config.negatives.sources = (source,)
  config.negatives.momentum = momentum


def _set_mined(config, refresh_steps=0, first=1, last=100):
  config.negatives.sources = ('model:2',)
  config.negatives.refresh_steps = refresh_steps
  config.negatives.checkpoint = config.model.init
  config.negatives.pool_size = last - first + 1
  if first > 1:
    config.negatives.first_rank, config.negatives.last_rank = first, last
    config.negatives.depth = last


def _set_sampled(config, draws, percent=100.0, sources=('sampled:2',)):
  config.negatives.sources = sources
  config.negatives.hard_percent = percent
  config.negatives.refresh_epochs = _STEPS / draws * _BATCH / _MENTIONS


def _set_loss(config, **keys):
  config.loss.update(keys)


def _set_average(config):
  config.optim.ema = 0.9


def _set_retrieved(config, **keys):
  config.model.shared, config.model.freeze = False, 'passage'
  config.negatives.sources = ('retrieved:100',)
  config.loss.candidates = 'own'
  config.loss.update(keys)
