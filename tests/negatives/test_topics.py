"""Topics of queries: clusters that are there are found."""

import numpy as np
import pytest

from neg_contrast.negatives import topics


def make_clusters(rng, clusters=5, each=40, dim=12, spread=0.05):
  """Unit vectors near some centres, shuffled, and which is near which."""
  centres = np.linalg.qr(rng.standard_normal((dim, dim)))[0][:clusters]
  of = rng.permutation(np.repeat(np.arange(clusters), each))
  vecs = centres[of] + spread * rng.standard_normal((len(of), dim))
  return (vecs / np.linalg.norm(vecs, axis=1, keepdims=True)).astype(
      np.float32), of


def cluster(vecs, count):
  sample, rng = topics.sample_of(len(vecs), count)
  return topics.nearest(vecs, topics.centres_of(vecs[sample], count, rng))


def purity(found, of):
  """Part of the vectors that are of the most frequent kind in their cluster."""
  return sum(np.bincount(of[found == name]).max()
             for name in np.unique(found)) / len(of)


def test_clusters_are_found():
  rng = np.random.default_rng(1)
  for _ in range(10):
    vecs, of = make_clusters(rng)
    found = cluster(vecs, 20)  # More than there are: none is missed.
    assert found.dtype == np.int32 and len(found) == len(vecs)
    assert purity(found, of) > 0.97
    random = rng.permutation(found)
    assert purity(random, of) < 0.7


def test_each_is_in_the_cluster_with_the_nearest_mean():
  vecs = np.random.default_rng(2).standard_normal((300, 6)).astype(np.float32)
  found = cluster(vecs, 7)
  names = np.unique(found)
  means = np.stack([vecs[found == name].mean(axis=0) for name in names])
  far = ((vecs[:, None] - means) ** 2).sum(axis=2)
  nearest = names[far.argmin(axis=1)]
  assert (nearest == found).mean() > 0.97  # All, but for rounds that are cut.


@pytest.mark.parametrize('vectors, count, most', [
    (3, 7, 3), (1, 2, 1), (50, 50, 50)])
def test_few_vectors(vectors, count, most):
  vecs = np.random.default_rng(3).standard_normal(
      (vectors, 4)).astype(np.float32)
  found = cluster(vecs, count)
  assert found.min() >= 0 and len(np.unique(found)) == most


def test_equal_vectors_are_of_one_topic():
  vecs = np.ones((9, 4), np.float32)
  assert len(np.unique(cluster(vecs, 3))) == 1


def test_scores_at_once_are_bounded(monkeypatch):
  vecs, of = make_clusters(np.random.default_rng(5), each=200)
  whole = cluster(vecs, 20)
  monkeypatch.setattr(topics, '_SCORES_AT_ONCE', 20 * len(vecs))
  np.testing.assert_array_equal(cluster(vecs, 20), whole)
  monkeypatch.setattr(topics, '_SCORES_AT_ONCE', 20 * 300)
  assert len(topics.sample_of(len(vecs), 20)[0]) == 300
  assert purity(cluster(vecs, 20), of) > 0.97
  monkeypatch.setattr(topics, '_SCORES_AT_ONCE', 7)
  assert len(topics.sample_of(len(vecs), 20)[0]) == 20


def test_centres_of_a_sample_serve_all(monkeypatch):
  vecs, of = make_clusters(np.random.default_rng(4), each=200)
  monkeypatch.setattr(topics, '_SAMPLED', 9)
  assert len(topics.sample_of(len(vecs), 20)[0]) == 180
  assert purity(cluster(vecs, 20), of) > 0.97
