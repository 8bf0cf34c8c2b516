"""Categories of mentions, as Logeswaran et al. define them."""

import pytest

from neg_contrast.evaluation import mention_categories


@pytest.mark.parametrize(('mention', 'title', 'category'), [
    ('Batman', 'batman', 'high overlap'),
    ('the  Doctor', 'The Doctor', 'high overlap'),
    ('Batman', 'Batman (Lego)', 'multiple categories'),
    ('c++ (old)', 'C++ (old) (language)', 'multiple categories'),
    ('Agent', 'The Agent', 'ambiguous substring'),
    ('Batman', 'Batman (Lego) returns', 'ambiguous substring'),
    ('the dark knight', 'Batman', 'low overlap'),
    ('Batman (Lego)', 'Batman', 'low overlap'),
    ('Batman', '', 'low overlap'),
])
def test_category(mention, title, category):
  assert mention_categories.category_of(mention, title) == category
