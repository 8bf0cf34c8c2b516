"""Files for other trainers: their rows, to the letter."""

import json
import pathlib

import numpy as np
import pytest

from neg_contrast.data import prepared, records
from neg_contrast.mining import training_files
from neg_contrast.negatives import pool
from neg_contrast.settings import config as config_lib

AWKWARD = 'Ünï one\u2028two\x85three\r\nfour "q" \\n \t'
GOLD = records.Passage('g', 'Gold', AWKWARD)
OTHER = records.Passage('o', '', 'Other text.')
HARD = records.Passage('h[0:2]', 'Hard', 'Hard half')
NAMED = records.Passage('n', 'Only a name', ' ')
ITEM = training_files.Item(
    records.Query('q', 'What\u2029?', ('one', 'two')), (GOLD, OTHER),
    (HARD, NAMED), (2.5, -1.25), (3.125, 3.125),
)
ALONE = training_files.Item(records.Query('r', 'Alone?'), (OTHER,), ())
NOTHING = training_files.Item(records.Query('s', 'Nothing?'), (), (HARD,))


def write(folder, items, *formats):
  """(what `write` says, format -> rows)."""
  said = training_files.write(folder, 'split-train', formats, items)
  rows = {}
  for path in folder.iterdir():
    text = path.read_bytes().decode('ascii')
    name = path.name.removesuffix(''.join(path.suffixes))
    rows[name.removesuffix('-split-train')] = (
        json.loads(text) if path.suffix == '.json' else
        [json.loads(line) for line in text.splitlines() if line]
    )
  return said, rows


def test_rows_of_every_format(tmp_path):
  _, rows = write(tmp_path, [ITEM], *config_lib.FORMATS)
  gold, hard = 'Gold [SEP] ' + AWKWARD, 'Hard [SEP] Hard half'
  named = 'Only a name [SEP]  '
  assert rows == {
      'dpr': [{
          'question_id': 'q', 'question': 'What\u2029?',
          'answers': ['one', 'two'],
          'positive_ctxs': [
              {'title': 'Gold', 'text': AWKWARD, 'score': 3.125,
               'passage_id': 'g'},
              {'title': '', 'text': 'Other text.', 'score': 3.125,
               'passage_id': 'o'},
          ],
          'negative_ctxs': [],
          'hard_negative_ctxs': [
              {'title': 'Hard', 'text': 'Hard half', 'score': 2.5,
               'passage_id': 'h[0:2]'},
              {'title': 'Only a name', 'text': ' ', 'score': -1.25,
               'passage_id': 'n'},
          ],
      }],
      'tevatron': [{
          'query_id': 'q', 'query': 'What\u2029?', 'answers': ['one', 'two'],
          'positive_passages': [
              {'docid': 'g', 'title': 'Gold', 'text': AWKWARD},
              {'docid': 'o', 'title': '', 'text': 'Other text.'},
          ],
          'negative_passages': [
              {'docid': 'h[0:2]', 'title': 'Hard', 'text': 'Hard half'},
              {'docid': 'n', 'title': '', 'text': 'Only a name'},
          ],
      }],
      'flag_embedding': [{
          'query_id': 'q', 'query': 'What\u2029?',
          'pos': [gold, 'Other text.'], 'neg': [hard, named],
          'pos_id': ['g', 'o'], 'neg_id': ['h[0:2]', 'n'],
          'pos_scores': [3.125, 3.125], 'neg_scores': [2.5, -1.25],
      }],
      'triplets': [
          {'anchor': 'What\u2029?', 'positive': gold, 'negative': hard},
          {'anchor': 'What\u2029?', 'positive': gold, 'negative': named},
      ],
  }


def test_queries_that_lack_something(tmp_path):
  said, rows = write(tmp_path, [ALONE, ITEM, NOTHING, ITEM],
                     *config_lib.FORMATS)
  assert said == {
      'dpr-split-train.json': {'rows': 3, 'left_out': 1},
      'tevatron-split-train.jsonl': {'rows': 2, 'left_out': 2},
      'flag_embedding-split-train.jsonl': {'rows': 2, 'left_out': 2},
      'triplets-split-train.jsonl': {'rows': 4, 'left_out': 2},
  }
  assert [row['question_id'] for row in rows['dpr']] == ['r', 'q', 'q']
  assert rows['dpr'][0]['hard_negative_ctxs'] == []
  assert 'score' not in rows['dpr'][0]['positive_ctxs'][0]
  assert [row['query_id'] for row in rows['tevatron']] == ['q', 'q']
  assert len(rows['triplets']) == 4


def test_positives_of_weight_0_come_last():
  of = training_files.positives_of(prepared.Judgements(
      np.array([0, 0, 0, 0, 1], np.int32), np.array([1, 2, 3, 4, 5], np.int32),
      np.array([1, 1, 1, 0, 1], np.int32),
      np.array([True, False, True, True, True]), np.zeros(0, np.int32),
      np.array([0, 1, 0.5, 1, 0], np.float32)))
  assert of(0).tolist() == [3, 1, 2]
  assert of(1).tolist() == [5]


