"""The tokenizer of a model: loaded, saved and identified."""

import functools
import hashlib
import pathlib
from collections.abc import Sequence

import tokenizers

from neg_contrast import errors


class Tokenizer:
  """Makes token ids; never cuts, pads or adds special tokens.

  Attributes:
    cls_id: id of [CLS].
    sep_id: id of [SEP].
    vocab_size: one more than the highest id.
  """

  def __init__(self, backend: tokenizers.Tokenizer):
    """Takes over a tokenizer.

    Raises:
      UserError: it has no [CLS] or [SEP].
    """
    backend.no_truncation()
    backend.no_padding()
    self._backend = backend
    self.cls_id = self._special('[CLS]')
    self.sep_id = self._special('[SEP]')
    # Ids may have gaps, so their number would be too low.
    self.vocab_size = 1 + max(backend.get_vocab().values())

  @functools.cached_property
  def sha256(self) -> str:
    """Of everything that decides which ids a text gets."""
    return hashlib.sha256(self._backend.to_str().encode()).hexdigest()

  def encode(self, text: str) -> list[int]:
    """Ids of a text."""
    return self._backend.encode(text, add_special_tokens=False).ids

  def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
    """Ids of many texts, on all cores."""
    encodings = self._backend.encode_batch_fast(
        list(texts), add_special_tokens=False
    )
    return [encoding.ids for encoding in encodings]

  def offsets(self, text: str) -> list[tuple[int, int]]:
    """(start, end) in characters of each token of a text."""
    return self._backend.encode(text, add_special_tokens=False).offsets

  def save(self, folder: pathlib.Path) -> None:
    """Writes `tokenizer.json`."""
    folder.mkdir(parents=True, exist_ok=True)
    self._backend.save(str(folder / 'tokenizer.json'))

  def _special(self, token: str) -> int:
    number = self._backend.token_to_id(token)
    if number is None:
      raise errors.UserError(
          f'the tokenizer has no {token}; give the folder of a BERT model'
      )
    return number


def load_tokenizer(folder: str) -> Tokenizer:
  """Reads `tokenizer.json`, or `vocab.txt` through transformers.

  Raises:
    UserError: the folder holds neither, or they are broken.
  """
  path = pathlib.Path(folder)
  if (path / 'tokenizer.json').exists():
    try:
      return Tokenizer(tokenizers.Tokenizer.from_file(
          str(path / 'tokenizer.json')
      ))
    except Exception as e:  # The library raises nothing more special.
      if isinstance(e, errors.UserError):
        raise
      raise errors.UserError(
          f'{path / "tokenizer.json"}: not a tokenizer: {e}'
      ) from None
  if not (path / 'vocab.txt').exists():
    raise errors.UserError(
        f'{path}: holds neither tokenizer.json nor vocab.txt; put the '
        "model's tokenizer files there"
    )
  import transformers  # Slow to import, rarely needed.

  try:
    loaded = transformers.AutoTokenizer.from_pretrained(folder)
  except (OSError, ValueError) as e:
    raise errors.UserError(
        f'{path}: transformers makes no tokenizer of vocab.txt: {e}. A '
        "config.json with the model's model_type must be there too"
    ) from None
  return Tokenizer(loaded.backend_tokenizer)
