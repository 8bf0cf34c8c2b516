"""The vectors of a tiny corpus are those of the format of their table.

To record: `python -m tests.retrieval.test_golden_table`.
"""

import json
import pathlib
import tempfile

import numpy as np

from neg_contrast.data import dataset as dataset_lib
from neg_contrast.jobs.common import settings_of_rooms
from neg_contrast.models import by_name
from neg_contrast.retrieval import embedder, embeddings, text_encoder
from neg_contrast.settings import config as config_lib
from tests import tiny
from tests.golden import record

GOLDEN = pathlib.Path(__file__).with_name('golden_table.json')
_ROWS = [0, 1, 7, 30, 47]


def vectors(folder: pathlib.Path) -> np.ndarray:
  """`[5, 16] float32`, some of the corpus, read from their table."""
  (folder / 'model').mkdir()
  record.write_model(folder / 'model', 0)
  config = config_lib.parse(tiny.make_config(folder, mesh__data=1))
  dataset = dataset_lib.Dataset(config.data)
  model = by_name.load_as_it_comes(str(folder / 'model'), 0)
  made = embedder.Embedder(dataset, text_encoder.TextEncoder(
      model, settings_of_rooms.encoding(config)), folder / 'retrieval')
  return np.asarray(made.passage_vecs[:])[_ROWS]


def test_a_format_has_the_vectors_that_it_had(tmp_path):
  golden = json.loads(GOLDEN.read_text())
  assert golden['format'] == embeddings.FORMAT.number, (
      'record the vectors of the new format: python -m '
      'tests.retrieval.test_golden_table')
  np.testing.assert_allclose(
      vectors(tmp_path), golden['vectors'], rtol=1e-4, atol=1e-5,
      err_msg='Tables that were made before would not fit queries of now: '
      'raise FORMAT in neg_contrast/retrieval/embeddings.py')


if __name__ == '__main__':
  with tempfile.TemporaryDirectory() as place:
    GOLDEN.write_text(json.dumps({
        'format': embeddings.FORMAT.number,
        'vectors': np.round(vectors(pathlib.Path(place)).astype(float), 6)
                   .tolist(),
    }) + '\n')
