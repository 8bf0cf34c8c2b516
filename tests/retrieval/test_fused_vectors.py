"""Several models as one: scores, and the file that lists them."""

import pathlib

import numpy as np
import pytest

from neg_contrast import scoring
from neg_contrast.artifacts import folders
from neg_contrast.retrieval import fused_vectors, vectors


class Fixed(vectors.Encoder):
  """Random vectors of any texts, the same for the same text."""

  score = scoring.DUAL

  def __init__(self, dim):
    """Features of a vector."""
    self._dim = dim

  @property
  def dim(self):
    """Features of a passage's vector."""
    return self._dim

  def encode_queries(self, queries):
    """`[queries, dim] float32`."""
    return np.stack([np.random.default_rng([self._dim, *text.encode()])
                     .standard_normal(self._dim, np.float32)
                     for text in queries])

  encode_passages = encode_queries


class Listed(vectors.Vectors):
  """Vectors of texts `q0`, `q1`, .. and `p0` to `p6`."""

  def __init__(self, dim):
    """Features of a vector."""
    self._encoder = Fixed(dim)

  @property
  def identity(self):
    """Of the model."""
    return {'dim': self._encoder.dim}

  @property
  def encoder(self):
    """Of any texts."""
    return self._encoder

  def query_vecs(self, query_rows):
    """`[queries, dim] float32`."""
    return self._encoder.encode_queries([f'q{row}' for row in query_rows])

  @property
  def passage_vecs(self):
    """`[7, dim] float32`."""
    return self._encoder.encode_passages([f'p{row}' for row in range(7)])

  def is_made(self):
    """Never on disk."""
    return False


def test_scores_are_weighted_sums():
  members, weights = [Listed(5), Listed(3), Listed(4)], (0.5, 0.2, 0.3)
  fused = fused_vectors.FusedVectors(members, weights)
  rows = np.array([4, 0], np.int32)
  want = sum(
      weight * member.query_vecs(rows) @ member.passage_vecs.T
      for member, weight in zip(members, weights, strict=True)
  )
  np.testing.assert_allclose(
      fused.query_vecs(rows) @ fused.passage_vecs[:].T, want, atol=1e-5
  )
  encoder = fused.encoder
  assert encoder.dim == 12 and encoder.score.is_dot
  texts = encoder.encode_queries(['q4', 'q0']) @ encoder.encode_passages(
      [f'p{row}' for row in range(7)]).T
  np.testing.assert_allclose(texts, want, atol=1e-5)
  assert not fused.is_made()


def test_weights_are_of_searches_not_of_passages():
  members = [Listed(5), Listed(3)]
  one, other = (fused_vectors.FusedVectors(members, weights)
                for weights in ((0.5, 0.5), (0.2, 0.8)))
  assert one.identity == other.identity
  assert one.search_identity != other.search_identity


def test_an_ensemble_reads_back(tmp_path):
  made = fused_vectors.Ensemble(('a', 'b'), ('1', '2'), (0.25, 0.75))
  made.save(tmp_path)
  assert fused_vectors.read(tmp_path) == made


def test_members_are_found_from_any_folder(tmp_path, monkeypatch):
  """Their names stay where they lead to the same; hub names always do."""
  root = tmp_path / 'first'
  for name in ('a', 'b', 'together'):
    (root / 'workdirs' / name).mkdir(parents=True)
  monkeypatch.chdir(root)
  names = 'workdirs/a', str(root / 'workdirs' / 'b'), 'minilm', 'own/name'
  made = fused_vectors.Ensemble(names, tuple('1234'), (0.25,) * 4)
  made.save(root / 'workdirs' / 'together')
  assert fused_vectors.read(pathlib.Path('workdirs/together')) == made
  (tmp_path / 'workdirs' / 'a').mkdir(parents=True)  # Another model.
  for current in (root / 'workdirs', tmp_path):
    monkeypatch.chdir(current)
    assert fused_vectors.read(root / 'workdirs' / 'together').members == (
        str(root / 'workdirs' / 'a'), *names[1:])
  root.rename(tmp_path / 'second')  # All of it moves together.
  work = tmp_path / 'second' / 'workdirs'
  assert fused_vectors.read(work / 'together').members == (
      str(work / 'a'), str(work / 'b'), *names[2:])
  (work / 'a').rmdir()
  assert fused_vectors.read(work / 'together').members[0] == 'workdirs/a'
  (work / 'b').rmdir()
  assert fused_vectors.read(work / 'together').members[1] == str(work / 'b')


def test_files_of_earlier_revisions_are_read_as_they_were(tmp_path):
  names = 'workdirs/a', 'own/name'
  folders.write_sealed(tmp_path / 'ensemble.json', {
      'members': names, 'fingerprints': '12', 'weights': (0.5, 0.5)})
  assert fused_vectors.read(tmp_path).members == names


@pytest.mark.parametrize('folder', [None, 'work'])
def test_others_models_are_kept_where_one_says(tmp_path, folder):
  place = None if folder is None else tmp_path / folder
  assert fused_vectors.folder_of('minilm', place) == place
