"""Plain PyTorch at the work of `configs/benchmark.py:versus=transformers`.

Started by `job=benchmark` as `python peer_transformers.py FOLDER`, like
`peer_sentence_transformers.py`, with the same folder and answers: for machines
that have torch and transformers, and no sentence-transformers.

* encode: texts in the order of their lengths, in batches that are padded to
  their longest text; the weights have the dtype.
* train: a plain loop of the batch softmax of both directions, or of one, and
  AdamW. Every column of a batch is padded to its longest text; parameters and
  vectors are float32, and bfloat16 between them is by autocast. With a
  mini-batch, gradients are cached (Gao et al., 2021): vectors of all texts
  without gradients, gradients of the loss for vectors, then each mini-batch
  again, with the same dropout.
"""

import json
import os
import pathlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
import transformers
from safetensors import torch as tensor_files

Tokens = dict[str, torch.Tensor]
"""`input_ids` and `attention_mask`, `[texts, tokens]`."""


def main() -> None:
  """Answers until its standard input ends."""
  answers = os.fdopen(os.dup(1), 'w')
  os.dup2(2, 1)  # What libraries print is no answer.
  folder = pathlib.Path(sys.argv[1])
  settings = json.loads((folder / 'settings.json').read_text())
  torch.set_num_threads(settings['threads'])
  work = {'train': _train, 'encode': _encode}[settings['task']](
      folder, settings
  )
  print(json.dumps({'versions': f'transformers {transformers.__version__}, '
                                f'torch {torch.__version__}'}),
        file=answers, flush=True)
  for _ in sys.stdin:
    began = time.process_time()
    result = work()
    if settings['device'] == 'cuda':
      torch.cuda.synchronize()
    result['cpu_seconds'] = time.process_time() - began
    print(json.dumps(result), file=answers, flush=True)


class Encoder(torch.nn.Module):
  """The modules of a sentence-transformers folder."""

  def __init__(self, folder: pathlib.Path, dtype: Any):
    """Reads it.

    Args:
      folder: what `job=benchmark` exports.
      dtype: of the weights.
    """
    super().__init__()
    read = lambda path: json.loads(path.read_text())
    places = {module['type'].rpartition('.')[2]: folder / module['path']
              for module in read(folder / 'modules.json')}
    place = places['Transformer']
    self.tokenizer = transformers.AutoTokenizer.from_pretrained(place)
    self.bert = transformers.AutoModel.from_pretrained(place, dtype=dtype)
    pooling = read(places['Pooling'] / 'config.json')
    mode = pooling.get('pooling_mode')
    self._is_mean = mode == 'mean' or pooling.get('pooling_mode_mean_tokens')
    self._normalizes = 'Normalize' in places
    self.dense: torch.nn.Module = torch.nn.Identity()
    if 'Dense' in places:
      self.dense = _dense(places['Dense'], dtype)

  def forward(self, tokens: Tokens) -> torch.Tensor:
    """`[texts, features] float32`."""
    hidden = self.bert(**tokens).last_hidden_state
    if self._is_mean:
      mask = tokens['attention_mask'][:, :, None].to(hidden.dtype)
      pooled = (hidden * mask).sum(1) / mask.sum(1)
    else:
      pooled = hidden[:, 0]
    vecs = self.dense(pooled).float()
    if self._normalizes:
      vecs = torch.nn.functional.normalize(vecs, dim=-1)
    return vecs

  def tokenize(self, texts: list[str], most: int, device: str) -> Tokens:
    """All texts as long as the longest, and `most` tokens at most."""
    made = self.tokenizer(
        texts, padding=True, truncation=True, max_length=most,
        return_tensors='pt', return_token_type_ids=False,
    )
    return {name: tensor.to(device) for name, tensor in made.items()}


def _dense(folder: pathlib.Path, dtype: Any) -> torch.nn.Module:
  settings = json.loads((folder / 'config.json').read_text())
  layer = torch.nn.Linear(
      settings['in_features'], settings['out_features'], settings['bias']
  )
  layer.load_state_dict({
      name.removeprefix('linear.'): tensor for name, tensor in
      tensor_files.load_file(folder / 'model.safetensors').items()
  })
  is_tanh = settings['activation_function'].endswith('Tanh')
  activation = torch.nn.Tanh() if is_tanh else torch.nn.Identity()
  return torch.nn.Sequential(layer, activation).to(dtype)


