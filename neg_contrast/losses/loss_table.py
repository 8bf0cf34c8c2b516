"""The losses of a dual encoder, by `config.loss.candidates`."""

from collections.abc import Collection

from neg_contrast import errors
from neg_contrast.losses import (
  batch_softmax,
  dual_encoder_loss,
  own_candidates,
)
from neg_contrast.settings import config as config_lib

LOSSES: dict[str, type[dual_encoder_loss.DualEncoderLoss]] = {
    'batch': batch_softmax.BatchSoftmaxLoss,
    'own': own_candidates.OwnCandidatesLoss,
}

_REASONS = {
    dual_encoder_loss.HARD_NEGATIVES:
        'compares a query with hard negatives, and there are none; choose a '
        'negatives.strategy and per_query',
    dual_encoder_loss.LOG_PROPOSAL:
        'needs the chance by which each negative was drawn, which is known of '
        'negatives.strategy=sampled with hard_percent=100 and greedy=False',
}


def make(settings: config_lib.LossConfig) -> dual_encoder_loss.DualEncoderLoss:
  """The loss that a config names.

  Args:
    settings: `config.loss`.

  Raises:
    UserError: there is no such loss, or not so; says what there is.
  """
  name = settings.candidates
  if name not in LOSSES:
    raise errors.UserError(
        f'{errors.key("loss.candidates")}={name!r}: must be one of '
        f'{", ".join(LOSSES)}'
    )
  kind = LOSSES[name]
  if settings.bidirectional not in kind.directions:
    raise errors.UserError(
        f'{errors.key("loss.candidates")}={name!r}: ranks passages for queries '
        f'{"only" if settings.bidirectional else "and the other way round"}; '
        f'set --{errors.key("loss.bidirectional")}={not settings.bidirectional}'
    )
  if settings.adjusted and not kind.adjusts:
    able = [other for other, one in LOSSES.items() if one.adjusts]
    raise errors.UserError(
        f'{errors.key("loss.adjusted")}=True: is of a query\'s own negatives; '
        f'set --{errors.key("loss.candidates")}={" or ".join(able)}'
    )
  return kind(settings.bidirectional, settings.adjusted)


def check(
    settings: config_lib.LossConfig, held: Collection[str]
) -> dual_encoder_loss.DualEncoderLoss:
  """The loss, if batches hold what it needs.

  Args:
    settings: `config.loss`.
    held: of `HARD_NEGATIVES` and `LOG_PROPOSAL` what every batch holds.

  Raises:
    UserError: there is no such loss, or a batch lacks what it needs.
  """
  loss = make(settings)
  for need in loss.needs:
    if need not in held:
      raise errors.UserError(
          f'{errors.key("loss.candidates")}={settings.candidates!r}: '
          f'{_REASONS[need]}'
      )
  return loss
