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
      ('50', step, workers) for step in ('prepare', 'tokenize')
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
