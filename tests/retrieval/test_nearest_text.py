"""The passage of a document that fits a question."""

import pytest

from neg_contrast.retrieval import nearest_text


@pytest.fixture(scope='module')
def nearest():
  return nearest_text.NearestText(0.9, 0.4)


@pytest.mark.parametrize(('question', 'texts', 'want'), [
    ('Where do penguins live?', ['Bears eat fish.', 'Penguins live in ice.',
                                 'Penguins.'], 1),
    ('penguins', ['penguin penguin', 'a penguin among very many others here'],
     0),  # As often in a shorter one.
    ('rare word', ['word word word', 'word rare', 'word'], 1),
    ('nothing', ['of this', 'is there'], 0),
    ('', ['alone'], 0),
    ('the of', ['', ''], 0),
    ('snow', ['snow', 'snow'], 0),
])
def test_nearest(nearest, question, texts, want):
  assert nearest(question, texts) == want


@pytest.mark.parametrize(('k1', 'b'), [(0, 0.4), (0.9, 1), (0, 0)])
def test_passages_whose_norm_is_0(k1, b):
  nearest = nearest_text.NearestText(k1, b)
  texts = ['', 'word rare', 'word', 'rare']  # All else counts for nothing.
  assert nearest('rare word', texts) == 1
  assert nearest('word', texts[::-1]) == 1
