"""The tokenizers of models: loaded, saved and identified."""

import functools
import hashlib
import pathlib
import re
from collections.abc import Iterable, Sequence
from typing import SupportsInt

import tokenizers
from tokenizers import decoders, models, processors

from neg_contrast import errors
from neg_contrast.artifacts import folders


class AnyTokenizer:
  """What tokenizers of all models do.

  Attributes:
    vocab_size: one more than the highest id.
  """

  def __init__(self, backend: tokenizers.Tokenizer):
    """Takes over a tokenizer."""
    backend.no_truncation()
    backend.no_padding()
    self._backend = backend
    # Ids may have gaps, so their number would be too low.
    self.vocab_size = 1 + max(backend.get_vocab().values())

  @functools.cached_property
  def sha256(self) -> str:
    """Of everything that decides which ids a text gets."""
    return hashlib.sha256(self._backend.to_str().encode()).hexdigest()

  def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
    """Ids of many texts, on all cores; no special tokens are added."""
    encodings = self._backend.encode_batch_fast(
        list(texts), add_special_tokens=False
    )
    return [encoding.ids for encoding in encodings]

  @functools.cached_property
  def whole_words(self) -> list[str]:
    """Words that are one token each, in alphabetical order."""
    words = sorted(filter(str.isalnum, self._backend.get_vocab()))
    return [word for word, ids in
            zip(words, self.encode_batch(words), strict=True) if len(ids) == 1]

  def save(self, folder: pathlib.Path) -> None:
    """Writes `tokenizer.json`."""
    folder.mkdir(parents=True, exist_ok=True)
    self._backend.save(str(folder / 'tokenizer.json'))

  def _special(self, tokens: Sequence[str], model: str) -> int:
    """The id of the first of some tokens that there is.

    Raises:
      UserError: there is none.
    """
    for token in tokens:
      number = self._backend.token_to_id(token)
      if number is not None:
        return number
    raise errors.UserError(
        f'the tokenizer has no {" or ".join(tokens)}; give the folder of '
        f'{model}'
    )


class Tokenizer(AnyTokenizer):
  """Makes token ids; never cuts, pads or adds special tokens.

  Attributes:
    cls_id: id of the token before a text, such as [CLS] or `<s>`: that of the
      tokenizer's own template, where it has one.
    sep_id: id of the token after a text, such as [SEP] or `</s>`.
    separators: how many of them its template puts between the texts of a pair:
      two in RoBERTa's `<s> a </s></s> b </s>`.
    vocab_size: one more than the highest id.
  """

  def __init__(self, backend: tokenizers.Tokenizer):
    """Takes over a tokenizer.

    Raises:
      UserError: neither its template nor its vocabulary has such tokens.
    """
    super().__init__(backend)
    single, pair = backend.encode('').ids, backend.encode('', '').ids
    if len(single) == 2:
      self.cls_id, self.sep_id = single
    else:
      self.cls_id = self._special(['[CLS]', '<s>'], 'a BERT or RoBERTa model')
      self.sep_id = self._special(['[SEP]', '</s>'], 'a BERT or RoBERTa model')
    between = pair[1:-1]
    self.separators = max(1, len(between))
    if set(between) - {self.sep_id}:
      self.separators = 1

  @property
  def separator(self) -> str:
    """Put between title and text, it becomes `separators` tokens."""
    token = str(self._backend.id_to_token(self.sep_id))
    spaced = f' {token} '
    # A byte-level tokenizer makes tokens of spaces around it.
    if token == '[SEP]' and self.encode(spaced) == [self.sep_id]:
      return spaced
    return token * self.separators

  def token_id(self, token: str) -> int | None:
    """The id of a token; None if the vocabulary lacks it."""
    return self._backend.token_to_id(token)

  def encode(self, text: str) -> list[int]:
    """Ids of a text."""
    return self._backend.encode(text, add_special_tokens=False).ids

  def offsets(self, text: str) -> list[tuple[int, int]]:
    """(start, end) in characters of each token of a text."""
    return self._backend.encode(text, add_special_tokens=False).offsets


