import base64
import dataclasses
import html.parser
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from neg_contrast.data import statistics
from neg_contrast.mining import analysis
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.report import (
  charts,
  contents,
  figures,
  negatives_page,
  wording,
)
from neg_contrast.report import page as page_lib

EVIL = '\x1b[2J<script>alert("1")</script></svg></style> $x^2$ & \' "'
SAVED = 'data:image/svg+xml;base64,'
VOID = {'meta', 'br', 'link', 'img'}


class Page(html.parser.HTMLParser):
  """Elements, attributes and text of a page; tags must be balanced."""

  def __init__(self, text):
    super().__init__()
    self.elements, self.open, self.texts = [], [], []
    self.feed(text.replace('\ufffd', '\x1b'))  # As it was before `clean`.
    self.close()
    assert not self.open

  def handle_starttag(self, tag, attrs):
    self.elements.append((tag, dict(attrs)))
    if tag not in VOID:
      self.open.append(tag)

  def handle_startendtag(self, tag, attrs):
    self.elements.append((tag, dict(attrs)))

  def handle_endtag(self, tag):
    assert self.open.pop() == tag

  def handle_data(self, data):
    if 'style' not in self.open:
      self.texts.append(data)

  @property
  def text(self):
    return ' '.join(' '.join(self.texts).split())


def estimate(value, width=0.05):
  return figures.Estimate(value, value - width, value + width)


def system(name, *values):
  names = ('accuracy@1', 'accuracy@20', 'mrr@10')
  return contents.System(
      name, f'evaluation/test-{name}', 1234, 56789,
      {n: estimate(v) for n, v in zip(names, values, strict=False)},
  )


def lengths(untitled=0):
  counts = np.bincount([4, 5, 5, 6, 7, 12])
  return statistics.Lengths(counts, 8, untitled)


