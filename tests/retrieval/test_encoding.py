"""Encoding in blocks: same bytes on any mesh, same values as one by one."""

import jax
import numpy as np
import pytest

from neg_contrast import errors, sharding
from neg_contrast.data import sequences as sequences_lib
from neg_contrast.models import dual_encoder
from neg_contrast.retrieval import encoding
from neg_contrast.settings import config as config_lib
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


def test_equal_encoders_share_a_program(monkeypatch):
  encoding._program.cache_clear()  # Of what other tests have made.
  traced, encode = [], dual_encoder.encode
  monkeypatch.setattr(dual_encoder, 'encode', lambda *args: (
      traced.append(args[0].role), encode(*args))[1])
  spec = dual_encoder.EncoderSpec(tiny.bert_config(), 'mean')
  mesh = sharding.make_mesh(config_lib.MeshConfig(), jax.devices()[:1])
  sequences = sequences_lib.listed([np.array([5, 6, 7])])
  vecs = []
  for seed, role in enumerate(('query', 'query', 'passage')):
    params = dual_encoder.init_params(spec, jax.random.key(seed))['shared']
    vecs.append(encoding.TableEncoder(
        dual_encoder.Encoder(spec, role), mesh, 24, chunk_tokens=20
    )(params, sequences.take, sequences.lengths))
  assert traced == ['query', 'passage']
  assert np.abs(vecs[0] - vecs[1]).max() > 0.1


def test_what_takes_too_much_memory(monkeypatch):
  def encode(params, batch):
    raise jax.errors.JaxRuntimeError('RESOURCE_EXHAUSTED: no memory')

  monkeypatch.setattr(encoding, '_program', lambda *_: encode)
  mesh = sharding.make_mesh(config_lib.MeshConfig(), jax.devices()[:1])
  encoder = encoding.TableEncoder(dual_encoder.Encoder(
      dual_encoder.EncoderSpec(tiny.bert_config(), 'mean')), mesh, 24, 20)
  sequences = sequences_lib.listed([np.array([5, 6, 7])])
  with pytest.raises(errors.UserError, match=(
      r'encoding takes .*\. Set config\.index\.chunk_tokens below 20')):
    encoder({}, sequences.take, sequences.lengths)


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


def test_rows_are_no_longer_than_needed():
  spec = dual_encoder.EncoderSpec(tiny.bert_config(max_positions=300), 'mean')
  params = dual_encoder.init_params(spec, jax.random.key(0))['shared']
  mesh = sharding.make_mesh(config_lib.MeshConfig(), jax.devices()[:1])
  rng = np.random.default_rng(1)
  seen, tables = [], []
  sequences = [rng.integers(5, 60, n) for n in (3, 40, 64)]
  for lengths, row_length, width in (
      ((3, 40, 64), 0, 64), ((3, 40, 64), 320, 320), ((65,), 0, 128),
      ((200,), 0, 256), ((257,), 0, 300),
  ):
    encoder = encoding.TableEncoder(
        dual_encoder.Encoder(spec), mesh, 300, 512, row_length
    )
    run = encoder._encode
    encoder._encode = lambda params, batch, run=run: (
        seen.append(batch.token_ids.shape) or run(params, batch))
    some = sequences if len(lengths) == 3 else [
        rng.integers(5, 60, n) for n in lengths
    ]
    tables.append(encoder(
        params, sequences_lib.listed(some).take, np.array(lengths)
    ))
    assert seen[-1][-1] == width
  np.testing.assert_allclose(tables[0], tables[1], atol=1e-5)


def test_rows_suit_many_sequences():
  """Of 60 to 75 tokens: two of them take less of a row of 192 than of 128."""
  spec = dual_encoder.EncoderSpec(tiny.bert_config(
      hidden_size=64, intermediate_size=256, max_positions=300))
  mesh = sharding.make_mesh(config_lib.MeshConfig(), jax.devices()[:1])
  encoder = encoding.TableEncoder(
      dual_encoder.Encoder(spec), mesh, 300, chunk_tokens=512)
  lengths = np.random.default_rng(0).integers(65, 76, 400)
  assert encoder._row_tokens(lengths) == 192
  assert encoder._row_tokens(lengths[:255]) == 128
  lengths[7] = 257  # Wherever it stands, it has to fit.
  assert encoder._row_tokens(lengths) >= 257


def test_a_failure_while_packing_is_raised():
  spec = dual_encoder.EncoderSpec(tiny.bert_config())
  mesh = sharding.make_mesh(config_lib.MeshConfig(), jax.devices()[:1])
  encoder = encoding.TableEncoder(
      dual_encoder.Encoder(spec), mesh, 24, chunk_tokens=20)

  def tokens(rows):
    raise OSError('no such disk')

  with pytest.raises(OSError, match='no such disk'):
    encoder(None, tokens, np.full(9, 4))
