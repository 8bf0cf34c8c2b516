"""Keys of ensembles."""

import dataclasses

from neg_contrast.settings import keys


@dataclasses.dataclass(frozen=True)
class EnsembleConfig(keys.Section):
  """Several models as one, and BM25 with them (Lu et al., sections 4.4, 6.1).

  Weights that are not given are tuned on the tune split: best accuracy@1, then
  best mrr@10, of all that are tried.

  Attributes:
    members: checkpoints: trained workdirs, or folders or names of others.
    weights: weights of the members' scores in embedding fusion, in their order,
      adding up to 1; empty: tuned.
    weight_steps: the weights that are tried are multiples of 1 over this.
    candidates: passages of each member that a tune query is tuned with.
    rank_k: constant of reciprocal rank fusion: a passage gets
      1 / (rank_k + rank).
    runs: TREC run files that rank fusion combines with the members.
    hybrid: also combine the ensemble, or the only member, with BM25.
    hybrid_depth: passages of BM25 that `hybrid` ranks again by BM25's score and
      a weight times the dense score.
  """

  section = 'ensemble'

  members: tuple[str, ...] = keys.key(())
  weights: tuple[float, ...] = keys.key(())
  weight_steps: int = keys.key(10, keys.at_least(1))
  candidates: int = keys.key(100, keys.at_least(1))
  rank_k: float = keys.key(60.0, keys.at_least(0))
  runs: tuple[str, ...] = keys.key(())
  hybrid: bool = keys.key(True)
  hybrid_depth: int = keys.key(2000, keys.at_least(1))

  def __post_init__(self):
    """Checks ranges and that the keys agree."""
    super().__post_init__()
    if len(set(self.members)) < len(self.members):
      raise self.error('members', 'names each once')
    if self.weights and (
        len(self.weights) != len(self.members) or min(self.weights) < 0
        or abs(sum(self.weights) - 1) > 1e-6
    ):
      raise self.error('weights', f'gives each of members={self.members} a '
                       'number of at least 0, and they add up to 1')
