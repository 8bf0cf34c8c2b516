"""Negatives drawn from the whole corpus by the model as it is, anew each epoch.

Zhang and Stratos, "Understanding Hard Negatives in Noise Contrastive
Estimation", section 6.3: when an epoch begins, the corpus is encoded (unless
all are random), and every example gets K - 1 negatives for the epoch (see
`negatives.sampling`). They are kept in the workdir, so that a run that was
stopped goes on with the same.
"""

import functools
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import logging
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float, Int, Key

from neg_contrast import errors, hosts, progress, scoring, sharding
from neg_contrast.artifacts import arrays, folders
from neg_contrast.batches import batcher
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import examples
from neg_contrast.models import loading
from neg_contrast.negatives import sampling
from neg_contrast.retrieval import embedder as embedder_lib
from neg_contrast.retrieval import encoding, text_encoder, vector_table
from neg_contrast.settings import config as config_lib

FOLDER = 'sampled'  # Of a workdir.
SOURCES = ('hard', 'random')
EXAMPLES_AT_ONCE = 256
_BLOCK_BYTES = 2**26  # Of vectors, on a device.
_KEPT_BLOCKS = 4  # So many stay on the devices.


class SampledNegatives:
  """Draws negatives, epoch by epoch, and gives those of any step."""

  def __init__(
      self,
      config: config_lib.Config,
      dataset: dataset_lib.Dataset,
      pairs: examples.Examples,
      model: loading.Model,
      workdir: pathlib.Path,
  ):
    """Draws nothing yet.

    Args:
      config: of the run.
      dataset: that is trained on.
      pairs: the training examples.
      model: what is trained.
      workdir: keeps what is drawn.
    """
    self._config, self._dataset, self._pairs = config, dataset, pairs
    self._model, self._folder = model, workdir / FOLDER
    self._mesh = sharding.make_local_mesh(config.mesh)
    self._among = dataset.prepared.rows_of_worlds(pairs.query_rows)
    negatives = config.negatives
    self._sampling = sampling.mixed(
        negatives.per_query, negatives.hard_percent, negatives.greedy
    )
    self.steps = max(1, round(
        len(pairs) * negatives.refresh_epochs / config.data.batch_size
    ))

  @functools.cached_property
  def _encoder(self):
    config = self._config
    return text_encoder.TextEncoder(self._model, encoding.EncodingSettings(
        config.model, config.index, config.mesh, config.data.row_length
    ))

  def refresh(self, params: Any, step: int) -> None:
    """Draws for the steps that come, unless they are drawn already.

    Args:
      params: of the model, as it is before this step.
      step: where an epoch begins.
    """
    folder = self._folder_of(step)
    if hosts.on_first(lambda: folders.read_manifest(folder) is not None):
      return
    embedder = None
    if self._sampling.hard:
      embedder = embedder_lib.Embedder(
          self._dataset,
          self._encoder.with_params(sharding.local(params['encoder'])),
          rows=self._among,
      )
    scale = self._config.loss.scale
    if 'log_scale' in params['loss']:
      scale = float(np.exp(sharding.local(params['loss']['log_scale'])))
    drawn = self._draw_all(embedder, scale, step)

    def write():
      with folders.writing(folder, {'step': step, 'scale': scale}) as scratch:
        for name, values in drawn.items():
          np.save(scratch / f'{name}.npy', values)

    hosts.on_first(write)

  def draw(
      self, step: int, numbers: np.ndarray, query_rows: np.ndarray
  ) -> batcher.Drawn:
    """The negatives of some examples; as of `batches.Draw`.

    Raises:
      UserError: those of the epoch are not there.
    """
    del query_rows
    made = self._read(step // self.steps)
    rows = made['rows'][numbers]
    sources = np.zeros(rows.shape, np.int32)
    sources[:, self._sampling.hard:] = 1
    return batcher.Drawn(
        rows, np.where(rows >= 0, sources, np.int32(-1)),
        made['log_proposal'][numbers] if 'log_proposal' in made else None,
    )

  def _folder_of(self, step: int) -> pathlib.Path:
    return self._folder / f'{step // self.steps:05d}'

  @functools.lru_cache(maxsize=2)  # noqa: B019 - lives as long as a run.
  def _read(self, epoch: int) -> dict[str, np.ndarray]:
    folder = self._folder_of(epoch * self.steps)
    if folders.read_manifest(folder) is None:
      raise errors.UserError(
          f'{folder}: the negatives that this epoch began with are not there, '
          'and the model that drew them is gone; put them back, or train in '
          'another --workdir'
      )
    return {path.stem: arrays.load_array(path, (len(self._pairs), None))
            for path in folder.glob('*.npy')}

  def _draw_all(
      self, embedder: embedder_lib.Embedder | None, scale: float, step: int
  ) -> dict[str, np.ndarray]:
    """Arrays `[examples, K - 1]`; processes divide the examples.

    Args:
      embedder: the model as it is; None: all are random, whatever it says.
      scale: of its scores.
      step: where an epoch begins.
    """
    count = len(self._pairs)
    prepared = self._dataset.prepared
    among = (np.arange(len(prepared.passages), dtype=np.int32)
             if self._among is None else self._among)
    score = scoring.DUAL
    query_vecs: np.ndarray = np.zeros((count, 1), np.float32)
    passage_vecs: vector_table.Rows = np.zeros((len(among), 1), np.float32)
    if embedder is not None:
      query_rows, places = np.unique(
          self._pairs.query_rows, return_inverse=True
      )
      score = embedder.encoder.score
      query_vecs = embedder.query_vecs(query_rows)[places]
      passage_vecs = embedder.passage_vecs
    draw = Drawer(
        self._sampling, self._config.loss.adjusted, score, scale,
        Blocks(passage_vecs, among, prepared.passage_groups[among], self._mesh),
    )
    key = sampling.draw_key(self._config.seed, step // self.steps)
    blocks = -(-count // EXAMPLES_AT_ONCE)
    say = progress.Ticker(f'drawing negatives after step {step}', count)
    made: list[dict[str, np.ndarray]] = []
    for block in hosts.share_of(blocks):
      lines = np.arange(block * EXAMPLES_AT_ONCE,
                        min(count, (block + 1) * EXAMPLES_AT_ONCE))
      made.append(draw(
          key, lines, query_vecs[lines],
          self._pairs.positive_groups[self._pairs.query_rows[lines]],
      ))
      say(int(lines[-1]) + 1)
    names = ['rows'] + ['log_proposal'] * self._config.loss.adjusted
    width = self._config.negatives.per_query
    empty = {'rows': np.zeros((0, width), np.int32),
             'log_proposal': np.zeros((0, width), np.float32)}
    drawn = {
        name: hosts.gather(np.concatenate(
            [empty[name], *(part[name] for part in made)]
        )) for name in names
    }
    few = int((drawn['rows'] < 0).any(axis=1).sum())
    if few:
      logging.warning('%d of %d examples have fewer than %d negatives in the '
                      'corpus; their empty slots are masked', few, count, width)
    return drawn


class Blocks:
  """The corpus, some passages at a time, each device its own."""

  def __init__(
      self,
      vecs: vector_table.Rows,
      among: Int[np.ndarray, ' passages'],
      groups: Int[np.ndarray, ' passages'],
      mesh: Mesh,
  ):
    """Reads nothing yet.

    Args:
      vecs: `[passages, features] float32`.
      among: `[passages] int32`, their rows in the corpus.
      groups: `[passages] int32`, equal for equal texts.
      mesh: devices share the passages along `data`.
    """
    self._vecs, self._among, self._groups = vecs, among, groups
    self._devices = mesh.shape['data']
    self._rows = max(1, min(
        -(-len(vecs) // self._devices), _BLOCK_BYTES // (4 * vecs.shape[1])
    ))
    self._split = NamedSharding(mesh, PartitionSpec('data'))

  def __len__(self) -> int:
    return -(-len(self._vecs) // (self._devices * self._rows))

  def __iter__(self):
    """(vectors, rows, groups), `[devices, block, ...]`; row -1 pads."""
    stride = self._devices * self._rows
    for start in range(0, len(self._vecs), stride):
      part = np.asarray(self._vecs[start : start + stride], np.float32)
      vecs = np.zeros((stride, part.shape[1]), np.float32)
      rows = np.full(stride, -1, np.int32)
      groups = np.full(stride, -1, np.int32)
      vecs[: len(part)] = part
      rows[: len(part)] = self._among[start : start + stride]
      groups[: len(part)] = self._groups[start : start + stride]
      shape = self._devices, self._rows
      yield jax.device_put(
          (vecs.reshape(*shape, -1), rows.reshape(shape),
           groups.reshape(shape)), self._split,
      )


class Drawer:
  """Draws the negatives of a block of examples."""

  def __init__(
      self,
      how: sampling.Sampling,
      is_iid: bool,
      score: scoring.ScoreFunction,
      scale: float,
      blocks: Blocks,
  ):
    """Puts a small corpus on the devices.

    Args:
      how: many of which kind.
      is_iid: draw with replacement instead, and tell the chance.
      score: of a query and a passage.
      scale: of scores.
      blocks: the corpus.
    """
    self._how, self._is_iid, self._blocks = how, is_iid, blocks
    self._score, self._scale = score, scale
    self._kept = list(blocks) if len(blocks) <= _KEPT_BLOCKS else None
    self._run = jax.jit(self._run_block)

  def __call__(
      self,
      key: Key[Array, ''],
      ids: Int[np.ndarray, ' examples'],
      query_vecs: Float[np.ndarray, 'examples query_features'],
      positive_groups: Int[np.ndarray, 'examples positives'],
  ) -> dict[str, np.ndarray]:
    """Draws for at most `EXAMPLES_AT_ONCE` examples.

    Args:
      key: of the epoch, see `sampling.draw_key`.
      ids: `[examples] int32`, numbers of the examples.
      query_vecs: `[examples, query_features] float32`.
      positive_groups: `[examples, positives] int32`, groups that are excluded;
        -1: none.

    Returns:
      `rows`, `[examples, K - 1] int32`, -1 where there is no passage left; with
      replacement also `log_proposal`, `[examples, K - 1] float32`.
    """
    count = len(ids)
    missing = EXAMPLES_AT_ONCE - count  # One shape for all.
    pad = lambda a, value: np.pad(
        a, [(0, missing)] + [(0, 0)] * (a.ndim - 1), constant_values=value
    )
    ids, query_vecs = pad(ids.astype(np.int32), 0), pad(query_vecs, 0)
    width = max(1, 1 << (positive_groups.shape[1] - 1).bit_length())
    positive_groups = np.pad(
        pad(positive_groups, -1),
        ((0, 0), (0, width - positive_groups.shape[1])), constant_values=-1,
    )
    race: sampling.IidRace | sampling.Race = (
        sampling.start_iid(len(ids), self._how.count) if self._is_iid
        else sampling.start_race(len(ids), self._how)
    )
    for block in self._kept or self._blocks:
      race = self._run(race, key, ids, query_vecs, positive_groups, *block)
    if isinstance(race, sampling.IidRace):
      made = {'rows': race.kept.rows, 'log_proposal': race.log_proposal}
    else:
      made = {'rows': sampling.finish_race(race, self._how).rows}
    return {name: np.asarray(values)[:count] for name, values in made.items()}

  def _run_block(
      self,
      race: Any,
      key: Array,
      ids: Int[Array, ' examples'],
      query_vecs: Float[Array, 'examples query_features'],
      positive_groups: Int[Array, 'examples positives'],
      vecs: Float[Array, 'devices block features'],
      rows: Int[Array, 'devices block'],
      groups: Int[Array, 'devices block'],
  ) -> Any:
    """Lets a block take part in the race, each device with its passages."""

    def of_device(vecs, rows, groups):
      scores = self._scale * self._score(query_vecs, vecs)
      usable = (rows >= 0)[None] & ~jnp.any(
          groups[None, :, None] == positive_groups[:, None, :], axis=2
      )
      where = key, ids, rows, scores, usable
      if self._is_iid:
        return sampling.run_iid(
            sampling.start_iid(len(ids), self._how.count), *where
        )
      return sampling.run_race(
          sampling.start_race(len(ids), self._how), *where, self._how
      )

    races = jax.vmap(of_device)(vecs, rows, groups)
    join = sampling.join_iid if self._is_iid else sampling.join_races
    for device in range(len(rows)):
      race = join(race, jax.tree.map(lambda a, at=device: a[at], races))
    return race

