"""The table of sources of negatives."""

from neg_contrast.negatives import sources
from neg_contrast.settings import config as config_lib


def test_every_strategy_has_a_source():
  of = lambda strategy, pool=None: sources.source_of(strategy, pool)
  for name in ('random', 'corpus', 'sampled'):
    assert of(name) is sources.SOURCES[name]
  for name in ('mixed', *config_lib.MINED.names):
    assert of(name) is sources.SOURCES['random']  # Nothing was mined.
  assert sources.SOURCES['corpus'].names(None) == ('corpus',)
  assert sources.SOURCES['sampled'].names(None) == ('hard', 'random')
  assert sources.SOURCES['random'].names(None) == ()
