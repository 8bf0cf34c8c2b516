"""Another library at the same work, in a process of its own.

It is started on a folder that holds the model (`model/`) and `settings.json`.
It says what it is in a line of json when it is ready, does its work once for
every line it gets, and answers each with a line of json.
"""

import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from neg_contrast import errors
from neg_contrast.artifacts import folders
from neg_contrast.benchmarks import material as material_lib
from neg_contrast.models import exporting
from neg_contrast.settings import config as config_lib

FOLDER = 'peer'  # Of a workdir.
LAUNCH = pathlib.Path(__file__).parents[2] / 'launch' / 'benchmarks'
_LOG, _SETTINGS, _VECS = 'log.txt', 'settings.json', 'vecs.npy'
_MODULES = {'sentence-transformers': ('sentence_transformers',),
            'transformers': ('transformers', 'torch')}  # To be imported.
_LONGEST_REASON = 300  # Characters.
_DEVICES = {'cpu': 'cpu', 'gpu': 'cuda'}  # Ours, and what torch calls it.


def missing(library: str) -> str | None:
  """What lacks for a library to be measured beside."""
  if not all(map(importlib.util.find_spec, _MODULES[library])):
    return (f'{errors.key("benchmark.versus")}={library}: is not installed '
            'here; pip install -r tests/requirements.txt')
  if not script(library).is_file():
    return (f'{script(library)}: no such file; run this from a checkout of the '
            'repository, which has it')
  if jax.default_backend() not in _DEVICES:
    return (f'{errors.key("benchmark.versus")}={library}: has no '
            f'{jax.default_backend()}; compare on a CPU or GPU')
  return None


def script(library: str) -> pathlib.Path:
  """What a library is started with."""
  return LAUNCH / f'peer_{library.replace("-", "_")}.py'


class Peer:
  """A library that waits for its turn.

  Attributes:
    versions: what it says it is.
  """

  def __init__(
      self,
      material: material_lib.Material,
      loss: config_lib.LossConfig,
      optim: config_lib.OptimConfig,
      dtype: str,
  ):
    """Hands it model, texts and settings; returns when it is ready.

    Args:
      material: model, texts and batches.
      loss: scale and directions.
      optim: learning rate and weight decay.
      dtype: of matrix products, such as `float32`.

    Raises:
      UserError: it ended.
    """
    self._script = script(material.settings.versus)
    self._folder = material.workdir / FOLDER
    _write(self._folder, material, {
        'dtype': dtype,
        'scale': loss.scale,
        'bidirectional': loss.bidirectional,
        'learning_rate': optim.learning_rate,
        'weight_decay': optim.weight_decay,
    })
    with open(self._folder / _LOG, 'w') as log:
      self._process = subprocess.Popen(
          [sys.executable, self._script, self._folder], stdin=subprocess.PIPE,
          stdout=subprocess.PIPE, stderr=log, text=True,
      )
    self.versions = self._read()['versions']

  def round(self) -> dict[str, Any]:
    """Lets it do its work once.

    Returns:
      `cpu_seconds` of all threads, and of training the `losses`.

    Raises:
      UserError: it ended.
    """
    assert self._process.stdin is not None
    try:
      self._process.stdin.write('\n')
      self._process.stdin.flush()
    except BrokenPipeError:
      raise self._ended() from None
    return self._read()

  @property
  def vecs(self) -> np.ndarray:
    """`[passages, features] float32` that it encoded last."""
    return np.load(self._folder / _VECS)

  def close(self) -> None:
    """Ends the process."""
    self._process.kill()
    self._process.communicate()

  def _read(self) -> dict[str, Any]:
    assert self._process.stdout is not None
    line = self._process.stdout.readline()
    if not line:
      raise self._ended()
    return json.loads(line)

  def _ended(self) -> errors.UserError:
    log, code = self._folder / _LOG, self._process.wait()
    lines = log.read_text(errors='replace').strip().splitlines()
    last = f': {lines[-1][:_LONGEST_REASON]}' if lines else ''
    return errors.UserError(
        f'{self._script.name}: ended with {code}{last}; {log} says why'
    )


def _write(
    folder: pathlib.Path,
    material: material_lib.Material,
    training: Mapping[str, Any],
) -> None:
  """All that the other side needs, so that both do the same."""
  settings, model = material.settings, material.model
  shutil.rmtree(folder, ignore_errors=True)  # An earlier one's.
  (folder / 'model').mkdir(parents=True)
  exporting.write_model(model, folder / 'model', 'For a benchmark.\n')
  queries = _Texts('query', material)
  passages = _Texts('passage', material)
  batches = []
  if settings.task == 'train':
    for step in range(settings.steps):
      asked, positives, negatives = material.batch_rows(step)
      batches.append([queries.places(asked), passages.places(positives),
                      *map(passages.places, negatives.T)])
  else:
    passages.places(material.passage_rows())
  cores = folders.environment()['cpu_count']
  folders.write_json(folder / _SETTINGS, {
      'task': settings.task,
      'device': _DEVICES[jax.default_backend()],
      'threads': min(cores, int(os.environ.get('NPROC', cores))),
      'lengths': {'query': model.text.query_length,
                  'passage': model.text.passage_length},
      'batch_size': material.data.batch_size,
      'mini_batch': settings.mini_batch,
      **training,
      'queries': queries.texts,
      'passages': passages.texts,
      'batches': batches,
  })


class _Texts:
  """Texts of a role, each once, as the other library takes them."""

  def __init__(self, role: str, material: material_lib.Material):
    prepared = material.dataset.prepared
    self._prefix = exporting.prompt(
        material.model.text.prefix(role), material.model.tokenizer
    )
    self._read = {
        'query': lambda row: prepared.queries[row].text,
        'passage': lambda row: exporting.passage_text(
            prepared.passages[row].title, prepared.passages[row].text,
            material.model.tokenizer.separator,
        ),
    }[role]
    self._places: dict[int, int] = {}

  def places(self, rows: np.ndarray) -> list[int]:
    """Where the texts of these rows will stand.

    Raises:
      UserError: a row lacks.
    """
    if (rows < 0).any():
      raise errors.UserError(
          f'{errors.key("negatives.per_query")}: the corpus is too small for '
          'so many hard negatives of every query'
      )
    return [self._places.setdefault(row, len(self._places))
            for row in rows.tolist()]

  @property
  def texts(self) -> list[str]:
    """All that were asked for."""
    return [self._prefix + self._read(row) for row in self._places]
