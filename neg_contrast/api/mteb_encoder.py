"""Any checkpoint in mteb, the benchmark of embeddings, and its tasks by name.

    import mteb
    mteb.evaluate(api.MtebEncoder('workdirs/own'), mteb.get_tasks(['SciFact']))

    api.evaluate_mteb('workdirs/own', 'NanoBEIR')
"""

import os
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from neg_contrast import errors
from neg_contrast.api import opening, results
from neg_contrast.artifacts import folders
from neg_contrast.retrieval import text_encoder

_MAIN = 'main_score'
# What vectors depend on beside the model.
_MORE = ('model__dtype', 'data__query_prefix', 'data__passage_prefix')


class MtebEncoder:
  """What mteb calls an encoder (`mteb.models.EncoderProtocol`).

  Queries and passages of a task get the model's own prompts and lengths, and
  titles their own place. Texts of tasks without the two roles, such as STS, are
  read as passages; mteb's prompts are not used.

  Attributes:
    encoder: that computes.
  """

  def __init__(
      self,
      model_name: opening.Checkpoint,
      revision: str | None = None,
      *,
      device: str | None = None,
      **settings: Any,
  ):
    """Loads a checkpoint.

    Args:
      model_name: as for `load_encoder`.
      revision: by which mteb tells results apart; None: of the weights, and
        of settings that change vectors.
      device: ignored, for mteb's sake; all devices compute.
      **settings: config keys, as for `load_encoder`.

    Raises:
      UserError: there is no such model, or a setting is wrong.
    """
    del device
    self.encoder: text_encoder.TextEncoder = opening.load_encoder(
        model_name, **settings
    )
    self._name = _name(model_name)
    model = self.encoder.model.fingerprint
    others = {key: settings[key] for key in _MORE if key in settings}
    self._revision = revision or (folders.sha256_json(
        {'model': model, **others}) if others else model)

  def encode(
      self,
      inputs: Iterable[Mapping[str, Any]],
      *,
      task_metadata: Any = None,
      hf_split: str = '',
      hf_subset: str = '',
      prompt_type: Any = None,
      **kwargs: Any,
  ) -> Float[np.ndarray, 'texts features']:
    """`[texts, features] float32` embeddings.

    Args:
      inputs: batches: lists of `text`, and of `title` and `body` of passages.
      task_metadata: of the task; makes no difference.
      hf_split: likewise.
      hf_subset: likewise.
      prompt_type: `query`, or `document`; None: a task without roles.
      **kwargs: of other encoders, such as `batch_size`.
    """
    del task_metadata, hf_split, hf_subset, kwargs
    if str(getattr(prompt_type, 'value', prompt_type)) == 'query':
      return self.encoder.encode_queries([
          text for batch in inputs for text in batch['text']
      ])
    return self.encoder.encode_passages([
        passage for batch in inputs for passage in _passages(batch)
    ])

  def similarity(
      self, embeddings1: Any, embeddings2: Any
  ) -> Any:
    """`[n, m] float32` scores of the model, a tensor, as mteb has them.

    Args:
      embeddings1: `[n, features]` or `[features]`, of queries: an array, or one
        of mteb's tensors.
      embeddings2: `[m, features]` or `[features]`, likewise, of passages.
    """
    query_vecs, passage_vecs = map(np.atleast_2d, _arrays(
        embeddings1, embeddings2
    ))
    return _tensor(self.encoder.score(
        jnp.asarray(query_vecs), jnp.asarray(passage_vecs)
    ))

  def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Any:
    """`[n] float32` scores of vector n and vector n; else as `similarity`."""
    return _tensor(
        self.encoder.score_pairs(*_arrays(embeddings1, embeddings2)))

  @property
  def mteb_model_meta(self) -> Any:
    """What mteb keeps of a model beside its results."""
    _need_mteb()
    from mteb.models import ModelMeta
    from mteb.models.model_meta import ScoringFunction

    model = self.encoder.model
    return ModelMeta.create_empty(overwrites={
        'name': f'neg_contrast/{self._name}', 'revision': self._revision,
        'framework': ['JAX'], 'embed_dim': self.encoder.dim,
        'max_tokens': model.text.passage_length,
        'n_parameters': sum(int(np.size(one)) for one in
                            jax.tree.leaves(model.params)),
        'similarity_fn_name': ScoringFunction(
            'dot' if self.encoder.score.is_dot else 'custom'
        ),
    })


