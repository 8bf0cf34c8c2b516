"""What pools make of judgements that `split_beir.py --hide` took away.

    python launch/studies/hidden.py FOLDER POOL [POOL ...]

`FOLDER` has the `hidden.tsv` of its judgements; a pool is the folder `pool` of
a training, or of `job=mine` or `job=judge`, that was made with FOLDER. A hidden
judgement of a query that has another one makes false negatives of its passage
and copies of that, wherever they are candidates. One line a pool: its
candidates that are no known positives, of these the ones that negatives are
drawn from, that are left out, and that a judge makes positives; before each
number stands how many of them are hidden positives. `estimated` is what an
audit would estimate that number of all candidates to be, by the verdicts of the
judge.
"""

import argparse
import csv
import pathlib
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

from neg_contrast import errors
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.mining import audit_evidence
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.settings import config as config_lib


def main() -> None:
  """Prints a Markdown table: false ones of all, in each place."""
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawTextHelpFormatter
  )
  parser.add_argument('folder', type=pathlib.Path)
  parser.add_argument('pools', nargs='+', type=pathlib.Path)
  args = parser.parse_args()
  print('| pool | candidates | drawn from | left out | made positive | '
        'estimated |\n|---|---:|---:|---:|---:|---:|')
  try:
    with tempfile.TemporaryDirectory() as scratch:
      prepared = dataset_lib.Dataset(config_lib.DataConfig(
          source=f'beir:{args.folder}', prepared_dir=scratch
      )).prepared
      groups = np.asarray(prepared.passage_groups)
      pairs = read_hidden(args.folder / 'hidden.tsv', prepared)
    for folder in args.pools:
      pool = pool_lib.read(folder)
      if pool.manifest['passages'] != len(groups):
        raise errors.UserError(
            f'{folder}: is of {pool.manifest["passages"]} passages, and '
            f'{args.folder} has {len(groups)}; name a pool that was made '
            'with it')
      cells = ' | '.join(f'{hidden:,} of {some:,}' for hidden, some
                         in count(pool, pairs, groups))
      print(f'| {folder} | {cells} | {estimate(pool)} |')
  except errors.UserError as e:
    print(f'error: {e}', file=sys.stderr)
    sys.exit(2)


def read_hidden(path: pathlib.Path, prepared) -> np.ndarray:
  """`[pairs, 2] int64`: query and passage rows of the file's judgements.

  Without those of queries that have no judgement left: no pool has them.

  Raises:
    UserError: there is no such file, or it names what the data set lacks.
  """
  if not path.exists():
    raise errors.UserError(
        f'{path}: no such file; split_beir.py --hide writes it')
  queries, passages = (
      {name.decode(): row for row, name in enumerate(ids)}
      for ids in (prepared.query_ids, prepared.passage_ids))
  found = []
  with path.open(newline='') as file:
    for number, line in enumerate(csv.reader(file, delimiter='\t'), start=1):
      if number > 1:  # After the header.
        if len(line) < 2 or line[1] not in passages:
          raise errors.UserError(
              f'{path}:{number}: no query and passage of {path.parent}')
        if line[0] in queries:
          found.append([queries[line[0]], passages[line[1]]])
  return np.array(found, np.int64).reshape(-1, 2)


def count(
    pool: pool_lib.Pool, pairs: np.ndarray, groups: np.ndarray
) -> list[tuple[int, int]]:
  """Hidden positives and all candidates: in all, drawn from, out, positive.

  Args:
    pool: that knows nothing of the hidden judgements.
    pairs: `[pairs, 2] int64`, query and passage rows of these.
    groups: `[passages] int32`, equal for passages of the same text.
  """
  key = lambda queries, some: queries.astype(np.int64) * len(groups) + some
  is_candidate = ((pool.rows >= 0)
                  & (pool.dropped_by != pool_lib.code('positive')))
  of_passage = pool.rows < len(groups)  # Else a half passage.
  is_hidden = is_candidate & of_passage & np.isin(
      key(pool.query_rows[:, None],
          groups[np.where(of_passage, pool.rows, 0)]),
      key(pairs[:, 0], groups[pairs[:, 1]]))
  is_drawn = pool.is_negative()
  is_positive = np.zeros_like(is_drawn)
  if pool.verdicts is not None and pool.verdicts.facts['relabel']:
    is_positive = pool.dropped_by == pool_lib.code('judge_above')
  places = (is_candidate, is_drawn, is_candidate & ~is_drawn & ~is_positive,
            is_positive)
  return [(int((is_hidden & place).sum()), int(place.sum()))
          for place in places]


def estimate(pool: pool_lib.Pool) -> str:
  """How many candidates an audit takes for positives without a label."""
  labelling = audit_evidence.labelling_of(pool)
  if pool.verdicts is None or labelling is None:
    return ''
  believed = labelling.believed(pool.verdicts.logit)
  is_other = pool.dropped_by != pool_lib.code('positive')
  return f'{np.nansum(np.where(is_other, believed, 0)):,.0f}'


if __name__ == '__main__':
  main()
