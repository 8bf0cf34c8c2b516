"""How far few passages crowd rankings, how fast negatives age, what runs took.

    python launch/studies/hubs.py workdirs/freshness/dual/*

One line a run: the part of the queries that have the most frequent first
passage first, the number of different passages among the first ten of all
queries (ideal: ten times the queries, or the corpus), and for runs whose hard
negatives are made by the current model (`sampled`, or `refresh_steps`), how
often a positive scores above all of them in the first three steps after they
are made, and in the last three before they are made again; then the median
seconds of a step, and of making negatives once.
"""

import argparse
import collections
import json
import pathlib
import statistics
import sys
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

from neg_contrast.evaluation import trec
from neg_contrast.training import run_log

_STEPS = 3
_HARD = 'hard', 'model'  # Sources, of which a run has one.


def main() -> None:
  """Prints a Markdown table."""
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawTextHelpFormatter
  )
  parser.add_argument('workdirs', nargs='+', type=pathlib.Path)
  parser.add_argument('--system', default='trained')
  args = parser.parse_args()
  print('| run | first passage of most queries | different in the first ten | '
        'draws | solved, new | solved, old | seconds a step | a draw |\n'
        f'|---{"|---:" * 7}|')
  for workdir in args.workdirs:
    for folder in sorted(workdir.glob(f'evaluation/*-{args.system}')):
      most, different = crowding(trec.read_run(folder / 'run.trec'))
      log = run_log.read(workdir / run_log.FILE)
      print(f'| {workdir.name} | {most:.3f} | {different} | '
            f'{_age(workdir, log)} | {_seconds(log)} |')


def crowding(run: trec.Run) -> tuple[float, int]:
  """How few passages fill a run.

  Args:
    run: the ranking of each query.

  Returns:
    The part of the queries whose first passage is the most frequent one, and
    the number of different passages among the first ten of all queries.
  """
  firsts = collections.Counter(ranking[0][0] for ranking in run.values()
                               if ranking)
  heads = {name for ranking in run.values() for name, _ in ranking[:10]}
  return max(firsts.values()) / len(run), len(heads)


def _age(workdir: pathlib.Path, log: list[dict[str, Any]]) -> str:
  contrast = {line['step']: line['contrast'] for line in log
              if 'contrast' in line}
  solved = {step: kinds[name]['accuracy'] for step, kinds in contrast.items()
            for name in _HARD if name in kinds}
  starts = _starts(workdir)
  if not starts or not solved or min(solved.values()) == 1:
    return f'{len(starts)} | | '
  ends = [*starts[1:], max(solved)]
  new = [solved[step] for start in starts
         for step in range(start + 1, start + 1 + _STEPS) if step in solved]
  old = [solved[step] for end in ends
         for step in range(end + 1 - _STEPS, end + 1) if step in solved]
  return (f'{len(starts)} | {statistics.mean(new):.2f} | '
          f'{statistics.mean(old):.2f}')


def _seconds(log: list[dict[str, Any]]) -> str:
  """Medians of a step, and of making negatives once."""
  steps = [line['step_seconds'] for line in log if 'step_seconds' in line]
  draws = [sum(line['refresh']['seconds'].values())
           for line in log if 'seconds' in line.get('refresh', {})]
  return ' | '.join(f'{statistics.median(seconds):.2f}' if seconds else ''
                    for seconds in (steps, draws))


def _starts(workdir: pathlib.Path) -> list[int]:
  """Steps that were done when negatives were made, ascending."""
  drawn = [json.loads(path.read_text(encoding='utf-8'))['step']
           for path in workdir.glob('sampled/[0-9]*/manifest.json')]
  made = [int(path.name) for path in workdir.glob('refreshed/[0-9]*')
          if path.name.isdigit()]
  return sorted([*drawn, *([0, *made] if made else [])])


if __name__ == '__main__':
  main()
