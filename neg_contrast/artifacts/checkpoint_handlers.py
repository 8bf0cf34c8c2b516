"""How Orbax writes items of a checkpoint: with checksums of their files."""

import itertools
from collections.abc import Iterable
from typing import Any

import jax
import orbax.checkpoint as ocp
from absl import logging

from neg_contrast.artifacts import checkpoint_checksums, places

# Of an array that all devices hold, each writes a part, if that is so large.
# Smaller ones take longer to cut than to write, and a program for each shape.
_LEAST_PART_BYTES = 2**20
logging.get_absl_logger().disabled = True  # It warns of what is meant here.
ocp.type_handlers.register_type_handler(
    jax.Array,
    ocp.type_handlers.ArrayHandler(
        min_slice_bytes_for_replica_parallel=_LEAST_PART_BYTES
    ),
    override=True,
)
logging.get_absl_logger().disabled = False


class _ArraysHandler(ocp.StandardCheckpointHandler):
  """Arrays, with checksums of their files."""

  def finalize(self, directory):
    super().finalize(directory)
    checkpoint_checksums.write(places.path(str(directory)))


class _JsonHandler(ocp.JsonCheckpointHandler):
  """Json, with checksums of its files."""

  def finalize(self, directory):
    super().finalize(directory)
    checkpoint_checksums.write(places.path(str(directory)))


def registry(arrays: Iterable[str], json: Iterable[str]) -> Any:
  """What saves and restores items.

  Args:
    arrays: names of those that hold arrays.
    json: names of those that hold json.
  """
  known = ocp.handlers.DefaultCheckpointHandlerRegistry()
  standard = ocp.args.StandardSave, ocp.args.StandardRestore
  written = ocp.args.JsonSave, ocp.args.JsonRestore
  for names, arguments, handler in (
      (arrays, standard, _ArraysHandler()), (json, written, _JsonHandler())):
    for name, argument in itertools.product(names, arguments):
      known.add(name, argument, handler)
  return known


def metadata(folder: Any) -> Any:
  """Names, shapes and types of the arrays of an item; reads no other item.

  Args:
    folder: of the item, as Orbax takes it.
  """
  return _ArraysHandler().metadata(folder)
