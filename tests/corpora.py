"""Corpora of texts that a test writes out, with worlds and without."""

import functools
import json
import pathlib
from typing import Any

from neg_contrast.artifacts import folders, kept_parts
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import pair_writer
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.settings import config as config_lib


def write_beir(folder: pathlib.Path, passages, queries=None, **splits) -> str:
  """A BEIR folder.

  Args:
    folder: to be made.
    passages: id -> text, or (title, text).
    queries: id -> text.
    **splits: name -> query id -> passage id -> grade.

  Returns:
    The source.
  """
  folder.mkdir(parents=True, exist_ok=True)
  rows = []
  for name, of in passages.items():
    title, text = ('', of) if isinstance(of, str) else of
    rows.append({'_id': name, 'title': title, 'text': text})
  _write(folder / 'corpus.jsonl', rows)
  if queries is not None:
    _write(folder / 'queries.jsonl',
           [{'_id': name, 'text': text} for name, text in queries.items()])
    (folder / 'qrels').mkdir(exist_ok=True)
  for split, judged in splits.items():
    lines = [f'{query}\t{passage}\t{grade}' for query, of in judged.items()
             for passage, grade in of.items()]
    (folder / 'qrels' / f'{split}.tsv').write_text(
        '\n'.join(['query-id\tcorpus-id\tscore', *lines, '']))
  return f'beir:{folder}'


def write_worlds(folder: pathlib.Path, documents, mentions) -> str:
  """A Zeshel folder, whose only split is `test`.

  Args:
    folder: to be made.
    documents: world -> document id -> text.
    mentions: (id, document id, place of its word, id of its entity).

  Returns:
    The source.
  """
  for name in ('documents', 'mentions'):
    (folder / name).mkdir(parents=True)
  home = {}
  for world, texts in documents.items():
    home |= dict.fromkeys(texts, world)
    _write(folder / 'documents' / f'{world}.json', [
        {'document_id': name, 'title': '', 'text': text}
        for name, text in texts.items()])
  _write(folder / 'mentions' / 'test.json', [{
      'mention_id': name, 'corpus': home[document],
      'context_document_id': document, 'label_document_id': label,
      'text': documents[home[document]][document].split(' ')[place],
      'start_index': place, 'end_index': place,
  } for name, document, place, label in mentions])
  return f'zeshel:{folder}'


def data_of(folder: pathlib.Path, source: str, **config) -> dataset_lib.Data:
  """A source as an artifact, with its prepared form in a folder."""
  return dataset_lib.Data(config_lib.DataConfig(
      source=source, prepared_dir=str(folder / 'prepared'), **config))


def write_pairs(base, files, folder: pathlib.Path) -> prepared_lib.Prepared:
  """Files of pairs over a prepared corpus, as data in a new folder."""
  manifest: dict[str, Any] = {}
  writer = pair_writer.PairWriter(
      base, [functools.partial(pathlib.Path, path) for path in files],
      lambda name, count: kept_parts.KeptParts(
          folder.with_name(f'{folder.name}.parts') / name, count))
  writer.prepare()
  with folders.writing(folder, manifest,
                       format=prepared_lib.QUERIES) as scratch:
    writer.write(scratch, manifest)
  return prepared_lib.Prepared(folder, base.folder)


def _write(path: pathlib.Path, rows) -> None:
  path.write_text(''.join(json.dumps(row) + '\n' for row in rows))
