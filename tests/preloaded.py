"""What processes of tests import before they are forked, see `processes`.

TensorBoard's writer and Beam import torch where that is installed, which takes
seconds in each, and a process that is forked after that stands still.
"""

import contextlib
import logging
import sys

sys.modules['torch'] = None
import tensorboardX  # noqa: E402, F401

handlers = logging.root.handlers[:]
logging.disable()  # Beam names what it lacks, and begins a log for that.
with contextlib.suppress(ImportError):
  import apache_beam.ml.inference.base
  import apache_beam.runners.worker.sdk_worker_main  # noqa: F401
logging.root.handlers = handlers
logging.disable(logging.NOTSET)

del sys.modules['torch']
