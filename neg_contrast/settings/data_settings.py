"""Keys of the data: what is read, and how batches are made of it."""

import dataclasses

from neg_contrast.settings import keys, source_list

_IF_SPLIT = keys.jobs('split')
_IF_TOPICS = keys.Where('`together` is topic:N', lambda section: (
    section.together.startswith('topic:')))
_GROUPS = keys.Table('negatives.together', 'GROUPS')


@dataclasses.dataclass(frozen=True)
class DataConfig(keys.Section):
  """What to read and how to batch it.

  Attributes:
    source: `scheme:place`, e.g. `squad:data/squad`, `beir:data/msmarco`, or
      `python_docs`.
    name: of the data set, in `metrics.json` and in names of folders; empty:
      that of its folder or file.
    how_to_get: what to download, from where, how large it is, and into which
      folder; printed when the source is missing.
    prepared_dir: folder of prepared corpora and token stores, kept for reuse.
    on_invalid: what an unusable record does: stop (`error`), or be counted and
      skipped (`skip`).
    answer_words: words of the longest answer that a query keeps; queries
      without so short a one are left out (Natural Questions: 5). 0: all stay.
    train_split: judgements to train on.
    tune_split: judgements for early stopping and tuning; empty: those of
      `tune_fraction` of the documents of the training split.
    tune_fraction: part of the training documents that is set apart for tuning.
    test_split: judgements that are read once, at the end.
    split: judgements that `job=evaluate`, `rerank` and `nce_bias` evaluate on.
    drop_own_passage: whether a query never retrieves the passage with its own
      id, nor has it as a negative; None: in `beir:` sources, as BEIR does
      (ArguAna and Quora need it).
    query_prefix: put before each query of this data set, whatever the model
      says; None: `model.query_prefix`.
    passage_prefix: the same of its passages.
    document: what makes passages one document: `reader` (what the format says)
      or `title` (equal titles that are not empty).
    word_deletion: chance that a word of a training pair is deleted, drawn anew
      by (seed, step, example); 0: none is. One word at least stays.
    word_replacement: chance that it becomes a random word of the vocabulary.
    word_masking: chance that it is masked.
    augmented: which texts of a pair these are for: `query`, `passage` (the
      positive) or `both`. Negatives stay as they are.
    batch_size: examples (query, positive) in a batch, over all devices.
    together: examples that come together, and so are negatives of each other
      for which nothing more is encoded: `document:N`, N of one document;
      `topic:N`, N whose queries are of one cluster (TAS); empty: all are
      shuffled.
    topics: clusters of the training queries, by the vectors of what training
      starts from; 0: one for 200 queries, of at most 2,000.
    groups: groups that a batch is packed into; a multiple of the devices on the
      data axis. Another number gives other dropout masks.
    row_length: tokens of a packed row in training, at least the longest
      sequence; 0: as suits the lengths of the data, see `batches/row_length`.
    expected_query_tokens: mean length of a query that `--compile_only` assumes,
      as it reads no data.
    expected_passage_tokens: mean length of a passage that `--compile_only`
      assumes; 100 words have 140 tokens.
    passage_words: words of the passages that `job=split` makes.
    passage_tokens: tokens of the passages that `job=split` makes, by the
      tokenizer of `checkpoint`; 0: `passage_words` counts.
    passage_judgements: what `job=split` makes of a document that answers a
      question: its passage that is `nearest` to the question by BM25 does, or
      `all` do; `document`: the nearest in `train_split`, and all in the other
      splits, where the best passage of a document counts then
      (`document_ndcg@10` and the like). Known negatives are all negatives.
  """

  section = 'data'

  source: str = keys.key('', counts=False)
  name: str = keys.key('', keys.matching(
      r'(?!\.{1,2}$)[^/\\]*', 'a name, without / and \\'), counts=False)
  how_to_get: str = keys.key('', counts=False)
  prepared_dir: str = keys.key('workdirs/prepared', counts=False)
  on_invalid: str = keys.key(
      'error', keys.one_of('error', 'skip'), counts=False
  )
  answer_words: int = keys.key(0, keys.at_least(0), counts=False)
  train_split: str = keys.key('train')
  tune_split: str = keys.key('')
  tune_fraction: float = keys.key(0.1, keys.between(0, 1))
  test_split: str = keys.key('test', counts=False)
  split: str = keys.key(
      'test', counts=False, read=keys.jobs('evaluate', 'rerank', 'nce_bias')
  )
  drop_own_passage: bool | None = keys.key(None, counts=False)
  query_prefix: str | None = keys.key(
      None, keys.readable(), counts=keys.Changed())
  passage_prefix: str | None = keys.key(
      None, keys.readable(), counts=keys.Changed())
  document: str = keys.key('reader', keys.one_of('reader', 'title'))
  word_deletion: float = keys.key(
      0.0, keys.at_least_below(0, 1), counts=keys.Changed()
  )
  word_replacement: float = keys.key(
      0.0, keys.at_least_below(0, 1), counts=keys.Changed()
  )
  word_masking: float = keys.key(
      0.0, keys.at_least_below(0, 1), counts=keys.Changed()
  )
  augmented: str = keys.key(
      'both', keys.one_of('both', 'query', 'passage'), counts=keys.Changed()
  )
  batch_size: int = keys.key(64, keys.from_to(2, 2**20))
  together: str = keys.key('', keys.matching(
      r'(\w+:[1-9][0-9]*)?', 'NAME:N, such as document:2, or empty'
  ), counts=keys.Changed(), read=keys.jobs('train'))
  topics: int = keys.key(
      0, keys.at_least_or(2, 0), counts=False, read=_IF_TOPICS
  )
  groups: int = keys.key(1, keys.at_least(1))
  row_length: int = keys.key(0, keys.at_least(0))
  expected_query_tokens: int = keys.key(12, keys.at_least(3), counts=False)
  expected_passage_tokens: int = keys.key(140, keys.at_least(3), counts=False)
  passage_words: int = keys.key(
      100, keys.at_least(1), counts=False, read=_IF_SPLIT
  )
  passage_tokens: int = keys.key(
      0, keys.at_least(0), counts=False, read=_IF_SPLIT
  )
  passage_judgements: str = keys.key(
      'nearest', keys.one_of('nearest', 'all', 'document'), counts=False,
      read=_IF_SPLIT,
  )

  def __post_init__(self):
    """Checks ranges and that the keys agree."""
    super().__post_init__()
    if self.word_deletion + self.word_replacement + self.word_masking > 1:
      raise self.error('word_deletion', 'is more than 1 with '
                       f'data.word_replacement={self.word_replacement:g} and '
                       f'data.word_masking={self.word_masking:g}; a word has '
                       'one fate')
    if self.group is not None and self.group.names[0] not in _GROUPS.names:
      raise self.error('together', 'must be NAME:N, with one of '
                       f'{", ".join(_GROUPS.names)}')
    if self.augmented != 'both' and not self.is_augmented:
      raise self.error('augmented', 'is for data.word_deletion, '
                       'word_replacement or word_masking; set one')
    if self.batch_size % self.groups:
      raise self.error('batch_size',
                       f'must be a multiple of data.groups={self.groups}')
    if self.tune_split and self.tune_split == self.test_split:
      raise self.error('tune_split', 'is also data.test_split; tuning must not '
                       'see the test queries. Name another, or leave it empty '
                       'to take a part of the training documents')

  @property
  def group(self) -> source_list.Entry | None:
    """What `together` says; None: nothing."""
    return source_list.parse(self.together) if self.together else None

  def shuffled(self) -> 'DataConfig':
    """The same, with batches of any examples."""
    return dataclasses.replace(self, together='', topics=0)

  @property
  def is_augmented(self) -> bool:
    """Whether words of training pairs are changed."""
    return bool(self.word_deletion or self.word_replacement
                or self.word_masking)
