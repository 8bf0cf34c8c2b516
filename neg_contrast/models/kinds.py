"""KINDS: the trained models that a workdir can hold, told by their files.

A new kind is one line in the table. Folders of others have no kind: they are
read by `families.FAMILIES`.
"""

import dataclasses
import pathlib
from collections.abc import Callable
from typing import Any

from neg_contrast import errors
from neg_contrast.artifacts import checkpoints as checkpoints_lib
from neg_contrast.artifacts import places
from neg_contrast.models import (
  adapted,
  descriptions,
  generator,
  loading,
  reranker,
)
from neg_contrast.settings import config as config_lib


@dataclasses.dataclass(frozen=True)
class Kind:
  """A kind of trained model.

  Attributes:
    name: with its article.
    file: of its workdir, that describes it.
    needed: for an error where this kind is needed, and another is there.
    weights: name of its parameters in a checkpoint; empty: it has none.
    from_workdir: `(workdir, params_of, name)` -> the model, where `params_of`
      gives the parameters, and a hash of them, for abstract ones.
  """

  name: str
  file: str
  needed: str
  weights: str = ''
  from_workdir: Callable[..., Any] | None = None


def _encoder_from_workdir(
    workdir: pathlib.Path, params_of: Callable[[Any], tuple[Any, str]],
    name: str,
) -> loading.Model:
  return adapted.from_workdir(workdir, params_of, name, _load_adapted)


def _load_adapted(
    config: config_lib.ModelConfig, seed: int
) -> loading.Model:
  """A model that adapters were trained on."""
  if check(config.init, ENCODER) is None:
    return loading.from_pretrained(config.init, config, seed)
  return load(ENCODER, places.path(config.init))


ENSEMBLE = Kind(
    'an ensemble of dual encoders', 'ensemble.json',
    'an ensemble is needed here: a workdir of job=ensemble',
)
GENERATOR = Kind(
    'a question generator', generator.FILE,
    'a question generator is needed here, as that writes no questions; name '
    'the workdir of one, or a T5 folder',
    'generator', generator.from_workdir,
)
RERANKER = Kind(
    'a reranker (a cross-encoder)', reranker.FILE,
    'a reranker is needed here: a workdir of job=train_reranker, or a '
    'BERT-family folder or hub name to make one of',
    'reranker', reranker.from_workdir,
)
ENCODER = Kind(
    'a trained dual encoder', loading.FILE, 'a dual encoder is needed here',
    'encoder', _encoder_from_workdir,
)
KINDS = (ENSEMBLE, GENERATOR, RERANKER, ENCODER)


def kind_of(place: str | pathlib.Path) -> Kind | None:
  """The kind of model in a workdir; None: it is no workdir of ours."""
  return next((kind for kind in KINDS
               if (places.path(place) / kind.file).exists()), None)


def check(
    place: str | pathlib.Path, wanted: Kind, *others: Kind
) -> Kind | None:
  """The kind of model in a workdir, if it is one of some; None: as `kind_of`.

  Args:
    place: the workdir, or another name of a model.
    wanted: the kind that is needed.
    *others: kinds that do as well.

  Raises:
    UserError: it is a workdir of another kind.
  """
  kind = kind_of(place)
  if kind is not None and kind not in (wanted, *others):
    raise errors.UserError(
        f'{place}: holds {kind.name}, and {wanted.needed}'
    )
  return kind


def check_trained(workdir: pathlib.Path) -> None:
  """Refuses a workdir without a finished checkpoint; none is read.

  Raises:
    UserError: nothing was saved yet.
  """
  folder = (workdir / checkpoints_lib.FOLDER).absolute()
  if not any(path.name.isdecimal() for path in folder.glob('*')):
    raise errors.UserError(
        f'{folder}: holds no finished checkpoint; train first'
    )


def load(kind: Kind, workdir: pathlib.Path) -> Any:
  """The selected checkpoint of a workdir: the best, else the latest.

  Args:
    kind: of the model.
    workdir: that training has begun in.

  Raises:
    UserError: it has no checkpoint yet, or a file is missing or damaged.
  """
  assert kind.from_workdir is not None, kind.name
  checkpoints = checkpoints_lib.Checkpoints(workdir)
  try:
    step = checkpoints.selected_step()

    def read(like: Any) -> tuple[Any, str]:
      params = checkpoints.restore_params(kind.weights, like, step)
      return params, descriptions.sha256_of(params)

    return kind.from_workdir(workdir, read, f'{workdir} step {step}')
  finally:
    checkpoints.close()
