"""Vectors that are like sentence embeddings, made from a seed.

Passages are those of `neg_contrast/data/random_texts.py`, 384 features if
nothing else is asked for. A query has cosine 0.6 with some passage, as a SQuAD
question has with its best one.
"""

import pathlib
import sys

import numpy as np

FEATURES = 384
QUERIES, SAMPLES = 1000, 500


def make_vectors(
    folder: pathlib.Path, passages: int, seed: int, asked: int = QUERIES,
    features: int = FEATURES,
) -> None:
  """Writes passages.npy, samples.npy and queries.npy, unit vectors."""
  if (folder / 'queries.npy').exists():
    return
  sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))
  from neg_contrast.data import random_texts

  rng = np.random.default_rng(seed)
  vecs = np.lib.format.open_memmap(
      folder / 'passages.npy', 'w+', np.float32, (passages, features)
  )
  random_texts.fill_vectors(vecs, rng)
  near = vecs[np.sort(rng.choice(passages, SAMPLES + asked, replace=False))]
  far = random_texts.draw_normal(rng, len(near), features)
  queries = 0.6 * near + 0.8 * far
  queries /= np.linalg.norm(queries, axis=1, keepdims=True)
  queries = rng.permutation(queries)
  vecs.flush()
  np.save(folder / 'samples.npy', queries[:SAMPLES])
  np.save(folder / 'queries.npy', queries[SAMPLES:])
