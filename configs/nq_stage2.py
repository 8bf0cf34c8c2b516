"""Stage 2 on Natural Questions with the paper's values.

    python -m neg_contrast.main --config=configs/nq_stage2.py

Paper: Lu et al., Table 4, NQ: top-1/5/10/20/100 answer accuracy over 21,015,324
passages, on a 4x4 TPU v3 slice:

               stage1=generated              stage1=none
    random   40.5  67.2  75.2  80.6  87.4   35.9  62.2  70.3  77.2  85.5
    coarse   42.4  69.3  77.4  81.8  88.1   35.9  62.4  70.8  77.5  85.6
    fine     42.1  69.4  77.4  82.1  88.1   36.3  63.1  71.3  77.8  85.7
    bm25     50.0  72.2  78.1  82.2  87.7   44.6  68.1  74.5  79.6  86.2
    context  51.0  72.4  77.8  82.1  88.1   47.6  68.7  75.4  79.8  86.4
    mixed    50.3  72.1  78.2  82.7  88.6   39.1  63.8  72.4  78.1  85.9

               stage1=no_hard_negatives
    random   39.0  65.9  73.9  79.8  87.1
    coarse   41.3  68.0  76.0  81.6  88.2
    fine     39.7  67.6  76.0  81.2  88.0
    bm25     47.3  70.8  77.0  81.4  87.4
    context  49.4  71.2  77.2  81.4  87.6
    mixed    49.6  71.9  77.9  82.6  88.0

Hours: not given there, not measured here.

Arguments, as in `nq_stage2.py:negatives=context`:
  size: `full` (the paper's values) or `small`, for data that is.
  negatives: `random` (the batch only), `bm25`, `context`, `coarse`, `fine`,
    `mixed` (these four), `corpus`, `given`, or `model` with a checkpoint.
  stage1: what it starts from; done first where it is not there yet.
    `generated` (or `nq`): questions of a generator, with context negatives.
    `no_hard_negatives`: the same without.
    `inverse_cloze`, `crops`, `recurring_spans`, `neighbours`, `title`,
      `masked_salient_spans`, `salient_spans`, `spar`: pairs made without a
      generator, without hard negatives.
    `none`: `model.init`.
"""

from neg_contrast import presets
from neg_contrast.settings import config as config_lib


def get_config(arg=None):
  """Takes `size`, `negatives`, `stage1`."""
  args = config_lib.arguments(
      arg, size='full', negatives='random', stage1='generated'
  )
  config = config_lib.base_config()
  config.data.source = 'dpr:data/nq'
  config.data.how_to_get = (
      'From https://dl.fbaipublicfiles.com/dpr/ download into data/nq\n'
      '  wikipedia_split/psgs_w100.tsv.gz (21,015,324 passages; 13 GB '
      'unpacked),\n'
      '  data/retriever/biencoder-nq-train.json.gz (58,880 questions),\n'
      '  data/retriever/biencoder-nq-dev.json.gz (6,515 questions),\n'
      '  data/retriever/nq-test.qa.csv (3,610 questions with answers)\n'
      'and leave them packed'
  )
  config.data.answer_words = 5  # Section 5.1; so are DPR's files.
  config.data.tune_split = 'dev'
  config.data.test_split = 'test-qa'
  config.data.document = 'title'  # The passages of a Wikipedia article.
  config.evaluation.answer_ks = (1, 5, 10, 20, 100)
  presets.set_size(config, args['size'])
  presets.set_negatives(config, args['negatives'])
  presets.check_stage1(args['stage1'], 'nq')
  if args['stage1'] != 'none':
    kind = args['stage1'].replace('nq', 'generated')  # It is that of NQ.
    presets.set_first(config, presets.beside(
        __file__, 'nq_stage1', size=args['size'], stage1=kind
    ))
  return config
