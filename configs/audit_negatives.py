"""Recommends hard negatives for a data set, before any training.

    python -m neg_contrast.main --config=configs/audit_negatives.py \\
        --config.data.source=beir:DATA --config.data.train_split=train \\
        --workdir=workdirs/audit

Mines candidates for 2,000 queries of `--config.data.train_split` by what needs
no training: BM25; a model as it comes, the judge (`--config.checkpoint`,
default `minilm`; a model trained on other data of the kind judges better);
other passages of the document, where documents are known; given negatives,
where passages are judged not relevant. Prints

* a table by source and rank. `false` estimates the part of the candidates that
  are unlabelled positives, with a 95% interval over queries. It rests on the
  columns `answer` (holds an answer) beyond `chance` (holds the answer of
  another question on the same topic), `copy` (nearly the text of a positive)
  and `twin` (positive of a question with the same words); or, where answers
  say nothing, on `above`: the judge prefers it to the positive. `push` is its
  softmax share against the positive at `--config.loss.scale`: 0 teaches
  nothing, and 0.5 means that the judge can't tell the two apart;
* a verdict: strategy, rank window and margin, what they rest on and how sure
  they are, and the flags that say so to any other config.

With `--config.negatives.judge=CROSS_ENCODER` (see configs/judge_reranker.py)
`false` rests on its probabilities instead, and where answers are known the two
are printed side by side. It scores every candidate: 2,000 queries of
`--config.negatives.depth` candidates for each of up to four sources.

The rule: `FALSE_LIMIT` and the other constants of
`neg_contrast/mining/false_negatives.py`, with their reasons.
`<workdir>/audit.json` holds all numbers.

Paper: Lu et al., sections 4.2 and 6.4.
"""

from neg_contrast.settings import config as config_lib


def get_config(arg=None):
  """Takes no argument."""
  config_lib.arguments(arg)
  config = config_lib.base_config()
  config.job = 'audit'
  config.checkpoint = 'minilm'
  return config
