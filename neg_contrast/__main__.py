"""The command `neg-contrast`: `python -m neg_contrast.main`.

Flags belong to the program for `--help` only where its module is `__main__`,
and sys.argv[0] its file. How it was started, sys.orig_argv keeps.
"""

import runpy


def run() -> None:
  """Runs the command with the arguments of this process."""
  runpy.run_module('neg_contrast.main', run_name='__main__', alter_sys=True)


if __name__ == '__main__':
  run()
