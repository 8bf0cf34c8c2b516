"""What a question generator reads, against plain lists."""

import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.data import sequences, tokenizer
from neg_contrast.models import generator, t5_config

TITLES, TEXTS = [[7, 8], [], [9]], [[20, 21, 22, 23], [24], []]


class Letters(tokenizer.Seq2SeqTokenizer):
  """Its tokens are characters."""

  def __init__(self):
    """Needs no file."""

  def encode_batch(self, texts):
    return [[100 + ord(character) for character in text] for text in texts]


@pytest.mark.parametrize('length', [7, 15, 200])
@pytest.mark.parametrize('with_answer', [False, True])
def test_sources(length, with_answer):
  text = generator.TextSpec(length, 8, 'ask: ', with_answer)
  made = generator.Generator(
      t5_config.T5Config(eos_id=1), text, Letters(), {}, 'test', 'test')
  answers = ['yes', '', 'a "b"'] if with_answer else []
  sources = made.sources(
      sequences.listed(np.array(ids, np.int32) for ids in TITLES),
      sequences.listed(np.array(ids, np.int32) for ids in TEXTS), answers)
  want = []
  for row, (title, body) in enumerate(zip(TITLES, TEXTS, strict=True)):
    head = 'ask: '
    if with_answer:
      head += f'answer: {answers[row]} passage: '
    ids = [*Letters().encode_batch([head])[0], *title, *body]
    want.append([*ids[: length - 1], 1])
  assert [list(ids) for ids in sources] == want
  assert sources.lengths.tolist() == list(map(len, want))


def test_a_prefix_that_leaves_no_room_is_refused():
  """All passages were the same source."""
  made = generator.Generator(
      t5_config.T5Config(eos_id=1), generator.TextSpec(6, 8, 'ask: ', False),
      Letters(), {}, 'test', 'test')
  with pytest.raises(errors.UserError, match=(
      'test: the prefix \'ask: \' has 5 tokens, which leaves none of 6 for a')):
    made.sources(sequences.listed([np.array([7], np.int32)]),
                 sequences.listed([np.array([8], np.int32)]))
