"""Keys of the mesh of devices."""

import dataclasses

from neg_contrast.settings import keys


@dataclasses.dataclass(frozen=True)
class MeshConfig(keys.Section):
  """Devices as a grid.

  Attributes:
    data: devices that share the batch; -1: all that `model` leaves.
    model: devices that share each layer's weights.
    fsdp: also split parameters and optimizer state over `data`: less memory a
      device, and weights are gathered at the beginning of every step.
  """

  section = 'mesh'

  data: int = keys.key(-1, keys.at_least_or(1, -1))
  model: int = keys.key(1, keys.at_least(1))
  fsdp: bool = keys.key(False)
