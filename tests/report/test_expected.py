"""Rows of expected scores: read, held against a run, and written."""

import pathlib

import pytest

from neg_contrast import errors
from neg_contrast.report import expected

HEADER = ','.join(expected.COLUMNS)
GOOD = {
    'config': 'train.py:size=small', 'flags': '--config.seed=3',
    'dataset': 'data/test', 'system': 'trained', 'metric': 'mrr@10',
    'value': '0.5', 'tolerance': '0.02', 'data': '', 'seconds': '12.5',
    'machine': '2 CPU cores', 'revision': '1234567', 'date': '2026-11-23',
    'source': 'run here',
}


def line(**changes):
  return ','.join(f'"{text}"' if ',' in text else text
                  for text in {**GOOD, **changes}.values())


def write(tmp_path, *lines, header=HEADER):
  path = tmp_path / 'expected.csv'
  path.write_text('\n'.join((header, *lines, '')))
  return path


def row(tmp_path, **changes):
  found, = expected.read(write(tmp_path, line(**changes)))
  return found


def score(value, *others, system='trained', metric='mrr@10', **more):
  return expected.Score('data/test', system, metric, (value, *others), **more)


def test_rows_are_read(tmp_path):
  path = write(
      tmp_path, line(), '',
      line(flags="--sweep='negatives=bm25,fine seed=0,1' --config.a.b=(1,2)",
           metric='map', seconds=''),
      line(source='published, not run here: a paper, Table 2', tolerance='',
           date=''))
  path.write_bytes(b'\xef\xbb\xbf' + path.read_bytes().replace(b'\n', b'\r\n'))
  first, second, third = expected.read(path)
  assert first == expected.Row(
      f'{path}:2', 'train.py:size=small', ('--config.seed=3',), 'data/test',
      'trained', 'mrr@10', 0.5, 0.02, '', 12.5, '2 CPU cores', '1234567',
      '2026-11-23', 'run here')
  assert second.where == f'{path}:4' and second.seconds is None
  assert second.flags == ('--sweep=negatives=bm25,fine seed=0,1',
                          '--config.a.b=(1,2)')
  assert first.is_run_here and not third.is_run_here
  assert third.tolerance is None and third.key == first.key


def test_an_empty_file_has_no_rows(tmp_path):
  (tmp_path / 'expected.csv').write_text('')
  assert expected.read(tmp_path / 'expected.csv') == ()


@pytest.mark.parametrize('changes, message', [
    ({'config': 'configs/train.py'}, "config is 'configs/train.py'; it must"),
    ({'config': 'train'}, "config is 'train'; it must be the name"),
    ({'flags': '--workdir=x'}, "flags is '--workdir=x'; it must be words"),
    ({'flags': "--config.seed='3"}, 'flags is "--config.seed=\'3"; it must'),
    ({'flags': '--config.seed'}, "flags is '--config.seed'"),
    ({'dataset': ''}, "dataset is ''; it must not be empty"),
    ({'system': ''}, "system is ''"),
    ({'metric': ''}, "metric is ''"),
    ({'value': 'high'}, "value is 'high'; it must be a finite number"),
    ({'value': 'nan'}, "value is 'nan'"),
    ({'tolerance': '-1'}, "tolerance is '-1'; it must be a number that is not"),
    ({'tolerance': 'inf'}, "tolerance is 'inf'"),
    ({'tolerance': ''}, "tolerance is ''; it must say how far .*--sweep"),
    ({'seconds': 'long'}, "seconds is 'long'"),
    ({'date': '23.11.2026'}, "date is '23.11.2026'; it must be YYYY-MM-DD"),
    ({'date': ''}, "date is ''; it must be YYYY-MM-DD"),
    ({'source': 'a paper'}, 'source is \'a paper\'; it must be "run here", or'),
    ({'source': 'published, not run here: '}, "source is 'published"),
    ({'source': 'published, not run here'}, 'source is'),
])
def test_bad_lines(tmp_path, changes, message):
  path = write(tmp_path, line(), line(metric='map', **changes)
               if 'metric' not in changes else line(**changes))
  with pytest.raises(errors.UserError,
                     match=f'^{path}:3: {message}') as refused:
    expected.read(path)
  assert '\n' not in str(refused.value)


