"""Keys of the evaluation, of early stopping, and of BM25."""

import dataclasses

from neg_contrast.settings import keys


@dataclasses.dataclass(frozen=True)
class EvaluationConfig(keys.Section):
  """Retrieval evaluation.

  Attributes:
    eval_steps: steps between evaluations on the tune split; there is one at the
      end, too. 0: none.
    criterion: the metric that early stopping and the choice of the checkpoint
      go by, such as `mrr@10`; of a question generator it is the loss.
    patience: evaluations without a better criterion before training stops;
      0: never stop early.
    stop_corpus_passages: random passages in the corpus of early stopping,
      beside the tune positives and their BM25 top 100.
    metrics: names as in `evaluation/metrics/`.
    answer_ks: cut-offs of `answer_accuracy@k`; empty: not measured.
    answer_rule: `string` (the DPR rule) or `regex`.
    depth: passages retrieved for a query.
    by_document: `job=search` shows each document once, with its best passage;
      `depth` counts documents then. Metrics of documents are `document_ndcg@10`
      and the like, see `metrics`.
    runs: TREC run files that `job=evaluate` evaluates too; and files of
      Zeshel's tfidf_candidates.
    dpr_results: also write every ranking with its texts as DPR's result json.
    bm25: also evaluate BM25.
    hybrid: after a training, also evaluate BM25's first `ensemble.hybrid_depth`
      passages, ranked anew by its score and that of the trained model; the
      weights are tuned on the tune split. `job=search` and
      `job=serve` rank so, too, by the weights, `bm25_k1` and `bm25_b` of their
      checkpoint's training.
    untouched: where a training goes on from stage 1, also evaluate what stage 1
      began with.
    dims: widths at which `job=train` and `job=evaluate` also evaluate a dual
      encoder, by the first features of its vectors (`trained@64`); nothing is
      encoded again.
    bm25_k1: term saturation of BM25.
    bm25_b: length normalisation of BM25.
  """

  section = 'evaluation'

  eval_steps: int = keys.key(0, keys.at_least(0))
  criterion: str = keys.key('accuracy@1', counts=keys.Changed())
  patience: int = keys.key(0, keys.at_least(0), read=keys.Where(
      '`eval_steps` is above 0', lambda evaluation: evaluation.eval_steps
  ))
  stop_corpus_passages: int = keys.key(100_000, keys.at_least(0))
  metrics: tuple[str, ...] = keys.key((
      'accuracy@1', 'accuracy@5', 'accuracy@20', 'accuracy@100', 'mrr@10',
  ), counts=False)
  answer_ks: tuple[int, ...] = keys.key(
      (), each=keys.at_least(1), counts=False
  )
  answer_rule: str = keys.key(
      'string', keys.one_of('string', 'regex'), counts=keys.Where(
          'changed, and `criterion` is `answer_accuracy@k`', lambda evaluation:
          evaluation.answer_rule != 'string' and evaluation.eval_steps
          and 'answer_accuracy' in evaluation.criterion
      )
  )
  depth: int = keys.key(100, keys.from_to(1, 10**6), counts=keys.Where(
      'changed, and `criterion` has no cut', lambda evaluation:
      evaluation.depth != 100 and evaluation.eval_steps
      and '@' not in evaluation.criterion
  ))
  by_document: bool = keys.key(
      False, counts=False, read=keys.jobs('search', 'serve')
  )
  runs: tuple[str, ...] = keys.key(
      (), counts=False, read=keys.jobs('evaluate')
  )
  dpr_results: bool = keys.key(False, counts=False)
  bm25: bool = keys.key(True, counts=False)
  hybrid: bool = keys.key(
      False, counts=False, read=keys.jobs('train', 'search', 'serve')
  )
  untouched: bool = keys.key(
      False, counts=False, read=keys.jobs('train')
  )
  dims: tuple[int, ...] = keys.key(
      (), each=keys.at_least(1), counts=False
  )
  bm25_k1: float = keys.key(0.9, keys.at_least(0))
  bm25_b: float = keys.key(0.4, keys.from_to(0, 1))

  def __post_init__(self):
    """Checks rules that several values share."""
    super().__post_init__()
    if len(set(self.dims)) < len(self.dims):
      raise self.error('dims', 'names each once')

  @property
  def may_stop_early(self) -> bool:
    """Whether a training ends when its evaluations get no better."""
    return bool(self.eval_steps and self.patience)

  def check_depth(self) -> None:
    """Refuses metrics of ranks that are not retrieved.

    Raises:
      SettingError: a cut-off exceeds the depth.
    """
    cuts = {name: name.rpartition('@')[2]
            for name in (*self.metrics, self.criterion)}
    cuts |= {f'answer_accuracy@{k}': str(k) for k in self.answer_ks}
    for name, cut in cuts.items():
      if cut.isdecimal() and int(cut) > self.depth:
        raise self.error('depth', f'must be at least {cut}, for {name}')
