import json
import pathlib
import time

import pytest

from neg_contrast import errors
from neg_contrast.data import answers

ORACLES = (
    pathlib.Path(__file__).parents[3]
    / 'shared' / 'data' / 'oracles' / 'has_answer'
)


@pytest.mark.parametrize('name, rule', [
    ('squad-dev', 'string'), ('curated-test', 'regex'),
])
def test_agrees_with_every_labelled_row(name, rule):
  path = ORACLES / f'{name}.jsonl'
  if not path.exists():
    pytest.skip('the real data is not here')
  with open(path, encoding='utf-8', newline='\n') as f:
    rows = [json.loads(line) for line in f]
  assert {row['match'] for row in rows} == {rule}
  wrong = [
      (row['doc'], row['answers']) for row in rows
      if answers.has_answer(row['text'], row['answers'], rule)
      != row['has_answer']
  ]
  assert not wrong


@pytest.mark.parametrize('text, answer, expected', [
    ('It was Martin Luther, in 1517.', 'martin luther', True),
    ('It was Martin  Luther', 'Martin\nLuther', True),
    ('Martin and Luther', 'Martin Luther', False),
    ('Lutheran', 'Luther', False),
    ('caf\u00e9', 'cafe\u0301', True),
    ('cafe', 'caf\u00e9', False),
    ('caf\u00e9', 'cafe', False),
    ('$1,000', '1,000', True),
    ('1000', '1,000', False),
    ('a_b', 'a', True),
    ('ΟΔΟΣ\'Α', 'ΟΔΟΣ', True),
    ('東京都', '東京', False),
    ('', 'x', False),
])
def test_string_rule_matches_runs_of_tokens(text, answer, expected):
  assert answers.has_answer(text, [answer]) == expected


def test_any_answer_counts_and_none_is_never_found():
  assert answers.has_answer('the second', ['first', 'second'])
  assert not answers.has_answer('anything', [])
  assert not answers.has_answer('anything', [], 'regex')


@pytest.mark.parametrize('pattern, expected', [
    (r'20,?320\s*f(ee|oo)t', True),
    (r'^second', True),  # multiline
    (r'second$', False),
    ('CAF\u00c9', True),
    (r'(unclosed', False),
    (r'*', False),
])
def test_regex_rule(pattern, expected):
  text = 'It is 20,320 Feet\nsecond line at the caf\u00e9'
  assert answers.has_answer(text, [pattern], 'regex') == expected


def test_invalid_pattern_does_not_hide_a_valid_one():
  assert answers.has_answer('abc', ['(', 'B'], 'regex')


def test_endless_pattern_is_named(monkeypatch):
  monkeypatch.setattr(answers, '_PATTERN_TIMEOUT_SECONDS', 0.1)
  start = time.monotonic()
  with pytest.raises(errors.UserError, match=r'\(a\|aa\)\+\$'):
    answers.has_answer('a' * 60 + 'b', ['(a|aa)+$'], 'regex')
  assert time.monotonic() - start < 1


def test_unknown_rule_is_refused():
  with pytest.raises(ValueError, match='exact'):
    answers.has_answer('text', ['answer'], 'exact')
