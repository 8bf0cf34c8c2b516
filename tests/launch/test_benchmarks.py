"""launch/benchmarks: every script answers --help; steps that are quick run."""

import argparse
import importlib
import json
import pathlib

import numpy as np
import pytest

from neg_contrast import hosts
from neg_contrast.retrieval import scann_shards

SCRIPTS = pathlib.Path(__file__).parents[2] / 'launch' / 'benchmarks'
NAMES = sorted(path.stem for path in SCRIPTS.glob('benchmark_*.py'))


@pytest.fixture
def load(monkeypatch):
  monkeypatch.syspath_prepend(str(SCRIPTS))
  return importlib.import_module


@pytest.mark.parametrize('name', NAMES)
def test_help(load, name, monkeypatch, capsys):
  monkeypatch.setattr('sys.argv', [name, '--help'])
  with pytest.raises(SystemExit, match='^0$'):
    load(name).main()
  assert f'launch/benchmarks/{name}.py' in capsys.readouterr().out


def test_the_guide_and_the_results_name_every_script():
  for page in ('README.md', 'RESULTS.md'):
    text = (SCRIPTS / page).read_text('utf-8')
    for name in NAMES:
      assert f'{name}.py' in text, (page, name)


def test_preparing(load, monkeypatch, tmp_path, capsys):
  script = load('benchmark_prepare')
  monkeypatch.setattr('sys.argv', ['', '50', f'--folder={tmp_path}'])
  script.main()
  rows = [[cell.strip() for cell in line.split('|')]
          for line in capsys.readouterr().out.splitlines()[2:]]
  assert [(row[1], *row[3:5]) for row in rows] == [
      ('50', step, f'local, {workers}') for step in ('prepare', 'tokenize')
      for workers in '12']
  assert all(int(row[9].removesuffix(' MiB')) > 10 for row in rows)
  assert not list(tmp_path.iterdir())


def test_vectors_are_like_those_of_sentences(load, tmp_path):
  load('synthetic_vectors').make_vectors(tmp_path, 700, 0, 40)
  passages, queries = (np.load(tmp_path / f'{name}.npy')
                       for name in ('passages', 'queries'))
  assert passages.shape == (700, 384) and queries.shape == (40, 384)
  np.testing.assert_allclose(np.linalg.norm(passages, axis=1), 1, rtol=1e-3)
  best = (queries @ passages.T).max(1)
  assert 0.5 < best.mean() < 0.8


def test_threads_of_scann(load, monkeypatch, capsys):
  pytest.importorskip('scann')
  monkeypatch.setattr(scann_shards, '_LEAST_THREADS', 2)  # Put back after it.
  monkeypatch.setattr(
      'sys.argv', ['', '--rows=2000', '--features=8', '--threads', '1', '3'])
  load('benchmark_scann_threads').main()
  rows = [line.split('|') for line in capsys.readouterr().out.splitlines()[2:]]
  assert [row[2].strip() for row in rows] == ['1', '3'] * 3
  assert {row[5].strip() for row in rows} == {'none'}


def step(load, name, folder, step, **values):
  """What a step measured, in this process."""
  load(name)._run_step(argparse.Namespace(workdir=folder, step=step, **values))
  file = f'{values["dtype"]} {step}' if 'dtype' in values else step
  made = json.loads((folder / f'{file}.json').read_text())
  assert made['cpu'] > 0 and made['own'] >= 0
  return made


def test_tables_of_embeddings(load, tmp_path):
  load('synthetic_vectors').make_vectors(tmp_path, 600, 0, 8, 768)
  sizes = {}
  for dtype in ('float32', 'int8'):
    sizes[dtype] = step(load, 'benchmark_encode', tmp_path, 'write',
                        dtype=dtype)['disk']
    step(load, 'benchmark_encode', tmp_path, 'exact', dtype=dtype)
  assert sizes['float32'] > 600 * 3072 > sizes['int8'] > 600 * 768
  best, found = (np.load(tmp_path / f'{dtype} exact.npy') for dtype in sizes)
  assert best.shape == (8, 100)
  assert np.mean([np.isin(*pair).mean() for pair in
                  zip(best, found, strict=True)]) > 0.9


def test_mining(load, tmp_path):
  load('synthetic_vectors').make_vectors(tmp_path, 600, 0, 8)
  for name in ('exact', 'pool exact'):
    step(load, 'benchmark_mine', tmp_path, name)
  rows = np.load(tmp_path / 'pool exact' / 'rows.npy')
  assert rows.shape == (8, 200)


def test_exact_search(load, tmp_path, monkeypatch):
  monkeypatch.setattr(hosts, 'usable_cores', hosts.usable_cores)  # To be kept.
  script = load('benchmark_search')
  table, queries = script.make_table(tmp_path / 'made', 600, 16, 8)
  all_rows = lambda some: np.argsort(-some @ table[:].T, axis=1)[:, :10]
  row = script.measure({
      'ours': script._ours(table, 2, 10), 'faiss': all_rows,
      'reading': script._reading(table, 2),
  }, queries, 2, 1)
  assert row.endswith('| 1.0000 |') and row.count('|') == 9


def test_scores(load, tmp_path):
  script = load('benchmark_scores')
  sizes = argparse.Namespace(queries=3, passages=100)
  assert script._make_vectors(tmp_path, 'dual', sizes) == 100 * 384 * 4
  step(load, 'benchmark_scores', tmp_path, 'search', scores=['dual'])


def test_a_batch_for_the_gradient_cache(load):
  batch = load('benchmark_gradient_cache').make_batch(32)
  assert batch.forward_mask.shape == (32, 32 * 3)
  slots = np.concatenate([batch.query_slots, batch.positive_slots,
                          batch.negative_slots.ravel()])
  assert len(np.unique(slots)) == 32 * 4


