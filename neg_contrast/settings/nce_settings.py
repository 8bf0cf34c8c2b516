"""Keys of the measurement of gradient bias."""

import dataclasses

from neg_contrast.settings import keys


@dataclasses.dataclass(frozen=True)
class NceConfig(keys.Section):
  """How biased sampled losses are (Zhang and Stratos, 2021).

  Attributes:
    percents: kinds of negatives by the part that is hard: 0 is Random, 100 is
      Hard, any other Mixed.
    negatives: K - 1, negatives drawn for a query.
    draws: how often they are drawn; an even number, since its halves are
      compared.
    labels: size of the label space. For a model: the positives of the queries,
      and their best passages by BM25 that are not positives.
    queries: queries that a model is measured on, each with a positive of its
      own.
    log_steps: steps of `job=train` between measurements of the current dual
      encoder, on queries of the tune split, for the log; 0: never. A device
      then holds, beside the training, the whole parameters and a gradient for
      each of the `percents` and one more.
    points: parameters where `job=nce_bias` measures: `initial` (`model.init`),
      `cross_entropy` and `random` (trained from there on these queries and
      labels, by cross-entropy and by NCE with random negatives).
    temperature: temperature of the population of `job=nce_synthetic`,
      exp(u / temperature) for u uniform in [0, 1].
    hidden: hidden units of the network of `job=nce_synthetic`.
  """

  section = 'nce'

  percents: tuple[int, ...] = keys.key((0, 100, 50))
  negatives: int = keys.key(7, keys.at_least(1))
  draws: int = keys.key(500, keys.even(2))
  labels: int = keys.key(128)
  queries: int = keys.key(64, keys.at_least(1))
  log_steps: int = keys.key(0, keys.at_least(0))
  points: tuple[str, ...] = keys.key(
      ('initial', 'cross_entropy', 'random'),
      each=keys.one_of('initial', 'cross_entropy', 'random'),
  )
  temperature: float = keys.key(0.001, keys.above(0))
  hidden: int = keys.key(300, keys.at_least(1))

  def __post_init__(self):
    """Checks ranges and that the keys agree."""
    super().__post_init__()
    for name in ('percents', 'points'):
      values = getattr(self, name)
      if not values or len(set(values)) < len(values):
        raise self.error(name, 'names at least one, and each once')
    if min(self.percents) < 0 or max(self.percents) > 100:
      raise self.error('percents', 'lie between 0 and 100')
    if self.labels <= max(self.negatives, self.queries):
      raise self.error('labels', f'must be above nce.negatives={self.negatives}'
                       f' and nce.queries={self.queries}')
