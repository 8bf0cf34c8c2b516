"""A prepared corpus as model input: token ids of any passage or query."""

import dataclasses
import functools
import itertools
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from jaxtyping import Int, Integer

from neg_contrast import errors
from neg_contrast.artifacts import folders
from neg_contrast.data import inputs, records, sequences, token_store
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.data import tokenizer as tokenizer_lib


@dataclasses.dataclass(frozen=True)
class TokenizedTexts:
  """Input sequences of one role.

  Attributes:
    store: token ids without specials, untruncated.
    template: the special tokens.
    max_length: tokens a sequence is cut to.
    prefix_ids: put before title and text.
    marker_ids: put before and after a mention; of others, none.
    is_joined: whether the store has the prefix in it, as it can't be tokenized
      apart; then titles and texts can't be cut.
    side_features: of the texts, row by row; None: the model takes none.
  """

  store: token_store.TokenStore
  template: inputs.Template
  max_length: int
  prefix_ids: tuple[int, ...]
  marker_ids: tuple[int, int] | None = None
  is_joined: bool = False
  side_features: sequences.FeatureValues | None = None

  def tokens(
      self,
      rows: Integer[np.ndarray, ' rows'],
      cuts: Int[np.ndarray, 'rows 3'] | None = None,
  ) -> sequences.Chained | sequences.Featured:
    """Token ids of some rows, special ones included; views of the store.

    Features of a text, where the model takes some, are those of its parts too.

    Args:
      rows: `[rows] int`, of the texts.
      cuts: `[rows, 3] int`, which part of each is taken, see `inputs.cut`;
        None: the whole. Mentions are cut by `inputs.mention_pieces` alone.

    Raises:
      IndexError: there is no such row.
      UserError: a part is asked for, and the prefix belongs to the whole.
    """
    titles, texts = self.store.titles.take(rows), self.store.texts.take(rows)
    pieces: tuple[sequences.Sequences, ...] = (texts,)
    if self.store.contexts is not None and self.marker_ids is not None:
      left, right = (side.take(rows) for side in self.store.contexts)
      pieces = inputs.mention_pieces(
          left, texts, right, marker_ids=self.marker_ids,
          room=self.max_length - self.template.around - len(self.prefix_ids),
      )
    elif cuts is not None:
      if self.is_joined and (cuts != inputs.WHOLE).any():
        raise errors.UserError(
            f'{errors.key("model.passage_prefix")}: the tokenizer joins it '
            'with the text after it, and here only parts of texts are taken; '
            'leave it empty'
        )
      titles, pieces = inputs.cut(titles, texts, cuts)
    tokens = inputs.input_sequences(
        titles,
        pieces,
        self.template,
        max_length=self.max_length,
        prefix_ids=self.prefix_ids,
    )
    if self.side_features is None:
      return tokens
    return sequences.Featured(tokens, self.side_features, rows)

  def lengths(self) -> Int[np.ndarray, ' rows']:
    """`[rows] int64`, the length of every sequence, without building any."""
    lengths = self.store.texts.lengths
    if self.store.contexts is not None and self.marker_ids is not None:
      left, right = self.store.contexts
      lengths = left.lengths + 1 + lengths + 1 + right.lengths
    return inputs.sequence_lengths(
        self.store.titles.lengths,
        lengths,
        self.template,
        max_length=self.max_length,
        prefix_length=len(self.prefix_ids),
    )


@dataclasses.dataclass(frozen=True)
class _Joined:
  """What texts are tokenized together with.

  Attributes:
    prefix: before each title, or text without one; empty: it is tokenized
      apart, or there is none.
    space: between title and text, where the template has no token there.
  """

  prefix: str = ''
  space: str = ''

  def __call__(self, title: str, text: str) -> tuple[str, str]:
    """Title and text as the tokenizer is given them.

    A blank title is none, also where a tokenizer makes tokens of spaces.
    """
    if not title.strip():
      return '', self.prefix + text
    title = title.rstrip() if self.space else title
    return self.prefix + title, self.space + text


_APART = _Joined()


def _joined(tokenizer: tokenizer_lib.Tokenizer, prefix: str) -> _Joined:
  return _Joined(
      prefix if prefix and not tokenizer.is_apart(prefix) else '',
      '' if tokenizer.template.between else tokenizer.separator,
  )


def store_of(
    prepared: prepared_lib.Prepared,
    role: str,
    tokenizer: tokenizer_lib.AnyTokenizer,
    joined: _Joined = _APART,
    is_for_part: bool = False,
) -> token_store.TokenStore:
  """Token ids of `passage` or `query` texts, made once and kept beside them.

  Args:
    prepared: the corpus and its queries.
    role: `passage` or `query`.
    tokenizer: the model's.
    joined: what texts are tokenized together with; a store is for one such.
    is_for_part: as `token_store.make_token_store`'s.
  """
  has_contexts = role == 'query' and prepared.has_mentions
  if role == 'passage':
    fingerprint = prepared.manifest['corpus_fingerprint']
    place = prepared.corpus_folder
  else:
    fingerprint = prepared.manifest['queries_fingerprint']
    place = prepared.folder
  name = f'{role}-{tokenizer.sha256[:12]}'
  if joined != _APART:
    own = folders.sha256_json(dataclasses.asdict(joined))
    name, fingerprint = f'{name}-{own[:12]}', f'{fingerprint}-{own}'
  return token_store.make_token_store(
      _Texts(prepared.folder, prepared.corpus_folder, role, joined), tokenizer,
      place / 'tokens' / name, fingerprint, has_contexts,
      is_for_part,
  )


