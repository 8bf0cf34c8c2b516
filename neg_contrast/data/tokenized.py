"""A prepared corpus as model input: token ids of any passage or query."""

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Int, Integer

from neg_contrast import errors
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
    marker_ids: put before and after a mention; of others, none.
    title_end_id: put between title and text; None: [SEP].
  """

  store: token_store.TokenStore
  tokenizer: tokenizer_lib.Tokenizer
  max_length: int
  prefix_ids: tuple[int, ...]
  marker_ids: tuple[int, int] | None = None
  title_end_id: int | None = None

  @property
  def separators(self) -> int:
    """Tokens between title and text."""
    return 1 if self.title_end_id is not None else self.tokenizer.separators

  def tokens(
      self,
      rows: Integer[np.ndarray, ' rows'],
      cuts: Int[np.ndarray, 'rows 3'] | None = None,
  ) -> sequences.Chained:
    """Token ids of some rows, [CLS] and [SEP] included; views of the store.

    Args:
      rows: `[rows] int`, of the texts.
      cuts: `[rows, 3] int`, which part of each is taken, see `inputs.cut`;
        None: the whole. Mentions are cut by `inputs.mention_pieces` alone.

    Raises:
      IndexError: there is no such row.
    """
    titles, texts = self.store.titles.take(rows), self.store.texts.take(rows)
    pieces: tuple[sequences.Sequences, ...] = (texts,)
    if self.store.contexts is not None and self.marker_ids is not None:
      left, right = (side.take(rows) for side in self.store.contexts)
      pieces = inputs.mention_pieces(
          left, texts, right, marker_ids=self.marker_ids,
          room=self.max_length - 2 - len(self.prefix_ids),
      )
    elif cuts is not None:
      titles, pieces = inputs.cut(titles, texts, cuts)
    return inputs.input_sequences(
        titles,
        pieces,
        cls_id=self.tokenizer.cls_id,
        sep_id=self.tokenizer.sep_id,
        max_length=self.max_length,
        prefix_ids=self.prefix_ids,
        title_end_id=self.title_end_id,
        separators=self.separators,
    )

  def lengths(self) -> Int[np.ndarray, ' rows']:
    """`[rows] int64`, the length of every sequence, without building any."""
    lengths = self.store.texts.lengths
    if self.store.contexts is not None and self.marker_ids is not None:
      left, right = self.store.contexts
      lengths = left.lengths + 1 + lengths + 1 + right.lengths
    return inputs.sequence_lengths(
        self.store.titles.lengths,
        lengths,
        max_length=self.max_length,
        prefix_length=len(self.prefix_ids),
        separators=self.separators,
    )


def store_of(
    prepared: prepared_lib.Prepared,
    role: str,
    tokenizer: tokenizer_lib.AnyTokenizer,
) -> token_store.TokenStore:
  """Token ids of `passage` or `query` texts, made once and kept beside them."""
  has_contexts = role == 'query' and prepared.has_mentions
  if role == 'passage':
    fingerprint = prepared.manifest['corpus_fingerprint']
    place = prepared.corpus_folder
  else:
    fingerprint = prepared.manifest['queries_fingerprint']
    place = prepared.folder
  folder = place / 'tokens' / f'{role}-{tokenizer.sha256[:12]}'
  return token_store.make_token_store(
      _texts(prepared, role), tokenizer, folder, fingerprint, has_contexts
  )


def _texts(
    prepared: prepared_lib.Prepared, role: str
) -> Iterator[tuple[str, ...]]:
  """What a store holds of each record; opens nothing before it is read."""
  if role == 'passage':
    for passage in prepared.passages:
      yield _title(passage.title), passage.text
  else:
    for query in prepared.queries:
      yield '', query.text, *(query.context or ())


def _title(title: str) -> str:
  """A blank one is none, also where a tokenizer makes tokens of spaces."""
  return title if title.strip() else ''


def tokenize(
    prepared: prepared_lib.Prepared,
    role: str,
    tokenizer: tokenizer_lib.Tokenizer,
    max_length: int,
    prefix: str,
    markers: tuple[str, str] = ('[unused0]', '[unused1]'),
    title_end: str = '',
) -> TokenizedTexts:
  """Tokenizes `passage` or `query` texts once, beside the prepared corpus.

  Args:
    prepared: the corpus and its queries.
    role: `passage` or `query`.
    tokenizer: the model's.
    max_length: tokens a sequence is cut to when it is used.
    prefix: text put before each when it is used.
    markers: tokens put before and after a mention when it is used.
    title_end: token put between title and text; empty: [SEP].

  Raises:
    UserError: the tokenizer lacks the title's end; or the queries are mentions,
      and it lacks a marker or the length leaves no room.
  """
  prefix_ids = tuple(tokenizer.encode(prefix)) if prefix else ()
  marker_ids = None
  if role == 'query' and prepared.has_mentions:
    marker_ids = _marker_ids(tokenizer, markers)
    least = 5 + len(prefix_ids)
    if max_length < least:
      raise errors.UserError(
          f'{errors.key("model.query_length")}={max_length}: leaves no room '
          f'for a mention between its markers; at least {least} are needed'
      )
  return TokenizedTexts(
      store_of(prepared, role, tokenizer), tokenizer, max_length, prefix_ids,
      marker_ids, _title_end_id(tokenizer, title_end),
  )


def _marker_ids(
    tokenizer: tokenizer_lib.Tokenizer, markers: tuple[str, str]
) -> tuple[int, int]:
  start, end = map(tokenizer.token_id, markers)
  if start is None or end is None:
    key = 'mention_start' if start is None else 'mention_end'
    token = markers[0] if start is None else markers[1]
    raise errors.UserError(
        f'{errors.key(f"model.{key}")}=\'{token}\': the tokenizer has no such '
        'token, and the queries are mentions, whose boundaries are marked. '
        'Name tokens of its vocabulary with model.mention_start and '
        'model.mention_end, best some that no text holds'
    )
  return start, end


def _title_end_id(
    tokenizer: tokenizer_lib.Tokenizer, token: str
) -> int | None:
  if not token:
    return None
  found = tokenizer.token_id(token)
  if found is None:
    raise errors.UserError(
        f'{errors.key("model.title_end")}=\'{token}\': the tokenizer has no '
        'such token; name one of its vocabulary, best one that no text holds, '
        'or leave it empty for [SEP]'
    )
  return found


def tokenize_in_memory(
    texts: Sequence[tuple[str, str]],
    tokenizer: tokenizer_lib.Tokenizer,
    max_length: int,
    prefix: str,
    title_end: str = '',
) -> TokenizedTexts:
  """Tokenizes a few (title, text) pairs; other arguments as `tokenize`."""
  titles, bodies = zip(*texts, strict=True) if texts else ((), ())
  encode = lambda values: sequences.listed(
      np.array(ids, np.int32) for ids in tokenizer.encode_batch(values)
  )
  return TokenizedTexts(
      token_store.TokenStore(encode(list(map(_title, titles))), encode(bodies)),
      tokenizer, max_length, tuple(tokenizer.encode(prefix)) if prefix else (),
      title_end_id=_title_end_id(tokenizer, title_end),
  )
