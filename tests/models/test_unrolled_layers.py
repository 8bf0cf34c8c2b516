"""Layers are unrolled where a CPU trains them, and where a config says so."""

import pytest

from neg_contrast import sharding
from neg_contrast.models import by_name, cross_encoder, dual_encoder
from neg_contrast.settings import config as config_lib
from tests import tiny


@pytest.mark.parametrize('asked, layers, is_training, unrolled', [
    (0, 3, True, 3), (0, 12, True, 12), (0, 13, True, 1), (0, 3, False, 1),
    (2, 3, True, 2), (1, 3, True, 1), (5, 3, False, 3)])
def test_layers_are_unrolled_where_a_cpu_trains(
    asked, layers, is_training, unrolled
):
  shape = tiny.bert_config(num_layers=layers)
  config = config_lib.ModelConfig(scan_unroll=asked)
  mesh = sharding.make_local_mesh(config_lib.MeshConfig())
  module = by_name.make_module(
      dual_encoder.EncoderSpec(shape), config, 16, mesh, is_training
  )
  assert module.scan_unroll == unrolled
  reranker = by_name.make_cross_encoder(
      cross_encoder.CrossEncoderSpec(shape), config, is_training
  )
  assert reranker.scan_unroll == unrolled
