"""A pretext is one file and one line: stage1/README.md, followed."""

import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.artifacts import plan
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import synthetic_pairs
from neg_contrast.jobs.common import declared_pairs
from neg_contrast.settings import config as config_lib
from neg_contrast.settings import reference
from neg_contrast.stage1 import pretexts
from tests import tiny


def _last_word(document, offsets):
  """The last word of a passage asks for the rest."""
  del offsets

  def draw(place, rng):
    del rng
    row, passage = document[place]
    yield pretexts.Pair(passage.text.split()[-1], row)

  return draw


LAST_WORD = pretexts.Pretext('last_word', 'passages with a word', _last_word)


@pytest.fixture
def last_word(monkeypatch):
  monkeypatch.setitem(pretexts.PRETEXTS, 'last_word', LAST_WORD)


def make(tmp_path, pairs):
  return config_lib.parse(tiny.make_config(
      tmp_path, synthetic__pairs=pairs, synthetic__per_passage=1,
      synthetic__dir=str(tmp_path / 'synthetic')))


def test_a_line_is_enough(last_word, tmp_path):
  config = make(tmp_path, 'last_word')
  pairs = declared_pairs.training_data(
      config, dataset_lib.data_of(config.data))
  assert 'last_word pairs of all passages' in plan.describe([pairs])
  plan.run([pairs])
  made = pairs.load().prepared
  judged = made.judgements(synthetic_pairs.SPLIT)
  assert len(judged.grades) == len(made.passages) > 40
  for query, passage in zip(judged.query_rows[:9], judged.passage_rows[:9],
                            strict=True):
    text = made.passages[int(passage)].text
    assert made.queries[int(query)].text == text.split()[-1]
  assert np.array_equal(np.unique(judged.passage_rows),
                        np.arange(len(made.passages)))


def test_errors_and_the_reference_offer_it(last_word, tmp_path):
  with pytest.raises(errors.UserError, match='must be one of .*, last_w'):
    make(tmp_path, 'bogus')
  assert ', `last_word`' in reference.reference()
