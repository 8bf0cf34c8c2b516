"""The benchmark job: its tables, and that they tell what happened."""

import dataclasses
import json
import re
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neg_contrast import accelerators, errors, jobs
from neg_contrast.artifacts import folders, plan
from neg_contrast.batches import batcher
from neg_contrast.benchmarks import (
  measurement,
  peer,
  profile,
  results_table,
  rounds,
  tasks,
)
from neg_contrast.benchmarks import task as task_lib
from neg_contrast.data import random_texts
from neg_contrast.jobs import benchmark
from neg_contrast.settings import config as config_lib
from tests import test_configs, tiny

PEER = 'sentence-transformers'
ALL = ('round, s', 'CPU time, s', 'first round, with compilation, s',
       'peak memory of the process, MiB')
_COMMON = (task_lib.QUERIES, task_lib.TOKENS, task_lib.PADDING)
_COMPUTED = (*_COMMON, task_lib.FLOPS, task_lib.HOST_WAIT)
ROWS = {
    'train': (*_COMPUTED, task_lib.PASSAGES),
    'encode': (*_COMPUTED, task_lib.PASSAGES),
    'search': (*_COMPUTED, 'queries/s, one at a time', 'passages'),
    'mine': (*_COMPUTED, 'passages'),
    'input': (*_COMMON, 'queries/s of CPU time', 'token ids, CPU ms a batch'),
}
STAND_IN = """
import json, sys, time
print(json.dumps({'versions': 'stand-in 1'}), flush=True)
for _ in sys.stdin:
  time.sleep(%s)
  print(json.dumps({'cpu_seconds': 1.5, 'losses': [2.5]}), flush=True)
"""


def make_config(root, task, **overrides):
  return tiny.make_config(root, **{
      'job': 'benchmark', 'benchmark__task': task, 'benchmark__rounds': 2,
      'benchmark__steps': 2, 'benchmark__passages': 40,
      'benchmark__queries': 16, 'data__source': '',
      'data__expected_query_tokens': 6, 'data__expected_passage_tokens': 15,
      'negatives__sources': ('corpus:2',), 'optim__optimizer': 'adamw',
      **overrides,
  })


def run(root, workdir, task, **overrides):
  """Rows, reasons and notes; and the lines of the table."""
  config = make_config(root, task, **overrides)
  tiny.run(benchmark.BenchmarkJob, config, workdir)
  made = folders.read_json(workdir / folders.MANIFEST)['measured']
  return made, (workdir / benchmark.TABLE).read_text().splitlines()


def make_task(root, workdir, task, **overrides):
  """(the task, its material)."""
  job = benchmark.BenchmarkJob(
      config_lib.parse(make_config(root, task, **overrides)), workdir
  )
  folders.make_folder(workdir)
  target, = job.targets()
  assert isinstance(target, measurement.Measurement)
  plan.run([target.data])
  material = target.material()
  return tasks.make(material), material


@pytest.fixture(scope='module')
def root(tmp_path_factory):
  root = tmp_path_factory.mktemp('benchmark')
  tiny.make_config(root)
  return root


@pytest.mark.parametrize('task', config_lib.BENCHMARKS)
def test_a_table_has_all_its_rows(root, tmp_path, task, capsys):
  made, lines = run(root, tmp_path, task)
  rows = made['rows']
  assert {*ROWS[task], *ALL} <= rows.keys()
  for name, values in rows.items():
    assert np.isfinite(values).all() and min(values) >= 0, name
    assert len(values) in (1, 2), name
  for name in {*ROWS[task], *ALL} - {task_lib.PADDING, task_lib.HOST_WAIT}:
    assert min(rows[name]) > 0, name
  for name in {task_lib.PADDING, task_lib.HOST_WAIT} & rows.keys():
    assert max(rows[name]) < 1, name
  assert task_lib.UTILISATION in made['reasons']
  assert f'jax {jax.__version__}' in made['notes']['versions']
  assert made['notes']['devices'].startswith('8 x cpu')
  table = {line.split(' | ')[0].strip('| '): line for line in lines[2:]}
  assert table.keys() >= {*ROWS[task], *ALL, task_lib.UTILISATION, 'versions',
                          'devices'}
  assert {line.count('|') for line in lines} == {5}
  assert '\n'.join(lines) in capsys.readouterr().out
  values = rows[task_lib.QUERIES]
  assert results_table.number(max(values)) in table[task_lib.QUERIES]


