"""Shards propose candidates of the whole corpus."""

import sys

import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.retrieval import quantized_shard, scann_shards

pytest.importorskip('scann')


def test_shards_are_ranked_together(corpus):
  """Few rows are not quantised, so that scores are exact."""
  vecs, queries, _ = corpus
  library = scann_shards.load_library()
  shards = [scann_shards.build_shard(library, vecs[first:last], first, 2)
            for first, last in ((0, 300), (300, 700), (700, 710))]
  assert [shard.rows for shard in shards] == [300, 400, 10]
  rows, scores = quantized_shard.propose(shards, queries[:9], 1, 25)
  exact = queries[:9] @ vecs[:710].T
  np.testing.assert_array_equal(rows, np.argsort(-exact, axis=1)[:, :25])
  np.testing.assert_allclose(
      scores, np.take_along_axis(exact, rows, 1), atol=1e-5
  )


def test_leaves_and_quantisation_grow_with_the_rows(corpus):
  vecs, _, _ = corpus
  library = scann_shards.load_library()
  leaves = [scann_shards.build_shard(library, vecs[:rows], 0, 2).leaves
            for rows in (999, 1000, 2500)]
  assert leaves == [1, 32, 50]


def test_any_number_of_threads_builds_the_same(corpus, tmp_path):
  vecs, _, _ = corpus
  library = scann_shards.load_library()
  built = []
  for number, threads in enumerate((1, 2, 3, 16)):
    folder = tmp_path / str(number)
    folder.mkdir()
    scann_shards.build_shard(library, vecs, 0, threads).searcher.serialize(
        str(folder), relative_path=True)
    built.append({path.name: path.read_bytes() for path in folder.iterdir()})
  assert len(built[0]) >= 5
  assert all(one == built[0] for one in built)


def test_a_library_that_is_missing(monkeypatch):
  monkeypatch.setitem(sys.modules, 'scann', None)
  with pytest.raises(errors.UserError, match=r'config\.index\.kind=exact'):
    scann_shards.load_library()
