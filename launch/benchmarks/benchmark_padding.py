"""Padding of training batches, by how long packed rows are.

    .venv/bin/python launch/benchmarks/benchmark_padding.py

Tokenises two data sets with MiniLM's tokenizer and packs batches of them:
SQuAD's paragraphs, cut to 256 tokens; MedQuAD's answers, cut to 128; passages
that all fill 128 tokens; and a mix of both, of which every second one fills 256
tokens and the others are SQuAD's. Nothing is trained.

Columns: examples of a batch; hard negatives of each, any passages; the default
row length, and the part of its tokens that is padding; the row length that is
chosen by 16 batches (`batches/row_length.py`), and padding and numbers of rows
of 50 others in it. Every number of rows is compiled once.
"""

import argparse
import itertools
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

import numpy as np

from neg_contrast.batches import packing, row_length
from neg_contrast.data import examples, preparation, tokenized, tokenizer
from neg_contrast.models import bert, model_names

_MINILM = bert.BERT_SIZES['minilm-l6'].even_row_length
_SEEN, _OTHERS = 16, 50


def main() -> None:
  """Prints the table."""
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument('--data', type=pathlib.Path,
                      default=pathlib.Path('../shared/data'))
  folder = parser.parse_args().data
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
  chosen = row_length.fit_batches(seen, 1, longest, _MINILM)
  cells = []
  for length in (usual, chosen):
    plans = [packing.plan(one, 1, length) for one in others]
    padding = 1 - useful / sum(plan.tokens for plan in plans)
    cells += [str(length), f'{padding:.1%}']
  return [*cells, str(len({plan.rows for plan in plans}))]


if __name__ == '__main__':
  main()
