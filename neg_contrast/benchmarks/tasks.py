"""The table of what `job=benchmark` measures."""

from collections.abc import Callable

from neg_contrast.benchmarks import (
  encode_task,
  input_task,
  mine_task,
  search_task,
  task,
  train_task,
)
from neg_contrast.benchmarks import material as material_lib

TASKS: dict[str, Callable[[material_lib.Material], task.Task]] = {
    'train': train_task.Train,
    'encode': encode_task.Encode,
    'search': search_task.Search,
    'mine': mine_task.Mine,
    'input': input_task.Input,
}


def make(material: material_lib.Material) -> task.Task:
  """The task that `benchmark.task` names."""
  return TASKS[material.settings.task](material)
