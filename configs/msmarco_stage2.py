"""Stage 2 on MS MARCO passages with the paper's values.

    python -m neg_contrast.main --config=configs/msmarco_stage2.py

Paper: Lu et al., Table 3: MRR@10 and recall@1000 on dev, NDCG@10 on TREC DL
2019, over 8,841,823 passages, on a 4x4 TPU v3 slice:

    random   28.3  97.4  63.6
    coarse   30.8  97.6  67.4
    fine     31.2  97.7  67.1
    bm25     30.0  97.3  64.6
    context  28.9  97.2  66.3
    mixed    30.5  97.6  66.5
    bm25     23.8  87.1  56.0   with stage1=none ("DPR ours")

BM25 alone: 18.7, 85.7 and 49.7. The mixture here lacks context.
Hours: not given there, not measured here.

Arguments, as in `msmarco_stage2.py:negatives=fine`:
  size: `full` (the paper's values) or `small`, for data that is.
  negatives: `random` (the batch only), `bm25`, `coarse`, `fine`, `mixed` (these
    three), `corpus`, `given`, or `model` with a checkpoint. There is no
    `context`: MS MARCO does not say which passages are of one document.
  stage1: what it starts from; done first where it is not there yet.
    `generated`: questions of a generator, with coarse negatives.
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
  config.data.source = 'beir:data/msmarco'
  config.data.how_to_get = (
      'Download msmarco.zip (about 1 GB, md5 444067daf65d982533ea17ebd59501e4)'
      ' from\nhttps://public.ukp.informatik.tu-darmstadt.de/thakur/BEIR/'
      'datasets/msmarco.zip\nand unpack it into data/msmarco/ (corpus.jsonl, '
      'queries.jsonl, qrels/)'
  )
  config.data.test_split = 'dev'
  config.data.tune_fraction = 0.01
  presets.set_size(config, args['size'])
  presets.set_negatives(
      config, args['negatives'], mixed='coarse+fine+bm25'
  )
  config.evaluation.eval_steps = 500
  config.evaluation.depth = 1000
  config.evaluation.metrics = ('accuracy@1', 'mrr@10', 'recall@1000', 'ndcg@10')
  config.evaluation.bm25_k1 = 0.82
  config.evaluation.bm25_b = 0.68
  presets.check_stage1(args['stage1'])
  if args['stage1'] != 'none':
    presets.set_first(config, presets.beside(
        __file__, 'msmarco_stage1', size=args['size'], stage1=args['stage1']
    ))
  return config
