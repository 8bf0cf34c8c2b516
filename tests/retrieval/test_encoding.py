"""Encoding in blocks: same bytes on any mesh, same values as one by one."""

import jax
import numpy as np
import pytest

from neg_contrast import config as config_lib
from neg_contrast import sharding
from neg_contrast.data import sequences as sequences_lib
from neg_contrast.models import dual_encoder
from neg_contrast.retrieval import encoding
from tests import tiny


def test_spans_give_the_same_bytes():
  """Of a corpus whose parts have other mean lengths than the whole."""
  spec = dual_encoder.EncoderSpec(tiny.bert_config(), 'mean')
  params = dual_encoder.init_params(spec, jax.random.key(0))['shared']
  rng = np.random.default_rng(0)
  sequences = sequences_lib.listed(
      rng.integers(5, 60, rng.integers(3, 20 if i < 300 else 6))
      for i in range(500)
  )
  lengths = sequences.lengths
  mesh = sharding.make_mesh(config_lib.MeshConfig(), jax.devices()[:1])
  encoder = encoding.TableEncoder(
      dual_encoder.Encoder(spec), mesh, 24, chunk_tokens=20
  )
  encode = lambda **kwargs: encoder(
      params, sequences.take, lengths, **kwargs)
  whole, block = encode(), encoder.block_rows(lengths)
  assert block == 128  # Two sequences a group.
  out = np.zeros((500, 16), np.float32)
  for first, last in ((384, 500), (128, 384), (0, 128)):
    told = []
    encode(span=range(first, last), out=out[first:last],
           on_progress=told.append)
    assert told[-1] == last - first
  assert out.tobytes() == whole.tobytes()
  assert encode(span=range(128, 256)).tobytes() == whole[128:256].tobytes()
  for first, last in ((64, 128), (0, 100), (128, 499)):
    with pytest.raises(ValueError, match='cuts a block of 128'):
      encode(span=range(first, last))


def test_same_bytes_on_one_and_eight_devices_and_equal_to_single():
  spec = dual_encoder.EncoderSpec(tiny.bert_config(), 'mean')
  params = dual_encoder.init_params(spec, jax.random.key(0))['shared']
  rng = np.random.default_rng(0)
  sequences = sequences_lib.listed(
      rng.integers(5, 60, rng.integers(3, 20)) for _ in range(300)
  )
  lengths = sequences.lengths
  tables = []
  for devices in (1, 8):
    mesh = sharding.make_mesh(config_lib.MeshConfig(), jax.devices()[:devices])
    encoder = encoding.TableEncoder(
        dual_encoder.Encoder(spec), mesh, 24, chunk_tokens=40
    )
    tables.append(encoder(params, sequences.take, lengths))
  assert tables[0].tobytes() == tables[1].tobytes()
  assert tables[0].shape == (300, 16)
  for i in (0, 137, 299):
    alone = encoder(
        params, sequences.take(np.array([i])).take, lengths[i : i + 1]
    )
    np.testing.assert_allclose(tables[0][i], alone[0], atol=1e-5)