def evaluate_mteb(
    checkpoint: opening.Checkpoint,
    tasks: Any,
    *,
    folder: str | os.PathLike[str] | None = None,
    **settings: Any,
) -> results.Metrics:
  """Evaluates a checkpoint on tasks of mteb.

  Data sets that are not on this machine are downloaded, by mteb.

  Args:
    checkpoint: as for `load_encoder`.
    tasks: name of a benchmark (`NanoBEIR`, `BEIR`) or of a task (`SciFact`),
      several of these, or tasks themselves.
    folder: keeps all results: what is there is not computed again; None:
      nothing is kept.
    **settings: config keys, as for `load_encoder`.

  Returns:
    Task -> metric -> value, of the mean over splits and languages; `main_score`
    comes first.

  Raises:
    UserError: mteb is not installed, there is no such task or checkpoint, or a
      data set can't be downloaded.
  """
  _need_mteb()
  import mteb

  chosen = list(_tasks(tasks))
  encoder = MtebEncoder(checkpoint, **settings)
  cache = None if folder is None else mteb.ResultCache(os.fspath(folder))
  found: dict[str, dict[str, float]] = {}
  for task in chosen:
    name = task.metadata.name
    try:
      result = mteb.evaluate(encoder, task, cache=cache, co2_tracker=False,
                             show_progress_bar=False)
    except OSError as e:  # ConnectionError of `datasets` among them.
      raise errors.UserError(
          f'{name}: its data set is not here and can\'t be downloaded '
          f'({" ".join(str(e).split()):.200}); try again with a network'
      ) from e
    found[name] = _means(result.task_results[0].scores)
  return results.Metrics(found)


def _means(scores: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[
    str, float]:
  """Metric -> mean over splits and languages.

  Without those of abstention (`nauc_`), of which there are three for each.
  """
  every = [one for some in scores.values() for one in some]
  names = [_MAIN, *(name for name, value in every[0].items()
                    if isinstance(value, float) and name != _MAIN
                    and not name.startswith('nauc_'))]
  return {name: float(np.mean([one[name] for one in every]))
          for name in names if all(name in one for one in every)}


def _tasks(given: Any) -> Iterator[Any]:
  """The tasks of names, and tasks.

  Raises:
    UserError: a name is none of mteb's.
  """
  import mteb

  for one in [given] if isinstance(given, str) or not isinstance(
      given, Iterable) else given:
    if not isinstance(one, str):
      yield one
      continue
    try:
      yield from mteb.get_benchmark(one).tasks
    except KeyError:
      try:
        yield mteb.get_task(one)
      except KeyError as e:
        raise errors.UserError(
            f'{one:.80}: neither a benchmark nor a task of mteb: '
            f'{e.args[0]:.300}'
        ) from None


def _passages(batch: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
  """(title, text) of a batch."""
  if 'title' in batch and 'body' in batch:
    yield from zip(batch['title'], batch['body'], strict=True)
  else:
    yield from (('', text) for text in batch['text'])


def _tensor(values: Any) -> Any:
  import torch  # mteb needs it.

  return torch.from_numpy(np.array(values))


def _arrays(*embeddings: Any) -> list[np.ndarray]:
  """float32 arrays of arrays and of tensors, which NumPy converts."""
  return [np.asarray(one, np.float32) for one in embeddings]


def _name(checkpoint: opening.Checkpoint) -> str:
  """A name that mteb takes for one part of `organization/model`."""
  name = pathlib.Path(os.fspath(checkpoint)).name
  return ''.join(c if c.isalnum() or c in '-_.' else '-' for c in name) or 'x'


def _need_mteb() -> None:
  try:
    import mteb  # noqa: F401
  except ImportError:
    raise errors.UserError(
        'mteb is not installed; pip install mteb, or neg_contrast[mteb]'
    ) from None
