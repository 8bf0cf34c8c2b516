"""What tells two records, or two sets of records, apart. Pure."""

from typing import Any


def folded(title: str, text: str) -> str:
  """What is compared: title and text, with case and white space folded."""
  fold = lambda text: ' '.join(text.casefold().split())
  return f'{fold(title)}\0{fold(text)}'


def update(digest: Any, *fields: str) -> None:
  """Adds texts, with their lengths, to a hash."""
  for field in fields:
    data = field.encode()
    digest.update(len(data).to_bytes(8, 'little'))
    digest.update(data)
  digest.update(b'\n')
