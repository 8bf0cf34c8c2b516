"""Ids of many records, whose arrays are looked up a block at a time."""

import numpy as np
import pytest

from neg_contrast.data import id_table, tfds_records


@pytest.fixture(params=[1, 4, 10**6])
def in_blocks(request, monkeypatch):
  monkeypatch.setattr(id_table, '_BLOCK', request.param)


def sorter(path, documents):
  made = id_table.IdSorter(path)
  names = [b'%d' % (number * 7 % 23) for number in range(len(documents))]
  made.add(names, names, documents, documents)
  return made, names


DOCUMENTS = [b'x', b'', b'a', b'x', b'b', b'', b'a', b'b', b'x', b'c']


def test_documents_are_numbered_as_they_come(tmp_path, in_blocks):
  made, _ = sorter(tmp_path / 'ids', DOCUMENTS)
  numbers = made.documents()
  assert numbers.tolist() == [0, -1, 1, 0, 2, -1, 1, 2, 0, 3]
  assert made.groups().tolist() == [0, 1, 2, 0, 4, 1, 2, 4, 0, 9]
  made.close()


def test_tie_ranks_fall_as_ids_ascend(tmp_path, in_blocks):
  made, names = sorter(tmp_path / 'ids', DOCUMENTS)
  assert not made.finish().any()
  made.close()
  ranks = np.load(tmp_path / 'ids.tie_ranks.npy')
  assert sorted(range(10), key=names.__getitem__) == (
      np.argsort(-ranks).tolist())
  assert sorted(ranks.tolist()) == list(range(10))


def test_no_document_is_known(in_blocks):
  first = np.full(6, -1, np.int32)
  assert id_table.numbered(first).tolist() == [-1] * 6


def test_shards_that_are_closed_hold_no_memory_of_their_rows(tmp_path):
  shard = tfds_records.Shard(tmp_path / 'shard')
  shard.write(b'row')
  shard.close()
  assert {type(value) for value in vars(shard).values()} == {
      int, type(tmp_path)}
