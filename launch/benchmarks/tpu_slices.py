"""TPU slices that programs are compiled for, where no TPU is."""

import argparse
import os
from typing import Any

# Bytes a second of a device's own memory, by `device_kind`.
BANDWIDTH = {'TPU v3': 450e9, 'TPU v4': 1228e9, 'TPU v5 lite': 819e9,
             'TPU v5e': 819e9, 'TPU v5': 2765e9, 'TPU v6 lite': 1640e9}


def parse(description: str | None, **defaults: Any) -> argparse.Namespace:
  """Reads the command line, and makes JAX leave accelerators alone.

  Args:
    description: of the command.
    **defaults: other arguments, of the type of their defaults.
  """
  parser = argparse.ArgumentParser(
      description=description, formatter_class=argparse.RawTextHelpFormatter
  )
  parser.add_argument('--topologies', nargs='+', default=['v3:4x4', 'v5e:4x4'])
  for name, value in defaults.items():
    parser.add_argument(f'--{name}', type=type(value), default=value)
  args = parser.parse_args()
  os.environ['JAX_PLATFORMS'] = 'cpu'  # Before JAX is imported.
  from neg_contrast.training import compile_report

  compile_report.prepare(args.topologies[0])
  return args
