"""The table of sources of negatives."""

import pytest

from neg_contrast.negatives import sources
from neg_contrast.negatives.sources import mixed_source, pool_source
from neg_contrast.settings import config as config_lib
from tests.negatives.sources import test_context_source

POOL = test_context_source.make_pool([[0]], ('bm25', 'given'))


def test_every_strategy_has_a_source():
  def of(strategy, mined=None, **settings):
    return sources.source_of(config_lib.NegativesConfig(
        strategy=strategy, runs=('some',), per_query=1, **settings), mined)

  for name in ('random', 'corpus', 'gold', 'sampled', 'context', 'retrieved'):
    assert of(name) is sources.SOURCES[name]
  for name in ('mixed', *config_lib.MINED.names):
    if name not in sources.SOURCES:
      assert of(name) is sources.SOURCES['random']  # Nothing was mined.
      assert of(name, POOL, pool='given') is pool_source.FromPool
  assert of('mixed', POOL) is mixed_source.Mixed
  assert of('mixed', POOL, members=('bm25', 'given')) is pool_source.FromPool
  assert of('context', POOL, pool='given') is pool_source.FromPool


@pytest.mark.parametrize('name, given', [
    ('corpus', ('corpus',)), ('sampled', ('hard', 'random')), ('random', ()),
    ('context', ('context',)), ('gold', ('gold',)),
    ('retrieved', ('retrieved',)),
])
def test_sources_have_names(name, given):
  assert sources.SOURCES[name].names(None) == given