class Seq2SeqTokenizer(AnyTokenizer):
  """The tokenizer of an encoder-decoder: makes ids of texts, and back.

  Either that of a T5, or of a BERT, with which a T5 may be trained from
  scratch. Never cuts, pads or adds special tokens.

  Attributes:
    eos_id: id of `</s>`, else of [SEP].
    pad_id: id of `<pad>`, else of [PAD].
    vocab_size: one more than the highest id; the model may have more
      embeddings.
  """

  def __init__(self, backend: tokenizers.Tokenizer):
    """Takes over a tokenizer.

    Raises:
      UserError: it has none of the tokens that end or fill up.
    """
    super().__init__(backend)
    self.eos_id = self._special(['</s>', '[SEP]'], 'a T5 or BERT model')
    self.pad_id = self._special(['<pad>', '[PAD]'], 'a T5 or BERT model')
    added = backend.get_added_tokens_decoder()
    self._skipped = {self.eos_id, self.pad_id} | {
        number for number, token in added.items() if token.special
    }
    self._is_word_piece = isinstance(backend.model, models.WordPiece)

  def export(self, folder: pathlib.Path) -> None:
    """Writes a folder that transformers' AutoTokenizer loads.

    There a text ends with `eos_id` and has no other special token, as sources
    and targets have here.
    """
    copy = tokenizers.Tokenizer.from_str(self._backend.to_str())
    end, pad = map(copy.id_to_token, (self.eos_id, self.pad_id))
    copy.post_processor = processors.TemplateProcessing(
        single=f'$A {end}', special_tokens=[(end, self.eos_id)]
    )
    copy.save(str(folder / 'tokenizer.json'))
    folders.write_json(folder / 'tokenizer_config.json', {
        'tokenizer_class': 'PreTrainedTokenizerFast',
        'eos_token': end, 'pad_token': pad,
    })

  def decode_batch(self, ids: Iterable[Iterable[SupportsInt]]) -> list[str]:
    """Texts of token ids, without special tokens.

    Pieces of words are joined. A BERT tokenizer has lost where spaces were:
    they are left out where they seldom are, around hyphens and brackets and
    before commas and the like. That changes no ids if a text is encoded again.

    Args:
      ids: any integers, as in a row of an array.

    Returns:
      A text for each; ids beyond the vocabulary stand for nothing.
    """
    kept = [[int(i) for i in row if int(i) not in self._skipped] for row in ids]
    if not self._is_word_piece:
      return [text.strip() for text in self._backend.decode_batch(kept)]
    decoder = decoders.WordPiece(cleanup=False)
    to_token = self._backend.id_to_token
    texts = ([token for token in map(to_token, row) if token is not None]
             for row in kept)
    return [_join_punctuation(decoder.decode(tokens)) for tokens in texts]


def _join_punctuation(text: str) -> str:
  """Removes spaces as English has them around punctuation."""
  text = re.sub(r" ([.,:;!?%)\]}])", r'\1', text)
  text = re.sub(r'([(\[{$#]) ', r'\1', text)
  text = re.sub(r'(?<=\d)(?:([.:]) (?=\d)|(,) (?=\d{3}\b))', r'\1\2', text)
  return re.sub(r"(?<=\w) (['\u2019/-]) (?=\w)", r'\1', text)


def load_tokenizer(folder: str) -> Tokenizer:
  """Reads `tokenizer.json`, or `vocab.txt` through transformers.

  Raises:
    UserError: the folder holds neither, or they are broken, or they are not a
      BERT's.
  """
  return Tokenizer(_load(pathlib.Path(folder), ('vocab.txt',)))


def load_seq2seq_tokenizer(folder: str) -> Seq2SeqTokenizer:
  """Reads `tokenizer.json`, else `spiece.model` or `vocab.txt`.

  The others go through transformers, which needs the package sentencepiece for
  `spiece.model`.

  Raises:
    UserError: the folder holds none of them, or they are broken, or they are
      neither a T5's nor a BERT's.
  """
  return Seq2SeqTokenizer(
      _load(pathlib.Path(folder), ('spiece.model', 'vocab.txt'))
  )


def _load(path: pathlib.Path, others: Sequence[str]) -> tokenizers.Tokenizer:
  """Reads `tokenizer.json`, or the first of some other files."""
  file = path / 'tokenizer.json'
  if file.exists():
    try:
      return tokenizers.Tokenizer.from_file(str(file))
    except Exception as e:  # The library raises nothing more special.
      raise errors.UserError(f'{file}: not a tokenizer: {e}') from None
  found = [name for name in others if (path / name).exists()]
  if not found:
    names = ' nor '.join(('tokenizer.json', *others))
    raise errors.UserError(
        f"{path}: holds neither {names}; put the model's tokenizer files there"
    )
  import transformers  # Slow to import, rarely needed.

  try:
    loaded = transformers.AutoTokenizer.from_pretrained(str(path))
  except (ImportError, OSError, ValueError) as e:
    hint = ('; for spiece.model, pip install sentencepiece'
            if found[0] == 'spiece.model' else '')
    raise errors.UserError(
        f'{path}: transformers makes no tokenizer of {found[0]}: {e}. A '
        f"config.json with the model's model_type must be there too{hint}"
    ) from None
  return loaded.backend_tokenizer
