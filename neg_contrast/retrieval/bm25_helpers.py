"""Processes that help one of their host to count words, and who leads them."""

import contextlib
import os
import pathlib
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence

from absl import logging

from neg_contrast import errors
from neg_contrast.artifacts import bucket_turns


@contextlib.contextmanager
def started(
    corpus: pathlib.Path,
    count: int,
    places: Sequence[pathlib.Path],
    is_made: Callable[[int], bool],
) -> Iterator[None]:
  """Lets other processes help; what one leaves undone others do.

  They are no forks, which JAX's threads forbid, and import no main program, of
  which users have any.

  Args:
    corpus: folder of the prepared corpus.
    count: of helpers.
    places: of the shards.
    is_made: whether a shard is there.
  """
  command = [sys.executable, '-m', 'neg_contrast.retrieval.bm25_helper',
             str(corpus.absolute())]
  environment = {
      **os.environ, 'JAX_PLATFORMS': 'cpu',  # Accelerators are the parent's.
      'PYTHONPATH': os.pathsep.join(filter(None, sys.path)),
  }
  helpers = [
      subprocess.Popen(command, env=environment, stdin=subprocess.PIPE,
                       stdout=subprocess.PIPE, text=True)
      for _ in range(count)
  ]
  leading = [threading.Thread(target=_lead, args=(helper, places, is_made))
             for helper in helpers]
  for thread in leading:
    thread.start()
  try:
    yield
  finally:
    for helper, thread in zip(helpers, leading, strict=True):
      helper.terminate()  # Nothing is left to do, or the parent fails.
      thread.join()
      helper.communicate()
  failed = [code for helper in helpers if (code := helper.returncode) > 0]
  if failed:
    logging.warning('%d of %d helpers failed', len(failed), count)


def _lead(
    helper: subprocess.Popen[str],
    places: Sequence[pathlib.Path],
    is_made: Callable[[int], bool],
) -> None:
  """Gives a helper one shard after another that nobody makes.

  The helper has the locks of its machine alone. In a bucket, turns are taken
  for it here, by a process of the program that other machines know.
  """
  assert helper.stdin and helper.stdout
  try:
    for number in reversed(range(len(places))):  # Others begin at the front.
      with bucket_turns.turn(places[number], wait=False) as is_ours:
        if is_ours and not is_made(number):
          helper.stdin.write(f'{number}\n')
          helper.stdin.flush()
          if not helper.stdout.readline():
            return  # It has ended.
  except BrokenPipeError:
    pass  # It has ended; what it has not made is left to the processes.
  except errors.UserError as e:
    logging.warning('%s', e)
