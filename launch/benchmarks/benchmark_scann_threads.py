"""Builds a shard of ScaNN with several numbers of threads; are they the same?

    .venv/bin/python launch/benchmarks/benchmark_scann_threads.py
        [--rows 30000] [--features 96] [--threads 1 2 2 4 16]

Prints, for three kinds of vectors, the CPU seconds of each build, the part of
them that the calling thread takes (what cannot be divided is at most that), and
which files differ from those of the first build. `clustered` vectors are unit
vectors around topics, `wide` ones have norms over several orders of magnitude,
`copies` are 50 of each.
"""

import argparse
import pathlib
import sys
import tempfile
import time

import numpy as np


def main() -> None:
  """Builds, compares, prints."""
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawTextHelpFormatter
  )
  parser.add_argument('--rows', type=int, default=30_000)
  parser.add_argument('--features', type=int, default=96)
  parser.add_argument('--threads', type=int, nargs='+',
                      default=[1, 2, 2, 4, 16])
  args = parser.parse_args()
  sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))
  from neg_contrast.retrieval import scann_shards

  library = scann_shards.load_library()
  # Builds with one thread as well, which the package never does.
  scann_shards._LEAST_THREADS = 1
  print('| vectors | threads | CPU s | of the calling thread | files that '
        'differ |\n|---|---:|---:|---:|---|')
  for kind in ('clustered', 'wide', 'copies'):
    vecs = _make(kind, args.rows, args.features)
    first: dict[str, bytes] = {}
    for threads in args.threads:
      cpu, own = time.process_time(), time.thread_time()
      shard = scann_shards.build_shard(library, vecs, 0, threads)
      cpu, own = time.process_time() - cpu, time.thread_time() - own
      files = _files_of(shard)
      first = first or files
      differing = [name for name in files if files[name] != first[name]]
      print(f'| {kind} | {threads} | {cpu:.1f} | {own / cpu:.2f} | '
            f'{", ".join(differing) or "none"} |', flush=True)


def _make(kind: str, rows: int, features: int) -> np.ndarray:
  rng = np.random.default_rng(0)
  noise = rng.standard_normal((rows, features))
  if kind == 'clustered':
    topics = rng.standard_normal((rows // 40, features))
    vecs = topics[rng.integers(0, len(topics), rows)] + 0.7 * noise
    vecs /= np.linalg.norm(vecs, axis=1, keepdims=True)
  elif kind == 'wide':
    vecs = noise * rng.lognormal(0, 2, (rows, 1))
  else:
    vecs = noise[rng.integers(0, rows // 50, rows)]
  return np.ascontiguousarray(vecs, np.float32)


def _files_of(shard) -> dict[str, bytes]:
  with tempfile.TemporaryDirectory() as folder:
    shard.searcher.serialize(folder, relative_path=True)
    return {path.name: path.read_bytes()
            for path in sorted(pathlib.Path(folder).iterdir())}


if __name__ == '__main__':
  main()
