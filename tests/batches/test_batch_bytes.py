"""Batches keep their bytes: resumed runs and published numbers rest on them."""

import hashlib

import jax
import numpy as np
import pytest

from neg_contrast.batches import batcher as batcher_lib
from neg_contrast.data import examples, token_store, tokenized
from neg_contrast.data import tokenizer as tokenizer_lib
from neg_contrast.negatives import halves as halves_lib
from neg_contrast.negatives import pool as pool_lib
from tests import tiny

PASSAGES, QUERIES, DEPTH, BATCH = 60, 40, 12, 16


def make_texts(tokenizer, folder, rng, rows, longest_title, max_length, prefix):
  some = lambda most: ' '.join(
      tiny.WORDS[i] for i in rng.randint(0, 60, rng.randint(0, most + 1))
  )
  store = token_store.make_token_store(
      [(some(longest_title), some(20)) for _ in range(rows)], tokenizer,
      folder, 'x',
  )
  return tokenized.TokenizedTexts(store, tokenizer.template, max_length, prefix)


def make_pool(rng, halves):
  shape = QUERIES - 5, DEPTH
  return pool_lib.Pool(
      query_rows=np.sort(rng.permutation(QUERIES)[:shape[0]]).astype(np.int32),
      rows=rng.randint(-1, PASSAGES + len(halves), shape).astype(np.int32),
      source=rng.randint(0, 2, shape).astype(np.uint8),
      rank=np.ones(shape, np.int32),
      score=np.zeros(shape, np.float32),
      dropped_by=(rng.rand(*shape) < 0.7).astype(np.uint8),
      positive_scores=np.zeros((shape[0], 2), np.float32),
      halves=halves, sources=('bm25', 'context'), manifest={},
  )


def make_batcher(folder, seed, towers=False, cuts=False, halves=False,
                 mask=True, negatives=2, groups=4, prefix=(), quotas=()):
  """Texts of 0 to 20 tokens, cut to 16; many share a query, a positive, both.
  """
  rng = np.random.RandomState(seed)  # The same in every version of numpy.
  tiny.write_tokenizer(folder)
  tokenizer = tokenizer_lib.load_tokenizer(str(folder))
  queries = make_texts(tokenizer, folder / 'q', rng, QUERIES, 0, 9, prefix)
  passages = make_texts(tokenizer, folder / 'p', rng, PASSAGES, 18, 16, prefix)
  passage_groups = np.arange(PASSAGES, dtype=np.int32)
  passage_groups[PASSAGES // 2 :: 3] = rng.randint(0, PASSAGES // 2, 10)
  judged = np.unique(
      np.stack([rng.randint(0, QUERIES, 70), rng.randint(0, PASSAGES, 70)], 1),
      axis=0,
  ).astype(np.int32)
  known = np.unique(
      np.stack([judged[:, 0], passage_groups[judged[:, 1]]], 1), axis=0
  )
  begins = rng.randint(0, 22, (len(judged), 2))  # Below the second: left out.
  ends = np.where(rng.rand(len(judged)) < 0.3, -1, begins[:, 1])
  spans = np.stack([begins[:, 0], ends, rng.randint(0, 2, len(judged))], 1)
  parts = np.sort(rng.randint(0, 21, (9 if halves else 0, 2)), axis=1)
  parts = np.concatenate(
      [rng.randint(0, PASSAGES, (len(parts), 1)), parts], axis=1
  ).astype(np.int32)
  pool = make_pool(rng, parts)
  return batcher_lib.Batcher(
      examples=examples.Examples(
          judged[:, 0], judged[:, 1], examples.Positives(known, QUERIES),
          spans.astype(np.int32) if cuts else None,
      ),
      batch_size=BATCH,
      negatives=negatives,
      groups=groups,
      row_lengths={'query': 9, 'passage': 40} if towers else {'shared': 24},
      seed=seed,
      draw=lambda step, numbers, rows: pool.listed(rows).draw(
          negatives, seed, step, numbers, range(len(quotas)), quotas
      ),
      query_tokens=queries.tokens,
      passage_tokens=halves_lib.passage_tokens(passages, parts),
      passage_groups=passage_groups,
      parents=parts[:, 0],
      mask_known_positives=mask,
  )


@pytest.mark.parametrize('digest, settings', [
    ('01e88900b721d6a9',
     dict(seed=0, halves=True, prefix=(7, 8, 9))),
    ('1a0cf91537894adb',
     dict(seed=1, halves=True, towers=True)),
    ('3d17bde2afc3da0f',
     dict(seed=2, cuts=True, negatives=0, groups=1)),
    ('23cc7120b078997a',
     dict(seed=3, cuts=True, halves=True, towers=True, prefix=(7,))),
    ('696e35b0a796711e',
     dict(seed=4, halves=True, mask=False, groups=5)),
    ('a62f4bc004c66bc3',
     dict(seed=5, halves=True, negatives=3, quotas=(2, 1))),
    ('af7e7fdc1b269b97',
     dict(seed=6, negatives=20, prefix=(7,) * 13, groups=7)),
    ('102d8bcc58db72a7',
     dict(seed=7, prefix=(7,) * 20, halves=True, cuts=True)),
])
def test_bytes_are_those_of_revision_cc433be(tmp_path, digest, settings):
  """There batches were built sequence by sequence."""
  batcher, made = make_batcher(tmp_path, **settings), hashlib.sha256()
  for step in range(8):
    batch, stats = batcher(step)
    for leaf in jax.tree.leaves(batch):
      made.update(f'{leaf.dtype}{leaf.shape}'.encode() + leaf.tobytes())
    made.update(str((stats.useful_tokens, stats.processed_tokens,
                     dict(stats.values))).encode())
  assert made.hexdigest()[:16] == digest
