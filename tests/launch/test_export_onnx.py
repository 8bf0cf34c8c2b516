"""launch/export_onnx.py: its file gives sentence-transformers' vectors."""

import importlib
import pathlib

import numpy as np
import pytest

from neg_contrast.models import exporting, loading
from neg_contrast.settings import config as config_lib
from tests.models import test_exporting as exported
from tests.models import test_t5_encoder

LAUNCH = pathlib.Path(__file__).parents[2] / 'launch'
for name in ('torch', 'onnx', 'onnxruntime', 'onnxscript'):
  pytest.importorskip(name)


@pytest.fixture
def script(monkeypatch):
  monkeypatch.syspath_prepend(str(LAUNCH))
  return importlib.import_module('export_onnx')


def test_vectors_are_ours(script, tmp_path):
  """Of a model with pooling, a projection and normalization."""
  import onnxruntime
  import tokenizers

  model = exported.make_model(tmp_path, 'projection')
  folder = exported.write(model, tmp_path / 'out')
  path = script.export(folder, 1e-5)
  assert sorted(one.name for one in path.parent.iterdir()) == ['model.onnx']
  session = onnxruntime.InferenceSession(str(path))
  tokenizer = tokenizers.Tokenizer.from_file(str(folder / 'tokenizer.json'))
  expected = exported.embed(model, 'query', [
      ('', text) for text in exported.QUERIES])
  tokenizer.enable_truncation(model.text.query_length)
  tokenizer.enable_padding()
  read = tokenizer.encode_batch(exported.QUERIES)
  inputs = {'input_ids': [one.ids for one in read],
            'attention_mask': [one.attention_mask for one in read],
            'token_type_ids': [one.type_ids for one in read]}
  vecs, = session.run(None, {
      one.name: np.array(inputs[one.name], np.int64)
      for one in session.get_inputs()})
  np.testing.assert_allclose(vecs, expected, atol=1e-5)


def test_an_encoder_with_biases_of_positions(script, tmp_path):
  """A T5: its attention is not fused while it is exported."""
  test_t5_encoder.write(tmp_path / 'model')
  model = loading.from_pretrained(
      str(tmp_path / 'model'), config_lib.ModelConfig(init='x'), 0)
  (tmp_path / 'out').mkdir()
  exporting.write_model(model, tmp_path / 'out', 'card')
  assert script.export(tmp_path / 'out', 1e-5).exists()


def test_a_file_that_differs_is_not_kept(script, tmp_path, monkeypatch):
  folder = exported.write(exported.make_model(tmp_path), tmp_path / 'out')
  monkeypatch.setattr(script, '_difference', lambda *_: 0.1)
  with pytest.raises(ValueError, match='differ by 0.1, and 1e-05 is allowed'):
    script.export(folder, 1e-5)
  assert not list((folder / 'onnx').iterdir())


def test_no_model(script, tmp_path, monkeypatch):
  monkeypatch.setattr('sys.argv', ['', str(tmp_path)])
  with pytest.raises(SystemExit, match='no folder of sentence-transformers'):
    script.main()
