"""Accuracy against bytes: narrow, int8 and binary vectors of a model.

    .venv/bin/pip install matplotlib
    .venv/bin/python launch/benchmarks/benchmark_bytes.py --source beir:DATA
        --split split-dev --models workdirs/plain workdirs/matryoshka
        [--dims 24 48 96 192] [--depth 100] [--workdir DIR] [--svg FILE]

Encodes the corpus by each model once. What is searched, exactly unless said:

* float32, bfloat16, int8: tables of `retrieval.vector_table` of these types, of
  the first features and of all.
* binary: 1 bit a feature, its `--depth` best as they are, not scored again.
* binary, int8: the best of `index.kind="binary"`, tuned to find 0.95 of the
  exact top, which are scored again by an int8 table.

`in memory` is what a search reads of each passage; a table that scores
candidates again stays on disk. Prints a markdown table, and draws
benchmark_bytes.svg beside this file.
"""

import argparse
import functools
import pathlib
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

_RANKS = 1, 20
_INK = '#7d8590'
_STYLES = {
    'float32': ('#d9730d', 'o'), 'bfloat16': ('#8f7ae0', 's'),
    'int8': ('#2f81f7', '^'), 'binary': ('#b08800', 'v'),
    'binary, int8': ('#2da44e', 'D'),
}


def main() -> None:
  """Encodes, searches, prints and draws."""
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawTextHelpFormatter
  )
  parser.add_argument('--source', required=True)
  parser.add_argument('--split', required=True)
  parser.add_argument('--models', nargs='+', required=True)
  parser.add_argument('--dims', type=int, nargs='+', default=[24, 48, 96, 192])
  parser.add_argument('--depth', type=int, default=100)
  parser.add_argument('--workdir', type=pathlib.Path)
  parser.add_argument(
      '--svg', type=pathlib.Path,
      default=pathlib.Path(__file__).with_suffix('.svg'),
  )
  args = parser.parse_args()
  sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))
  results: dict[str, list[dict[Any, Any]]] = {}
  print(f'{args.source}, {args.split}, depth {args.depth}')
  print('\n| model | features | kept as | bytes in memory | on disk | '
        + ' | '.join(f'accuracy@{rank}' for rank in _RANKS) + ' |')
  print('|---|---:|---|---:|---:|' + '---:|' * len(_RANKS))
  for model in args.models:
    name = pathlib.Path(model).name
    results[name] = []
    for row in _measure(model, args):
      results[name].append(row)
      print(f'| {name} | {row["features"]} | {row["kept"]} '
            f'| {row["memory"]:,.0f} | {row["disk"]:,.0f} | '
            + ' | '.join(f'{row[rank]:.4f}' for rank in _RANKS) + ' |',
            flush=True)
  _draw(results, args.svg)


def _measure(model: str, args: argparse.Namespace) -> Iterator[dict[Any, Any]]:
  """Every way to keep the vectors of a model, and what it finds."""
  from neg_contrast import api
  from neg_contrast.retrieval import first_features

  folder = args.workdir and str(args.workdir / pathlib.Path(model).name)
  retriever = api.load_retriever(model, args.source, folder)
  prepared = api.load_corpus(args.source)
  judged = prepared.judgements(args.split)
  queries = retriever.vectors.query_vecs(judged.queries)
  passages = np.asarray(retriever.vectors.passage_vecs[:])
  ranks = prepared.tie_ranks
  for dim in [*args.dims, passages.shape[1]]:
    narrow = functools.partial(
        first_features.narrow, dim=dim, normalize=True
    )
    with tempfile.TemporaryDirectory() as scratch:
      for kept, memory, disk, found in _search(
          narrow(queries), narrow(passages), ranks, args.depth,
          pathlib.Path(scratch),
      ):
        yield {
            'features': dim, 'kept': kept, 'memory': memory, 'disk': disk,
            **{rank: _accuracy(found.rows[:, :rank], judged)
               for rank in _RANKS},
        }


