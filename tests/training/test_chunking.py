"""How much of a batch is encoded at once."""

import pytest

from neg_contrast import device_memory, errors, jobs, sharding
from neg_contrast.jobs.common import settings_of_rooms
from neg_contrast.settings import config as config_lib
from neg_contrast.training import chunking


def make_config(**kwargs):
  config = config_lib.base_config()
  config.data.source, config.model.init = 'python_docs', 'minilm'
  config.data.groups, config.data.batch_size = 64, 128
  config.update_from_flattened_dict(kwargs)
  return settings_of_rooms.training(config_lib.parse(config))


def test_number_of_groups_is_checked():
  mesh = sharding.make_mesh(config_lib.MeshConfig())
  chunking.check(make_config(**{'model.chunk_groups': 4}), mesh)
  with pytest.raises(errors.UserError, match=(
      r'model.chunk_groups=3: must divide the 8 groups .* 1, 2, 4, 8;'
  )):
    chunking.check(make_config(**{'model.chunk_groups': 3}), mesh)
  with pytest.raises(errors.UserError, match='model.chunk_groups=-2: must be'):
    make_config(**{'model.chunk_groups': -2})
  with pytest.raises(errors.UserError, match='model.chunk_groups=2: is for'):
    config = config_lib.base_config()
    config.job, config.data.source = 'train_generator', 'python_docs'
    config.model.init, config.model.chunk_groups = 'random:t5-tiny', 2
    jobs.check(config_lib.parse(config))
  plain = [chunking.make_chunks(make_config(), n, mesh) for n in (0, 8)]
  assert plain == [None, None]
  chunks = chunking.make_chunks(make_config(), 4, mesh)
  assert (chunks.groups, chunks.shards) == (4, 8)


def test_automatic_is_the_most_that_fits():
  mesh = sharding.make_mesh(config_lib.MeshConfig())
  used = {8: None, 4: 900, 2: 500, 1: 300}
  choose = lambda limit: chunking.choose(make_config(), mesh, used.get, limit)
  assert [choose(n) for n in (900, 899, 499, 300)] == [4, 2, 1, 1]
  with pytest.raises(errors.UserError, match='chunk_groups=-1.*data.groups'):
    choose(299)
  assert 2**28 < device_memory.limit() < 2**40