def negatives(names=('bm25', 'context', EVIL), shown=True):
  """A pool of 40 queries; the second source has no scores, the last nothing."""
  sources = []
  for n, name in enumerate(names):
    by_filter = np.zeros(len(pool_lib.DROPPED_BY), np.int64)
    by_filter[[0, 1, 7]] = (0, 0, 0) if name == EVIL else (120, 20, 60)
    per_query = np.bincount([0 if name == EVIL else 3] * 40, minlength=9)
    sources.append(analysis.Source(
        name, by_filter, per_query,
        np.bincount([0 if name == EVIL else 2] * by_filter[0], minlength=9),
        analysis.Histogram(np.linspace(-1, 1, 5), np.array([1, 90, 28, 1]))
        if n == 0 else None,
    ))
  shared = np.diag([120, 120, 0][:len(names)])
  if len(names) > 1:
    shared[0, 1] = shared[1, 0] = 30
  suspects = tuple(
      analysis.Suspects(source.name, source.negatives, source.negatives // 2,
                        source.negatives // 6, 3 * n, 120 * (n == 0), 6)
      for n, source in enumerate(sources)
  )
  passage = lambda role, *places: negatives_page.ShownPassage(
      role, f'{role} {EVIL}', EVIL, f'an answer: x {EVIL}', places, bool(places)
  )
  query = negatives_page.ShownQuery(EVIL, EVIL, ('x', EVIL), 2, (
      passage('positive'),
      passage('negative', negatives_page.Place('bm25', 7, 1.5, 2.25),
              negatives_page.Place('context', 1, -3.0, None)),
      passage('negative', negatives_page.Place(EVIL, 2, None, None)),
      passage('random'),
  ))
  return negatives_page.Negatives(
      analysis.Summary(40, tuple(sources), shared), 8, suspects,
      analysis.Suspects('random', 200, 0, 0, 1, 0, 0), (query,) * shown,
  )


def make(name='data/test', text=EVIL, **kwargs):
  shown = contents.ShownPassage(
      text, text, f'{text} the answer is {text}', ('positive', 'first after'),
      contents.Place(37, 0.123456), contents.Place(1, 0.75), True, True,
  )
  other = dataclasses.replace(
      shown, id='gone', text=None, title='', roles=('first before',),
      before=contents.Place(1, 1e-9), after=contents.Place(), is_positive=False,
      has_answer=False,
  )
  query = contents.MovedQuery(
      text, text, (text, *'abcdefgh'), '37', '1', 2, (shown, other)
  )
  steps = np.arange(1, 9)
  values = dict(
      job='train', name=name, facts={'data': text, 'split': 'test'},
      made='2025-11-21 07:44 UTC',
      groups=(
          contents.Group(
              name,
              (system('bm25', 0.2, 0.5), system('initial', 0.3, 0.6, 0.4),
               system('trained', 0.4, 0.5, 0.5), system(text, 0.4)),
              contents.Comparison('initial', 'trained', 1234, {
                  'accuracy@1': figures.Estimate(0.1, 0.05, 0.15),
                  'accuracy@20': figures.Estimate(-0.1, -0.2, 0.01),
                  'mrr@10': figures.Estimate(-0.1, -0.2, -0.01),
              }),
          ),
          contents.Group(f'other/{text}', (system('bm25', 0.1),)),
      ),
      moves=contents.Moves(
          'initial', text, 'first positive passage', (query,), (), 1, 0, 1233
      ),
      training=contents.Training(
          {'loss': (steps, 1 / steps), 'learning_rate': (steps, steps * 1e-5)},
          {'accuracy@1': (steps[::4], np.array([0.5, 0.6]))}, 5,
          {'steps': '8 of 10'},
          {kind: {source: (steps, 1 / steps) for source in ('batch', text)}
           for kind in negatives_page.KINDS},
      ),
      data=contents.Data(
          statistics.Corpus(56789, 12, 3, 40, 7, (1, 2, 30)),
          (('evaluation', statistics.Split(
              text, 20, 3, (1, 10, 4, 0, 0, 1), 5)),),
          {'query': lengths(6), 'passage': lengths(2)},
          {'empty_passage': 3}, 2,
      ),
      config={'job': 'train', 'data': {'source': text, 'batch_size': 64}},
      defaults={'job': 'train', 'data': {'source': '', 'batch_size': 32}},
      environment={'versions': {'jax': text}, 'git_revision': 'abcdef1234567',
                   'cpu_count': 2},
      negatives=negatives(),
  )
  return contents.Report(**{**values, **kwargs})


def test_everything_is_escaped_and_nothing_is_loaded():
  text = page_lib.render(make())
  page = Page(text)
  tags = {tag for tag, _ in page.elements}
  assert not tags & {'script', 'link', 'img', 'iframe', 'object', 'base'}
  for _, attributes in page.elements:
    assert not any(name.startswith('on') for name in attributes)
    for name in ('src', 'href', 'xlink:href'):
      target = attributes.get(name, '#')
      assert target.startswith(
          ('#', 'metrics.json', 'evaluation/', SAVED)
      )
  assert 'url(' not in re.sub(r'url\(#[\w-]+\)', '', text)
  assert '@import' not in text
  policy = [a['content'] for tag, a in page.elements
            if a.get('http-equiv') == 'Content-Security-Policy']
  assert policy == ["default-src 'none'; style-src 'unsafe-inline'"]
  # It stands there as it is: query, passage, system, split and config.
  assert page.text.count(EVIL) > 10
  ids = [a['id'] for _, a in page.elements if 'id' in a]
  assert len(ids) == len(set(ids))
  links = {a['href'][1:] for tag, a in page.elements
           if tag == 'a' and a['href'].startswith('#')}
  assert links == {'results', 'training', 'negatives', 'moves', 'data',
                   'config', 'environment'} and links <= set(ids)


def test_colours_of_figures_are_defined():
  text = page_lib.render(make())
  used = set(re.findall(r'var\((--[\w-]+)\)', text))
  for media in (':root {', '(prefers-color-scheme: dark) {', '@media print {'):
    block = text.partition(media)[2].partition('}')[0]
    assert used - set(re.findall(r'(--[\w-]+):', block)) <= (
        {'--card', '--soft', '--page'} if 'print' in media else set()
    )


def test_says_what_came_out():
  text = Page(page_lib.render(make())).text
  assert ('accuracy@1 goes from 0.3000 (initial) to 0.4000 (trained): +0.1000 '
          ', 95% interval +0.0500 to +0.1500' in text)
  assert '8 of 10' in text and '56,789 passages' in text
  assert '3 empty passage' in text
  assert '37 → to 1' in text and 'and 3 more' in text
  assert 'This passage is not in the corpus' in text
  assert 'initial 37 0.1235' in text and 'initial 1 1e-09' in text
  assert '2 values differ' in text and 'default 32' in text
  assert 'revision abcdef1234' in text


@pytest.mark.parametrize('bounds, verdict', [
    ((0.01, 0.2), 'better'), ((-0.1, 0.2), 'open'), ((0.0, 0.2), 'open'),
    ((-0.2, -0.01), 'worse'),
])
def test_verdict(bounds, verdict):
  group = contents.Group(
      'g', (system('a', 0.1), system('b', 0.2)),
      contents.Comparison('a', 'b', 9, {
          'accuracy@1': figures.Estimate(0.1, *bounds)}),
  )
  found = page_lib.headline(group)
  assert (found.verdict, found.before[0], found.after[0]) == (verdict, 'a', 'b')
  page = page_lib.render(make(groups=(group,)))
  assert ('do not tell the two apart' in page) == (verdict == 'open')


def test_least_report():
  bare = make(
      made='', groups=(), moves=None, training=None, negatives=None,
      environment={},
      data=contents.Data(
          statistics.Corpus(1, 0, 1, 0, 1, None), (), {}, {}, 0
      ),
  )
  page = Page(page_lib.render(bare))
  assert not any(tag == 'svg' for tag, _ in page.elements)
  assert 'skipped records none' in page.text


def test_every_figure_can_be_saved():
  page = Page(page_lib.render(make()))
  saved = [a for tag, a in page.elements if tag == 'a' and 'download' in a]
  assert len(saved) == sum(tag == 'svg' for tag, _ in page.elements) > 5
  for link in saved:
    assert re.fullmatch(r'[a-z0-9-]+\.svg', link['download'])
    drawn = base64.b64decode(link['href'].removeprefix(SAVED)).decode()
    tree = ET.fromstring(drawn)
    assert tree.tag.endswith('svg') and '--series-2: #' in drawn
    assert not any(one.tag.endswith('script') for one in tree.iter())


def test_run_command_pairs_ranks_and_hubs():
  report = make(command='python -m x --config=a --b')
  group = report.groups[0]
  pairs = {
      ('bm25', 'trained'): contents.Comparison(
          'bm25', 'trained', 12, {'accuracy@1': figures.Estimate(0.25)}, 4, 1),
      ('trained', 'bm25'): contents.Comparison(
          'trained', 'bm25', 12, {'accuracy@1': estimate(-0.25)}, 1, 4),
  }
  report = dataclasses.replace(
      report,
      groups=(dataclasses.replace(group, pairs=pairs, systems=(
          dataclasses.replace(group.systems[0], note='no model'),
          *group.systems[1:])),),
      moves=dataclasses.replace(
          report.moves, ranks=((37, 1), (1, 1), (None, 5), (2, None))),
      negatives=dataclasses.replace(report.negatives, hubs=negatives_page.Hubs(
          30, 20, ((EVIL, 'A title', 6), ('p2', EVIL, 1)))),
  )
  text = Page(page_lib.render(report)).text
  assert 'python -m x --config=a --b' in text and 'bm25 no model' in text
  matrix = between(text, 'Every pair: accuracy@1', 'Below each mean')
  assert '+0.2500 4 better, 1 worse' in matrix
  assert '−0.2500 −0.3000 to −0.2000' in matrix
  assert 'rose: 2' in text and 'fell: 1' in text and 'stayed: 1' in text
  hubs = between(text, 'Hubs', 'Side by side')
  assert f'A title {EVIL} 6 75.0%' in hubs
  assert '30 negatives of 8 queries are 20 different passages' in hubs


def test_few_queries_have_counts_instead_of_intervals():
  group = contents.Group(
      'g', (system('a', 0.1), system('b', 0.2)),
      contents.Comparison('a', 'b', 12, {
          'accuracy@1': figures.Estimate(0.1)}, 3, 1),
  )
  text = Page(page_lib.render(make(groups=(group,)))).text
  assert 'These 12 queries are too few for an interval' in text
  assert 'Of 12 queries 3 got better, 1 worse and 8 stayed' in text


def between(text, begin, end):
  return text.partition(begin)[2].partition(end)[0]


def test_negatives():
  text = Page(page_lib.render(make())).text
  rows = between(text, 'queries without', 'For 40')
  assert 'bm25 200 120 3 3 0' in rows and f'{EVIL} 0 0 0 0 40 100.0%' in rows
  dropped = between(text, 'in the pool bm25', 'Percent')
  assert dropped.split('context')[0].split() == [
      '10.0%', *'––––––––', '30.0%', '60.0%']
  picture = between(text, 'Overlap of the sources', 'Of the passages')
  assert picture.split().count('25%') == 2 and picture.count(EVIL) == 2
  found = between(text, 'score above the positive', 'All negatives of')
  assert 'bm25 120 33.3% 0.0% 5.0%' in found
  assert 'context 120 33.3% 2.5% –' in found
  assert f'{EVIL} 0 – – –' in found
  assert 'random passages 200 no answers known 0.5% –' in found
  assert '8 of 40 queries , evenly spaced' in text or (
      '8 of 40 queries, evenly spaced' in text)
  shown = between(text, 'Side by side', 'In training')
  assert shown.count('holds an answer') == 2 and '2 positives' in shown
  assert 'bm25 rank 7 score 1.5 positive 2.25' in shown
  assert 'context rank 1 score −3 holds' in shown
  assert f'{EVIL} rank 2 holds' in shown and f'random {EVIL}' in shown


def test_negatives_without_training_and_the_other_way_round():
  mined = make(job='mine', groups=(), moves=None, training=None)
  html = page_lib.render(mined)
  page = Page(html)
  assert 'In training' not in page.text and 'Side by side' in page.text
  links = {a['href'] for tag, a in page.elements
           if tag == 'a' and 'download' not in a}
  assert links == {'#negatives', '#data', '#config', '#environment',
                   'manifest.json'}
  text = Page(page_lib.render(make(negatives=None))).text
  assert 'Mean score of the negatives' in text and 'candidates' not in text
  one = Page(page_lib.render(make(negatives=negatives(('bm25',), False)))).text
  assert 'Overlap' not in one and 'Side by side' not in one
  assert 'stands before them.' in one


@pytest.mark.parametrize('low', [None, 0.1])
def test_one_system_only(low):
  value = figures.Estimate(0.25, low, low and 0.4)
  group = contents.Group('g', (contents.System('bm25', 'evaluation/x', 1, 2, {
      'answer_accuracy@5': value}),))
  text = Page(page_lib.render(make(groups=(group,), moves=None))).text
  assert 'bm25 reaches answer_accuracy@5 0.2500' in text
  assert ('95% interval 0.1000 to 0.4000' in text) == (low is not None)
  assert '★' not in ''.join(re.findall('class="best"', text))
  assert page_lib.best_systems(group) == {'answer_accuracy@5': frozenset()}


def test_best_and_families_and_colours():
  group = make().groups[0]
  best = page_lib.best_systems(group)
  assert best['accuracy@1'] == {'trained', EVIL}
  assert best['accuracy@20'] == {'initial'}
  families = charts.cut_families([group])
  assert set(families) == {'accuracy'}
  assert set(families['accuracy'][EVIL]) == {1}
  assert set(families['accuracy']['bm25']) == {1, 20}
  series = charts.series_of(make().groups)
  assert series['trained'] == 2 and len(set(series.values())) == len(series)


TEXT = ' '.join(f'word{i}' for i in range(200))


def joined(pieces):
  return ''.join(piece for piece, _ in pieces)


def test_excerpt_of_a_begin():
  assert wording.excerpt('a  b\n c', ()) == (('a b c', False),)
  assert wording.excerpt('', ('x',)) == ()
  pieces = wording.excerpt(TEXT, (), 50)
  assert joined(pieces) == 'word0 word1 word2 word3 word4 word5 word6 word7 …'


def test_excerpt_around_an_answer():
  pieces = wording.excerpt(TEXT, ('WORD150', 'word1', ' '), 60)
  assert [p for p, marked in pieces if marked] == ['word1']
  pieces = wording.excerpt(TEXT, ('WORD150',), 60)
  assert [p for p, marked in pieces if marked] == ['word150']
  assert joined(pieces).startswith('… word1') and len(joined(pieces)) <= 64
  assert joined(wording.excerpt(TEXT, ('word199',), 60)).endswith('word199')
  # Whole words only; characters of patterns are characters.
  assert wording.excerpt('a category', ('cat', 'c.t')) == (
      ('a category', False),)
  assert wording.excerpt('in C++ (x)', ('C++',)) == (
      ('in ', False), ('C++', True), (' (x)', False))


def test_excerpt_is_bounded_and_keeps_the_text():
  rng = np.random.default_rng(0)
  for _ in range(300):
    words = [f'w{i}' * rng.integers(1, 9) for i in rng.integers(0, 30, 60)]
    begin = rng.integers(0, 60)
    answer = ' '.join(words[begin : begin + rng.integers(1, 30)])
    text = ' '.join(words)
    pieces = wording.excerpt(text, (answer,), 80)
    whole = joined(pieces).removeprefix('… ').removesuffix(' …')
    assert whole in text and len(whole) <= 160
    assert any(marked for _, marked in pieces) or len(answer) > 80


def test_config_sections():
  config = {'job': 'train', 'seed': 0, 'data': {'ks': [1, 5], 'name': None,
                                                'new': 1.5}}
  defaults = {'job': 'train', 'seed': 3, 'data': {'ks': [], 'name': None}}
  assert page_lib.config_sections(config, defaults) == [
      ('run', [('job', 'train', None), ('seed', '0', '3')]),
      ('data', [('ks', '1, 5', 'none'), ('name', 'none', None),
                ('new', '1.5', '')]),
  ]


def test_percent():
  assert [wording.percent(*p) for p in (
      (0, 5), (5, 5), (1, 3), (1, 10**6), (10**6 - 1, 10**6), (0, 0))] == [
          '0.0%', '100.0%', '33.3%', '<0.1%', '>99.9%', '–']
