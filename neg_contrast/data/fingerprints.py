"""What tells two records, or two sets of records, apart. Pure."""


def folded(title: str, text: str) -> str:
  """What is compared: title and text, with case and white space folded."""
  fold = lambda text: ' '.join(text.casefold().split())
  return f'{fold(title)}\0{fold(text)}'


def digested(*fields: str) -> bytes:
  """Texts with their lengths, as a hash is taken of them."""
  parts = []
  for field in fields:
    data = field.encode()
    parts += [len(data).to_bytes(8, 'little'), data]
  return b''.join((*parts, b'\n'))