def test_real_texts_are_encoded_before_they_are_searched(root, tmp_path):
  made, lines = run(root, tmp_path, 'mine',
                    data__source=f'beir:{root / "data"}')
  assert made['rows']['passages'] == [40 + 8]
  assert f'beir:{root / "data"}' in lines[0]
  assert list(tmp_path.rglob('embeddings'))


def test_utilisation_is_useful_operations_by_the_peak(
    root, tmp_path, monkeypatch
):
  monkeypatch.setattr(accelerators, 'find',
                      lambda kind: accelerators.Accelerator(1e9, 1))
  task, material = make_task(root, tmp_path, 'train')
  measured = task.round()
  task.close()
  bert, size, flops, tokens = material.model.spec.transformer, 8, 0, 0
  for step in range(2):
    batch, _ = material.ready.make_batch(step)
    for group in batch.sequences['shared'].segment_ids:
      _, lengths = np.unique(group[group > 0], return_counts=True)
      for length in lengths.tolist():
        tokens += length
        dense = 4 * bert.hidden_size**2 + 2 * bert.hidden_size * (
            bert.intermediate_size
        )
        flops += 3 * bert.num_layers * (
            2 * length * dense + 2 * 2 * length**2 * bert.hidden_size
        )
    flops += 3 * 2 * size * (size * 3) * bert.hidden_size
  seconds = 2 * size / measured[task_lib.QUERIES]
  assert measured[task_lib.TOKENS] == pytest.approx(tokens / seconds)
  assert measured[task_lib.FLOPS] == pytest.approx(flops / seconds / 1e12)
  assert measured[task_lib.UTILISATION] == pytest.approx(
      flops / seconds / (8 * 1e9)
  )


def test_the_step_is_that_of_training(root, tmp_path):
  """So many steps, with these batches, leave what training leaves."""
  task, material = make_task(root, tmp_path, 'train')
  first = material.trainer.first_state(material.ready)
  task.round()
  task.close()
  state = first
  for step in (0, 1):
    state, metrics = material.ready.step(state, material.ready.put(step)[0])
  assert task.losses[1] == float(metrics['loss'])
  jax.tree.map(np.testing.assert_array_equal, task._state.params, state.params)


def test_host_wait_is_the_time_without_input(root, tmp_path, monkeypatch):
  make_batch = batcher.Batcher.__call__

  def slow_input(self, step):
    time.sleep(0.5)
    return make_batch(self, step)

  task, _ = make_task(root, tmp_path, 'train', benchmark__steps=3)
  task.round()
  monkeypatch.setattr(batcher.Batcher, '__call__', slow_input)
  task.close()
  task.round()
  waited = task.round()[task_lib.HOST_WAIT]
  assert waited > 0.5
  # The same input behind steps that take longer.
  step = task._ready.step

  def slow_step(state, batch):
    made = jax.block_until_ready(step(state, batch))
    time.sleep(2.0)
    return made

  task._ready = dataclasses.replace(task._ready, step=slow_step)
  assert task.round()[task_lib.HOST_WAIT] < 0.2
  task.close()


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
  """Makes a script take the place of the peer."""
  def write(text):
    folder = tmp_path / 'launch'
    folder.mkdir()
    (folder / 'peer_sentence_transformers.py').write_text(text)
    monkeypatch.setattr(peer, 'LAUNCH', folder)
  return write