def _search(
    queries: np.ndarray, passages: np.ndarray, ranks: np.ndarray, depth: int,
    folder: pathlib.Path,
) -> Iterator[tuple[str, float, float, Any]]:
  """(how, bytes in memory, bytes on disk, hits) of each way."""
  from neg_contrast import sharding
  from neg_contrast.retrieval import (
    binary_shards,
    hits,
    mesh_search,
    quantized_index,
    vector_table,
  )
  from neg_contrast.settings import config

  mesh = sharding.make_mesh(config.MeshConfig())
  tables = {}
  for dtype in vector_table.DTYPES:
    layout = vector_table.Layout(
        len(passages), passages.shape[1], dtype, len(passages)
    )
    place = folder / dtype
    place.mkdir()
    writer = vector_table.ShardWriter(place, layout, 0)
    writer[0 : len(passages)] = passages
    writer.close()
    tables[dtype] = vector_table.Table(place, layout)
    yield dtype, layout.row_bytes, layout.row_bytes, mesh_search.MeshSearch(
        tables[dtype], ranks, mesh
    ).search(queries, depth)
  size = passages.shape[1] / 8 + 4
  shard = binary_shards.BINARY.build(None, passages, 0, 1)
  yield 'binary', size, size, hits.Hits(
      *shard.best(queries, 1, min(depth, len(passages)))
  )
  index = quantized_index.build(tables['int8'], ranks, quantized_index.Settings(
      target_recall=0.95, recall_k=depth, kind='binary'
  ))
  disk = size + tables['int8'].nbytes / len(passages)
  yield 'binary, int8', size, disk, index.search(queries, depth)


def _accuracy(rows: np.ndarray, judged: Any) -> float:
  """The part of queries that have a positive among `[queries, rank]` rows."""
  is_positive = judged.grades > 0
  positives = set(zip(
      judged.query_rows[is_positive].tolist(),
      judged.passage_rows[is_positive].tolist(), strict=True,
  ))
  return float(np.mean([
      any((query, row) in positives for row in found)
      for query, found in zip(
          judged.queries.tolist(), rows.tolist(), strict=True
      )
  ]))


def _draw(results: dict[str, list[dict[Any, Any]]], path: pathlib.Path) -> None:
  """A panel for each model, legible on white and on black."""
  import matplotlib
  from matplotlib import figure

  settings: Any = {
      'svg.hashsalt': 'benchmark_bytes', 'font.family': 'DejaVu Sans',
      'text.color': _INK, 'axes.labelcolor': _INK, 'axes.edgecolor': _INK,
      'xtick.color': _INK, 'ytick.color': _INK, 'font.size': 9,
      'axes.spines.top': False, 'axes.spines.right': False,
      'axes.titlelocation': 'left', 'axes.titlesize': 10,
  }
  with matplotlib.rc_context(settings):
    chart = figure.Figure(
        figsize=(max(6.0, 4 * len(results)), 3.8), layout='constrained'
    )
    panels = chart.subplots(1, len(results), squeeze=False, sharey=True)[0]
    for axes, (name, rows) in zip(panels, results.items(), strict=True):
      for kept, (color, marker) in _STYLES.items():
        of_kept = [row for row in rows if row['kept'] == kept]
        axes.plot(
            [row['memory'] for row in of_kept],
            [row[_RANKS[0]] for row in of_kept], color=color, marker=marker,
            markersize=4, linewidth=1.5, label=kept, clip_on=False,
        )
      axes.set_xscale('log', base=2)
      axes.xaxis.set_major_formatter(lambda value, _: f'{value:,.0f}')
      axes.set_title(name)
      axes.set_xlabel('bytes of a passage in memory')
      axes.set_facecolor('none')
      axes.grid(color=_INK, alpha=0.25, linewidth=0.6)
    panels[0].set_ylabel(f'accuracy@{_RANKS[0]}')
    handles, labels = panels[0].get_legend_handles_labels()
    chart.legend(handles, labels, loc='outside lower center', ncols=5,
                 frameon=False, fontsize=8.5)
    chart.savefig(
        path, transparent=True, metadata={'Date': None, 'Creator': None}
    )


if __name__ == '__main__':
  main()
