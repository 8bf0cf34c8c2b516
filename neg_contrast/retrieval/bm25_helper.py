"""A process that helps another one of its host to count words.

    python -m neg_contrast.retrieval.bm25_helper CORPUS PARENT

`bm25_folder.make` starts it: CORPUS is a prepared corpus, PARENT the number of
the process that it helps.
"""

import signal
import sys

from neg_contrast.artifacts import places
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.retrieval import bm25_folder


def main() -> None:
  """Helps until nothing is left."""
  signal.signal(signal.SIGINT, signal.SIG_IGN)  # The parent ends it.
  corpus, parent = sys.argv[1:]
  bm25_folder.help_make(
      prepared_lib.Prepared(places.path(corpus)), int(parent)
  )


if __name__ == '__main__':
  main()