@pytest.mark.parametrize('task', ['train', 'encode'])
def test_ratios_are_of_rounds(root, tmp_path, stand_in, monkeypatch, task):
  stand_in(STAND_IN % 1.5)
  vecs = np.zeros((40, 16), np.float32)
  monkeypatch.setattr(peer.Peer, 'vecs', vecs)
  made, lines = run(root, tmp_path / 'work', task, benchmark__versus=PEER,
                    loss__mask_known_positives=False)
  rows = made['rows']
  theirs, ours = rows[f'round of {PEER}, s'], rows['round, s']
  assert all(1.5 <= seconds < 10 for seconds in theirs)
  np.testing.assert_allclose(rows[f'times as fast as {PEER}'],
                             np.divide(theirs, ours))
  assert min(rows[f'times as fast as {PEER}']) > 1
  np.testing.assert_allclose(rows[f'times as fast as {PEER}, by CPU time'],
                             np.divide(1.5, rows['CPU time, s']))
  assert 'stand-in 1' in made['notes']['versions']
  if task == 'train':
    assert rows[f'first loss of {PEER}'] == [2.5]
    off = abs(rows['last loss'][0] - 2.5) / 2.5, abs(
        rows['first loss'][0] - 2.5) / 2.5
    assert rows['losses differ by'] == [pytest.approx(max(off))]
    assert rows[f'most that a loss differs from {PEER}'] == [
        pytest.approx(2.5 * max(off))]


def test_the_busiest_operations_are_told(tmp_path):
  """Products in a loop take longer than the sine around it."""

  @jax.jit
  def work(x):
    return jnp.sin(jax.lax.fori_loop(0, 20, lambda _, x: x @ x, x))

  x = jnp.full((400, 400), 1 / 400)
  jax.block_until_ready(work(x))
  do = lambda: jax.block_until_ready(work(x))
  told = profile.busiest(do, tmp_path, 30)
  assert list(told.values()) == sorted(told.values(), reverse=True)
  assert sum(told.values()) == pytest.approx(1)
  assert next(iter(told.values())) > 0.5
  assert not any(name.startswith('while') for name in told)
  assert len(list(tmp_path.glob('**/*.xplane.pb'))) == 1
  one = profile.busiest(do, tmp_path, 1)
  assert list(one) == list(told)[:1]
  assert len(list(tmp_path.glob('**/*.xplane.pb'))) == 1
  assert profile.busiest(lambda: None, tmp_path, 1) == {}


def test_a_table_with_a_profile(root, tmp_path):
  made, lines = run(root, tmp_path, 'train', benchmark__profile=3)
  assert len(made['profile']) == 3
  shown = [line for line in lines if line.startswith('| of device time: ')]
  assert len(shown) == 3 and all('%' in line for line in shown)
  assert list((tmp_path / profile.FOLDER).glob('**/*.xplane.pb'))


def test_every_second_round_is_reversed():
  turns = []

  class Alone(task_lib.Task):

    def round(self):
      turns.append('ours')
      return {task_lib.QUERIES: 1.0}

  class Peer(peer.Peer):
    versions = ''

    def __init__(self):
      pass

    def round(self):
      turns.append('theirs')
      return {'cpu_seconds': 1.0}

  rounds.run(Alone(), Peer(), config_lib.BenchmarkConfig(
      versus=PEER, rounds=3
  ))
  assert ''.join(turn[0] for turn in turns) == 'otottoot'


@pytest.mark.parametrize('library', [PEER, 'transformers'])
@pytest.mark.parametrize(('task', 'mini_batch'), [
    ('train', 0), ('train', 3), ('encode', 0),
])
def test_the_peer_does_the_same(root, tmp_path, task, mini_batch, library):
  pytest.importorskip(library.replace('-', '_'))
  pytest.importorskip('torch')
  made, _ = run(
      root, tmp_path, task, benchmark__versus=library, benchmark__rounds=1,
      benchmark__mini_batch=mini_batch, loss__mask_known_positives=False,
      model__hidden_dropout=0.0, model__attention_dropout=0.0,
      data__expected_passage_tokens=30,
  )
  rows = made['rows']
  assert re.search(rf'\b{library} [56]\.', made['notes']['versions'])
  if task == 'train':  # Passages of 30 tokens are cut to 24 on both sides.
    assert rows['first loss'] == pytest.approx(
        rows[f'first loss of {library}'], rel=1e-4
    )
    assert rows['losses differ by'][0] < 1e-4  # At every step.
    assert rows['last loss'] != rows['first loss']
    told = json.loads((tmp_path / 'peer' / 'settings.json').read_text())
    assert [len(column) for column in told['batches'][0]] == [8] * 4
  else:
    assert rows[f'most that a feature differs from {library}'][0] < 1e-5


