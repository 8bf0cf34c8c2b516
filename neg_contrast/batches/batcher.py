"""From a step number to a packed batch: a function of (seed, step) alone."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import flax.struct
import grain
import numpy as np
from jaxtyping import Float, Int

from neg_contrast.batches import augmentation, masks, packed, packing, queue
from neg_contrast.batches import row_length as row_length_lib
from neg_contrast.data import examples as examples_lib
from neg_contrast.data import inputs
from neg_contrast.data import sequences as sequences_lib

# Grain walks through 65,536 places for one of few: an epoch of them takes 50 ms
# whatever its size, in which it is made once.
_FEW = 1024


@dataclasses.dataclass(frozen=True)
class Drawn:
  """Hard negatives of a batch.

  Attributes:
    rows: `[batch, N] int32` passage rows; -1: there is none.
    sources: `[batch, N] int32`, number of the source each comes from; -1: none.
    log_proposal: `[batch, N] float32`, logarithm of the chance of each where
      they are drawn independently; None: they are not.
  """

  rows: Int[np.ndarray, 'batch negatives']
  sources: Int[np.ndarray, 'batch negatives']
  log_proposal: Float[np.ndarray, 'batch negatives'] | None = None


# Draws N hard negatives: (step, example numbers, query rows) -> [batch, N].
Draw = Callable[[int, np.ndarray, np.ndarray], Drawn]
# Draws what all queries share: step -> `[C] int32` passage rows.
DrawShared = Callable[[int], np.ndarray]
# A teacher's scores: (query rows, `[batch, K]` passage rows) -> [batch, K].
Teacher = Callable[[np.ndarray, np.ndarray], np.ndarray]
# Rows -> their input sequences, [CLS] and [SEP] included.
Tokens = Callable[[np.ndarray], sequences_lib.AnySequences]
# The same of parts of texts: (rows, `[rows, 3]` cuts, see `inputs.cut`).
CutTokens = Callable[[np.ndarray, np.ndarray], sequences_lib.AnySequences]


@flax.struct.dataclass
class Batch:
  """What a training step takes. B queries, N hard negatives for each.

  Attributes:
    sequences: packed input by tower: `shared`, or `query` and `passage`.
    query_slots: `[B] int32`, index of each query among the `groups * slots`
      outputs of its tower.
    positive_slots: `[B] int32`.
    negative_slots: `[B, N] int32`; 0 where there is no hard negative.
    negative_sources: `[B, N] int32`, number of the source of each; -1: none.
    forward_mask: `[B, B * (1 + N) + C + Q] bool`, see `losses.batch_scores`;
      behind the hard negatives C passages of the corpus that all queries share,
      and Q of the queue.
    backward_mask: `[B, B] bool`.
    log_proposal: `[B, N] float32`, see `Drawn`, or None.
    corpus_slots: `[C] int32`, as `negative_slots`.
    memory: what earlier steps left, see `training.memory`; the step adds it.
    table: a `table_search.Table`, where a step finds passages itself. Batches
      of queries alone have it, and the next two; None: others.
    positive_rows: `[B] int32`, rows of the corpus.
    excluded: `[B, positives] int32`, groups that are not found; -1 pads.
    teacher_scores: `[B, 1 + N] float32`, a teacher's, of the positive and the
      hard negatives of each query; nan: it has none. None: there is no teacher.
    weights: `[B] float32` of the examples, above 0; None: they count alike.
  """

  sequences: dict[str, packed.PackedSequences]
  query_slots: Any
  positive_slots: Any
  negative_slots: Any
  negative_sources: Any
  forward_mask: Any
  backward_mask: Any
  log_proposal: Any = None
  corpus_slots: Any = None
  memory: Any = None
  table: Any = None
  positive_rows: Any = None
  excluded: Any = None
  teacher_scores: Any = None
  weights: Any = None


@dataclasses.dataclass(frozen=True)
class BatchStats:
  """Host-side facts of a batch, for the log.

  Attributes:
    useful_tokens: tokens that are not padding.
    processed_tokens: all tokens the encoder sees.
    values: others, by name; `missing_negatives`: slots for hard negatives that
      stayed empty; `queue_age`: steps since vectors of the queue were made,
      on average.
  """

  useful_tokens: int
  processed_tokens: int
  values: Mapping[str, float] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Batcher:
  """Makes the batch of any step by random access.

  Attributes:
    examples: the training examples.
    batch_size: B.
    negatives: N.
    groups: groups a batch is packed into.
    row_lengths: tokens a row holds, by tower; `{'shared': ...}` or both.
    seed: of the order of the data.
    draw: draws the hard negatives.
    query_tokens: input sequences of query rows.
    passage_tokens: input sequences of passage rows, whole or cut.
    passage_groups: `[passages] int32`, equal for passages of the same text.
    mask_known_positives: whether other known positives, and passages that are
      the query itself, leave the loss.
    parents: `[halves] int32`, the passage that row `passages + h` is half of.
    draw_shared: step -> `[C] int32`, candidates of all queries; -1: none.
    shared: C.
    queue_steps: earlier batches whose positives are candidates too.
    held: length of an axis that is split over devices, groups or queries -> the
      numbers of those that are filled in, ascending; others hold 0 or False.
    teacher: scores the candidates of some queries; None: there is none.
    order: step -> `[batch] int`, its examples; None: as `example_numbers`.
    facts: step -> what the log says of a batch beside `BatchStats`.
    augment: changes queries and positives, see `augmentation.Augmentation`.
    row_multiples: what the rows of a group are filled up to, by tower.
    own_passages: `[queries] int32`, see `masks.Known`.
  """

  examples: examples_lib.Examples
  batch_size: int
  negatives: int
  groups: int
  row_lengths: Mapping[str, int]
  seed: int
  draw: Draw
  query_tokens: Tokens
  passage_tokens: CutTokens
  passage_groups: Int[np.ndarray, ' passages']
  mask_known_positives: bool = True
  parents: Int[np.ndarray, ' halves'] = dataclasses.field(
      default_factory=lambda: np.zeros(0, np.int32)
  )
  draw_shared: DrawShared = lambda step: np.zeros(0, np.int32)
  shared: int = 0
  queue_steps: int = 0
  held: Callable[[int], np.ndarray] = np.arange
  teacher: Teacher | None = None
  order: Callable[[int], np.ndarray] | None = None
  facts: Callable[[int], Mapping[str, float]] = lambda step: {}
  augment: Callable[..., sequences_lib.AnySequences] = augmentation.nothing
  row_multiples: Mapping[str, int] = dataclasses.field(default_factory=dict)
  own_passages: Int[np.ndarray, ' queries'] | None = None

  def example_numbers(self, step: int) -> Int[np.ndarray, ' batch']:
    """The examples of a step."""
    return self._numbers(step)

  @functools.cached_property
  def _numbers(self) -> Callable[[int], np.ndarray]:
    """Step -> examples; knows those of the batches in the queue."""
    order = self.order or functools.partial(
        example_numbers, len(self.examples), self.batch_size, self.seed
    )
    return functools.lru_cache(self.queue_steps + 1)(order)

  def with_fitted_rows(
      self, longest: Mapping[str, int], even_row_length: int, steps: int
  ) -> 'Batcher':
    """The same with rows that suit the data, see `row_length`.

    A function of seed and settings: they are chosen by the first batches, in
    which any passages of the corpus stand for the negatives.

    Args:
      longest: tokens a sequence may have, by tower.
      even_row_length: see `row_length`.
      steps: of the training.
    """
    size = self.batch_size * (2 + self.negatives) + self.shared
    sampled = [lengths_of(self, step)
               for step in row_length_lib.sampled_steps(size)]
    batches = {
        'shared': [np.concatenate(pair) for pair in sampled],
        'query': [queries for queries, _ in sampled],
        'passage': [passages for _, passages in sampled],
    }
    row_lengths, row_multiples = row_length_lib.fit_rows(
        batches, self.groups, longest, even_row_length, steps
    )
    return dataclasses.replace(
        self, row_lengths=row_lengths, row_multiples=row_multiples
    )

  def __call__(self, step: int) -> tuple[Batch, BatchStats]:
    """The batch of a step, as numpy arrays."""
    numbers = self.example_numbers(step)
    query_rows = self.examples.query_rows[numbers]
    positive_rows = self.examples.positive_rows[numbers]
    drawn = self.draw(step, numbers, query_rows)
    negative_rows = drawn.rows.reshape(-1)
    shared_rows = self.draw_shared(step)
    encoded = np.concatenate([negative_rows, shared_rows])
    kept = encoded >= 0
    queries = self._queries(step, numbers)
    passages = self.augment(
        'passage', step, numbers, self._passages(numbers, encoded[kept])
    )
    sequences, layouts, slots = self._pack(queries, passages)
    query_slots, passage_slots = slots
    encoded_slots = np.zeros(len(encoded), np.int32)
    encoded_slots[kept] = passage_slots[len(queries):]
    negative_slots, corpus_slots = np.split(
        encoded_slots, [len(negative_rows)]
    )
    forward_mask, backward_mask = masks.make_masks(
        query_rows, positive_rows, drawn.rows,
        np.concatenate([shared_rows, queue_rows(self, step)]),
        self._known, self.held(len(query_rows)),
    )
    batch = Batch(
        sequences=sequences,
        query_slots=query_slots,
        positive_slots=passage_slots[:len(queries)],
        negative_slots=negative_slots.reshape(drawn.rows.shape),
        negative_sources=drawn.sources,
        forward_mask=forward_mask,
        backward_mask=backward_mask,
        log_proposal=drawn.log_proposal,
        corpus_slots=corpus_slots if self.shared else None,
        teacher_scores=None if self.teacher is None else self.teacher(
            query_rows, np.column_stack([positive_rows, drawn.rows])
        ),
        weights=self.examples.weights_of(numbers),
    )
    values: dict[str, float] = {
        'missing_negatives': int((negative_rows < 0).sum()),
        **self.facts(step),
    }
    if self.queue_steps:
      values['queue_age'] = queue.mean_age(step, self.queue_steps)
    return batch, BatchStats(
        useful_tokens=int(queries.lengths.sum() + passages.lengths.sum()),
        processed_tokens=sum(layout.tokens for layout in layouts),
        values=values,
    )

  @functools.cached_property
  def _known(self) -> masks.Known | None:
    return masks.Known(
        self.examples.positive_groups, self.passage_groups, self.parents,
        self.own_passages,
    ) if self.mask_known_positives else None

  def _queries(self, step, numbers):
    """The queries of examples, as this step reads them."""
    return self.augment('query', step, numbers, self.query_tokens(
        self.examples.query_rows[numbers]
    ))

  def _passages(self, numbers, negative_rows):
    """The positives, as far as they are meant, and the negatives."""
    positive_rows = self.examples.positive_rows[numbers]
    rows = np.concatenate([positive_rows, negative_rows])
    cuts = np.tile(np.array(inputs.WHOLE, np.int32), (len(rows), 1))
    if self.examples.cuts is not None:
      cuts[:len(numbers)] = self.examples.cuts[numbers]
    return self.passage_tokens(rows, cuts)

  def _pack(self, queries, passages):
    batch = len(queries)
    most_passages = batch * (1 + self.negatives) + self.shared
    if 'shared' in self.row_lengths:
      layout, sequences = self._pack_tower(
          'shared', batch + most_passages, queries, passages
      )
      slots = layout.flat_slot[:batch], layout.flat_slot[batch:]
      return {'shared': sequences}, (layout,), slots
    query_layout, packed_queries = self._pack_tower('query', batch, queries)
    layout, packed_passages = self._pack_tower(
        'passage', most_passages, passages
    )
    return (
        {'query': packed_queries, 'passage': packed_passages},
        (query_layout, layout),
        (query_layout.flat_slot, layout.flat_slot),
    )

  def _pack_tower(self, tower, most_sequences, *parts):
    layout = packing.plan(
        np.concatenate([part.lengths for part in parts]),
        self.groups,
        self.row_lengths[tower],
        slots=-(-most_sequences // self.groups),
        multiple=self.row_multiples.get(tower, 1),
    )
    return layout, packing.fill(
        layout, *parts, groups=self.held(self.groups)
    )


def lengths_of(batcher: Batcher, step: int) -> tuple[np.ndarray, np.ndarray]:
  """Of queries and of passages of a step, with any passages as negatives."""
  numbers = batcher.example_numbers(step)
  negatives = _any_passages(
      batcher, batcher.batch_size * batcher.negatives + batcher.shared, step
  )
  rows = batcher.examples.query_rows[numbers]
  return (batcher.query_tokens(rows).lengths,
          batcher._passages(numbers, negatives).lengths)


def with_any_negatives(batcher: Batcher, has_chances: bool) -> Batcher:
  """The same, with any passages of the corpus as negatives of any source.

  For batches before there are negatives, of which the shapes count.

  Args:
    batcher: its `draw` and its teacher are not asked.
    has_chances: whether batches say how likely each negative was drawn.
  """
  def draw(step, numbers, query_rows):
    del query_rows
    shape = len(numbers), batcher.negatives
    rows = _any_passages(batcher, shape[0] * shape[1], step).reshape(shape)
    return Drawn(rows.astype(np.int32), np.zeros(shape, np.int32),
                 np.zeros(shape, np.float32) if has_chances else None)

  teacher = None if batcher.teacher is None else (
      lambda query_rows, rows: np.zeros(rows.shape, np.float32))
  return dataclasses.replace(batcher, draw=draw, teacher=teacher)


def _any_passages(batcher, count, step):
  """Rows of passages, each of the corpus once before any comes again."""
  return example_numbers(
      len(batcher.passage_groups), count, batcher.seed, step)


def queue_rows(batcher: Batcher, step: int) -> Int[np.ndarray, ' queue']:
  """Passages whose vectors the queue holds, place by place; -1: none yet."""
  rows = np.full((batcher.queue_steps, batcher.batch_size), -1, np.int32)
  for place, earlier in enumerate(queue.steps_held(step, batcher.queue_steps)):
    if earlier >= 0:
      numbers = batcher.example_numbers(int(earlier))
      rows[place] = batcher.examples.positive_rows[numbers]
  return rows.reshape(-1)


def example_numbers(
    count: int, batch_size: int, seed: int, step: int
) -> Int[np.ndarray, ' batch']:
  """The examples of a step: every example once an epoch, anew shuffled.

  Args:
    count: how many there are.
    batch_size: of a step.
    seed: of the order.
    step: from 0.
  """
  places = range(step * batch_size, (step + 1) * batch_size)
  if count > _FEW:
    return _shuffled(count, seed, places)
  return np.array([_epoch(count, seed, place // count)[place % count]
                   for place in places], int)


@functools.lru_cache(1024)
def _epoch(count: int, seed: int, epoch: int) -> Int[np.ndarray, ' count']:
  """Those of an epoch, see `_FEW`."""
  return _shuffled(count, seed, range(epoch * count, (epoch + 1) * count))


def _shuffled(
    count: int, seed: int, places: range
) -> Int[np.ndarray, ' places']:
  """The examples at places of all epochs, one after another."""
  order = grain.MapDataset.range(count).seed(seed).shuffle().repeat()
  return np.array([order[place] for place in places], int)
