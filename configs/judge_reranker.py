"""A cross-encoder whose scores are probabilities, on any data: a judge.

    python -m neg_contrast.main --config=configs/judge_reranker.py \\
        --config.data.source=beir:DATA --config.data.train_split=split-train \\
        --config.data.test_split=split-dev

MiniLM reads query and passage together, and learns by binary cross-entropy
which of a positive and seven passages of BM25 answers. Temperature and bias of
its probabilities are fitted on BM25's top 64 of the tune queries, and kept in
`calibration.json` of the workdir; `report.html` has the reliability diagram. A
new score layer learns ten times as fast as the transformer.

`configs/judge.py` judges candidates by it. `metrics.json` has BM25's top 64 of
the test split as `candidates`, and their new order as `reranked`.

Reproduces no row of a paper; the use of a judge is RocketQA's (Qu et al.,
2021). What it reaches on SQuAD, and hours: launch/studies/RESULTS.md.
"""

from neg_contrast.settings import config as config_lib


def get_config(arg=None):
  """Takes no argument."""
  config_lib.arguments(arg)
  config = config_lib.base_config()
  config.job = 'train_reranker'
  config.candidates = 'bm25'
  config.model.init = 'minilm'
  config.model.query_length = 64
  config.model.passage_length = 256
  config.data.batch_size = 16
  config.loss.kind = 'bce'
  config.negatives.sources = ('bm25:7',)
  config.negatives.pool_size = 50
  config.negatives.depth = 64
  config.optim.optimizer = 'adamw'
  config.optim.learning_rate = 5e-5
  config.optim.head_learning_rate = 5e-4
  config.optim.schedule = 'linear'
  config.optim.warmup_steps = 50
  config.optim.weight_decay = 0.01
  config.optim.epochs = 2.0
  config.evaluation.depth = 64
  config.evaluation.eval_steps = 500
  config.evaluation.metrics = ('accuracy@1', 'accuracy@64', 'mrr@10')
  return config