def test_it_is_measured_again_beside_a_peer(root, tmp_path, stand_in,
                                            monkeypatch):
  stand_in(STAND_IN % 0)
  monkeypatch.setattr(peer.Peer, 'vecs', np.zeros((40, 16), np.float32))
  left = tmp_path / 'peer' / 'vecs.npy'
  for _ in range(2):
    run(root, tmp_path, 'encode', benchmark__versus=PEER)
    assert not left.exists()  # Else vectors of another model might be read.
    left.touch()


def test_a_peer_that_fails_is_told_of(root, tmp_path, stand_in):
  stand_in('import sys\nprint("no such thing", file=sys.stderr)\nsys.exit(7)')
  with pytest.raises(errors.UserError,
                     match=r'ended with 7: no such thing; .*log\.txt'):
    run(root, tmp_path / 'work', 'encode', benchmark__versus=PEER)


def test_a_peer_that_is_not_there_is_asked_for(root, tmp_path, monkeypatch):
  monkeypatch.setattr(peer.importlib.util, 'find_spec',
                      lambda name: None)
  with pytest.raises(errors.UserError, match='tests/requirements.txt'):
    run(root, tmp_path, 'train', benchmark__versus=PEER)


@pytest.mark.parametrize(('arg', 'message'), [
    ('nonsense', 'preset=nonsense": expected one of train, encode'),
    ('size=huge', 'size=huge'),
    ('search,versus=sentence-transformers', 'is for train and encode'),
    ('versus=others', 'benchmark.versus'),
])
def test_mistakes_in_the_argument(arg, message):
  with pytest.raises(errors.UserError, match=re.escape(message)):
    config_lib.parse(
        test_configs.load(test_configs.ROOT / 'configs' / 'benchmark.py', arg)
    )


@pytest.mark.parametrize(('overrides', 'message'), [
    ({'negatives__sources': ('bm25:2',)}, 'are none or corpus'),
    ({'benchmark__versus': PEER, 'optim__optimizer': 'adam'},
     "optim.optimizer='adam': must be adamw"),
    ({'benchmark__versus': PEER, 'model__shared': False}, 'model.shared'),
    ({'benchmark__mini_batch': 3}, 'benchmark.versus in training'),
    ({'benchmark__profile': -1}, 'benchmark.profile'),
    ({'model__init': ''}, 'model.init'),
    ({'benchmark__rounds': 0}, 'benchmark.rounds'),
])
def test_mistakes_in_keys(root, overrides, message):
  with pytest.raises(errors.UserError, match=re.escape(message)):
    jobs.check(config_lib.parse(make_config(root, 'train', **overrides)))


@pytest.mark.parametrize('task', config_lib.BENCHMARKS)
def test_full_is_the_papers_size(task):
  config = test_configs.load(
      test_configs.ROOT / 'configs' / 'benchmark.py', f'{task},size=full'
  )
  parsed = config_lib.parse(config)
  assert parsed.model.init == 'random:bert-base-uncased'
  assert (parsed.model.query_length, parsed.model.passage_length) == (64, 384)
  assert parsed.negatives.per_query == 2
  if task in ('train', 'input'):
    assert (parsed.data.batch_size, parsed.data.groups) == (2048, 32)


def test_lengths_have_their_mean_and_no_more_than_allowed():
  lengths = random_texts.lengths(1000, 140, 150)
  assert lengths.max() == 150 and lengths.min() > 50
  assert random_texts.lengths(1000, 140, 384).mean() == pytest.approx(
      140, abs=0.5)


def test_made_up_texts_are_as_long_as_asked_for(root, tmp_path):
  _, material = make_task(root, tmp_path, 'input', benchmark__passages=300,
                          benchmark__queries=200)
  assert material.lengths('query').mean() == pytest.approx(6, abs=0.2)
  assert material.lengths('passage').mean() == pytest.approx(15, abs=0.2)
  assert len(material.dataset.prepared.passages) == 300
  assert len(material.query_rows()) == 200
