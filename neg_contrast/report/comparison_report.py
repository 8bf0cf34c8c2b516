"""Writes a comparison: tables, figures, a page, and all values."""

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from neg_contrast import errors
from neg_contrast.artifacts import atomic, folders
from neg_contrast.evaluation import comparison as comparison_lib
from neg_contrast.report import comparison_figures, comparison_tables, svg

NAME = 'comparison'
_TEMPLATE = 'comparison.html.jinja'


def write(
    workdir: pathlib.Path,
    all_of: Sequence[comparison_lib.Comparison],
    title: str,
) -> str:
  """Writes all files of comparisons into a workdir.

  `comparison.md`, `.tex`, `.html`, `.csv` and `.json`; the figure of the first
  metric of each as `differences-*.svg` and `.pdf`, and learning curves as
  `curves-*.svg` and `.pdf`.

  Args:
    workdir: to write to.
    all_of: one or more, each with a table of its own.
    title: of the page.

  Returns:
    The tables in Markdown.
  """
  grids = [grid for made in all_of for grid in comparison_tables.grids(made)]
  text = '\n'.join(map(comparison_tables.markdown, grids))
  drawings = [_draw(made, str(number) if len(all_of) > 1 else '')
              for number, made in enumerate(all_of, 1)]
  drawn = [{one.name: one.svg() for one in some} for some in drawings]
  for suffix, content in (
      ('md', text),
      ('tex', '\n'.join(map(comparison_tables.latex, grids))),
      ('csv', comparison_tables.to_csv(all_of)),
      ('html', _page(all_of, drawn, title)),
  ):
    with atomic.writing(workdir / f'{NAME}.{suffix}') as f:
      f.write(content)
  folders.write_json(workdir / f'{NAME}.json', {
      'comparisons': list(map(_as_json, all_of)),
      'environment': folders.environment(),
  })
  for some, figures in zip(drawings, drawn, strict=True):
    for one in some:
      with atomic.writing(workdir / f'{one.name}.svg') as f:
        f.write(svg.standalone(figures[one.name]))
      atomic.write_bytes(workdir / f'{one.name}.pdf', one.pdf())
  return text


def read(path: pathlib.Path) -> dict[str, list[float]]:
  """What `comparison.json` holds.

  Returns:
    `<dataset>/<split>/<row>/<metric>` -> value of each seed, see `by_seed`; a
    row of a table with a title has it before its name.

  Raises:
    UserError: it is damaged.
  """
  made = folders.read_json(path)
  try:
    return {
        '/'.join(filter(None, (one['dataset'], one['title'], name, metric))):
            by_seed(row['seeds'], values['by_seed'])
        for one in made['comparisons'] for name, row in one['rows'].items()
        for metric, values in row['metrics'].items()
    }
  except (AttributeError, KeyError, TypeError, ValueError):
    raise errors.UserError(
        f'{path}: damaged. Run the same command without --check, which writes '
        'it again'
    ) from None


def by_seed(
    seeds: Sequence[int | None], values: Sequence[float]
) -> list[float]:
  """Values in the order of their seeds, whatever order a command names them in.

  Args:
    seeds: of the runs of a row; None: it has none.
    values: of a metric, of the same runs.

  Raises:
    ValueError: there are more of one than of the other.
  """
  pairs = zip(seeds, values, strict=True)
  return [value for _, value in sorted(
      pairs, key=lambda pair: (pair[0] is not None, pair[0] or 0, pair[1]))]


def _draw(
    made: comparison_lib.Comparison, number: str
) -> list[comparison_figures.Drawing]:
  end = f'-{number}' if number else ''
  return [
      *([comparison_figures.outcome(f'differences{end}', made, made.metrics[0])]
        if made.pairs else []),
      *comparison_figures.learning_curves(f'curves{end}', made),
  ]


def _page(
    all_of: Sequence[comparison_lib.Comparison],
    drawn: Sequence[Mapping[str, str]],
    title: str,
) -> str:
  """Everything in one page that needs nothing beside itself."""
  import jinja2  # Only reports need it.
  import markupsafe

  environment = jinja2.Environment(
      loader=jinja2.FileSystemLoader(pathlib.Path(__file__).parent),
      autoescape=True, undefined=jinja2.StrictUndefined,
      trim_blocks=True, lstrip_blocks=True,
  )
  environment.filters['raw'] = markupsafe.Markup  # Escaped where it was made.
  parts = [{
      'title': made.title or made.dataset,
      'tables': list(map(comparison_tables.to_html,
                         comparison_tables.grids(made))),
      'figures': list(figures.values()),
  } for made, figures in zip(all_of, drawn, strict=True)]
  return environment.get_template(_TEMPLATE).render(
      title=title, parts=parts, palette=svg.PALETTE,
      runs=[(row.name, '–' if run.seed is None else run.seed, run.workdir)
            for made in all_of for row in made.rows for run in row.runs],
  )


def _as_json(made: comparison_lib.Comparison) -> dict[str, Any]:
  return {
      'title': made.title, 'dataset': made.dataset, 'queries': made.queries,
      'baseline': made.baseline,
      'rows': {row.name: {
          'workdirs': [str(run.workdir) for run in row.runs],
          'seeds': [run.seed for run in row.runs],
          'metrics': {metric: {
              'mean': (mean := made.mean(row, metric)).value,
              'sd': mean.deviation, 'by_seed': mean.by_seed,
          } for metric in made.metrics},
      } for row in made.rows},
      'differences': [dataclasses.asdict(pair) for pair in made.pairs],
  }
