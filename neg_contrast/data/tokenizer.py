"""The tokenizers of models: loaded, saved and identified."""

import functools
import hashlib
import json
import os
import pathlib
import re
from collections.abc import Iterable, Sequence
from typing import SupportsInt

import tokenizers
from tokenizers import decoders, models, processors

from neg_contrast import errors
from neg_contrast.artifacts import folders, places
from neg_contrast.data import inputs, tokenizer_settings

_FILE = 'tokenizer.json'
_OTHERS = 'vocab.txt', 'vocab.json', 'spiece.model', 'sentencepiece.bpe.model'
_SPACED = ' [SEP] '
_PROBE = 'a text, 1 \u00e9 \u65e5 \U00013000'  # The last is in no vocabulary.
_AFTER_PREFIXES = 'a', '1', '.', ' a', '\n', '\u00e9', '\u65e5', ''


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

  @property
  def vocabulary(self) -> dict[str, int]:
    """Ids of all tokens."""
    return self._backend.get_vocab()

  @property
  def special_ids(self) -> list[int]:
    """Of the tokens that no text has, by the tokenizer's own account."""
    unknown = getattr(self._backend.model, 'unk_token', None)
    return [number for number, token
            in self._backend.get_added_tokens_decoder().items()
            if token.special and str(token) != unknown]

  def save(self, folder: pathlib.Path) -> None:
    """Writes `tokenizer.json`."""
    folder.mkdir(parents=True, exist_ok=True)
    with places.replacing(folder / _FILE) as partial:
      self._backend.save(str(partial))

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
    template: the special tokens of inputs: those of the tokenizer's own
      template. One without any template gets [CLS] and [SEP], or `<s>` and
      `</s>`.
    vocab_size: one more than the highest id.
  """

  def __init__(self, backend: tokenizers.Tokenizer):
    """Takes over a tokenizer.

    Raises:
      UserError: neither a template nor its vocabulary has such tokens.
    """
    super().__init__(backend)
    if backend.post_processor is None:
      first = self._special(['[CLS]', '<s>'], 'a BERT or RoBERTa model')
      last = self._special(['[SEP]', '</s>'], 'a BERT or RoBERTa model')
      self.template = inputs.Template((first,), (last,), (last,))
    else:
      self.template = self._own_template()

  @functools.cached_property
  def _is_byte_level(self) -> bool:
    values = json.loads(self._backend.to_str())
    own = values['pre_tokenizer'] or {}
    parts = own.get('pretokenizers', [own])
    return any(part.get('type') == 'ByteLevel' for part in parts)

  def _own_template(self) -> inputs.Template:
    """What the post-processor puts around and between texts.

    Pairs that end otherwise than single texts are those of nobody: a template
    for pairs is left as it was by many who write one for texts.
    """
    probe = next((text for text in ('a', '1', *self._backend.get_vocab())
                  if self.encode(text)), 'a')
    start, end = self._around(self._backend.encode(probe), 0, 0)
    pair = self._backend.encode(probe, probe)
    if self._around(pair, 0, 1) != (start, end):
      return inputs.Template(start, end, end)
    numbers = pair.sequence_ids
    middle = [i for i in range(len(numbers)) if numbers[i] is None
              and 0 in numbers[:i] and 1 in numbers[i:]]
    return inputs.Template(start, end, tuple(pair.ids[i] for i in middle))

  def _around(
      self, encoding: tokenizers.Encoding, first: int, last: int
  ) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Ids before the tokens of one text, and after those of another."""
    ids, numbers = encoding.ids, encoding.sequence_ids
    if first not in numbers or last not in numbers:
      return tuple(ids), ()
    begin = numbers.index(first)
    end = len(numbers) - numbers[::-1].index(last)
    return tuple(ids[:begin]), tuple(ids[end:])

  @property
  def separator(self) -> str:
    """Put between title and text, it becomes `template.between`.

    Where that is empty, a space: the two are tokenized as one text.
    """
    tokens = [str(self._backend.id_to_token(number))
              for number in self.template.between]
    # A byte-level tokenizer makes tokens of spaces around it.
    if tokens == ['[SEP]'] and (
        self.encode(_SPACED) == list(self.template.between)
    ):
      return _SPACED
    return ''.join(tokens) or ' '

  def is_apart(self, prefix: str) -> bool:
    """Whether a prefix may be tokenized apart from the text after it.

    It is so where white space splits texts into words and has no tokens.
    Byte-level tokenizers join a space with the word after it.

    Args:
      prefix: put before texts; not empty.
    """
    if self._is_byte_level:
      return False
    return self._splits_after(prefix, '' if prefix[-1].isspace() else ' ')

  def may_join(self, prefix: str) -> bool:
    """Whether a text directly after a prefix gets its ids here.

    Args:
      prefix: not empty. One that is not apart is joined with the text.
    """
    return not self.is_apart(prefix) or self._splits_after(prefix, '')

  def _splits_after(self, prefix: str, between: str) -> bool:
    own = self.encode(prefix)
    return all(
        self.encode(prefix + between + text) == [*own, *self.encode(text)]
        for text in _AFTER_PREFIXES
    )

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
    with places.replacing(folder / 'tokenizer.json') as partial:
      copy.save(str(partial))
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
  """Reads `tokenizer.json`, else the first of `_OTHERS`.

  The others go through transformers, see `load_seq2seq_tokenizer`, and so does
  a `tokenizer.json` that `tokenizer_config.json` overrides.

  Raises:
    UserError: the folder holds none of them, or they are broken, or they are
      not an encoder's.
  """
  path = places.path(folder)
  tokenizer_settings.check(path)
  return Tokenizer(_load(path, _OTHERS))


