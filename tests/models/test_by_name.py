"""The dtype that a device has."""

import types

import jax
import jax.numpy as jnp
import pytest

from neg_contrast.models import by_name
from neg_contrast.settings import config as config_lib


@pytest.mark.parametrize(('platform', 'capability', 'dtype'), [
    ('cpu', None, jnp.float32), ('tpu', None, jnp.bfloat16),
    ('gpu', '7.5', jnp.float32), ('gpu', '8.0', jnp.bfloat16),
    ('gpu', '12.0', jnp.bfloat16), ('gpu', 'gfx90a', jnp.bfloat16),
])
def test_auto_is_a_dtype_that_the_device_has(
    monkeypatch, platform, capability, dtype
):
  device = types.SimpleNamespace(compute_capability=capability)
  monkeypatch.setattr(jax, 'local_devices', lambda backend: [device])
  assert by_name.compute_dtype(config_lib.ModelConfig(), platform) == dtype
  asked = config_lib.ModelConfig(dtype='bfloat16')
  assert by_name.compute_dtype(asked, platform) == jnp.bfloat16
