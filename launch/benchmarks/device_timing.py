"""How long devices take, and rows of results that another program reads."""

import argparse
import json
import pathlib
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def add_rows_argument(parser: argparse.ArgumentParser) -> None:
  """Adds `--rows`, a file for `write_row`."""
  parser.add_argument(
      '--rows', type=pathlib.Path,
      help='a file that gets each row as a line of json, when it is measured',
  )


def write_row(
    file: pathlib.Path | None, name: str, measured: Mapping[str, Any]
) -> None:
  """Appends a line of json: `{"row": name, "measured": {...}}`.

  Args:
    file: where to; None: nowhere.
    name: of the row.
    measured: measure -> number or text.
  """
  if file is not None:
    with open(file, 'a', encoding='utf-8') as f:
      f.write(json.dumps({'row': name, 'measured': measured}) + '\n')


def seconds_of(
    run: Callable[[], Any], rounds: int, calls: int = 1
) -> list[float]:
  """Seconds of a call in each round, by its results on the devices.

  Calls of a round are queued one behind the other, as in training; the round
  ends when the last result is there. A first call, which compiles, is left out.

  Args:
    run: starts the work and gives arrays.
    rounds: how many are measured.
    calls: of a round.
  """
  import jax

  jax.block_until_ready(run())
  measured = []
  for _ in range(rounds):
    began = time.perf_counter()
    for _ in range(calls):
      result = run()
    jax.block_until_ready(result)
    measured.append((time.perf_counter() - began) / calls)
  return measured


def median(values: Sequence[float]) -> float:
  """The middle value."""
  return float(statistics.median(values))
