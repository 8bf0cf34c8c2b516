"""Benchmarks of this machine: one table.

    python -m neg_contrast.main --config=configs/benchmark.py:train

Arguments, as in `benchmark.py:encode,size=full`:
  preset: what is measured.
    `train` (default): training steps with their input, the very step and input
      of `job=train`.
    `encode`: passages to vectors, and queries.
    `search`: queries, encoded for it, against an index.
    `mine`: the same for the depth of a pool, with filters and files.
    `input`: the batches of training alone, made on the host.
  size: `small` (default; MiniLM, meant for a laptop) or `full`: the
    paper's: BERT-base, batch 2048, N = 2, lengths of 64 and 384, over all
    devices; `search` has 1,000,000 passages then and `mine` 200,000.
  versus: `sentence-transformers`: `train` and `encode` take turns with it, on
    the same model, texts, batches, cuts, precision, dropout and loss, and the
    ratio of the rounds is told. `transformers`: the same with a plain PyTorch
    loop. `--config.benchmark.mini_batch` gives it a
    gradient cache, as `--config.model.chunk_groups` gives us ours. Needs
    tests/requirements.txt; on a GPU also the environment variable
    XLA_PYTHON_CLIENT_PREALLOCATE=false, as both share its memory.

Texts are made of random words, with as many tokens as the paper's data has
(`--config.data.expected_passage_tokens`), and the vectors that are searched are
made up; beside a peer they are the documentation strings of Python, whose
lengths vary as those of real text do. `--config.data.source` names other data,
`--config.model.init` another model. Hard negatives are drawn from the corpus:
they take as long to train with as mined ones.

Every number but a few is the median over rounds (`--config.benchmark.rounds`),
with the least and the most; a round before them compiles. Utilisation counts
the matrix products that no padding, no other sequence of a row and no
recomputation has a part in, against the peak of the devices for bfloat16. Host
wait is the part of the time in which devices had nothing to do because the next
input was not there; of `search` and `mine` because queries were being packed.
`--config.benchmark.profile=10` names the operations that took longest, too.

Reproduces no row of the paper, which tells no speed.
"""

from neg_contrast import presets
from neg_contrast.settings import config as config_lib

# Passages, queries.
_TEXTS = {
    'small': {'train': (2000, 500), 'encode': (256, 256),
              'search': (20_000, 1000), 'mine': (20_000, 1000),
              'input': (4000, 2000)},
    'full': {'train': (200_000, 60_000), 'encode': (65_536, 8192),
             'search': (1_000_000, 10_000), 'mine': (200_000, 5000),
             'input': (200_000, 60_000)},
}


def get_config(arg=None):
  """Takes `preset`, `size`, `versus`."""
  args = config_lib.arguments(arg, preset='train', size='small', versus='')
  task, size = args['preset'], args['size']
  if task not in config_lib.BENCHMARKS:
    raise config_lib.unknown_argument('preset', task, config_lib.BENCHMARKS)
  config = config_lib.base_config()
  presets.set_size(config, size)
  presets.set_negatives(config, 'corpus')
  config.job = 'benchmark'
  config.workdir = f'workdirs/benchmark-{task}-{size}'
  config.optim.optimizer = 'adamw'
  config.benchmark.task = task
  config.benchmark.passages, config.benchmark.queries = _TEXTS[size][task]
  if size == 'full':
    config.model.init = 'random:bert-base-uncased'
    config.benchmark.steps = 10
    config.data.batch_size = 256 if task == 'encode' else 2048
  else:
    config.benchmark.rounds, config.benchmark.steps = 3, 2
    config.data.batch_size = 32 if task == 'encode' else 16
    if task == 'input':
      config.data.batch_size, config.data.groups = 256, 8
      config.benchmark.steps = 8
  if args['versus']:
    config.workdir += f'-{args["versus"]}'
    config.benchmark.versus = args['versus']
    config.data.source = 'python_docs'
    config.loss.mask_known_positives = False  # The other side has no mask.
  return config
