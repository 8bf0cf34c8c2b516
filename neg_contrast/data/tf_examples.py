"""Texts as `tf.train.Example`, the rows of tensorflow-datasets. Pure.

A protocol buffer of fields in alphabetical order: equal rows are equal bytes,
which the library's maps are not from one process to the next. It reads any
order.
"""

from collections.abc import Mapping, Sequence


def serialized(row: Mapping[str, str | Sequence[str]]) -> bytes:
  """A row of texts, or of lists of texts, by field."""
  return _tagged(b''.join(  # Example.features
      _tagged(_tagged(name.encode()) + _tagged(_feature(value), b'\x12'))
      for name, value in sorted(row.items())  # Features.feature, a map
  ))


def _feature(value: str | Sequence[str]) -> bytes:
  """`Feature.bytes_list` with the values."""
  texts = (value,) if isinstance(value, str) else value
  return _tagged(b''.join(_tagged(text.encode()) for text in texts))


def _tagged(data: bytes, tag: bytes = b'\n') -> bytes:
  """A field of number 1, or of that of the tag, with its length."""
  size, length = len(data), bytearray()
  while size > 127:
    length.append(size & 127 | 128)
    size >>= 7
  length.append(size)
  return tag + length + data
