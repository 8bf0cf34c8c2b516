"""Words of a pair deleted, replaced or masked, anew at every step. Pure.

The survey's "simple data augmentations, such as random word deletion,
replacement, or masking". What changes is a function of (seed, step, example,
role): it is the same after a resume and on any number of devices.
"""

import dataclasses
import hashlib

import numpy as np
from jaxtyping import Bool, Int, Integer

from neg_contrast.data import sequences as sequences_lib

QUERY, PASSAGE = 'query', 'passage'


@dataclasses.dataclass(frozen=True)
class Words:
  """What a vocabulary tells of its tokens.

  Attributes:
    is_special: `[vocab] bool`: part of no word, such as [CLS], [SEP] and
      markers; never changed.
    begins_word: `[vocab] bool`; the other tokens go on with a word.
    replacements: `[words] int32`, what a word may become.
    mask_id: what the tokens of a masked word become; -1: there is none.
  """

  is_special: Bool[np.ndarray, ' vocab']
  begins_word: Bool[np.ndarray, ' vocab']
  replacements: Int[np.ndarray, ' words']
  mask_id: int


@dataclasses.dataclass(frozen=True)
class Augmentation:
  """Changes the words of queries, of positives, or of both.

  Attributes:
    words: of the vocabulary.
    seed: of all draws.
    deletion: chance that a word is deleted.
    replacement: chance that it becomes a random word of one token.
    masking: chance that its tokens are masked.
    roles: `QUERY`, `PASSAGE` or both.
  """

  words: Words
  seed: int
  deletion: float = 0.0
  replacement: float = 0.0
  masking: float = 0.0
  roles: tuple[str, ...] = (QUERY, PASSAGE)

  def __call__(
      self, role: str, step: int, numbers: Integer[np.ndarray, ' examples'],
      sequences: sequences_lib.AnySequences,
      places: Integer[np.ndarray, ' examples'] | None = None,
  ) -> sequences_lib.AnySequences:
    """Sequences of which those of some examples are changed.

    The tokens of these are read, in every process: their lengths change, by
    which all sequences are packed.

    Args:
      role: of the sequences; others than `roles` stay as they are, and so do
        features beside text.
      step: of the training.
      numbers: `[examples] int`, of the batch.
      sequences: with special tokens, cut already.
      places: `[examples] int`, which of the sequences belong to the examples;
        None: the first ones.
    """
    if role not in self.roles:
      return sequences
    if isinstance(sequences, sequences_lib.Featured):
      return dataclasses.replace(sequences, tokens=self(
          role, step, numbers, sequences.tokens, places
      ))
    if places is None:
      places = np.arange(len(numbers))
    changed = sequences_lib.listed(
        self.change(ids, self._generator(role, step, int(number)))
        for ids, number in zip(sequences.take(places), numbers, strict=True)
    )
    part, place = np.zeros(len(sequences), int), np.arange(len(sequences))
    part[places], place[places] = 1, np.arange(len(places))
    return sequences_lib.Interleaved((sequences, changed), part, place)

  def change(
      self, ids: Integer[np.ndarray, ' tokens'], rng: np.random.Generator
  ) -> Int[np.ndarray, ' kept']:
    """One sequence with words deleted, replaced and masked.

    Each word is drawn for by itself. Between two special tokens, such as a
    title or a mention, one word at least stays: where all would be deleted,
    that with the highest draw. A sequence never grows.

    Args:
      ids: `[tokens] int`.
      rng: gives the draws.

    Returns:
      `[kept] int32`.
    """
    ids = np.asarray(ids, np.int32)
    special = self.words.is_special[ids]
    follows_special = np.append(True, special[:-1])
    begins = ~special & (self.words.begins_word[ids] | follows_special)
    count = int(begins.sum())
    if not count:
      return ids
    draws = rng.random(count)
    others = (rng.choice(self.words.replacements, count) if self.replacement
              else ids[begins])  # A vocabulary may have none to choose from.
    fate = np.searchsorted(
        np.cumsum([self.deletion, self.replacement, self.masking]), draws,
        'right',
    )  # 0: deleted, 1: replaced, 2: masked, 3: stays.
    stretches = np.cumsum(special)[begins]  # Of words between special tokens.
    for stretch in np.unique(stretches):
      own = np.flatnonzero(stretches == stretch)
      if (fate[own] == 0).all():
        fate[own[draws[own].argmax()]] = 3
    word = np.maximum(np.cumsum(begins) - 1, 0)  # Of each token.
    of_token = np.where(special, 3, fate[word])
    ids = np.where(of_token == 1, others[word], ids)
    ids = np.where(of_token == 2, self.words.mask_id, ids)
    kept = (of_token > 1) | (of_token == 1) & begins
    return ids[kept].astype(np.int32)

  def _generator(
      self, role: str, step: int, number: int
  ) -> np.random.Generator:
    text = f'{self.seed}\0{step}\0{number}\0{role}'
    key = hashlib.blake2b(text.encode(), digest_size=16).digest()
    return np.random.Generator(np.random.Philox(
        key=np.frombuffer(key, '<u8')
    ))


def nothing(
    role: str, step: int, numbers: Integer[np.ndarray, ' examples'],
    sequences: sequences_lib.AnySequences,
    places: Integer[np.ndarray, ' examples'] | None = None,
) -> sequences_lib.AnySequences:
  """Changes nothing; arguments as those of an `Augmentation`."""
  del role, step, numbers, places
  return sequences
