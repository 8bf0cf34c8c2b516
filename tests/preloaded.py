"""What processes of tests import before they are forked, see `processes`.

TensorBoard's writer imports torch where that is installed, which takes seconds
in each, and a process that is forked after that stands still.
"""

import sys

sys.modules['torch'] = None
import tensorboardX  # noqa: E402, F401

del sys.modules['torch']
