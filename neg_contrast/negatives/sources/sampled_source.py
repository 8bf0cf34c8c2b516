"""`sampled`: drawn from the corpus by the model as it is, again each epoch.

Zhang and Stratos, "Understanding Hard Negatives in Noise Contrastive
Estimation", section 6.3: when an epoch begins, the corpus is encoded (unless
all are random), and every example gets K - 1 negatives for the epoch (see
`negatives.sampling`). They are kept in the workdir, so that a run that was
stopped goes on with the same.
"""

import functools
import pathlib
import time
from typing import Any

import numpy as np
from absl import logging

from neg_contrast import errors, hosts, progress, scoring, sharding
from neg_contrast.artifacts import arrays, folders
from neg_contrast.batches import batcher
from neg_contrast.negatives import hubness, sampled, sampling
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.negatives import refresh as refresh_lib
from neg_contrast.negatives.sources import source
from neg_contrast.retrieval import embedder as embedder_lib
from neg_contrast.retrieval import mesh_search, vector_table
from neg_contrast.settings import config as config_lib

FOLDER = 'sampled'  # Of a workdir.
FORMAT = folders.Format('sampled negatives', 3)
_BLOCK_ROWS, _MOST_ROWS = 4096, 16_384


class Sampled(source.Source):
  """Draws negatives, epoch by epoch, and gives those of any step."""

  def __init__(self, material: source.Material):
    """Draws nothing yet."""
    super().__init__(material)
    settings, pairs = material.settings, material.pairs
    self._folder = material.workdir / FOLDER
    self._sampling = sampling.mixed(
        material.count, settings.hard_percent, settings.greedy
    )
    self.refresh_steps = max(1, round(
        len(pairs) * settings.refresh_epochs / material.batch_size
    ))

  @staticmethod
  def names(
      settings: config_lib.NegativesConfig, pool: pool_lib.Pool | None
  ) -> tuple[str, ...]:
    """Two."""
    del settings, pool
    return ('hard', 'random')

  @staticmethod
  def knows_chances(settings: config_lib.NegativesConfig) -> bool:
    """Where all are drawn in proportion to exp(score)."""
    return settings.hard_percent == 100 and not settings.greedy

  def refresh(self, params: Any, step: int) -> dict[str, Any] | None:
    """Draws for the steps that come, unless they are drawn already.

    Args:
      params: of the model, as it is before this step.
      step: where an epoch begins.
    """
    folder = self._folder_of(step)
    if hosts.on_first(lambda: self._manifest(step) is not None):
      return self._facts(step)
    began, embedder = time.monotonic(), None
    if self._sampling.hard:
      embedder = self._material.embed(
          sharding.local(params['encoder']), self._material.among
      )
    scale = self._material.loss.scale
    if 'log_scale' in params['loss']:
      scale = float(np.exp(sharding.local(params['loss']['log_scale'])))
    drawn = self._draw_all(embedder, scale, step)

    def write():
      hard = drawn['rows'][:, :self._sampling.hard]
      manifest = {
          'step': step, 'scale': scale, 'run': self._material.run,
          refresh_lib.FACTS: None if embedder is None else {
              'passages': embedder.passages,
              'seconds': {'drawing': round(time.monotonic() - began, 3)},
              'hubness': hubness.of_draws(hard),
          },
      }
      with folders.writing(folder, manifest, format=FORMAT) as scratch:
        for name, values in drawn.items():
          np.save(scratch / f'{name}.npy', values)

    hosts.on_first(write)
    return self._facts(step)

  def draw(
      self, step: int, numbers: np.ndarray, query_rows: np.ndarray
  ) -> batcher.Drawn:
    """The negatives of some examples; see `batcher.Draw`.

    Raises:
      UserError: those of the epoch are not there.
    """
    del query_rows
    made = self._read(step // self.refresh_steps)
    rows = made['rows'][numbers]
    sources = np.zeros(rows.shape, np.int32)
    sources[:, self._sampling.hard:] = 1
    return batcher.Drawn(
        rows, np.where(rows >= 0, sources, np.int32(-1)),
        made['log_proposal'][numbers] if 'log_proposal' in made else None,
    )

  def _facts(self, step: int) -> dict[str, Any] | None:
    manifest = self._manifest(step)
    assert manifest is not None
    return manifest.get(refresh_lib.FACTS)  # None, where all are random.

  def _manifest(self, step: int) -> dict[str, Any] | None:
    """Of this training's draws; None: there are none, or of another one."""
    made = folders.read_manifest(self._folder_of(step), FORMAT)
    is_own = made is not None and made['run'] == self._material.run
    return made if is_own else None

  def _folder_of(self, step: int) -> pathlib.Path:
    return self._folder / f'{step // self.refresh_steps:05d}'

  @functools.lru_cache(maxsize=2)  # noqa: B019 - lives as long as a run.
  def _read(self, epoch: int) -> dict[str, np.ndarray]:
    step = epoch * self.refresh_steps
    folder = self._folder_of(step)
    if self._manifest(step) is None:
      raise errors.UserError(
          f'{folder}: the negatives that this epoch began with are not there, '
          'and the model that drew them is gone; put them back, or train in '
          f'another {errors.flag("workdir")}'
      )
    shape = len(self._material.pairs), None
    made = {name.removesuffix('.npy'): arrays.load_array(folder / name, shape)
            for name in sorted(folders.file_names(folder))}
    pool_lib.check_range(
        folder / 'rows.npy', made['rows'], -1,
        len(self._material.dataset.prepared.passages) - 1,
    )
    return made

  def _draw_all(
      self, embedder: embedder_lib.Embedder | None, scale: float, step: int
  ) -> dict[str, np.ndarray]:
    """Arrays `[examples, K - 1]`; processes divide the corpus.

    Args:
      embedder: the model as it is; None: all are random, whatever it says.
      scale: of its scores.
      step: where an epoch begins.
    """
    pairs, prepared = self._material.pairs, self._material.dataset.prepared
    count, among = len(pairs), self._material.among
    if among is None:
      among = np.arange(len(prepared.passages), dtype=np.int32)
    block_rows = _BLOCK_ROWS
    if embedder is None:
      query_vecs, score = np.zeros((count, 1), np.float32), scoring.DUAL
      vecs: vector_table.Rows = np.broadcast_to(np.float32(0), (len(among), 1))
    else:
      query_rows, places = np.unique(pairs.query_rows, return_inverse=True)
      query_vecs = embedder.query_vecs(query_rows)[places]
      vecs, score = embedder.passing_vecs, embedder.encoder.score
      each = embedder.block_rows  # Of encoding; whole ones, if they are small.
      block_rows = max(block_rows // each * each, min(each, _MOST_ROWS))
    drawn = sampled.draw(
        mesh_search.MeshSearch(
            vecs, np.arange(len(among), dtype=np.int32), self._material.mesh,
            block_rows, score,
        ),
        among, prepared.passage_groups[among], self._sampling,
        sampling.draw_key(self._material.seed, step // self.refresh_steps),
        query_vecs, self.excluded(pairs.query_rows), scale,
        self._material.loss.adjusted,
        progress.Ticker(f'drawing negatives after step {step}', len(among)),
    )
    width = self._sampling.count
    few = int((drawn['rows'] < 0).any(axis=1).sum())
    if few:
      logging.warning('%d of %d examples have fewer than %d negatives in the '
                      'corpus; their empty slots are masked', few, count, width)
    return drawn
