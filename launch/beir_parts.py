"""A BEIR source with other splits: imported by the scripts beside it."""

import pathlib
from collections.abc import Mapping

from neg_contrast.data import prepared as prepared_lib


def write(
    source: str,
    folder: pathlib.Path,
    prepared: prepared_lib.Prepared,
    parts: Mapping[str, prepared_lib.Judgements],
) -> str:
  """Links the corpus and the queries of a source, and writes judgements.

  Args:
    source: `beir:PLACE`.
    folder: where to.
    prepared: the source, read.
    parts: split -> its judgements.

  Returns:
    The source that `folder` is.
  """
  (folder / 'qrels').mkdir(parents=True, exist_ok=True)
  for name in ('corpus.jsonl', 'queries.jsonl'):
    if not (folder / name).exists():
      place = pathlib.Path(source.partition(':')[2]) / name
      (folder / name).symlink_to(place.resolve())
  for split, part in parts.items():
    lines = ['query-id\tcorpus-id\tscore']
    lines += [
        f'{prepared.query_ids[query].decode()}\t'
        f'{prepared.passage_ids[passage].decode()}\t{grade}'
        for query, passage, grade in zip(
            part.query_rows, part.passage_rows, part.grades, strict=True
        )
    ]
    (folder / 'qrels' / f'{split}.tsv').write_text('\n'.join([*lines, '']))
  return f'beir:{folder}'