@dataclasses.dataclass(frozen=True)
class _Texts:
  """What a store holds of each record; opens nothing before it is read.

  Attributes:
    folder: of the prepared corpus, or of queries for one.
    corpus_folder: of the passages.
    role: `passage` or `query`.
    joined: what texts are tokenized together with.
  """

  folder: pathlib.Path
  corpus_folder: pathlib.Path
  role: str
  joined: _Joined

  def __len__(self) -> int:
    return len(self._records)

  def __iter__(self) -> Iterator[tuple[str, ...]]:
    return map(self._text_of, self._records)

  def some(self, rows: range) -> Iterator[tuple[str, ...]]:
    """The texts of some rows, in order."""
    return map(self._text_of, self._records.some(rows))

  @functools.cached_property
  def _records(self) -> prepared_lib.Records:
    prepared = prepared_lib.Prepared(
        self.folder,
        None if self.folder == self.corpus_folder else self.corpus_folder,
    )
    return prepared.passages if self.role == 'passage' else prepared.queries

  def _text_of(
      self, record: records.Passage | records.Query
  ) -> tuple[str, ...]:
    if isinstance(record, records.Passage):
      return self.joined(record.title, record.text)
    return *self.joined('', record.text), *(record.context or ())

  def __getstate__(self) -> dict[str, Any]:
    return {key: value for key, value in vars(self).items()
            if key != '_records'}


def tokenize(
    prepared: prepared_lib.Prepared,
    role: str,
    tokenizer: tokenizer_lib.Tokenizer,
    max_length: int,
    prefix: str,
    markers: tuple[str, str] = ('[unused0]', '[unused1]'),
    title_end: str = '',
    is_for_part: bool = False,
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
    is_for_part: as `token_store.make_token_store`'s.

  Raises:
    UserError: the tokenizer lacks the title's end; the prefix leaves no room
      for texts; or the queries are mentions, and it lacks a marker, joins the
      prefix with what follows, or the length leaves no room.
  """
  joined, template = _joined(tokenizer, prefix), tokenizer.template
  prefix_ids = _prefix_ids(tokenizer, prefix, joined, max_length)
  marker_ids = None
  if role == 'query' and prepared.has_mentions:
    marker_ids = _marker_ids(tokenizer, markers)
    if joined.prefix:
      raise errors.UserError(
          f'{errors.key("model.query_prefix")}={prefix!r}: the tokenizer joins '
          'it with the text after it, and the queries are mentions, which are '
          'cut around the mention; leave it empty'
      )
    least = template.around + 3 + len(prefix_ids)
    if max_length < least:
      raise errors.UserError(
          f'{errors.key("model.query_length")}={max_length}: leaves no room '
          f'for a mention between its markers; at least {least} are needed'
      )
  return TokenizedTexts(
      store_of(prepared, role, tokenizer, joined, is_for_part),
      _with_title_end(tokenizer, title_end), max_length, prefix_ids,
      marker_ids, bool(joined.prefix),
  )


def _prefix_ids(
    tokenizer: tokenizer_lib.Tokenizer, prefix: str, joined: _Joined,
    max_length: int,
) -> tuple[int, ...]:
  """Those that are put before tokens of a store.

  Raises:
    UserError: no text would be left beside them.
  """
  is_apart = prefix and not joined.prefix
  ids = tuple(tokenizer.encode(prefix)) if is_apart else ()
  if ids and len(ids) + tokenizer.template.around >= max_length:
    raise errors.UserError(
        f'the prefix {prefix!r:.60} has {len(ids)} tokens, which leaves none '
        f'of {max_length} for a text; make it shorter, or raise the length '
        f'({errors.key("model.query_length")}, passage_length)')
  return ids


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


def _with_title_end(
    tokenizer: tokenizer_lib.Tokenizer, token: str
) -> inputs.Template:
  """The template, with a token of its own between title and text."""
  if not token:
    return tokenizer.template
  found = tokenizer.token_id(token)
  if found is None:
    raise errors.UserError(
        f'{errors.key("model.title_end")}=\'{token}\': the tokenizer has no '
        'such token; name one of its vocabulary, best one that no text holds, '
        'or leave it empty for [SEP]'
    )
  return dataclasses.replace(tokenizer.template, between=(found,))


def tokenize_in_memory(
    texts: Sequence[tuple[str, str]],
    tokenizer: tokenizer_lib.Tokenizer,
    max_length: int,
    prefix: str,
    title_end: str = '',
) -> TokenizedTexts:
  """Tokenizes a few (title, text) pairs; other arguments as `tokenize`.

  Raises:
    UserError: the prefix leaves no room for texts.
    ValueError: one holds half of a surrogate pair, as json can.
  """
  for text in itertools.chain.from_iterable(texts):
    try:
      text.encode()
    except UnicodeEncodeError as e:
      raise ValueError(
          f'{text!a:.60} is no valid Unicode ({e.reason})') from None
  joined = _joined(tokenizer, prefix)
  titles, bodies = (
      zip(*(joined(*pair) for pair in texts), strict=True) if texts
      else ((), ())
  )
  encode = lambda values: sequences.listed(
      np.array(ids, np.int32) for ids in tokenizer.encode_batch(values)
  )
  return TokenizedTexts(
      token_store.TokenStore(encode(titles), encode(bodies)),
      _with_title_end(tokenizer, title_end), max_length,
      _prefix_ids(tokenizer, prefix, joined, max_length),
      is_joined=bool(joined.prefix),
  )
