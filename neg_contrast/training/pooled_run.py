"""A training with hard negatives, which may come from a pool."""

import functools
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
from absl import logging

from neg_contrast import errors, sharding
from neg_contrast.artifacts import folders
from neg_contrast.batches import augmentation, batcher, word_table
from neg_contrast.data import examples
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.negatives import refresh, sources, together
from neg_contrast.retrieval import embedder as embedder_lib
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.settings import source_list
from neg_contrast.training import run


class PooledTraining(run.Training):
  """What trainings of encoders and of rerankers share."""

  _source: sources.Source | None = None  # Known when there are batches.

  @functools.cached_property
  def _pool(self) -> pool_lib.Pool | None:
    given = self._given.pool
    return None if given is None else given.load()

  @property
  def _sources(self) -> tuple[str, ...]:
    """Names of the sources of hard negatives, by number."""
    return sources.names_of(self._config.negatives, self._pool)

  def _teacher(self) -> batcher.Teacher | None:
    """Scores candidates where the loss distils; None: it does not.

    Raises:
      UserError: nobody has judged the pool.
    """
    if not self._config.loss.distil:
      return None
    if self._pool is None or self._pool.verdicts is None:
      raise errors.UserError(
          f'{errors.key("loss.distil")}={self._config.loss.distil!r}: nobody '
          f'has judged {self._config.negatives.pool or "the pool"}; name one '
          f'that job=judge made, or set {errors.key("negatives.judge")}'
      )
    return self._pool.teacher_scores

  def _examples(self, cuts: np.ndarray | None = None) -> examples.Examples:
    """What is trained on, with what the pool's judge made positives.

    Args:
      cuts: `examples.Examples.cuts` of all judgements.
    """
    dataset = self._dataset
    return self._relabelled(examples.make_examples(
        dataset.prepared, dataset.train_and_tune[0], cuts,
        self._config.loss.example_weights,
    ))

  @property
  def _augment(self) -> Callable[..., Any]:
    """Changes the words of pairs, if the config says so."""
    return word_table.augmentation_of(
        self._config.data, self._config.seed, self.model
    ) or augmentation.nothing

  def _relabelled(self, pairs: examples.Examples) -> examples.Examples:
    """Examples, with those that the pool's judge made positives."""
    pool = self._pool
    added = None if pool is None else pool.relabelled()
    if added is None or not len(added):
      return pairs
    more = pairs.relabelled(added, self._dataset.prepared.passage_groups)
    logging.info('a judge added %d positives to %d', len(more) - len(pairs),
                 len(pairs))
    return more

  def _source_for(self, pairs: examples.Examples) -> sources.Source:
    """What draws hard negatives of the training's examples."""
    config = self._config
    return sources.make(sources.Material(
        config.negatives, config.loss, config.seed, config.data.batch_size,
        self._dataset, pairs, self._pool,
        self._made,
        sharding.make_common_mesh(config.mesh), self._embed, self.workdir,
        self.remake, self.code,
    ))

  def _order(
      self, pairs: examples.Examples
  ) -> Callable[[int], np.ndarray] | None:
    """Step -> the examples of a batch; None: all are shuffled."""
    return together.order_of(
        self._config.data, self._dataset, pairs, self._made, self._config.seed
    )

  @functools.cached_property
  def _made(self) -> dict[str, Any]:
    """What batches are drawn from beside data and pool, by role."""
    return {role: need.load() for role, need in self._given.drawn_from.items()}

  @property
  def code(self) -> str:
    """Of its identity, for what it makes beside its checkpoints."""
    return folders.sha256_json(self._identity)[:12]

  @property
  def _refresh_steps(self):
    return 0 if self._source is None else self._source.refresh_steps

  def _refresh(self, params, step):
    return (None if self._source is None
            else self._source.refresh(params, step))

  def remake(self, params: Any, moment: refresh.Moment) -> None:
    """Makes the pool again by the model as it is.

    Args:
      params: of the training; of these `encoder` counts.
      moment: when they are these.
    """
    pool = self._given.pool
    assert isinstance(pool, refresh.Remakes)  # The checks saw to that.
    pool.remake(moment, functools.partial(self._retriever, params, moment))

  def _retriever(
      self, params: Any, moment: refresh.Moment, folder: pathlib.Path,
      rows: np.ndarray | None,
  ) -> retriever_lib.Retriever:
    """Searches with the model as it is; for dual encoders alone.

    Args:
      params: of the training.
      moment: when the parameters are these.
      folder: keeps the vectors.
      rows: `[n] int32` passages to search; None: all.
    """
    raise NotImplementedError

  def _embed(
      self, params: Any, rows: np.ndarray | None
  ) -> embedder_lib.Embedder:
    """Encodes passages with the model as it is; for dual encoders alone."""
    raise NotImplementedError

  def _warn_of_small_pools(self, query_rows: np.ndarray) -> None:
    """Says when queries have fewer than N negatives to draw from.

    What is drawn without a pool is not counted: the log says at every step how
    many slots stayed empty.

    Raises:
      UserError: none has any.
    """
    negatives, pool = self._config.negatives, self._pool
    if pool is None or negatives.drawn:
      return
    count = sum(entry.count for entry in negatives.listed)
    lines = pool.lines_of(np.unique(query_rows))
    named = {name for entry in negatives.listed for name in entry.names}
    is_named = np.array([source_list.POOL in named or name in named
                         for name in pool.sources])
    sizes = np.concatenate([
        np.where(some >= 0, (
            pool.is_negative(some) & is_named[pool.source[some]]
        ).sum(axis=1), 0)
        for some in np.array_split(lines, -(-len(lines) // 4096))
    ])
    if not sizes.any():
      raise errors.UserError(
          'the pool holds no hard negative of the sources that are named for '
          'any query of the training split; loosen the filters of '
          f'{errors.key("negatives")}, or choose other sources'
      )
    few = int((sizes < count).sum())
    if few:
      logging.warning('%d of %d queries have fewer than %d hard negatives; '
                      'their empty slots are masked', few, len(lines), count)