@pytest.mark.parametrize('lines, message', [
    ((line() + ',more',), ':2: 14 fields, not 13: config,flags,'),
    ((line(), line(value='0.6')),
     ":3: metric is 'mrr@10'; the same is expected in .*:2: remove one"),
    ((line(machine='a "quote'), 'x"y,"'), ':3: .*is a quote not closed'),
])
def test_bad_files(tmp_path, lines, message):
  path = write(tmp_path, *lines)
  with pytest.raises(errors.UserError, match=f'{path}{message}'):
    expected.read(path)


def test_another_header_is_refused(tmp_path):
  path = write(tmp_path, line(), header='config,value')
  with pytest.raises(errors.UserError, match=':1: the header is not config,'):
    expected.read(path)
  with pytest.raises(errors.UserError, match='nothing.csv: no such file'):
    expected.read(pathlib.Path('nothing.csv'))


def test_what_is_said_twice_of_other_data_is_not(tmp_path):
  rows = expected.read(write(
      tmp_path, line(data='python 3.11'), line(data='python 3.12'), line(),
      line(source='published, not run here: a paper')))
  assert len(rows) == 4


@pytest.mark.parametrize('found, verdict', [
    (0.5, 'inside'), (0.52, 'inside'), (0.48, 'inside'), (0.5201, 'outside'),
    (0.4799, 'outside'), (float('nan'), 'outside'), (None, 'missing'),
])
def test_verdicts(tmp_path, found, verdict):
  scores = [score(0.5, system='bm25'), score(0.5, metric='map')]
  if found is not None:
    scores.append(score(found))
  outcome, = expected.judge([row(tmp_path)], scores)
  assert outcome.verdict == verdict
  assert outcome.is_right == (verdict == 'inside')


def test_published_numbers_have_no_verdict_without_a_tolerance(tmp_path):
  paper = 'published, not run here: a paper'
  plain = row(tmp_path, tolerance='', source=paper)
  strict = row(tmp_path, tolerance='0.1', source=paper)
  outcomes = expected.judge([plain, strict], [score(0.9)])
  assert [one.verdict for one in outcomes] == [expected.PUBLISHED, 'outside']
  assert [one.is_right for one in outcomes] == [True, False]
  missing, = expected.judge([plain], [])
  assert missing.verdict == 'missing'


def test_the_mean_over_seeds_counts(tmp_path):
  seeds = score(0.4, 0.5, 0.6, metric='mrr@10')
  outcome, = expected.judge([row(tmp_path, tolerance='0')], [seeds])
  assert outcome.found == pytest.approx(0.5) and outcome.is_right


def test_the_table(tmp_path):
  rows = [row(tmp_path, metric=name) for name in ('a', 'b', 'c')]
  rows.append(row(tmp_path, metric='d', tolerance='',
                  source='published, not run here: a paper'))
  shown = expected.table(expected.judge(rows, [
      score(0.51, metric='a'), score(0.7, metric='b'),
      score(0.4, metric='d')])).splitlines()
  assert [text.split() for text in shown[:-1]] == [
      ['metric', 'expected', 'found'],
      ['data/test/trained/a', '0.5', '±', '0.02', '0.51', 'inside'],
      ['data/test/trained/b', '0.5', '±', '0.02', '0.7', 'outside'],
      ['data/test/trained/c', '0.5', '±', '0.02', '-', 'missing'],
      ['data/test/trained/d', '0.5', '0.4', *expected.PUBLISHED.split()]]
  assert shown[-1] == ('1 inside, 1 outside, 1 missing, 1 published without a '
                       'tolerance: compare them yourself')


def test_lines_read_back(tmp_path):
  """Those of several seeds as they are; those of one lack a tolerance."""
  flags = ('--sweep=negatives=bm25,fine seed=0,1', '--config.x="a b"')
  seeds = score(0.25, 0.5, 0.75, system='row, one', data='abc',
                revision='1234567', date='2026-11-23')
  same = score(0.5, 0.5, metric='map', date='2026-11-23')
  text = expected.lines([seeds, same], 'train.py', flags, '2 CPU cores')
  first, second = expected.read(write(tmp_path, text))
  assert first.flags == flags and first.key == seeds.key
  assert (first.value, first.tolerance) == (0.5, 0.5)  # Twice 0.25.
  assert (first.data, first.revision) == ('abc', '1234567')
  assert second.tolerance == 1e-4
  assert all(one.is_right for one in expected.judge([first], [seeds]))
  alone = expected.lines([score(0.5, date='2026-11-23')], 'train.py', (), 'x')
  with pytest.raises(errors.UserError, match="tolerance is ''; it must say"):
    expected.read(write(tmp_path, alone))
