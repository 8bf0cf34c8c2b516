"""Joins BEIR folders into one, whose split `train` is what is named of them.

    python launch/studies/join_beir.py workdirs/wikipedia \
        ../shared/data/squadshifts-new_wiki:split-train,split-dev \
        ../shared/data/squad-v1.1-dev:split-train

Ids get the name of their folder in front, so that none meet.
"""

import argparse
import dataclasses
import json
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

from neg_contrast import errors
from neg_contrast.artifacts import folders
from neg_contrast.data import records
from neg_contrast.data.formats import beir, qrels


def main() -> None:
  """Writes the folder."""
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawTextHelpFormatter
  )
  parser.add_argument('out', type=pathlib.Path)
  parser.add_argument('parts', nargs='+', metavar='FOLDER:SPLIT,SPLIT')
  args = parser.parse_args()
  try:
    write(args.out, args.parts)
  except errors.UserError as e:
    print(f'error: {e}', file=sys.stderr)
    sys.exit(2)


def write(out: pathlib.Path, given: list[str]) -> None:
  """Writes corpus, queries and judgements.

  Raises:
    UserError: a file of a folder can't be read, two folders have one name, or a
      split is not there.
  """
  parts = [_read(part) for part in given]
  names = [name for name, _, _ in parts]
  if len({*names}) < len(names):
    raise errors.UserError(
        f'folders {", ".join(names)}: ids get their names in front, so that '
        'each needs one of its own; rename or link one')
  manifest: dict[str, Any] = {'parts': given}
  with folders.writing(out, manifest) as scratch:
    (scratch / 'qrels').mkdir()
    _dump(scratch / 'corpus.jsonl', (
        {'_id': f'{name}-{p.id}', 'title': p.title, 'text': p.text,
         'metadata': {'document_id': p.document_id
                      and f'{name}-{p.document_id}'}}
        for name, source, _ in parts for p in source.passages()
    ))
    _dump(scratch / 'queries.jsonl', (
        {'_id': f'{name}-{q.id}', 'text': q.text, 'answers': q.answers}
        for name, source, _ in parts for q in source.queries()
    ))
    qrels.write(scratch / 'qrels' / 'train.tsv', (
        dataclasses.replace(j, query_id=f'{name}-{j.query_id}',
                            passage_id=f'{name}-{j.passage_id}')
        for name, source, splits in parts for split in splits
        for j in source.judgements(split)
    ))


def _read(part: str) -> tuple[str, beir.Beir, list[str]]:
  folder, _, splits = part.rpartition(':')
  source = beir.Beir(folder, records.InvalidRecords(skip=False))
  for split in splits.split(','):
    if split not in source.splits:
      raise errors.UserError(f'{part}: {folder} has no split {split!r}; it has '
                             + ', '.join(source.splits))
  return pathlib.Path(folder).resolve().name, source, splits.split(',')


def _dump(path: pathlib.Path, rows: Iterator[dict[str, Any]]) -> None:
  with open(path, 'w', encoding='utf-8') as f:
    for row in rows:
      f.write(json.dumps(row, ensure_ascii=False) + '\n')


if __name__ == '__main__':
  main()
