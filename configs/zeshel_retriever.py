"""An entity retriever on Zeshel: mentions in context, worlds of entities.

    python -m neg_contrast.main \\
        --config=configs/zeshel_retriever.py:score=som,negatives=mixed-50 \\
        --config.data.source=zeshel:data/zeshel

Paper: Zhang and Stratos, "Understanding Hard Negatives in Noise Contrastive
Estimation", Table 1: top-64 recall (`accuracy@64` here, over mentions) of val
and test, in half a day on an A100, SOM in one to two:

    BM25                        76.22  69.13
    Wu et al.  Mixed (10 hard)  91.44  82.06
    DUAL       Random           91.08  81.80
    DUAL       Hard             91.99  84.87
    DUAL       Mixed-50         91.75  84.16
    DUAL-(10)  Hard             91.57  83.08
    POLY-16    Random           91.05  81.73
    POLY-16    Hard             92.08  84.07
    POLY-16    Mixed-50         92.18  84.34
    MULTI-8    Random           91.13  82.44
    MULTI-8    Hard             92.35  84.94
    MULTI-8    Mixed-50         92.76  84.11
    SOM        Random           92.51  87.62
    SOM        Hard             94.49  88.68
    SOM        Mixed-50         94.66  89.62

Two BERT-base without projection, normalisation or scale, 128 tokens a mention
and an entity; 4 mentions a step, each with K - 1 = 63 entities of the training
worlds of its own, drawn anew each epoch by the model as it is (the paper's
equation 11 and section 6.3). Adam, four epochs; the learning rate is the best
on val of 5e-5, 2e-5 and 1e-5 (`--config.optim.learning_rate`).

A mention is `[CLS] left [unused0] mention [unused1] right [SEP]`, an entity
`[CLS] title [SEP] text [SEP]`. The paper says neither which symbols mark the
mention nor how title and text are joined; its code, like BLINK, has these
symbols, and [unused2] between title and text
(`--config.model.title_end=[unused2]`). A mention is searched among the
entities of its own world; the paper's code searches those of all four val (or
test) worlds together, which is harder. Hours and numbers here: not measured.

Arguments, as in `zeshel_retriever.py:score=multi-8,negatives=hard`:
  score: `dual` (the default), `poly-16`, `multi-8`, `som`, or another number of
    vectors.
  negatives: `random`, `hard`, `mixed-50` (the default), another percentage, or
    `adjusted`: hard, with the score-adjusted loss (DUAL-(10)).
  size: `full` (the paper's values) or `small` (all-MiniLM-L6-v2, 64 tokens, one
    epoch with 7 negatives), for data that is.
"""

from neg_contrast import presets
from neg_contrast.settings import config as config_lib


def get_config(arg=None):
  """Takes `size`, `score` and `negatives`."""
  args = config_lib.arguments(
      arg, size='full', score='dual', negatives='mixed-50'
  )
  config = config_lib.base_config()
  config.data.source = 'zeshel:data/zeshel'
  config.data.how_to_get = (
      'Follow https://github.com/lajanugen/zeshel and unpack it into '
      'data/zeshel/,\nso that documents/<world>.json and mentions/<split>.json '
      'lie there'
  )
  config.data.tune_split = 'val'
  presets.set_linking(config, **args)
  config.evaluation.metrics += ('macro_accuracy@1',)
  config.evaluation.eval_steps = 12_000 if args['size'] == 'full' else 200
  return config
