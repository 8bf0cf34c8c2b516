"""Serves a checkpoint and a corpus over HTTP, with a page to type queries into.

    python -m neg_contrast.main --config=configs/serve.py \\
        --config.checkpoint=workdirs/quickstart \\
        --config.data.source=python_docs

Needs `pip install -r launch/requirements-serve.txt`. The checkpoint is what
`configs/search.py` takes. The first run encodes the passages and keeps them in
the workdir; with `--workdir=workdirs/search` those of a search are used. It
listens at http://127.0.0.1:8000 (`--config.serve.host`, `--config.serve.port`)
until Ctrl-C or SIGTERM. `--config.evaluation.depth` is how many passages are
found where a request does not say; `--config.evaluation.hybrid=True` finds them
by BM25 and the model together, where the checkpoint's training has tuned that.
neg_contrast/serving/README.md has the paths, and the limits.
"""

from neg_contrast.settings import config as config_lib


def get_config(arg=None):
  """Takes no argument."""
  config_lib.arguments(arg)
  config = config_lib.base_config()
  config.job = 'serve'
  config.evaluation.depth = 5
  return config
