"""Damage of anything that data/ writes: an error, or the same content.

Every kind of file is damaged at random places, in three ways: a flipped bit, a
truncation, and a swap with another file. Then everything is read.
"""

import collections
import json
import random
import re

import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.artifacts import arrays, checksums
from neg_contrast.data import (
    id_table,
    preparation,
    prepared,
    random_texts,
    synthetic_pairs,
    tfds_records,
    tokenized,
    tokenizer,
)
from tests import corpora

_FLIPS, _CUTS, _SWAPS = 14, 3, 3  # Of each kind of file.


class Tokenizer(tokenizer.Tokenizer):
  """A token for each letter."""

  sha256, vocab_size = 'a' * 64, 1000
  whole_words = ('some', 'words', 'of', 'a', 'language')

  def __init__(self):
    pass

  def encode_batch(self, texts):
    return [list(text.encode()) for text in texts]


def write_zeshel(folder):
  """Two worlds, two splits, and copies among the documents."""
  rng = random.Random(0)
  text = lambda: ' '.join(rng.choices(['ship', 'séa', 'sail', 'of'], k=6))
  documents = {world: [
      {'document_id': f'{world}{n}', 'title': f'T{n % 5}', 'text': text()}
      for n in range(15)] for world in ('air', 'sea')}
  for name in ('documents', 'mentions'):
    (folder / name).mkdir(parents=True)
  for world, rows in documents.items():
    (folder / 'documents' / f'{world}.json').write_text(
        '\n'.join(map(json.dumps, rows)))
  for split in ('train', 'test'):
    (folder / 'mentions' / f'{split}.json').write_text('\n'.join(
        json.dumps({
            'mention_id': f'{split}{n}', 'corpus': world,
            'context_document_id': f'{world}{n}',
            'text': row['text'].split()[1],
            'label_document_id': f'{world}{(n * 7) % 15}', 'start_index': 1,
            'end_index': 1, 'category': '',
        }) for world, rows in documents.items()
        for n, row in enumerate(rows) if (world == 'air') == (n % 2 == 0)))


@pytest.fixture(scope='module')
def whole(tmp_path_factory):
  """A corpus, its tokens, and pairs on top of it; and what they hold."""
  root = tmp_path_factory.mktemp('whole')
  write_zeshel(root / 'source')
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(tfds_records, 'ROWS_PER_SHARD', 10)
    corpus = preparation.prepare(
        f'zeshel:{root / "source"}', root / 'out', False
    )
  corpus.folder.rename(root / 'corpus')
  corpus = prepared.Prepared(root / 'corpus')
  with open(root / 'pairs.jsonl', 'w') as f:
    for n in range(20):
      synthetic_pairs.write_pair(f, f'what is {n}', f'air{n % 15}', (0, n, 30))
  corpora.write_pairs(corpus, [root / 'pairs.jsonl'], root / 'pairs')
  return root, read(root)


def rows_of(ids: id_table.IdTable):
  return [ids.row_of(name.decode()) for name in ids]


def read(root):
  """Everything, as plain values."""
  checksums._verified.clear()  # As another process would.
  corpus = prepared.Prepared(root / 'corpus')
  pairs = prepared.Prepared(root / 'pairs', root / 'corpus')
  stores = [tokenized.store_of(corpus, role, Tokenizer())
            for role in ('passage', 'query')]
  fields = [field for store in stores for field in (
      store.titles, store.texts, *(store.contexts or ()))]
  found = [  # What is quick to read comes first.
      corpus.manifest, pairs.manifest,
      *(values for field in fields
        for values in (field.flat(), field.lengths, field[3])),
      corpus.tie_ranks, corpus.passage_groups, corpus.passage_documents,
      corpus.passage_worlds, synthetic_pairs.read_cuts(pairs),
      *(value for some in (corpus, pairs) for split in some.splits
        for value in vars(some.judgements(split)).values()),
      prepared.documents_by_title(corpus),
      [list(ids) for ids in
       (corpus.passage_ids, corpus.query_ids, pairs.query_ids)],
      [rows_of(ids) for ids in
       (corpus.passage_ids, corpus.query_ids, pairs.query_ids)],
      list(corpus.passages), list(corpus.queries), list(pairs.queries),
      corpus.query_worlds,
  ]
  return [of.tolist() if isinstance(of, np.ndarray) else of for of in found]


def kinds(root):
  """The files of each kind that are read, by a name without numbers."""
  found = collections.defaultdict(list)
  for folder in ('corpus', 'pairs'):
    for path in sorted((root / folder).rglob('*')):
      name = path.relative_to(root).as_posix()
      is_unread = re.search(r'\.locks|pairs/.*tie_ranks', name)
      if path.is_file() and not is_unread and path.stat().st_size:
        found[re.sub(r'[0-9a-f]{5,}|passages?|quer(y|ies)|train|test|corpus|'
                     r'pairs|synthetic', '*', name)].append(path)
  return dict(found)


def damages(paths, others, rng):
  """(what was done, the files' new contents) of one kind."""
  for number in range(_FLIPS + _CUTS + _SWAPS):
    path = rng.choice(paths)
    data = bytearray(path.read_bytes())
    if number < _FLIPS:
      place = rng.randrange(8 * len(data))
      data[place // 8] ^= 1 << place % 8
      yield f'bit {place} of {path}', {path: bytes(data)}
    elif number < _FLIPS + _CUTS:
      size = rng.randrange(len(data))
      yield f'{path} cut to {size}', {path: bytes(data[:size])}
    else:
      other = rng.choice([one for one in (paths if len(paths) > 1 and number % 2
                                          else others) if one != path])
      yield f'{path} <-> {other}', {path: other.read_bytes(),
                                    other: bytes(data)}


def test_no_damage_is_silent(whole):
  root, content = whole
  rng = random.Random(0)
  by_kind = kinds(root)
  files = [path for paths in by_kind.values() for path in paths]
  assert len(by_kind) >= 18, by_kind.keys()
  refused = 0
  for kind, paths in by_kind.items():
    for done, new in list(damages(paths, files, rng)):
      before = {path: path.read_bytes() for path in new}
      for path, data in new.items():
        path.write_bytes(data)
      try:
        assert read(root) == content, f'{kind}: {done}: silent'
      except errors.UserError as e:
        assert 'Remove' in str(e) and 'the same command' in str(e), done
        assert str(root) in str(e)
        refused += 1
      finally:
        for path, data in before.items():
          path.write_bytes(data)
  count = (_FLIPS + _CUTS + _SWAPS) * len(by_kind)
  print(f'{count} damages of {len(by_kind)} kinds: {refused} refused')
  assert refused > 0.9 * count  # The others changed nothing that is read.
  assert read(root) == content


def test_made_up_texts(tmp_path):
  make = lambda: random_texts.write(
      tmp_path / 'a', Tokenizer(), 30, 10, passage_tokens=20, query_tokens=8)
  make()
  arrays.check_folder(tmp_path / 'a')
  path = tmp_path / 'a' / 'queries.jsonl'
  path.write_bytes(path.read_bytes().replace(b'some', b'word', 1))
  with pytest.raises(errors.UserError, match=r'queries.jsonl: damaged'):
    make()
