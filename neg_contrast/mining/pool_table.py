"""The counts of a pool as a table for the terminal."""

from collections.abc import Sequence

from neg_contrast.negatives import pool as pool_lib


def format_counts(counts: dict[str, dict[str, int]], queries: int) -> str:
  """Sources, their negatives, and what the filters dropped, if anything."""
  used = [name for name in pool_lib.DROPPED_BY[1:]
          if any(source.get(name, 0) for source in counts.values())]
  rows: list[Sequence[str]] = [
      ('source', 'negatives', 'a query', *used),
      *((name, str(source['negatives']),
         f'{source["negatives"] / max(1, queries):.1f}',
         *(str(source.get(key, 0)) for key in used))
        for name, source in counts.items()),
  ]
  widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
  title = '  '.join(' ' * width for width in widths[:3]) + '  dropped as'
  return '\n'.join([*([title] if used else []), *(
      '  '.join([row[0].ljust(widths[0]), *(
          cell.rjust(width) for cell, width in zip(row[1:], widths[1:],
                                                   strict=True)
      )]) for row in rows
  )])
