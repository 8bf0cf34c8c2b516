"""Damages to a file: the same ones for the same seed."""

import json

import numpy as np


def of_bytes(data: bytes, seed: int, flips: int = 14):
  """Yields (name, damaged bytes); 20 and more, none of them `data`."""
  rng = np.random.default_rng(seed)
  bits = rng.choice(8 * len(data), min(flips, 8 * len(data)), replace=False)
  for bit in bits.tolist():
    flipped = bytearray(data)
    flipped[bit // 8] ^= 1 << bit % 8
    yield f'bit {bit}', bytes(flipped)
  yield 'empty', b''
  for part in (0.3, 0.9):
    yield f'cut at {part}', data[: int(len(data) * part)]
  yield 'nested', b'[' * 100_000
  yield 'nested objects', b'{"a":' * 100_000
  half = len(data) // 2
  yield 'not UTF-8', data[:half] + b'\xff\xfe' + data[half:]
  yield 'zeros', data[: len(data) // 3] + bytes(len(data) - len(data) // 3)
  yield 'a list', b'[]'
  yield 'a number', b'7'
  yield 'an empty object', b'{}'


def of_object(data: bytes, seed: int):
  """Yields (name, damaged bytes) of a json object: keys and their values."""
  values = json.loads(data)
  rng = np.random.default_rng(seed)
  keys = sorted(values)
  for key in keys:
    yield f'{key} missing', _dump({k: v for k, v in values.items() if k != key})
    for value in _others(values[key], rng):
      yield f'{key}={str(value)[:20]}', _dump({**values, key: value})


def _others(value, rng):
  """Values of another type or far out of range."""
  wrong = [None, [], {}, [value], {'x': value}, 'x\ud800', 2**70, -(2**70),
           1e39, -1, 0, True, float('nan'), 10**400]
  return [wrong[i] for i in rng.choice(len(wrong), 5, replace=False)]


def _dump(values) -> bytes:
  return json.dumps(values).encode()
