"""Makes a BEIR folder in which most top passages are unlabelled positives.

    python launch/studies/revise_beir.py OUT FOLDER --train=split-train \\
        --test=split-dev [--known]

Each passage of two sentences or more gets a revision, `ID~`: the same without
one sentence, drawn by seed 0. A revision answers what its passage answers, if
an answer of the query still stands in it. Nobody judges the revisions of
`--train`: their judgements go to `OUT/hidden.tsv`, which no split is; with
`--known` also to the split `hidden`, so that pools and masks know them. Those
of `--test` are judgements. Other splits are left out. Queries need answers.

The two folders, with and without `--known`, differ in nothing else: what a
guard against false negatives can gain at most. `hidden.py` counts what pools
make of the hidden ones.
"""

import argparse
import dataclasses
import json
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

from neg_contrast import errors
from neg_contrast.artifacts import folders
from neg_contrast.data import answers, records
from neg_contrast.data.formats import beir, qrels
from neg_contrast.stage1 import sentences


def main() -> None:
  """Writes the folder, and prints what is hidden."""
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawTextHelpFormatter
  )
  parser.add_argument('out', type=pathlib.Path)
  parser.add_argument('folder')
  parser.add_argument('--train', default='train')
  parser.add_argument('--test', default='test')
  parser.add_argument('--known', action='store_true')
  args = parser.parse_args()
  try:
    write(args)
  except errors.UserError as e:
    print(f'error: {e}', file=sys.stderr)
    sys.exit(2)


def write(args: argparse.Namespace) -> None:
  """Writes corpus, queries and judgements.

  Raises:
    UserError: a file of the folder can't be read, a split is not there, or
      nothing would be hidden.
  """
  source = beir.Beir(args.folder, records.InvalidRecords(skip=False))
  for split in (args.train, args.test):
    if split not in source.splits:
      raise errors.UserError(
          f'{args.folder}: has no split {split}; name two of '
          + ', '.join(source.splits))
  passages = list(source.passages())
  revisions = dict(revise(passages))
  queries = list(source.queries())
  answers_of = {query.id: query.answers for query in queries}
  judged = {split: list(source.judgements(split))
            for split in (args.train, args.test)}
  added = {
      split: [
          dataclasses.replace(j, passage_id=f'{j.passage_id}~')
          for j in some if j.grade > 0 and j.passage_id in revisions
          and answers.has_answer(
              revisions[j.passage_id], answers_of[j.query_id])
      ] for split, some in judged.items()
  }
  hidden = added[args.train]
  if not hidden:
    raise errors.UserError(
        f'{args.folder}: no revision holds an answer of a query of '
        f'{args.train}; give the queries `answers`')
  files = {
      f'qrels/{args.train}.tsv': judged[args.train],
      f'qrels/{args.test}.tsv': judged[args.test] + added[args.test],
      'hidden.tsv': hidden, **({'qrels/hidden.tsv': hidden} if args.known
                               else {}),
  }
  with folders.writing(args.out, {'of': args.folder}) as scratch:
    (scratch / 'qrels').mkdir()
    _dump(scratch / 'corpus.jsonl', _rows(passages, revisions))
    _dump(scratch / 'queries.jsonl', (
        {'_id': query.id, 'text': query.text, 'answers': query.answers}
        for query in queries
    ))
    for name, some in files.items():
      qrels.write(scratch / name, some)
  with_hidden, in_all = (len({j.query_id for j in some if j.grade > 0})
                         for some in (hidden, judged[args.train]))
  print(f'{len(revisions)} revisions of {len(passages)} passages; '
        f'{with_hidden} of {in_all} queries of {args.train} have a hidden '
        'positive')


def revise(
    passages: list[records.Passage],
) -> Iterator[tuple[str, str]]:
  """(id, text without one sentence) of the passages that have two or more."""
  rng = np.random.default_rng(0)
  for passage in passages:
    spans = sentences.split(passage.text)
    if len(spans) > 1:
      left_out = rng.integers(len(spans))
      yield passage.id, ' '.join(
          passage.text[start:end] for number, (start, end) in enumerate(spans)
          if number != left_out
      )


def _rows(
    passages: list[records.Passage], revisions: dict[str, str]
) -> Iterator[dict[str, Any]]:
  for passage in passages:
    row = {'_id': passage.id, 'title': passage.title, 'text': passage.text,
           'metadata': {'document_id': passage.document_id}}
    yield row
    if passage.id in revisions:
      yield row | {'_id': f'{passage.id}~', 'text': revisions[passage.id]}


def _dump(path: pathlib.Path, rows: Iterator[dict[str, Any]]) -> None:
  with open(path, 'w', encoding='utf-8') as f:
    for row in rows:
      f.write(json.dumps(row, ensure_ascii=False) + '\n')


if __name__ == '__main__':
  main()
