"""The part of the devices' peak that is used."""

import types

import numpy as np
import pytest

from neg_contrast import accelerators
from neg_contrast.benchmarks import task


class Idle(task.Task):
  """Does nothing."""

  def round(self):
    """Nothing."""
    return {}


def mesh(kind, count):
  """Devices of a kind."""
  devices = np.array([types.SimpleNamespace(device_kind=kind)] * count)
  return types.SimpleNamespace(devices=devices.reshape(2, -1), size=count)


def test_useful_operations_by_the_peak_of_all(monkeypatch):
  monkeypatch.setattr(accelerators, 'find', lambda kind: (
      accelerators.Accelerator(1e12, 1) if kind == 'chip' else None))
  made = Idle()
  assert made.utilisation(3e12, 1.5, mesh('chip', 4)) == {
      task.FLOPS: pytest.approx(2.0), task.UTILISATION: pytest.approx(0.5)}
  assert made.reasons == {}
  assert made.utilisation(3e12, 1.5, mesh('toaster', 4)) == {
      task.FLOPS: pytest.approx(2.0)}
  assert made.reasons == {
      task.UTILISATION: 'the peak of toaster is not known here'}


def test_two_tasks_share_nothing():
  one, other = Idle(), Idle()
  one.reasons['a'], one.facts['b'] = 'c', 1.0
  assert other.reasons == {} and other.facts == {}
  assert one.agreement('peer', [1.0], lambda: 0 / 0) == {}
