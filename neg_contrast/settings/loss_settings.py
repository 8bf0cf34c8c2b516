"""Keys of the loss."""

import dataclasses

from neg_contrast.settings import keys

LOSSES = keys.Table('losses.loss_table', 'LOSSES')
DISTILLATIONS = keys.Table('losses.loss_table', 'DISTILLATIONS')


@dataclasses.dataclass(frozen=True)
class LossConfig(keys.Section):
  """What is minimised: by default the bidirectional batch softmax.

  Lu et al., section 3, equations 1 to 3.

  A reranker uses `kind` (not `triplet`), `hardest`, `margin`, `offset`,
  `positive_weight`, `distil`, `distil_weight` and `example_weights` alone: its
  scores are unscaled, and a positive competes with its query's own negatives
  only.

  Attributes:
    kind: `softmax`: cross-entropy of the positive among its candidates; with
      `candidates=batch` the batch softmax, InfoNCE at the temperature 1 /
      `scale`. `triplet`: a positive nearer than each negative by `margin`;
      `hinge`: a score ahead of each by `margin`; `bce`: binary cross-entropy of
      each candidate by itself; `lambdarank`: the pairwise logistic loss, by
      what each pair is worth for the reciprocal rank.
    scale: factor on the scores before the softmax. The paper gives none, and
      cosines in [-1, 1] without one cannot separate a batch; 20 is the usual
      choice for l2-normalised encoders (a temperature of 0.05).
    learn_scale: train the scale's logarithm, starting from `scale`.
    bidirectional: also rank the queries of the batch for each passage; off:
      only the passages for each query, as in DPR.
    candidates: what a query's positive competes with. `batch`: its own hard
      negatives and the passages of all other queries. `own`: its own hard
      negatives only, in one direction: noise contrastive estimation (Zhang and
      Stratos, equations 4, 5 and 11), with K - 1 of `negatives.sources`.
    hardest: of a query's negatives only so many count, those that score highest
      at the step, of the batch and of all else it is compared with; 0: all.
    margin: of `triplet`, in units of its distance, and of `hinge`, in units of
      scaled scores.
    distance: of `triplet`: `cosine`, `euclidean`, or `dot`, minus the score.
    positive_weight: of the positive in `bce`, in units of a negative's.
    offset: scaled score that `bce` takes for probability 1/2; where plain dot
      products of any pair are about 30, these 30.
    adjusted: the score-adjusted loss (Zhang and Stratos, equation 10):
      negatives are drawn independently, with replacement, and the logarithm of
      their expected count is subtracted from their scores; for
      `candidates=own` with source `sampled` alone, all of them hard.
    distil: learn the scores of `negatives.judge` too, of a query's positive and
      its own negatives, as far as that has judged them. `margin_mse`: squared
      difference of margins (Hofstätter et al., 2020); `kl`: divergence of
      distributions (RocketQAv2); empty: no teacher.
    distil_weight: part of the loss that is the teacher's; the rest is
      contrastive. 1: it learns from the teacher alone.
    matryoshka: widths, ascending, at which the loss of a dual encoder is taken
      too: of the first features of each vector, of length 1 again where vectors
      have that (Kusupati et al., 2022). The loss is the mean over these and the
      full width. Empty: the full width alone.
    mask_known_positives: another row's passage that is a known positive of a
      query, or the query itself (`data.drop_own_passage`), is not a negative of
      it; off reproduces the paper's text.
    example_weights: how much an example, a (query, positive) pair, counts in
      the mean over the batch, in both directions. `given`: by the weight of its
      judgement, where the data has weights; `graded`: by that times the grade;
      `equal`: all alike. Negatives have no weights. A question generator learns
      from all alike.
    label_smoothing: part of the target's mass that is spread evenly over the
      vocabulary, in the training of a question generator.
  """

  section = 'loss'

  kind: str = keys.key('softmax', keys.one_of(LOSSES), counts=keys.Changed())
  scale: float = keys.key(20.0, keys.above_at_most(0, 10**6))
  learn_scale: bool = keys.key(False)
  bidirectional: bool = keys.key(True)
  candidates: str = keys.key('batch', keys.one_of('batch', 'own'))
  hardest: int = keys.key(0, keys.at_least(0), counts=keys.Changed())
  margin: float = keys.key(1.0, keys.at_least(0), counts=keys.Changed())
  distance: str = keys.key(
      'cosine', keys.one_of('cosine', 'euclidean', 'dot'),
      counts=keys.Changed(),
  )
  positive_weight: float = keys.key(
      1.0, keys.above(0), counts=keys.Changed()
  )
  offset: float = keys.key(0.0, counts=keys.Changed())
  adjusted: bool = keys.key(False)
  distil: str = keys.key(
      '', keys.one_of('', DISTILLATIONS), counts=keys.Changed()
  )
  distil_weight: float = keys.key(
      0.5, keys.above_at_most(0, 1), counts=keys.Changed()
  )
  matryoshka: tuple[int, ...] = keys.key(
      (), each=keys.at_least(1), counts=keys.Changed()
  )
  mask_known_positives: bool = keys.key(True)
  example_weights: str = keys.key(
      'given', keys.one_of('given', 'graded', 'equal'), counts=keys.Changed()
  )
  label_smoothing: float = keys.key(0.0, keys.at_least_below(0, 1))

  def __post_init__(self):
    """Checks ranges, and that a weight is of something."""
    super().__post_init__()
    if list(self.matryoshka) != sorted(set(self.matryoshka)):
      raise self.error('matryoshka', 'names each width once, ascending')
    if self.distil_weight != LossConfig.distil_weight and not self.distil:
      raise self.error('distil_weight', 'is of what a teacher adds; set '
                       'loss.distil, or leave it out')
