"""The table of losses: what is in it is offered, made and checked."""

import dataclasses

import jax.numpy as jnp
import pytest

from neg_contrast import errors, jobs
from neg_contrast.artifacts import plan
from neg_contrast.losses import dual_encoder_loss, loss_table, triplet
from neg_contrast.settings import config as config_lib
from neg_contrast.settings import reference
from neg_contrast.training import run_log
from tests import tiny

HARD = dual_encoder_loss.HARD_NEGATIVES


def settings(**values):
  """Also such as the config would refuse."""
  made = config_lib.LossConfig()
  for key, value in values.items():
    object.__setattr__(made, key, value)
  return made


def test_a_config_names_its_loss():
  made = loss_table.make(settings(bidirectional=False))
  assert type(made) is loss_table.LOSSES['softmax']
  assert made.shares and not made.bidirectional
  made = loss_table.make(settings(
      candidates='own', bidirectional=False, adjusted=True
  ))
  assert made.adjusted and not made.shares
  made = loss_table.make(settings(kind='triplet', margin=0.3, hardest=2))
  assert isinstance(made, triplet.TripletLoss)
  assert (made.margin, made.distance, made.hardest) == (0.3, 'cosine', 2)


@pytest.mark.parametrize(('values', 'held', 'message'), [
    ({'kind': 'none'}, (), 'must be one of softmax, triplet, hinge, bce, '
     'lambdarank'),
    ({'margin': 0.5}, (), 'is a key of config.loss.kind=triplet or hinge'),
    ({'kind': 'hinge', 'positive_weight': 2.0}, (), 'loss.kind=bce, and that'),
    ({'kind': 'triplet'}, (), 'set loss.distance=dot'),
    ({'kind': 'triplet', 'learn_scale': True}, (), 'has no scale'),
    ({'kind': 'bce', 'adjusted': True, 'candidates': 'own',
      'bidirectional': False}, (HARD,), 'loss.kind=softmax'),
    ({'candidates': 'own'}, (HARD,), 'bidirectional=False'),
    ({'adjusted': True}, (HARD,), 'config.loss.candidates=own'),
    ({'adjusted': True, 'candidates': 'own', 'bidirectional': False,
      'hardest': 2}, (HARD,), 'config.loss.hardest=2 drops some; set one'),
    ({'candidates': 'own', 'bidirectional': False}, (),
     'there are none; name some in negatives.sources'),
    ({'candidates': 'own', 'bidirectional': False, 'adjusted': True}, (HARD,),
     'negatives.sources of sampled alone, with hard_percent=100'),
])
def test_what_is_missing_is_told(values, held, message):
  with pytest.raises(errors.UserError, match=message):
    loss_table.check(settings(**values), held)


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


def test_a_new_loss_is_a_class_and_a_line(monkeypatch, tmp_path):
  """It is offered, planned, trained with, reported, and in the reference."""
  monkeypatch.setitem(loss_table.LOSSES, 'nearness', Nearness)
  make = lambda **settings: config_lib.parse(tiny.make_config(
      tmp_path, optim__steps=2, evaluation__bm25=False,
      negatives__sources=(), **settings))
  with pytest.raises(errors.UserError, match='.*lambdarank, nearness'):
    make(loss__kind='bogus')
  wrong = make(loss__kind='nearness', loss__adjusted=True)
  with pytest.raises(errors.UserError, match='loss.candidates=own'):
    jobs.check(wrong)
  assert '`lambdarank`, `nearness`' in reference.reference()
  work = tmp_path / 'work'
  work.mkdir()
  job = jobs.make_job(make(loss__kind='nearness'), work)
  assert '[to do  ] training' in plan.describe(job.targets())
  plan.run(job.targets())
  job.finish()
  losses = [one['loss'] for one in run_log.read(work / run_log.FILE)
            if 'loss' in one]
  assert losses and all(loss < 0 for loss in losses)  # No softmax gives that.
  page = (work / 'report.html').read_text()
  assert 'nearness' in page
