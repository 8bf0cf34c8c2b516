"""Padding of training batches and of encoding, by how long packed rows are.

    .venv/bin/python launch/benchmarks/benchmark_padding.py

Tokenises two data sets with MiniLM's tokenizer and packs batches of them:
SQuAD's paragraphs, cut to 256 tokens; MedQuAD's answers, cut to 128; passages
that all fill 128 tokens; and a mix of both, of which every second one fills 256
tokens and the others are SQuAD's. Nothing is trained.

Columns: examples of a batch; hard negatives of each, any passages; the default
row length, and the part of its tokens that is padding; the row length that is
chosen by 16 batches (`batches/row_length.py`), and padding and numbers of rows
of 50 others in it. Every number of rows is compiled once.

The second table is of encoding 20,000 passages of these lengths on eight
devices: tokens that a device encodes at once, as on a CPU and on accelerators;
padding in rows of 384 tokens, and in rows as they are chosen.
"""

import argparse
import itertools
import pathlib
import sys
import tempfile
import types

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

import jax
import numpy as np

from neg_contrast import sharding
from neg_contrast.batches import packing, row_length
from neg_contrast.data import (
  examples,
  preparation,
  sequences,
  tokenized,
  tokenizer,
)
from neg_contrast.models import bert, model_names
from neg_contrast.retrieval import encoding
from neg_contrast.settings import config as config_lib

_MINILM = bert.BERT_SIZES['minilm-l6']
_SEEN, _OTHERS = 16, 50
_ENCODED, _AT_ONCE = 20_000, (2048, 8192)


def main() -> None:
  """Prints the table."""
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument('--data', type=pathlib.Path,
                      default=pathlib.Path('../shared/data'))
  folder = parser.parse_args().data
  jax.config.update('jax_platforms', 'cpu')
  jax.config.update('jax_num_cpu_devices', 8)
  with tempfile.TemporaryDirectory() as scratch:
    squad = read(folder / 'squad-v1.1-dev', 256, pathlib.Path(scratch))
    medquad = read(folder / 'medquad', 128, pathlib.Path(scratch))
  queries, passages, pairs = squad
  is_full = np.arange(len(passages)) % 2 == 0
  kinds = {
      'squad-v1.1-dev, 256': squad, 'medquad, 128': medquad,
      'all full, 128': (queries, np.full_like(passages, 128), pairs),
      'mix, 256': (queries, np.where(is_full, 256, passages), pairs),
  }
  print('| data | batch | negatives | default row | padding | chosen row '
        '| padding | sizes |')
  print('|---|---:|---:|---:|---:|---:|---:|---:|')
  for (name, data), negatives, size in itertools.product(
      kinds.items(), (0, 2), (32, 64)
  ):
    print(f'| {name} | {size} | {negatives} | '
          + ' | '.join(measure(data, size, negatives)) + ' |')
  print('\n| data | tokens at once | padding in rows of 384 | as chosen |\n'
        '|---|---:|---:|---:|')
  rng = np.random.default_rng(0)
  for (name, (_, lengths, _)), at_once in itertools.product(
      kinds.items(), _AT_ONCE
  ):
    some = rng.choice(lengths, _ENCODED)
    print(f'| {name} | {at_once:,} | {padding_of(some, at_once, 384):.1%} '
          f'| {padding_of(some, at_once, 0):.1%} |')


def read(
    folder: pathlib.Path, longest: int, scratch: pathlib.Path
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Lengths of queries and of passages; `[pairs, 2]` rows of both."""
  corpus = preparation.prepare(f'beir:{folder}', scratch, False)
  own = tokenizer.load_tokenizer(str(model_names.packaged_minilm()))
  queries = tokenized.tokenize(corpus, 'query', own, 64, '').lengths()
  passages = tokenized.tokenize(corpus, 'passage', own, longest, '').lengths()
  pairs = examples.make_examples(corpus, corpus.judgements('split-train'))
  return (queries, passages,
          np.stack([pairs.query_rows, pairs.positive_rows], 1))


def measure(
    data: tuple[np.ndarray, np.ndarray, np.ndarray], size: int, negatives: int
) -> list[str]:
  """The last five columns of a line, of what `read` returns."""
  queries, passages, pairs = data
  rng = np.random.default_rng(0)

  def batch() -> np.ndarray:
    rows = pairs[rng.choice(len(pairs), size, replace=False)]
    others = rng.integers(0, len(passages), size * negatives)
    return np.concatenate([
        queries[rows[:, 0]], passages[rows[:, 1]], passages[others]])

  longest = int(passages.max())
  seen = [batch() for _ in range(_SEEN)]
  others = [batch() for _ in range(_OTHERS)]
  useful = sum(int(one.sum()) for one in others)
  usual = row_length.default(longest)
  chosen = row_length.fit_batches(
      seen, 1, longest, _MINILM.even_row_length)
  cells = []
  for length in (usual, chosen):
    plans = [packing.plan(one, 1, length) for one in others]
    padding = 1 - useful / sum(plan.tokens for plan in plans)
    cells += [str(length), f'{padding:.1%}']
  return [*cells, str(len({plan.rows for plan in plans}))]


def padding_of(lengths: np.ndarray, at_once: int, row: int) -> float:
  """Padding of encoding on all devices; nothing is computed.

  Args:
    lengths: `[sequences]`.
    at_once: tokens of a device.
    row: tokens of a row; 0: as chosen.
  """
  encoder: types.SimpleNamespace = types.SimpleNamespace(
      spec=types.SimpleNamespace(transformer=_MINILM), features=1, dtype='f4',
      operand_dtype=None)
  table = encoding.TableEncoder(
      encoder,  # type: ignore[arg-type]
      sharding.make_mesh(config_lib.MeshConfig(), jax.devices()),
      int(lengths.max()), at_once, row,
  )
  table._encode = lambda _, batch: np.zeros(
      (*batch.first_index.shape, 1), np.float32)
  table(None, lambda numbers: sequences.listed(
      np.zeros(length, np.int32) for length in lengths[numbers]
  ), lengths)
  return 1 - int(lengths.sum()) / table.work.processed_tokens


if __name__ == '__main__':
  main()