def load_seq2seq_tokenizer(folder: str) -> Seq2SeqTokenizer:
  """Reads `tokenizer.json`, else `spiece.model` or `vocab.txt`.

  The others go through transformers, which needs the package sentencepiece for
  `spiece.model`.

  Raises:
    UserError: the folder holds none of them, or they are broken, or they are
      neither a T5's nor a BERT's.
  """
  return Seq2SeqTokenizer(
      _load(places.path(folder), ('spiece.model', 'vocab.txt'))
  )


def check_files(folder: pathlib.Path) -> None:
  """Looks whether there are files of a tokenizer; none is read.

  Raises:
    UserError: there are none.
  """
  if not (folder / _FILE).exists():
    _other_files(folder, _OTHERS)


def has_files(folder: pathlib.Path) -> bool:
  """Whether there are files of a tokenizer; none is read."""
  return any((folder / name).exists() for name in (_FILE, *_OTHERS))


def _other_files(folder: pathlib.Path, others: Sequence[str]) -> list[str]:
  """Those that are there; raises UserError if none is."""
  found = [name for name in others if (folder / name).exists()]
  if not found:
    names = ' nor '.join((_FILE, *others))
    raise errors.UserError(
        f"{folder}: holds neither {names}; put the model's tokenizer files "
        'there'
    )
  return found


def _load(path: pathlib.Path, others: Sequence[str]) -> tokenizers.Tokenizer:
  """Reads `tokenizer.json`, or the first of some other files."""
  file = path / _FILE
  if not file.exists():
    return _by_transformers(path, _other_files(path, others)[0])
  try:
    backend = tokenizers.Tokenizer.from_file(os.fspath(file))
  except Exception as e:  # The library raises nothing more special.
    raise errors.UserError(f'{file}: not a tokenizer: {e}') from None
  if tokenizer_settings.are_others(path, backend):
    return _by_transformers(path, _FILE)
  return _check(backend, file)


def _by_transformers(path: pathlib.Path, name: str) -> tokenizers.Tokenizer:
  """What transformers makes of a folder, in which there is such a file."""
  import transformers  # Slow to import, rarely needed.

  try:
    loaded = transformers.AutoTokenizer.from_pretrained(
        str(places.local_folder(path)))
  except Exception as e:  # That of its library too, which is no special one.
    hint = (f'; for {name}, pip install sentencepiece'
            if name.endswith('.model') else '')
    raise errors.UserError(
        f'{path}: transformers makes no tokenizer of {name}: {e}. A '
        f"config.json with the model's model_type must be there too{hint}"
    ) from None
  return _check(loaded.backend_tokenizer, path / name)


def _check(
    backend: tokenizers.Tokenizer, file: pathlib.Path
) -> tokenizers.Tokenizer:
  """The tokenizer of a file; raises UserError if it can't make all inputs."""
  problem = None
  # transformers gives tokens that vocab.txt lacks ids that no model has learnt.
  known = (backend.model if file.name == 'vocab.txt' else backend).token_to_id
  try:
    backend.encode(_PROBE)  # One without a token for unknown words can't.
    backend.no_padding()
    around = backend.encode('')
    lacking = [token for token, number
               in zip(around.tokens, around.ids, strict=True)
               if known(token) != number]
    if lacking:
      problem = f'it has no {" and no ".join(lacking)}'
    elif not backend.get_vocab_size(with_added_tokens=False):
      problem = 'it has no vocabulary'
  except Exception as e:  # The library raises nothing more special.
    problem = str(e)
  if problem:
    raise errors.UserError(f'{file}: not a tokenizer: {problem}; copy or '
                           'download the folder again')
  return backend
