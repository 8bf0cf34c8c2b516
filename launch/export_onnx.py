"""Writes an exported model as ONNX, and checks it against PyTorch.

    pip install torch sentence-transformers onnx onnxruntime onnxscript
    python launch/export_onnx.py workdirs/exported/model

reads a sentence-transformers folder of `job=export` (of two towers:
`model/query` or `model/passage`), and writes `onnx/model.onnx` beside its
weights: token ids and masks in, one vector a text out; pooling, projections and
normalization are inside. The package itself needs none of these libraries.
PyTorch traces the model; then ONNX Runtime and PyTorch encode the same texts,
short, long and cut ones, in batches of several shapes. The file is kept only if
all vectors agree to --tolerance.

    import onnxruntime
    session = onnxruntime.InferenceSession('model/onnx/model.onnx')

Texts get the prompt of the model card first, and the folder's tokenizer.json.
"""

import argparse
import pathlib
import sys
from typing import Any

import numpy as np

_TEXTS = ('a', 'How tall is the Eiffel Tower?',
          'naïve café, ünïcödé, 日本語 😀',
          'Eiffel Tower [SEP] It is 330 metres tall.',
          'The quick brown fox jumps over the lazy dog. ' * 100)
# Fused attention with biases of positions (T5) can't be exported.
_ATTENTION = {'attn_implementation': 'eager'}
_SHAPES = ((0,), (1, 2), (3, 0, 1, 2), (4, 0))  # Texts of a batch.
_TRACED = (1, 2)


def export(folder: pathlib.Path, tolerance: float) -> pathlib.Path:
  """Writes the file and returns its path.

  Args:
    folder: of the model.
    tolerance: largest difference of a feature.

  Raises:
    ValueError: vectors differ.
  """
  import onnxruntime
  import sentence_transformers
  import torch

  model = sentence_transformers.SentenceTransformer(
      str(folder), device='cpu', model_kwargs=_ATTENTION
  ).eval()
  names = [*_tokens(model, _TRACED)]
  wrapped = _module(model, names)
  path = folder / 'onnx' / 'model.onnx'
  path.parent.mkdir(exist_ok=True)
  partial = path.with_name('partial.onnx')
  batch, length = torch.export.Dim('batch'), torch.export.Dim('length')
  try:
    torch.onnx.export(
        wrapped, tuple(_tokens(model, _TRACED).values()), str(partial),
        input_names=names, output_names=['sentence_embedding'], dynamo=True,
        dynamic_shapes={'inputs': tuple({0: batch, 1: length} for _ in names)},
        external_data=False, verbose=False,
    )
    session = onnxruntime.InferenceSession(
        str(partial), providers=['CPUExecutionProvider']
    )
    worst = max(_difference(model, session, some) for some in _SHAPES)
    if not worst <= tolerance:
      raise ValueError(
          f'{folder}: vectors of ONNX Runtime differ by {worst:g}, and '
          f'{tolerance:g} is allowed'
      )
    partial.replace(path)
  finally:
    partial.unlink(missing_ok=True)
  print(f'{path}: inputs {", ".join(names)}; vectors of '
        f'{sum(map(len, _SHAPES))} texts differ by {worst:.1e} at most')
  return path


def _tokens(model: Any, some: tuple[int, ...]) -> dict[str, Any]:
  """Inputs of the transformer for some of the texts, padded."""
  made = model.tokenizer(
      [_TEXTS[n] for n in some], padding=True, truncation=True,
      max_length=model.max_seq_length, return_tensors='pt',
  )
  return dict(made)


def _module(model: Any, names: list[str]) -> Any:
  """The whole model as a function of tensors."""
  import torch

  class Wrapped(torch.nn.Module):
    """Token ids and masks -> vectors."""

    def __init__(self):
      super().__init__()
      self.model = model

    def forward(self, *inputs):
      """Runs all modules."""
      features = dict(zip(names, inputs, strict=True))
      return self.model(features)['sentence_embedding']

  return Wrapped().eval()


def _difference(model: Any, session: Any, some: tuple[int, ...]) -> float:
  """Of vectors by ONNX Runtime and by sentence-transformers."""
  inputs = {name: value.numpy() for name, value in _tokens(model, some).items()}
  found, = session.run(None, inputs)
  expected = model.encode([_TEXTS[n] for n in some], prompt='')
  return float(np.abs(found - expected).max())


def main() -> None:
  """Exports the folder of the command line."""
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawTextHelpFormatter
  )
  parser.add_argument('folder', type=pathlib.Path)
  parser.add_argument('--tolerance', type=float, default=1e-5)
  args = parser.parse_args()
  if not (args.folder / 'modules.json').is_file():
    sys.exit(f'error: {args.folder}: no folder of sentence-transformers; '
             'job=export writes one')
  try:
    export(args.folder, args.tolerance)
  except ImportError as e:
    sys.exit(f'error: {e.name} is missing: pip install torch '
             'sentence-transformers onnx onnxruntime onnxscript')
  except ValueError as e:
    sys.exit(f'error: {e}')


if __name__ == '__main__':
  main()
