"""Test set-up: eight simulated devices, shape checks on, data located."""

import os
import pathlib
import tempfile

# Before jax starts its backend. NPROC keeps simulated devices from starving
# each other.
os.environ.setdefault('NPROC', '16')
os.environ.setdefault('JAX_PLATFORMS', 'cpu')
# Programs are many and run for milliseconds: this compiles them twice as fast.
# The command itself, and flags that are given, have the compiler as it is.
os.environ['XLA_FLAGS'] = (
    os.environ.get(
        'XLA_FLAGS', '--xla_backend_optimization_level=0 '
        '--xla_cpu_use_fusion_emitters=false '
        '--xla_cpu_parallel_codegen_split_count=1'
    ) + ' --xla_force_host_platform_device_count=8'
)
os.environ.setdefault('JAX_TRACEBACK_IN_LOCATIONS_LIMIT', '0')
os.environ.setdefault('TOKENIZERS_PARALLELISM', 'false')
# What is compiled once is there for the whole session: for all workers, and for
# the processes that tests start. It goes when the first process leaves, unless
# that is killed.
if 'JAX_COMPILATION_CACHE_DIR' not in os.environ:
  _CACHE = tempfile.TemporaryDirectory(
      prefix='neg_contrast_xla_', ignore_cleanup_errors=True
  )
  os.environ['JAX_COMPILATION_CACHE_DIR'] = _CACHE.name
  os.environ['JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS'] = '0'

from jaxtyping import install_import_hook

ROOT = pathlib.Path(__file__).parents[1]
# Shapes are checked where they are annotated; the rest is left to mypy, since
# checks at every call take a tenth of the time.
install_import_hook([
    '.'.join(path.relative_to(ROOT).with_suffix('').parts)
    for path in (ROOT / 'neg_contrast').rglob('*.py')
    if 'jaxtyping' in path.read_text(encoding='utf-8')
], 'tests.check')

import pytest  # noqa: E402

from tests import left_out  # noqa: E402

left_out.seldom_look_for_garbage()

DATA = ROOT.parent / 'shared' / 'data'

# Minutes long: begun last, they would leave all but one core idle.
LONG = ('tests/test_beam_bucket.py', 'tests/test_hosts.py',
        'tests/test_bucket_hosts.py', 'tests/golden',
        'tests/test_bucket_plan.py', 'tests/launch/test_notebook.py',
        'tests/launch/test_accelerator.py::test_the_dry_run')


_OF_A_WORKER = 6 * 2**30  # Bytes that one of three comes to hold, about.


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers():
  """Half as many again as cores: some wait for processes and clocks."""
  given = os.environ.get('PYTEST_XDIST_AUTO_NUM_WORKERS')
  if given:
    return int(given)
  memory = os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES')
  cores = len(os.sched_getaffinity(0)) if hasattr(
      os, 'sched_getaffinity') else os.cpu_count() or 1
  return max(1, min(cores * 3 // 2, memory // _OF_A_WORKER))


def pytest_collection_modifyitems(items):
  """The longest first."""
  items.sort(key=lambda item: not item.nodeid.startswith(LONG))


# Who looks at figures.
DRAWN = ('tests.report.', 'tests.jobs.test_compare', 'tests.jobs.test_nce')


@pytest.fixture(autouse=True, scope='module')
def slow_parts_are_left_out(request):
  """But where a test is about them."""
  name = request.module.__name__
  with pytest.MonkeyPatch.context() as patch:
    if not name.startswith(DRAWN):
      left_out.draw_nothing(patch.setattr)
    if name != 'tests.test_cpu':
      left_out.ask_no_heap(patch.setattr)
    yield


@pytest.fixture(autouse=True)
def nothing_is_known():
  """Nothing is known of artifacts that other tests have made."""
  from neg_contrast.artifacts import artifact

  artifact.forget()
  yield
  artifact.forget()


@pytest.fixture(autouse=True)
def environment_is_as_it_was():
  """What processes of later tests compute does not depend on a test."""
  names = ('JAX_', 'XLA_', 'NPROC')
  of_devices = lambda: {name: value for name, value in os.environ.items()
                        if name.startswith(names)}
  before = of_devices()
  yield
  assert of_devices() == before


@pytest.fixture(autouse=True, scope='session')
def kept_programs():
  """How JAX keeps programs for the session."""
  import jax

  return {name: getattr(jax.config, name) for name in (
      'jax_compilation_cache_dir', 'jax_enable_compilation_cache',
      'jax_persistent_cache_min_compile_time_secs')}


@pytest.fixture(autouse=True)
def programs_are_kept_as_before(kept_programs):
  """A job that keeps programs elsewhere, or none, does so for itself alone."""
  import jax

  yield
  for name, value in kept_programs.items():
    if getattr(jax.config, name) != value:
      jax.config.update(name, value)


@pytest.fixture(autouse=True)
def logging_is_as_it_was():
  """What a test does to the log's handlers ends with it."""
  from absl import logging

  logger = logging.get_absl_logger()
  before = logger.handlers[:], logger.propagate, logger.level
  yield
  logger.handlers, logger.propagate, logger.level = before


@pytest.fixture
def shared_data():
  """The folder of real data sets beside the project."""
  if not DATA.is_dir():
    pytest.skip('no ../shared/data here')
  return DATA


@pytest.fixture(scope='session')
def minilm():
  """The packaged all-MiniLM-L6-v2, read."""
  from neg_contrast.models import pretrained

  return pretrained.load_towers('minilm')['shared']
