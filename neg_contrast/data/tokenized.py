"""A prepared corpus as model input: token ids of any passage or query."""

import dataclasses
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int, Integer

from neg_contrast.data import inputs, token_store
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.data import tokenizer as tokenizer_lib


@runtime_checkable
class _Texts(Protocol):
  """Token ids without specials: a `token_store.TokenStore`, or in memory."""

  @property
  def title_lengths(self) -> Int[np.ndarray, ' rows']: ...

  @property
  def text_lengths(self) -> Int[np.ndarray, ' rows']: ...

  def __len__(self) -> int: ...

  def title(self, row: int) -> Integer[np.ndarray, ' tokens']: ...

  def text(self, row: int) -> Integer[np.ndarray, ' tokens']: ...


@dataclasses.dataclass(frozen=True)
class TokenizedTexts:
  """Input sequences of one role.

  Attributes:
    store: token ids without specials, untruncated.
    tokenizer: gives the special tokens.
    max_length: tokens a sequence is cut to.
    prefix_ids: put after [CLS].
  """

  store: _Texts
  tokenizer: tokenizer_lib.Tokenizer
  max_length: int
  prefix_ids: tuple[int, ...]

  def tokens(
      self, row: int, begin: int = 0, end: int | None = None, title: bool = True
  ) -> Int[np.ndarray, ' tokens']:
    """Token ids of a row, [CLS] and [SEP] included.

    Args:
      row: of the text.
      begin: first token of the text that is taken.
      end: token of the text to stop before; None: to its end. Not above
        `begin`: the tokens between them are what is left out.
      title: whether the title is taken.
    """
    text = self.store.text(row)
    if end is not None and end <= begin:
      text = np.concatenate([text[:end], text[begin:]])
    else:
      text = text[begin:end]
    return inputs.sequence_tokens(
        self.store.title(row) if title else self.store.title(row)[:0],
        text,
        cls_id=self.tokenizer.cls_id,
        sep_id=self.tokenizer.sep_id,
        max_length=self.max_length,
        prefix_ids=self.prefix_ids,
    )

  def lengths(self) -> Int[np.ndarray, ' rows']:
    """`[rows] int64`, the length of every sequence, without building any."""
    return inputs.sequence_lengths(
        self.store.title_lengths,
        self.store.text_lengths,
        max_length=self.max_length,
        prefix_length=len(self.prefix_ids),
    )


def store_of(
    prepared: prepared_lib.Prepared,
    role: str,
    tokenizer: tokenizer_lib.AnyTokenizer,
) -> token_store.TokenStore:
  """Token ids of `passage` or `query` texts, made once and kept beside them."""
  if role == 'passage':
    texts = ((p.title, p.text) for p in prepared.passages)
    fingerprint = prepared.manifest['corpus_fingerprint']
    place = prepared.corpus_folder
  else:
    texts = (('', q.text) for q in prepared.queries)
    fingerprint = prepared.manifest['queries_fingerprint']
    place = prepared.folder
  folder = place / 'tokens' / f'{role}-{tokenizer.sha256[:12]}'
  return token_store.make_token_store(texts, tokenizer, folder, fingerprint)


def tokenize(
    prepared: prepared_lib.Prepared,
    role: str,
    tokenizer: tokenizer_lib.Tokenizer,
    max_length: int,
    prefix: str,
) -> TokenizedTexts:
  """Tokenizes `passage` or `query` texts once, beside the prepared corpus.

  Args:
    prepared: the corpus and its queries.
    role: `passage` or `query`.
    tokenizer: the model's.
    max_length: tokens a sequence is cut to when it is used.
    prefix: text put before each when it is used.
  """
  prefix_ids = tuple(tokenizer.encode(prefix)) if prefix else ()
  return TokenizedTexts(
      store_of(prepared, role, tokenizer), tokenizer, max_length, prefix_ids
  )


def tokenize_in_memory(
    texts: Sequence[tuple[str, str]],
    tokenizer: tokenizer_lib.Tokenizer,
    max_length: int,
    prefix: str,
) -> TokenizedTexts:
  """Tokenizes a few (title, text) pairs; other arguments as `tokenize`."""
  return TokenizedTexts(
      _InMemory(texts, tokenizer), tokenizer, max_length,
      tuple(tokenizer.encode(prefix)) if prefix else (),
  )


class _InMemory:
  """A token store of a few texts."""

  def __init__(self, texts, tokenizer):
    titles, bodies = zip(*texts, strict=True) if texts else ((), ())
    encode = lambda values: [np.array(ids, np.int32)
                             for ids in tokenizer.encode_batch(values)]
    self._titles, self._bodies = encode(titles), encode(bodies)

  def __len__(self):
    return len(self._bodies)

  @property
  def title_lengths(self):
    return np.array([len(ids) for ids in self._titles], np.int64)

  @property
  def text_lengths(self):
    return np.array([len(ids) for ids in self._bodies], np.int64)

  def title(self, row):
    return self._titles[row]

  def text(self, row):
    return self._bodies[row]
