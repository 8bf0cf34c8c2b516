import ctypes
import os
import pathlib
import subprocess
import sys
import types
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh

from neg_contrast import cpu, sharding
from neg_contrast.settings import config as config_lib


@pytest.fixture
def mesh():
  return sharding.make_mesh(config_lib.MeshConfig())


@pytest.fixture(autouse=True)
def asked_anew():
  cpu._are_known.cache_clear()
  yield
  cpu._are_known.cache_clear()


def test_products_of_float32_are_by_eigen(mesh):
  options = cpu.compiler_options(mesh, jnp.float32)
  square = jax.ShapeDtypeStruct((256, 256), jnp.float32)
  compile_ = lambda **kwargs: jax.jit(
      lambda x: x @ x, **kwargs
  ).lower(square).compile().as_text()
  assert 'ynn' not in compile_(compiler_options=options)
  assert cpu.compiler_options(mesh, jnp.bfloat16) == {}


def test_another_platform_gets_no_options():
  device = mock.Mock(platform='tpu')
  mesh = mock.Mock(spec=Mesh, devices=np.array([device]))
  assert cpu.compiler_options(mesh, jnp.float32) == {}


def test_a_compiler_without_the_options_gets_none(mesh, monkeypatch):
  monkeypatch.setattr(cpu, '_BY_EIGEN', {'xla_cpu_there_is_no_such': 'x'})
  assert cpu.compiler_options(mesh, jnp.float32) == {}


@pytest.mark.parametrize(('platforms', 'has_accelerator', 'is_kept'), [
    (None, False, True), (None, True, False), ('', True, False),
    ('cpu', True, True), ('cuda,cpu', False, False), ('tpu', True, False),
])
def test_memory_is_kept_where_cpus_compute(
    platforms, has_accelerator, is_kept, monkeypatch
):
  calls = []
  library = types.SimpleNamespace(mallopt=lambda *args: calls.append(args))
  monkeypatch.setattr(cpu, '_use_huge_pages', lambda: None)
  monkeypatch.setattr(ctypes, 'CDLL', lambda name: library)
  monkeypatch.delenv('JAX_PLATFORMS', raising=False)
  if platforms is not None:
    monkeypatch.setenv('JAX_PLATFORMS', platforms)
  monkeypatch.setattr(cpu, '_has_accelerator', lambda: has_accelerator)
  cpu.keep_memory()
  assert [option for option, _ in calls] == ([-8, -4, -1] if is_kept else [])


_HUGE = """
import os, re
os.environ['JAX_PLATFORMS'] = 'cpu'
import numpy as np
from neg_contrast import cpu
cpu.keep_memory()
def pages(what):
  rollup = open('/proc/self/smaps_rollup').read()
  return int(re.search(what + r': +(\\d+) kB', rollup)[1]) // 1024
before = pages('Rss')
held = np.ones(200 * 2**20, np.uint8)
small = [bytearray(2**16) for _ in range(1600)]  # numpy asks for its own.
print(pages('AnonHugePages'), before)
"""
_THP = pathlib.Path('/sys/kernel/mm/transparent_hugepage/enabled')


@pytest.mark.skipif(not _THP.exists() or '[never]' in _THP.read_text(),
                    reason='this system has no huge pages')
def test_memory_is_in_huge_pages():
  huge, before = map(int, subprocess.run(
      [sys.executable, '-c', _HUGE], capture_output=True, text=True,
      check=True).stdout.split())
  assert huge > 270  # MiB, of 300.
  assert before < 600  # What is asked for is not used.


def test_a_library_without_such_options_is_left_alone(monkeypatch):
  asked = []

  class Library:

    def __getattr__(self, name):
      asked.append(name)
      raise AttributeError(name)

  monkeypatch.setattr(ctypes, 'CDLL', lambda name: Library())
  monkeypatch.setattr(cpu, '_has_accelerator', lambda: False)
  cpu.keep_memory()
  assert asked == ['mallopt']


_GROWING = """
import os, sys
os.environ['JAX_PLATFORMS'] = 'cpu'
import numpy as np
from neg_contrast import cpu
cpu.keep_memory()
pins = {}

def step(state, batch):
  used = np.ones(batch.shape, np.uint8)
  if used.size not in pins:  # Above, not touched.
    pins[used.size] = np.empty(used.size + 2**20, np.uint8)
  return state, used.nbytes

if sys.argv[1] == 'fit':
  step = cpu.fit_memory(step)
for mib in (*range(100, 600, 100), *range(100, 600, 100)):  # Again and again.
  for _ in range(2):
    step(None, np.broadcast_to(np.uint8(0), (mib * 2**20,)))
resident = int(open('/proc/self/statm').read().split()[1])
print(resident * os.sysconf('SC_PAGESIZE') // 2**20)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), 'malloc_trim'),
                    reason='this library of C gives back what it wants to')
def test_steps_of_other_shapes_do_not_hold_memory():
  def peak(how):
    return int(subprocess.run(
        [sys.executable, '-c', _GROWING, how], capture_output=True, text=True,
        check=True, env={**os.environ, 'XLA_FLAGS': ''}).stdout)

  held, fits = peak('hold'), peak('fit')
  assert held > 1400  # The sum of all, and the library.
  assert fits < 900  # The largest, and the library.


def test_steps_are_the_same(monkeypatch):
  trimmed = []
  monkeypatch.setattr(ctypes, 'CDLL', lambda name: types.SimpleNamespace(
      malloc_trim=trimmed.append))
  monkeypatch.setattr(cpu, '_use_huge_pages', lambda: None)
  step = cpu.fit_memory(lambda state, batch: (state + 1, batch['x'].sum()))
  for size, times in ((3, 2), (3, 2), (4, 4), (3, 4), (2, 5)):
    assert step(1, {'x': np.ones(size)}) == (2, size)
    assert len(trimmed) == times


def test_a_step_waits_until_the_last_one_has_freed_its_memory(
    monkeypatch
):
  free, held, asked = 100, 100 + 2**30, []

  def ask():
    in_use = [free, free, free, held, held, free]
    asked.append(in_use[min(len(asked), 5)])
    return types.SimpleNamespace(uordblks=asked[-1], fordblks=0, arena=0)

  trimmed = []
  library = types.SimpleNamespace(
      malloc_trim=lambda pad: trimmed.append(len(asked)), mallinfo2=ask,
      malloc=lambda size: None)
  monkeypatch.setattr(ctypes, 'CDLL', lambda name: library)
  monkeypatch.setattr(cpu, '_use_huge_pages', lambda: None)
  step = cpu.fit_memory(lambda state, batch: (state, 0))
  for size in (3, 3, 2):
    step(1, {'x': np.ones(size)})
  assert trimmed == [1, 2, 6]  # Twice for the largest; not while it is held.
  asked.extend([held] * 3)  # `ask` says free from now on.
  before = len(asked)
  step(1, {'x': np.ones(3)})
  assert len(asked) == before + 1
