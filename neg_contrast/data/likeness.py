"""How alike two passages are: near-copies of a positive are no negatives. Pure.
"""

from neg_contrast.data import scripts

NEAR = 0.8
"""From this likeness on a passage counts as a near-copy."""


def words(text: str) -> frozenset[str]:
  """The distinct words of a text, case folded."""
  return frozenset(scripts.words(text.casefold()))


def likeness(ours: frozenset[str], theirs: frozenset[str]) -> float:
  """Shared words as a part of all words (Jaccard); 0 if both have none."""
  union = len(ours | theirs)
  return len(ours & theirs) / union if union else 0.0


def is_near(ours: frozenset[str], theirs: frozenset[str]) -> bool:
  """Whether one is a near-copy of the other; most are told by their sizes."""
  few, many = sorted((len(ours), len(theirs)))
  return few >= NEAR * many and likeness(ours, theirs) >= NEAR