@pytest.mark.parametrize('items', [[], [NOTHING]])
def test_files_without_rows_are_json(tmp_path, items):
  _, rows = write(tmp_path, items, *config_lib.FORMATS)
  assert rows == dict.fromkeys(config_lib.FORMATS, [])


def test_teachers_scores_need_those_of_positives(tmp_path):
  item = training_files.Item(
      ITEM.query, ITEM.positives, ITEM.negatives, (1.0, 0.5)
  )
  _, rows = write(tmp_path, [item], 'dpr', 'flag_embedding')
  assert not {'pos_scores', 'neg_scores'} & rows['flag_embedding'][0].keys()
  row = rows['dpr'][0]
  assert [c.get('score') for c in row['hard_negative_ctxs']] == [1.0, 0.5]
  assert [c.get('score') for c in row['positive_ctxs']] == [None, None]


def make_pool(*sources):
  """Two queries, 5 and 2; two places of each source, some of them dropped."""
  rows = [[40, 41, 42, 43], [50, 51, -1, 53]]
  dropped = [[0, 1, 0, 0], [4, 0, 0, 0]]
  source = [[0, 0, 1, 1]] * 2 if len(sources) == 2 else [[0] * 4] * 2
  scores = [[0.1, 0.2, 0.3, 0.4], [1.1, 1.2, 1.3, 1.4]]
  return pool.Pool(
      np.array([2, 5], np.int32), np.array(rows, np.int32),
      np.array(source, np.uint8), np.ones((2, 4), np.int32),
      np.array(scores, np.float32), np.array(dropped, np.uint8),
      np.full((2, len(sources)), 7.7, np.float32), np.zeros((0, 3), np.int32),
      sources, {},
  )


def read(some, one_positive=True):
  queries = [records.Query(f'q{i}', 'text') for i in range(6)]
  return list(training_files.read_items(
      some, queries, lambda query: np.array([query, query + 10]),
      lambda row: records.Passage(str(row), '', 'text'), one_positive,
  ))


def test_survivors_in_the_order_of_the_pool():
  first, second = read(make_pool('bm25'))
  ids = lambda passages: [passage.id for passage in passages]
  assert (first.query.id, second.query.id) == ('q2', 'q5')
  assert ids(first.negatives) == ['40', '42', '43']
  assert ids(second.negatives) == ['51', '53']
  assert ids(first.positives) == ['2', '12']
  assert first.scores == [0.1, 0.3, 0.4]  # And not 0.10000000149...
  assert second.scores == [1.2, 1.4]
  assert first.positive_scores == [7.7] * 2


@pytest.mark.parametrize('sources, one_positive, has_scores, has_own', [
    (('bm25',), True, True, True),
    (('model',), False, True, False),
    (('bm25', 'coarse'), True, False, False),
    (('given',), True, False, False),
    (('context',), True, False, False),
])
def test_scores_where_they_can_be_compared(
    sources, one_positive, has_scores, has_own
):
  for item in read(make_pool(*sources), one_positive):
    assert bool(item.scores) == has_scores
    known = bool(item.positive_scores) and None not in item.positive_scores
    assert known == has_own


def test_a_run_may_not_score_the_positive():
  some = make_pool('run')
  some.positive_scores[0] = np.nan
  first, second = read(some)
  assert (first.positive_scores, second.positive_scores) == (
      [None] * 2, [7.7] * len(second.positives))
  assert first.scores == [0.1, 0.3, 0.4]


def test_positives_that_are_trained_on_come_first():
  judgements = prepared.Judgements(
      query_rows=np.array([1, 1, 1, 1, 4], np.int32),
      passage_rows=np.array([3, 5, 8, 9, 2], np.int32),
      grades=np.array([1, 0, 2, 1, -1], np.int32),
      is_example=np.array([False, True, True, False, True]),
      unjudged=np.zeros(0, np.int32),
  )
  positives = training_files.positives_of(judgements)
  assert [positives(query).tolist() for query in (0, 1, 4, 9)] == [
      [], [8, 3, 9], [], []]


def test_one_query_is_in_memory_at_a_time(tmp_path):
  """Each item is written before the next one is made."""
  path = pathlib.Path(tmp_path) / 'triplets-train.jsonl'
  long = records.Passage('l', '', 'x' * 100_000)
  sizes = []

  def items():
    for _ in range(5):
      sizes.append(path.stat().st_size)
      yield training_files.Item(ITEM.query, (OTHER,), (long,))

  training_files.write(tmp_path, 'train', ['triplets'], items())
  assert sizes[1] > 50_000
  assert sizes == sorted(set(sizes))
