"""Vectors that are like sentence embeddings, made from a seed.

384 features, if nothing else is asked for, with the spectrum of
all-MiniLM-L6-v2 on SQuAD dev (20 directions hold 0.42 of the variance, 100 hold
0.82), topics and articles of uneven sizes (0.15 and 0.35 of the variance),
l2-normalised. A query has cosine 0.6 with some passage, as a SQuAD question has
with its best one.
"""

import pathlib

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
  rng = np.random.default_rng(seed)
  place = np.arange(features)
  variances = np.exp(-place / 130) / (1 + place / 16)
  deviations = np.sqrt(variances / variances.sum()).astype(np.float32)

  def draw(count: int) -> np.ndarray:
    shape = (count, features)
    return rng.standard_normal(shape, dtype=np.float32) * deviations

  def choose(count: int, among: int) -> np.ndarray:
    weights = np.arange(1, among + 1) ** -0.6
    return rng.choice(among, count, p=weights / weights.sum())

  articles = max(4, passages // 40)
  topics = max(8, articles // 40)
  centres = 0.15**0.5 * draw(topics)[choose(articles, topics)]
  centres += 0.35**0.5 * draw(articles)
  vecs = np.lib.format.open_memmap(
      folder / 'passages.npy', 'w+', np.float32, (passages, features)
  )
  for start in range(0, passages, 50_000):
    count = min(50_000, passages - start)
    own = centres[choose(count, articles)] + 0.5**0.5 * draw(count)
    vecs[start : start + count] = _unit(own)
  near = vecs[np.sort(rng.choice(passages, SAMPLES + asked, replace=False))]
  queries = rng.permutation(_unit(0.6 * near + 0.8 * draw(len(near))))
  vecs.flush()
  np.save(folder / 'samples.npy', queries[:SAMPLES])
  np.save(folder / 'queries.npy', queries[SAMPLES:])


def _unit(vecs: np.ndarray) -> np.ndarray:
  return vecs / np.linalg.norm(vecs, axis=1, keepdims=True)
