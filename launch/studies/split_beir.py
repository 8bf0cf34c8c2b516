"""Makes a BEIR folder whose splits are parts of another folder's split.

    python launch/studies/split_beir.py OUT FOLDER --split=train \\
        --documents test=0.2 train=0.8
    python launch/studies/split_beir.py OUT FOLDER --split=train \\
        --queries train=500 tune=500 spare=500 --keep=dev
    python launch/studies/split_beir.py OUT FOLDER --split=train --hide=0.3

`--documents` divides by document, so that no document is in two splits; it
takes two parts. `--queries` draws so many queries of each part, by seed 0.
`--hide` takes that part of the positives away, by seed 0: they go to
`OUT/hidden.tsv`, which no split is, and the queries that have none left to
`OUT/unjudged.jsonl`, as `synthetic.queries` reads them. `--keep` copies splits
as they are. Corpus and queries are links.
"""

import argparse
import json
import pathlib
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

from neg_contrast import errors
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import examples, records
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.data.formats import files, qrels
from neg_contrast.settings import config as config_lib


def main() -> None:
  """Writes the folder."""
  args = _parse_arguments()
  try:
    with tempfile.TemporaryDirectory() as scratch:
      dataset = dataset_lib.Dataset(config_lib.DataConfig(
          source=f'beir:{args.folder}', prepared_dir=scratch
      ))
      judged = dataset.prepared.judgements(args.split)
      if args.documents:
        parts = by_document(dataset, judged, dict(args.documents))
      elif args.queries:
        parts = by_query(judged, dict(args.queries))
      else:
        parts = {args.split: hide(
            judged, args.hide, dataset.prepared, args.out)}
      parts |= {name: dataset.prepared.judgements(name) for name in args.keep}
      write(args.folder, args.out, dataset.prepared, parts)
  except errors.UserError as e:
    print(f'error: {e}', file=sys.stderr)
    sys.exit(2)


def by_document(
    dataset: dataset_lib.Dataset,
    judged: prepared_lib.Judgements,
    parts: dict[str, float],
) -> dict[str, prepared_lib.Judgements]:
  """The judgements of two sets of documents; the first part is set apart."""
  (name, fraction), (rest, _) = parts.items()
  left, apart = examples.split_by_document(
      dataset.prepared, judged, fraction, dataset.documents
  )
  return {rest: left, name: apart}


def by_query(
    judged: prepared_lib.Judgements, parts: dict[str, float]
) -> dict[str, prepared_lib.Judgements]:
  """The judgements of so many random queries for each part.

  Raises:
    UserError: a part is no whole number of queries, or there are too few.
  """
  sizes, given = list(parts.values()), len(judged.queries)
  if not all(size >= 1 and size == int(size) for size in sizes) or (
      sum(sizes) > given):
    asked = ' '.join(f'{name}={size:g}' for name, size in parts.items())
    raise errors.UserError(
        f'--queries {asked}: parts are whole numbers from 1, and the split has '
        f'{given} queries')
  order = np.random.default_rng(0).permutation(judged.queries)
  ends = np.cumsum(np.array(sizes, int))
  return {
      name: judged.select(np.isin(judged.query_rows, rows))
      for name, rows in zip(parts, np.split(order[: ends[-1]], ends[:-1]),
                            strict=True)
  }


def hide(
    judged: prepared_lib.Judgements,
    part: float,
    prepared: prepared_lib.Prepared,
    out: pathlib.Path,
) -> prepared_lib.Judgements:
  """The judgements that are left; the others, and whose they were, in files."""
  is_positive = judged.grades > 0
  is_hidden = is_positive & (
      np.random.default_rng(0).random(len(is_positive)) < part)
  left, hidden = judged.select(~is_hidden), judged.select(is_hidden)
  write_judgements(out / 'hidden.tsv', prepared, hidden)
  without = np.setdiff1d(
      hidden.query_rows, judged.query_rows[is_positive & ~is_hidden])
  (out / 'unjudged.jsonl').write_text(''.join(
      json.dumps({'query': prepared.queries[int(row)].text}) + '\n'
      for row in without
  ), encoding='utf-8')
  print(f'{is_hidden.sum()} of {is_positive.sum()} positives are hidden; '
        f'{len(without)} queries have none left')
  return left


def write_judgements(
    path: pathlib.Path, prepared: prepared_lib.Prepared,
    part: prepared_lib.Judgements,
) -> None:
  """A file of BEIR's `qrels`."""
  path.parent.mkdir(parents=True, exist_ok=True)
  qrels.write(path, (
      records.Judgement(
          prepared.query_ids[query].decode(),
          prepared.passage_ids[passage].decode(), grade, weight=weight,
      ) for query, passage, grade, weight in zip(
          part.query_rows, part.passage_rows, part.grades,
          part.training_weights, strict=True,
      )
  ))


def write(
    folder: pathlib.Path,
    out: pathlib.Path,
    prepared: prepared_lib.Prepared,
    parts: dict[str, prepared_lib.Judgements],
) -> None:
  """Links corpus and queries, and writes the judgements of each part."""
  (out / 'qrels').mkdir(parents=True, exist_ok=True)
  for name in ('corpus.jsonl', 'queries.jsonl'):
    file = files.plain_or_gzip(folder / name)
    if not (out / file.name).exists():
      (out / file.name).symlink_to(file.resolve())
  for split, part in parts.items():
    write_judgements(out / 'qrels' / f'{split}.tsv', prepared, part)


def _parse_arguments() -> argparse.Namespace:
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawTextHelpFormatter
  )
  add = parser.add_argument
  add('out', type=pathlib.Path)
  add('folder', type=pathlib.Path)
  add('--split', required=True, help='that is divided')
  add('--keep', nargs='+', default=[], help='splits that are copied')
  ways = parser.add_mutually_exclusive_group(required=True)
  for way in ('--documents', '--queries'):
    ways.add_argument(way, nargs='+', type=_part, metavar='SPLIT=SIZE')
  ways.add_argument('--hide', type=float, metavar='PART')
  args = parser.parse_args()
  if args.documents and len(args.documents) != 2:
    parser.error('--documents takes two parts')
  return args


def _part(text: str) -> tuple[str, float]:
  name, _, size = text.partition('=')
  return name, float(size)


if __name__ == '__main__':
  main()
