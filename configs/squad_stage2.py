"""Stage 2 on SQuAD v1.1: gold pairs, with or without hard negatives.

    python -m neg_contrast.main \
        --config=configs/squad_stage2.py:corpus=wikipedia

Trains what it starts from first, where that is not there yet: a question
generator, and stage 1 on its questions (see `--plan`).

Paper: Lu et al., Table 4, SQuAD: top-1/5/10/20/100 answer accuracy over
21,015,324 Wikipedia passages, on a 4x4 TPU v3 slice, with the questions of
DPR's SQuAD files (`corpus=wikipedia`: 70,096 to train, 7,921 to tune, 10,570 to
test). The generator and stage 1 are those of Natural Questions (`stage1=nq`):

               stage1=nq                     stage1=none
    random   30.1  53.7  62.0  69.5  81.2   25.0  46.5  54.7  62.4  75.7
    coarse   33.7  57.3  65.8  72.9  83.8   24.9  46.3  55.2  63.2  77.3
    fine     33.4  57.2  65.5  72.8  83.7   25.5  46.7  55.3  63.6  77.5
    bm25     30.7  54.4  63.3  70.9  82.7   25.3  47.3  56.3  64.4  78.1
    context  30.6  53.9  62.7  69.7  81.8   26.6  48.0  56.3  63.8  76.7
    mixed    33.4  56.8  65.4  72.4  83.6   28.0  50.8  59.1  66.8  79.6

               stage1=nq_no_hard_negatives
    random   28.1  51.3  59.9  67.2  80.0
    coarse   30.7  54.6  63.3  70.7  82.6
    fine     31.0  54.3  63.4  70.5  82.5
    bm25     27.0  50.3  59.8  67.9  80.8
    context  28.8  52.4  61.3  68.5  80.9
    mixed    30.1  54.3  63.0  70.4  82.7

With `corpus=squad` the corpus is SQuAD's own paragraphs (20,958 in the two
files), so the numbers are higher and not comparable.

Arguments, as in `squad_stage2.py:size=small,negatives=random`:
  size: `full` (the paper's values) or `small` (all-MiniLM-L6-v2, one epoch of
    batch 64; with stage1=none half an hour on two cores,
    launch/studies/RESULTS.md has what it reaches).
  negatives: `random` (the batch only), `bm25`, `context`, `coarse`, `fine`,
    `mixed` (these four), `corpus`, `given`, or `model` with a checkpoint; what
    it needs is trained and mined first, see `--plan`.
  corpus: `squad` (SQuAD's own paragraphs) or `wikipedia` (DPR's SQuAD questions
    and the 21,015,324 passages, as in the paper).
  stage1: what it starts from; `nq` with `corpus=wikipedia`, else `generated`.
    `generated`: questions of a generator trained on SQuAD, with context
      negatives. Our variant, which the paper does not have.
    `nq`: stage 1 of configs/nq_stage1.py, as in the paper.
    `no_hard_negatives`, `nq_no_hard_negatives`: these without hard negatives.
    `inverse_cloze`, `crops`, `recurring_spans`, `neighbours`, `title`,
      `masked_salient_spans`, `salient_spans`, `spar`: pairs made without a
      generator, without hard negatives.
    `none`: `model.init`.
"""

from neg_contrast import presets
from neg_contrast.settings import config as config_lib


def get_config(arg=None):
  """Takes `size`, `negatives`, `corpus`, `stage1`."""
  args = config_lib.arguments(
      arg, size='full', negatives='random', corpus='squad', stage1=''
  )
  args['stage1'] = args['stage1'] or (
      'nq' if args['corpus'] == 'wikipedia' else 'generated'
  )
  if args['corpus'] not in _CORPORA:
    raise config_lib.unknown_argument('corpus', args['corpus'], _CORPORA)
  config = config_lib.base_config()
  _CORPORA[args['corpus']](config.data)
  config.evaluation.answer_ks = (1, 5, 10, 20, 100)
  presets.set_size(config, args['size'])
  presets.set_negatives(config, args['negatives'])
  nq = {'nq': 'generated', 'nq_no_hard_negatives': 'no_hard_negatives'}
  presets.check_stage1(args['stage1'], *nq)
  if args['stage1'] in nq:
    presets.set_first(config, presets.beside(
        __file__, 'nq_stage1', size=args['size'], stage1=nq[args['stage1']]
    ), is_same_data=False)
  elif args['stage1'] != 'none':
    presets.set_first(config, presets.beside(
        __file__, 'squad_stage1', size=args['size'], stage1=args['stage1']
    ))
    if args['corpus'] == 'wikipedia':
      for first in filter(None, (config.stage1, config.stage1.generator)):
        first.workdir += '-wikipedia'  # Other trainings than those of SQuAD's.
  return config


def _set_squad(data):
  data.source = 'squad:data/squad'
  data.how_to_get = (
      'Download train-v1.1.json (30 MB) and dev-v1.1.json (5 MB) from\n'
      'https://rajpurkar.github.io/SQuAD-explorer/dataset/ into data/squad/'
  )
  data.test_split = 'dev'


def _set_wikipedia(data):
  data.source = 'dpr:data/squad1'
  data.how_to_get = (
      'From https://dl.fbaipublicfiles.com/dpr/ download into data/squad1\n'
      '  wikipedia_split/psgs_w100.tsv.gz (21,015,324 passages; 13 GB '
      'unpacked;\n'
      '  a link to that of data/nq will do),\n'
      '  data/retriever/biencoder-squad1-train.json.gz (70,096 questions),\n'
      '  data/retriever/biencoder-squad1-dev.json.gz (7,921 questions),\n'
      '  data/retriever/squad1-test.qa.csv (10,570 questions with answers)\n'
      'and leave them packed'
  )
  data.tune_split = 'dev'
  data.test_split = 'test-qa'
  data.document = 'title'  # The passages of a Wikipedia article.


_CORPORA = {'squad': _set_squad, 'wikipedia': _set_wikipedia}
