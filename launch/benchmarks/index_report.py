"""Tables and the picture of `benchmark_index.py`."""

import pathlib
from typing import Any

from index_systems import DEPTH, SWEPT, TARGET
from synthetic_vectors import FEATURES

_NAMES = {
    'exact': 'exact (ours)', 'flat': 'faiss FlatIP', 'scann': 'ScaNN (ours)',
    'binary': 'binary (ours)',
    'ivf_flat': 'faiss IVFFlat', 'ivf_pq': 'faiss IVF-PQ4fs, refined',
}
_SHOWN = 0.5  # The least recall in the picture.
_MIB = 2**20
_PLACE = 'launch/benchmarks/benchmark_index.py'


def tables(results: dict[int, dict[str, Any]], threads: int) -> str:
  """What was measured, as markdown."""
  lines = [
      f'Synthetic vectors of {FEATURES} features (see {_PLACE}), depth '
      f'{DEPTH}, {_threads(threads)}, CPU seconds. Approximate ones at the '
      'tuned setting (scann, binary) or the narrowest measured one with recall '
      f'{TARGET} (faiss).',
      '',
      '| passages | system | build CPU s | build own MiB | index on disk MiB '
      f'| search own / mapped MiB | recall@{DEPTH} | queries/s, 1,000 at once '
      '| one at a time | setting |',
      '|---:|---|---:|---:|---:|---:|---:|---:|---:|---|',
  ]
  for passages, systems in results.items():
    for system, result in systems.items():
      build, search = result['build'], result['search']
      at = search['chosen']
      width = '' if at['width'] is None else (
          f'{at["width"]} of {round(passages**0.5)} lists'
          if system.startswith('ivf') else ''
      )
      setting = ', '.join(t for t in (width, search.get('note', '')) if t)
      lines.append(
          f'| {passages:,} | {_NAMES[system]} | {build["seconds"]:,.1f} '
          f'| {build["own"] / _MIB:,.0f} | {build["disk"] / _MIB:,.0f} '
          f'| {search["own"] / _MIB:,.0f} / {search["mapped"] / _MIB:,.0f} '
          f'| {at["recall"]:.4f} | {_round(at["rate"])} '
          f'| {_round(search["single_rate"])} | {setting} |'
      )
  lines += ['', 'Recall and queries/s, 1,000 at once, by leaves or lists '
            'searched:', '', '| passages | system | curve |', '|---:|---|---|']
  for passages, systems in results.items():
    for system in SWEPT:
      points = (f'{p["width"]}: {p["recall"]:.3f} at {_round(p["rate"])}'
                for p in systems[system]['search']['curve'])
      lines.append(f'| {passages:,} | {_NAMES[system]} | {"; ".join(points)} |')
  return '\n'.join(lines)


def _round(value: float) -> str:
  """Three digits: more would be noise."""
  return f'{float(f"{value:.3g}"):,.0f}' if value >= 100 else f'{value:.3g}'


def _threads(count: int) -> str:
  return '1 thread' if count == 1 else f'{count} threads'


def draw(
    results: dict[int, dict[str, Any]], threads: int, path: pathlib.Path
) -> None:
  """Recall against throughput, legible on white and on black."""
  import matplotlib
  from matplotlib import figure, ticker

  ink = '#7d8590'
  styles = {
      'exact': ('#d9730d', '*'), 'flat': ('#8f7ae0', 'X'),
      'scann': ('#2f81f7', 'o'), 'ivf_flat': ('#2da44e', 's'),
      'ivf_pq': ('#d6409f', '^'), 'binary': ('#b08800', 'v'),
  }
  settings: Any = {
      'svg.hashsalt': 'benchmark_index', 'font.family': 'DejaVu Sans',
      'text.color': ink, 'axes.labelcolor': ink, 'axes.edgecolor': ink,
      'xtick.color': ink, 'ytick.color': ink, 'font.size': 9,
      'axes.spines.top': False, 'axes.spines.right': False,
      'axes.titlelocation': 'left', 'axes.titlesize': 10,
  }
  with matplotlib.rc_context(settings):
    chart = figure.Figure(
        figsize=(max(6.0, 3.2 * len(results)), 3.8), layout='constrained'
    )
    panels = chart.subplots(1, len(results), squeeze=False, sharex=True)[0]
    for axes, (passages, systems) in zip(panels, results.items(), strict=True):
      for system, (color, marker) in styles.items():
        search = systems[system]['search']
        curve = [p for p in search['curve'] if p['recall'] >= _SHOWN]
        axes.plot(
            [p['recall'] for p in curve], [p['rate'] for p in curve],
            color=color, marker=marker, label=_NAMES[system], linewidth=1.5,
            markersize=9 if system in ('exact', 'flat') else 4, clip_on=False,
            linestyle='-' if system in SWEPT else 'none',
        )
        if system in ('scann', 'binary'):
          axes.plot(
              search['chosen']['recall'], search['chosen']['rate'], 'o',
              markersize=10, markerfacecolor='none', markeredgecolor=color,
              label=f'{_NAMES[system]}, as tuned', clip_on=False,
          )
      axes.axvline(TARGET, color=ink, linewidth=0.8, linestyle=(0, (3, 3)))
      axes.set_yscale('log')
      axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
      axes.yaxis.set_major_formatter(lambda value, _: f'{value:,.0f}')
      axes.yaxis.set_minor_locator(ticker.NullLocator())
      axes.set_xlim(_SHOWN, 1.0)
      axes.set_facecolor('none')
      axes.set_title(f'{passages:,} passages')
      axes.set_xlabel(f'recall@{DEPTH}')
      axes.grid(color=ink, alpha=0.25, linewidth=0.6)
    panels[0].set_ylabel('queries / CPU second, 1,000 at once')
    handles, labels = panels[0].get_legend_handles_labels()
    chart.legend(
        handles, labels, loc='outside lower center', ncols=3,
        frameon=False, fontsize=8.5,
    )
    chart.suptitle(
        f'Recall and throughput, {_threads(threads)}, synthetic vectors of '
        f'{FEATURES} features', fontsize=10, x=0.01, ha='left',
    )
    chart.savefig(
        path, transparent=True, metadata={'Date': None, 'Creator': None}
    )
