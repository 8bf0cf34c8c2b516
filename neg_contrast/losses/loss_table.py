"""Losses by `config.loss.kind`, and a teacher's by `config.loss.distil`."""

import dataclasses
from collections.abc import Callable, Collection

from jaxtyping import Array, Float

from neg_contrast import errors
from neg_contrast.losses import (
  binary_cross_entropy,
  candidate_loss,
  distillation,
  dual_encoder_loss,
  hinge,
  kl_divergence,
  lambda_rank,
  margin_mse,
  softmax,
  triplet,
)
from neg_contrast.settings import config as config_lib

LOSSES: dict[str, type[dual_encoder_loss.DualEncoderLoss]] = {
    'softmax': softmax.SoftmaxLoss,
    'triplet': triplet.TripletLoss,
    'hinge': hinge.HingeLoss,
    'bce': binary_cross_entropy.BinaryCrossEntropyLoss,
    'lambdarank': lambda_rank.LambdaRankLoss,
}

DISTILLATIONS: dict[str, Callable[..., Float[Array, '']]] = {
    'margin_mse': margin_mse.margin_mse,
    'kl': kl_divergence.kl_divergence,
}
"""`config.loss.distil` -> (scores, teacher's, which count, weights of examples)
-> a loss."""

_REASONS = {
    dual_encoder_loss.TEACHER: (
        'loss.distil',
        'needs the scores of a judge; set negatives.judge, or negatives.pool '
        'to a pool that job=judge made'),
    dual_encoder_loss.HARD_NEGATIVES: (
        'loss.candidates',
        'compares a query with hard negatives, and there are none; name '
        'some in negatives.sources, such as bm25:2'),
    dual_encoder_loss.LOG_PROPOSAL: (
        'loss.adjusted',
        'needs the chance by which each negative was drawn, which is known of '
        'negatives.sources of sampled alone, with hard_percent=100 and '
        'greedy=False'),
    dual_encoder_loss.ONE_VECTOR: (
        'loss.distance',
        'is of one vector of each text, and model.score gives several; set '
        'loss.distance=dot'),
}


def make(settings: config_lib.LossConfig) -> dual_encoder_loss.DualEncoderLoss:
  """The loss that a config names, with a teacher's if it names one.

  Raises:
    UserError: as `make_contrastive`.
  """
  contrastive, added = make_contrastive(settings), distillation_of(settings)
  return contrastive if added is None else distillation.of_loss(
      contrastive, added
  )


def distillation_of(
    settings: config_lib.LossConfig,
) -> distillation.Distillation | None:
  """What a teacher adds to a loss; None: there is no teacher."""
  if not settings.distil:
    return None
  return distillation.Distillation(
      DISTILLATIONS[settings.distil], settings.distil_weight
  )


def make_contrastive(
    settings: config_lib.LossConfig,
) -> dual_encoder_loss.DualEncoderLoss:
  """The loss without a teacher's.

  Args:
    settings: `config.loss`.

  Raises:
    UserError: there is no such loss, or not so; says what there is.
  """
  if settings.kind not in LOSSES:
    raise errors.UserError(
        f'{errors.key("loss.kind")}={settings.kind!r}: must be one of '
        f'{", ".join(LOSSES)}'
    )
  kind = LOSSES[settings.kind]
  directions = kind.directions
  if settings.candidates == dual_encoder_loss.OWN:
    directions = (False,)  # A query's own candidates are no other's.
  if settings.bidirectional not in directions:
    raise errors.UserError(
        f'{errors.key("loss.candidates")}={settings.candidates!r}: ranks '
        'passages for queries '
        f'{"only" if settings.bidirectional else "and the other way round"}; '
        f'set --{errors.key("loss.bidirectional")}={not settings.bidirectional}'
    )
  if settings.adjusted and not (
      kind.adjusts and settings.candidates == dual_encoder_loss.OWN
  ):
    able = [other for other, one in LOSSES.items() if one.adjusts]
    raise errors.UserError(
        f'{errors.key("loss.adjusted")}=True: is of a query\'s own negatives; '
        f'set --{errors.key("loss.candidates")}=own, with '
        f'{errors.key("loss.kind")}={" or ".join(able)}'
    )
  if settings.adjusted and settings.hardest:
    raise errors.UserError(
        f'{errors.key("loss.adjusted")}=True: is of all draws of a query, and '
        f'{errors.key("loss.hardest")}={settings.hardest} drops some; set one '
        'of the two'
    )
  if settings.learn_scale and not kind.has_scale:
    raise errors.UserError(
        f'{errors.key("loss.learn_scale")}=True: '
        f'{errors.key("loss.kind")}={settings.kind!r} has no scale; leave it '
        'out'
    )
  _check_foreign(settings, kind)
  return kind(**{name: getattr(settings, name) for name in _keys(kind)})


def make_of_pairs(
    settings: config_lib.LossConfig,
) -> candidate_loss.CandidateLoss:
  """The loss of a cross-encoder: of each query's own candidates.

  Directions, candidates and scale are those of dual encoders; they are not
  looked at.

  Args:
    settings: `config.loss`.

  Raises:
    UserError: the loss is one of vectors; says which are of scores.
  """
  able = [name for name, kind in LOSSES.items() if _is_of_scores(kind)]
  if settings.kind not in able:
    raise errors.UserError(
        f'{errors.key("loss.kind")}={settings.kind!r}: compares vectors, and a '
        f'reranker has scores alone; choose {" or ".join(able)}'
    )
  loss = make_contrastive(dataclasses.replace(
      settings, candidates=dual_encoder_loss.OWN, bidirectional=False,
      adjusted=False, learn_scale=False,
  ))
  assert isinstance(loss, candidate_loss.CandidateLoss)
  return loss


def _is_of_scores(kind: type[dual_encoder_loss.DualEncoderLoss]) -> bool:
  return (issubclass(kind, candidate_loss.CandidateLoss)
          and kind.compares_scores)


def check(
    settings: config_lib.LossConfig, held: Collection[str]
) -> dual_encoder_loss.DualEncoderLoss:
  """The loss, if batches hold what it needs.

  Args:
    settings: `config.loss`.
    held: of what losses may need that which every batch holds.

  Raises:
    UserError: there is no such loss, or a batch lacks what it needs.
  """
  loss = make(settings)
  for need in loss.needs:
    if need not in held:
      key, reason = _REASONS[need]
      value = getattr(settings, key.partition('.')[2])
      raise errors.UserError(f'{errors.key(key)}={value!r}: {reason}')
  return loss


def _check_foreign(
    settings: config_lib.LossConfig,
    kind: type[dual_encoder_loss.DualEncoderLoss],
) -> None:
  """Refuses what is set of other kinds, and would change nothing."""
  plain = config_lib.LossConfig()
  for name in {key: None for other in LOSSES.values() for key in _keys(other)}:
    value = getattr(settings, name)
    if name in _keys(kind) or value == getattr(plain, name):
      continue
    having = [other for other, one in LOSSES.items() if name in _keys(one)]
    raise errors.UserError(
        f'{errors.key(f"loss.{name}")}={value!r}: is a key of '
        f'{errors.key("loss.kind")}={" or ".join(having)}, and that is '
        f'{settings.kind!r}; leave it out'
    )


def _keys(kind: type[dual_encoder_loss.DualEncoderLoss]) -> list[str]:
  return [field.name for field in dataclasses.fields(kind)]