def test_rows_for_attention(load):
  """Operations are counted by pairs of tokens of a sequence."""
  script = load('benchmark_attention')
  arrays, segment_ids, flops = script.make_rows(argparse.Namespace(
      rows_at_once=3, heads=2, features=4, tokens=20, window=None,
      causal=False), 64)
  assert arrays.shape == (4, 3, 64, 8) and segment_ids.shape == (3, 64)
  same = segment_ids[:, :, None] == segment_ids[:, None, :]
  pairs = (same & (segment_ids > 0)[:, :, None]).sum()
  # Scores and mixed values: a multiplication and an addition each, 8 features.
  assert flops == 3 * 2 * 2 * pairs * 8
  assert (segment_ids.max(1) >= 2).all()


def test_a_kernel_that_fails_has_a_row(load, monkeypatch, tmp_path, capsys):
  script = load('benchmark_attention')

  def refuse(*_):
    raise RuntimeError('no such kernel\nmore')

  monkeypatch.setattr(script, 'implementations', lambda args: {
      'XLA': script.by_xla(args), 'broken': refuse,
      'XLA again': script.by_xla(args)})
  monkeypatch.setattr('sys.argv', [
      '', '--rows_at_once=1', '--lengths=32', '--heads=2', '--features=4',
      '--tokens=9', '--rounds=1', '--calls=1', f'--rows={tmp_path / "rows"}'])
  script.main()
  table = capsys.readouterr().out.splitlines()[2:]
  assert [line.split('|')[2].strip() for line in table] == [
      'XLA', 'broken', 'XLA again']
  assert '| failed: no such kernel |' in table[1]
  first, broken, again = map(
      json.loads, (tmp_path / 'rows').read_text().splitlines())
  assert broken == {'row': 'broken, rows of 32',
                    'measured': {'failed': 'no such kernel'}}
  assert first['measured']['values'] == again['measured']['values'] == 1


def test_search_of_devices(load, tmp_path, monkeypatch, capsys):
  script = load('benchmark_device_search')
  monkeypatch.setattr('sys.argv', [
      '', '--passages=300', '--features=8', '--queries', '1', '20',
      '--depth=10', '--rounds=1', f'--rows={tmp_path / "rows"}'])
  script.main()
  rows = list(map(json.loads, (tmp_path / 'rows').read_text().splitlines()))
  assert [row['measured'].get('same') for row in rows] == [1, 1, None]
  assert rows[2]['measured']['passages'] == 300
  assert capsys.readouterr().out.startswith('| queries | ms |')


def test_search_of_tpus_is_approximate_too(load, tmp_path, monkeypatch):
  script = load('benchmark_device_search')
  kinds, asked = script.kinds_of, []
  make_index = script.make_index
  monkeypatch.setattr(script, 'make_index', lambda table, recall: (
      asked.append(recall), make_index(table, recall))[1])
  monkeypatch.setattr(
      script, 'kinds_of', lambda platform, recall: kinds('tpu', recall))
  monkeypatch.setattr('sys.argv', [
      '', '--passages=300', '--features=8', '--queries', '20', '--depth=10',
      '--rounds=1', '--recall=0.9', f'--rows={tmp_path / "rows"}'])
  script.main()
  rows = map(json.loads, (tmp_path / 'rows').read_text().splitlines())
  assert [row['row'] for row in rows] == [
      '20 queries at once', '20 queries at once, approximate, 0.9',
      'first search']
  assert asked == [None, 0.9] and kinds('gpu', 0.9) == {'': None}


def test_what_a_device_can_do(load, tmp_path, monkeypatch):
  monkeypatch.setattr('sys.argv', [
      '', '--size=32', '--mib=1', '--products=2', '--rounds=1',
      f'--rows={tmp_path / "rows"}'])
  load('benchmark_device').main()
  machine, *rows = map(json.loads, (tmp_path / 'rows').read_text().splitlines())
  assert machine['row'] == 'machine'
  assert machine['measured']['platform'] == 'cpu'
  names = [name for row in rows for name in row['measured']]
  assert names == ['bf16 product, TFLOP/s', 'float32 product, TFLOP/s',
                   'reading, GB/s', 'copying, GB/s']
  assert all(value > 0 for row in rows for value in row['measured'].values())


@pytest.mark.parametrize('size', [8, 3])
def test_plain_pytorch_with_a_gradient_cache(load, size):
  """Gradients are those of the whole batch; of one part, with dropout too."""
  torch = pytest.importorskip('torch')
  pytest.importorskip('transformers')
  script = load('peer_transformers')
  settings = {'device': 'cpu', 'scale': 5.0, 'bidirectional': True}
  layers = torch.nn.Sequential(
      torch.nn.Embedding(50, 6), torch.nn.Flatten(), torch.nn.Linear(24, 5),
      torch.nn.Dropout(0.5 if size == 8 else 0))
  encode = lambda tokens: layers(tokens['input_ids'])
  columns = [{'input_ids': torch.randint(0, 50, (8, 4))} for _ in range(4)]

  def gradients(backward):
    layers.zero_grad()
    torch.manual_seed(1)
    loss = backward()
    return [loss.detach(), *(p.grad.clone() for p in layers.parameters())]

  def plain():
    loss = script._loss([encode(column) for column in columns], settings)
    loss.backward()
    return loss

  whole = gradients(plain)
  cached = gradients(
      lambda: script._backward_cached(encode, columns, settings, size))
  assert whole[1].abs().max() > 1e-3
  for ours, want in zip(cached, whole, strict=True):
    torch.testing.assert_close(ours, want)
