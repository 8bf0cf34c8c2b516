"""What the vocabulary of a model tells of words, for augmentation."""

from typing import Any

import numpy as np

from neg_contrast.batches import augmentation
from neg_contrast.data import tokenizer as tokenizer_lib
from neg_contrast.settings import config as config_lib

_MASKS = '[MASK]', '<mask>'
_SPACES = '\u2581', '\u0120'
"""What tokens begin with that follow a space: SentencePiece, byte level."""
_CONTINUES = '##'
"""What tokens begin with that go on with a word: WordPiece."""


def words_of(
    tokenizer: tokenizer_lib.Tokenizer, markers: tuple[str, ...] = ()
) -> augmentation.Words:
  """The words of a vocabulary.

  Special are the tokens of its template, those that it calls special itself,
  but for the one of unknown words, and markers. Where no token tells whether it
  goes on with a word, every token is one.

  Args:
    tokenizer: of the model.
    markers: further tokens that stay as they are, such as those of mentions;
      empty ones and those that there are not are passed over.
  """
  vocabulary, size = tokenizer.vocabulary, tokenizer.vocab_size
  template = tokenizer.template
  special = np.ones(size, bool)  # Ids may have gaps.
  special[list(vocabulary.values())] = False
  marked = [number for number in map(tokenizer.token_id, filter(None, markers))
            if number is not None]
  special[[*template.start, *template.between, *template.end,
           *tokenizer.special_ids, *marked]] = True
  has_spaces = any(token.startswith(_SPACES) for token in vocabulary)
  begins = np.zeros(size, bool)
  replacements = []
  for token, number in sorted(vocabulary.items(), key=lambda one: one[1]):
    begins[number] = (token.startswith(_SPACES) if has_spaces
                      else not token.startswith(_CONTINUES))
    plain = token.lstrip(''.join(_SPACES)) if has_spaces else token
    if begins[number] and plain.isalnum() and not special[number]:
      replacements.append(number)
  mask = next((number for number in map(tokenizer.token_id, _MASKS)
               if number is not None), -1)
  return augmentation.Words(
      special, begins, np.array(replacements, np.int32), mask
  )


def augmentation_of(
    settings: config_lib.DataConfig, seed: int, model: Any
) -> augmentation.Augmentation | None:
  """What a config changes of the words of pairs; None: nothing.

  Args:
    settings: the rates.
    seed: of the training.
    model: has `tokenizer` and `text`, see `dataset.Model`.

  Raises:
    UserError: the vocabulary has no token to mask, or replace, words with.
  """
  if not settings.is_augmented:
    return None
  words = words_of(model.tokenizer, (*model.text.markers, model.text.title_end))
  for name, lacks, what in (
      ('word_masking', words.mask_id < 0, ' or '.join(_MASKS)),
      ('word_replacement', not len(words.replacements), 'words of one token'),
  ):
    if getattr(settings, name) and lacks:
      raise settings.error(name, f'the tokenizer of the model has no {what}; '
                           'leave it out')
  return augmentation.Augmentation(
      words, seed, settings.word_deletion, settings.word_replacement,
      settings.word_masking,
      (augmentation.QUERY, augmentation.PASSAGE) if settings.augmented == 'both'
      else (settings.augmented,),
  )
