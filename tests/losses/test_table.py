"""The table of losses: what is in it is offered, made and checked."""

import dataclasses

import jax.numpy as jnp
import pytest

from neg_contrast import errors
from neg_contrast.losses import dual_encoder_loss, table
from neg_contrast.settings import config as config_lib

HARD = dual_encoder_loss.HARD_NEGATIVES


def settings(**values):
  """Also such as the config would refuse."""
  made = config_lib.LossConfig()
  for key, value in values.items():
    object.__setattr__(made, key, value)
  return made


def test_a_config_names_its_loss():
  made = table.make(settings(bidirectional=False))
  assert type(made) is table.LOSSES['batch'] and not made.bidirectional
  made = table.make(settings(
      candidates='own', bidirectional=False, adjusted=True
  ))
  assert type(made) is table.LOSSES['own'] and made.adjusted


@pytest.mark.parametrize(('values', 'held', 'message'), [
    ({'candidates': 'none'}, (), 'must be one of batch, own'),
    ({'candidates': 'own'}, (HARD,), 'bidirectional=False'),
    ({'adjusted': True}, (HARD,), 'config.loss.candidates=own'),
    ({'candidates': 'own', 'bidirectional': False}, (),
     'there are none; choose a negatives.strategy'),
    ({'candidates': 'own', 'bidirectional': False, 'adjusted': True}, (HARD,),
     'negatives.strategy=sampled with hard_percent=100'),
])
def test_what_is_missing_is_told(values, held, message):
  with pytest.raises(errors.UserError, match=message):
    table.check(settings(**values), held)


@dataclasses.dataclass(frozen=True)
class Nearness(dual_encoder_loss.DualEncoderLoss):
  """A toy: positives score high, whatever else there is."""

  directions = (True, False)

  @property
  def needs(self):
    return ()

  def __call__(self, vectors, batch, scale, score, sources):
    scores = jnp.diagonal(score(vectors.queries, vectors.positives))
    return -jnp.mean(scale * scores), {'accuracy': jnp.float32(0)}


def test_a_new_loss_is_a_class_and_a_line(monkeypatch):
  monkeypatch.setitem(table.LOSSES, 'nearness', Nearness)
  assert isinstance(table.make(settings(candidates='nearness')), Nearness)
  with pytest.raises(errors.UserError, match='batch, own, nearness'):
    table.make(settings(candidates='bogus'))
