"""Stage 2 on SQuAD v1.1: gold pairs, with or without hard negatives.

    python -m neg_contrast.main --config=configs/squad_stage2.py \
        --config.data.source=squad:data/squad

Paper: Lu et al., Table 4, "No Stage 1", SQuAD: top-1/5/10/20/100 answer
accuracy over 21,015,324 Wikipedia passages, on a 4x4 TPU v3 slice:

    random   25.0  46.5  54.7  62.4  75.7
    coarse   24.9  46.3  55.2  63.2  77.3
    fine     25.5  46.7  55.3  63.6  77.5
    bm25     25.3  47.3  56.3  64.4  78.1
    context  26.6  48.0  56.3  63.8  76.7
    mixed    28.0  50.8  59.1  66.8  79.6

With `squad:` as the source the corpus is SQuAD's own
paragraphs (20,958 in the two files), so the numbers are higher and not
comparable.

Arguments, as in `squad_stage2.py:size=small,negatives=random`:
  size: `full` (the paper's values) or `small` (all-MiniLM-L6-v2, one epoch of
    batch 64: half an hour on two cores; README has what it reaches).
  negatives: `random` (the batch only), `bm25`, `context`, `coarse`, `fine`,
    `mixed` (these four), `corpus`, `given`, or `model` with a checkpoint; what
    it needs is trained and mined first, see `--plan`.
  stage1: `none` starts from `model.init`.
"""

from neg_contrast import config as config_lib


def get_config(arg=None):
  """Takes `size`, `negatives`, `stage1`."""
  args = config_lib.arguments(
      arg, size='full', negatives='random', stage1='none'
  )
  if args['stage1'] != 'none':
    raise config_lib.unknown_argument('stage1', args['stage1'], ('none',))
  config = config_lib.base_config()
  config.data.source = 'squad:data/squad'
  config.data.how_to_get = (
      'Download train-v1.1.json (30 MB) and dev-v1.1.json (5 MB) from\n'
      'https://rajpurkar.github.io/SQuAD-explorer/dataset/ into data/squad/'
  )
  config.data.test_split = 'dev'
  config.data.groups = 32
  config.model.init = 'bert-base-uncased'
  config.model.projection_dim = 768
  config.model.query_length = 64
  config.model.passage_length = 384
  config.model.remat = 'attention'  # Else it keeps every attention matrix.
  config.data.batch_size = 2048
  config.optim.learning_rate = 1e-5
  config.optim.epochs = 200
  config.evaluation.eval_steps = 100
  config.evaluation.patience = 10
  config.evaluation.answer_ks = (1, 5, 10, 20, 100)
  if args['size'] == 'small':
    config.data.groups = 1
    config.data.batch_size = 64
    config.model.init = 'minilm'
    config.model.projection_dim = None
    config.model.passage_length = 256
    config.model.remat = 'none'
    config.optim.optimizer = 'adamw'
    config.optim.learning_rate = 3e-5
    config.optim.epochs = 1
    config.evaluation.eval_steps = 60
    config.evaluation.patience = 0
    config.checkpointing.log_steps = 5
  elif args['size'] != 'full':
    raise config_lib.unknown_argument('size', args['size'], ('full', 'small'))
  config.negatives.strategy = args['negatives']
  config.negatives.per_query = 0 if args['negatives'] == 'random' else 2
  return config