def _encode(
    folder: pathlib.Path, settings: dict[str, Any]
) -> Callable[[], dict[str, Any]]:
  device = settings['device']
  model = Encoder(folder / 'model', getattr(torch, settings['dtype']))
  model.to(device).eval()
  texts = settings['passages']
  order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))

  @torch.inference_mode()
  def work() -> dict[str, Any]:
    parts = []
    for rows in _parts(len(texts), settings['batch_size']):
      parts.append(model(model.tokenize(
          [texts[i] for i in order[rows]], settings['lengths']['passage'],
          device,
      )))
    vecs = torch.cat(parts).cpu().numpy()
    np.save(folder / 'vecs.npy', vecs[np.argsort(order)])
    return {}

  return work


def _train(
    folder: pathlib.Path, settings: dict[str, Any]
) -> Callable[[], dict[str, Any]]:
  device = settings['device']
  model = Encoder(folder / 'model', torch.float32).to(device).train()
  autocast = torch.autocast(
      device, torch.bfloat16, enabled=settings['dtype'] == 'bfloat16'
  )
  encode = autocast(model.forward)
  optimizer = torch.optim.AdamW(
      model.parameters(), lr=settings['learning_rate'],
      weight_decay=settings['weight_decay'],
  )

  def step(queries: list[int], *passages: list[int]) -> float:
    named = [('query', settings['queries'], queries)]
    named += [('passage', settings['passages'], column) for column in passages]
    columns = [
        model.tokenize([texts[i] for i in column], settings['lengths'][role],
                       device)
        for role, texts, column in named
    ]
    optimizer.zero_grad()
    size = settings['mini_batch']
    if size:
      loss = _backward_cached(encode, columns, settings, size)
    else:
      loss = _loss([encode(column) for column in columns], settings)
      loss.backward()
    optimizer.step()
    return loss.item()

  return lambda: {'losses': [step(*batch) for batch in settings['batches']]}


def _loss(vecs: list[torch.Tensor], settings: dict[str, Any]) -> torch.Tensor:
  """The batch softmax of vectors of queries, positives and negatives."""
  queries, positives, *negatives = vecs
  own = torch.arange(len(queries), device=queries.device)
  scores = settings['scale'] * queries @ torch.cat([positives, *negatives]).T
  loss = torch.nn.functional.cross_entropy(scores, own)
  if settings['bidirectional']:
    back = scores[:, : len(positives)].T
    loss = (loss + torch.nn.functional.cross_entropy(back, own)) / 2
  return loss


def _backward_cached(
    encode: Callable[[Tokens], torch.Tensor], columns: list[Tokens],
    settings: dict[str, Any], size: int,
) -> torch.Tensor:
  """The loss, whose gradients are added to those of the parameters."""
  parts = [
      {name: tensor[rows] for name, tensor in column.items()}
      for column in columns
      for rows in _parts(len(column['input_ids']), size)
  ]
  each = len(parts) // len(columns)
  states, vecs = [], []
  with torch.no_grad():
    for part in parts:
      states.append(_random_state(settings['device']))
      vecs.append(encode(part))
  cached = [torch.cat(vecs[at : at + each]).requires_grad_()
            for at in range(0, len(vecs), each)]
  loss = _loss(cached, settings)
  loss.backward()
  gradients = [
      column.grad[rows] for column in cached if column.grad is not None
      for rows in _parts(len(column), size)
  ]
  latest = _random_state(settings['device'])
  for part, state, gradient in zip(parts, states, gradients, strict=True):
    _set_random_state(state)
    (encode(part) * gradient).sum().backward()
  _set_random_state(latest)
  return loss


def _parts(count: int, size: int) -> Iterator[slice]:
  return (slice(at, at + size) for at in range(0, count, size))


def _random_state(device: str) -> list[torch.Tensor]:
  """Of what draws dropout: CPU, and device."""
  state = [torch.get_rng_state()]
  return state + ([torch.cuda.get_rng_state()] if device == 'cuda' else [])


def _set_random_state(state: list[torch.Tensor]) -> None:
  torch.set_rng_state(state[0])
  if len(state) > 1:
    torch.cuda.set_rng_state(state[1])


if __name__ == '__main__':
  main()
