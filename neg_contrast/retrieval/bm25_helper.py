"""A process that helps another one of its host to count words.

    python -m neg_contrast.retrieval.bm25_helper CORPUS

`bm25_folder.make` starts it: CORPUS is a prepared corpus. It reads numbers of
shards, a line each, and writes each when nothing is left to do for it.
"""

import signal
import sys

from neg_contrast.artifacts import places
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.retrieval import bm25_folder


def main() -> None:
  """Helps until nothing more is asked, or the parent has ended."""
  signal.signal(signal.SIGINT, signal.SIG_IGN)  # The parent ends it.
  (corpus,) = sys.argv[1:]
  answers, sys.stdout = sys.stdout, sys.stderr
  for number in bm25_folder.help_make(
      prepared_lib.Prepared(places.path(corpus)), map(int, sys.stdin)
  ):
    print(number, file=answers, flush=True)


if __name__ == '__main__':
  main()
