"""What training minimises: one loss a file, and `loss_table` of some.

Pure.
"""

from collections.abc import Callable
from typing import Any

import jax

# (params, batch, dropout key) -> (loss, metrics by name).
Loss = Callable[[Any, Any, jax.Array], tuple[jax.Array, dict[str, Any]]]

REMEMBERED = 'remembered'
"""Among the metrics: vectors that the queue keeps for later steps."""
