"""What a plan says that vectors take is what their table takes."""

import numpy as np
import pytest

from neg_contrast.benchmarks import expense
from neg_contrast.data import peek as peek_lib
from neg_contrast.models import dual_encoder
from neg_contrast.retrieval import vector_table
from tests import tiny


@pytest.mark.parametrize('dtype', vector_table.DTYPES)
def test_vectors_take_what_their_table_takes(dtype, tmp_path):
  spec = dual_encoder.EncoderSpec(tiny.bert_config(), 'mean')
  found = peek_lib.Peek(peek_lib.Count(7), {}, (), (), 0, is_prepared=True)
  said = expense.of_embeddings(
      'a', found, expense.Lengths(None, None), expense.Model(spec, 1), dtype)
  features = spec.features('passage')
  layout = vector_table.Layout(7, features, dtype, shard_rows=7)
  writer = vector_table.ShardWriter(tmp_path, layout, 0)
  writer[0:7] = np.ones((7, features), np.float32)
  writer.close()
  made = sum(np.load(path).nbytes for path in tmp_path.glob('*.npy'))
  assert said.bytes == made
