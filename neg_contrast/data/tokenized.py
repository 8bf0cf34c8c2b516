"""A prepared corpus as model input: token ids of any passage or query."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int, Integer

from neg_contrast.data import inputs, sequences, token_store
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.data import tokenizer as tokenizer_lib


@dataclasses.dataclass(frozen=True)
class TokenizedTexts:
  """Input sequences of one role.

  Attributes:
    store: token ids without specials, untruncated.
    tokenizer: gives the special tokens.
    max_length: tokens a sequence is cut to.
    prefix_ids: put after [CLS].
  """

  store: token_store.TokenStore
  tokenizer: tokenizer_lib.Tokenizer
  max_length: int
  prefix_ids: tuple[int, ...]

  def tokens(
      self,
      rows: Integer[np.ndarray, ' rows'],
      cuts: Int[np.ndarray, 'rows 3'] | None = None,
  ) -> sequences.Chained:
    """Token ids of some rows, [CLS] and [SEP] included; views of the store.

    Args:
      rows: `[rows] int`, of the texts.
      cuts: `[rows, 3] int`, which part of each is taken, see `inputs.cut`;
        None: the whole.

    Raises:
      IndexError: there is no such row.
    """
    titles, texts = self.store.titles.take(rows), self.store.texts.take(rows)
    pieces: tuple[sequences.Sequences, ...] = (texts,)
    if cuts is not None:
      titles, pieces = inputs.cut(titles, texts, cuts)
    return inputs.input_sequences(
        titles,
        pieces,
        cls_id=self.tokenizer.cls_id,
        sep_id=self.tokenizer.sep_id,
        max_length=self.max_length,
        prefix_ids=self.prefix_ids,
    )

  def lengths(self) -> Int[np.ndarray, ' rows']:
    """`[rows] int64`, the length of every sequence, without building any."""
    return inputs.sequence_lengths(
        self.store.titles.lengths,
        self.store.texts.lengths,
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
  titles, bodies = zip(*texts, strict=True) if texts else ((), ())
  encode = lambda values: sequences.listed(
      np.array(ids, np.int32) for ids in tokenizer.encode_batch(values)
  )
  return TokenizedTexts(
      token_store.TokenStore(encode(titles), encode(bodies)), tokenizer,
      max_length, tuple(tokenizer.encode(prefix)) if prefix else (),
  )
