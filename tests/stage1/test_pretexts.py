"""Pretext pairs: what each source promises, on random and awkward texts."""

import collections
import itertools

import numpy as np
import pytest

from neg_contrast.data import records
from neg_contrast.data import tokenizer as tokenizer_lib
from neg_contrast.models import model_names
from neg_contrast.stage1 import pretexts, sentences
from neg_contrast.stage1.pretexts import crops, recurring_spans, spans
from tests import tiny

COMMON = (
    'the', 'of', 'a', 'in', 'and', 'was', 'river', 'Königsberg', 'naïve',
    '1,200', 'running', 'unbelievably', 'Mr.', 'U.S.', 'well-known',
    're\u0301sume\u0301', '東京都', '한국', 'Levi\'s', '(former)', '"quoted"',
)


def pieces_of(pair, tokens):
  """The positive as spans of its passage's tokens; none is empty."""
  if pair.end == pretexts.TO_END:
    return ((pair.first, tokens),)
  if pair.first < pair.end:
    return ((pair.first, pair.end),)
  around = (0, pair.end), (pair.first, tokens)
  return tuple(piece for piece in around if piece[0] < piece[1])


@pytest.fixture(scope='module')
def wordpiece():
  return tokenizer_lib.load_tokenizer(str(model_names.packaged_minilm()))


@pytest.fixture(scope='module')
def plain(tmp_path_factory):
  folder = tmp_path_factory.mktemp('tokenizer')
  tiny.write_tokenizer(folder)
  return tokenizer_lib.load_tokenizer(str(folder))


def make_passage(number, text, title='A title', document='d'):
  return number, records.Passage(f'p{number}', title, text, document)


def sentence(rng, number):
  words = [*rng.choice(COMMON, rng.integers(3, 14)), f'n{number}']
  return f'It{number} {" ".join(words)}{rng.choice([".", "?", "!"])}'


def make_document(seed, passages=6, first_row=0):
  """Passages of 0 to 6 sentences, all different; some repeat, some untitled."""
  rng = np.random.default_rng(seed)
  document = []
  for i in range(passages):
    text = ' '.join(sentence(rng, f'{seed}x{i}x{j}')
                    for j in range(rng.integers(7)))
    if i and rng.random() < 0.2:
      text = document[-1][1].text.replace('It', 'IT').replace(' ', '\n')
    title = str(rng.choice(['', f'Title {seed}', 'River Königsberg']))
    number = first_row + i
    document.append(
        (number, records.Passage(f'p{seed}-{i}', title, text, f'd{seed}')))
  return document


DOCUMENTS = [make_document(seed, first_row=100 * seed) for seed in range(20)]


@pytest.fixture(scope='module')
def many(wordpiece):
  """kind -> pairs of all documents, three a passage."""
  return {
      kind: [pair for document in DOCUMENTS for pair in
             pretexts.make_pairs(kind, document, wordpiece.offsets, 0, 3)]
      for kind in pretexts.PRETEXTS
  }


PASSAGES = dict(itertools.chain(*DOCUMENTS))


def fold(text):
  return ' '.join(text.split())


def tokens_of(pair, tokenizer):
  """Token ids of the query and of each piece of the positive."""
  ids = tokenizer.encode(PASSAGES[pair.row].text)
  return tokenizer.encode(pair.query), [
      ids[first:end] for first, end in pieces_of(pair, len(ids))]


@pytest.mark.parametrize('kind', pretexts.PRETEXTS)
def test_a_passage_decides_its_pairs(kind, wordpiece):
  rng = np.random.default_rng(1)
  make = lambda document, seed=3, count=1: pretexts.make_pairs(
      kind, document, wordpiece.offsets, seed, count)
  whole = [make(document) for document in DOCUMENTS]
  order = rng.permutation(len(DOCUMENTS))
  for i in order:
    shuffled = [DOCUMENTS[i][j] for j in rng.permutation(len(DOCUMENTS[i]))]
    assert make(shuffled) == whole[i]
    moved = make([(row + 7, passage) for row, passage in DOCUMENTS[i]])
    assert [pair.row - 7 for pair in moved] == [pair.row for pair in whole[i]]
    assert [pair.query for pair in moved] == [pair.query for pair in whole[i]]
  assert sum(map(len, whole)) > 50
  if kind != 'title':
    assert [make(document, 4) for document in DOCUMENTS] != whole


@pytest.mark.parametrize('kind', pretexts.PRETEXTS)
def test_more_pairs_are_added_to_fewer(kind, wordpiece):
  total = collections.Counter()
  for document in DOCUMENTS[:6]:
    found = [pretexts.make_pairs(kind, document, wordpiece.offsets, 0, count)
             for count in (0, 1, 2, 20)]
    assert found[0] == [] and len(found[1]) <= len(document)
    for fewer, more in itertools.pairwise(found):
      rest = iter(more)
      assert all(pair in rest for pair in fewer)
      total[len(more) > len(fewer)] += 1
  assert total[True] > (4 if kind == 'title' else 8)


@pytest.mark.parametrize('kind', pretexts.PRETEXTS)
def test_neither_query_nor_positive_is_empty(kind, many, wordpiece):
  assert len(many[kind]) > 50
  for pair in many[kind]:
    query, positive = tokens_of(pair, wordpiece)
    assert query and pair.query == fold(pair.query)
    assert positive and all(positive)


def test_queries_can_be_told_from_none(wordpiece, plain):
  """Texts that have nothing to ask with."""
  for kind, text in itertools.product(
      pretexts.PRETEXTS, ('', ' \n ', '. . . ! ?', '\x00\x01')):
    document = [make_passage(0, text, ''), make_passage(1, text, '...')]
    for tokenizer in (wordpiece, plain):
      assert pretexts.make_pairs(kind, document, tokenizer.offsets, 0, 5) == []
  one = [make_passage(0, 'Only one sentence stands in this passage here.', '')]
  for kind in ('inverse_cloze', 'recurring_spans', 'neighbours', 'title'):
    assert pretexts.make_pairs(kind, one, wordpiece.offsets, 0, 5) == []
  with pytest.raises(ValueError, match='no pretext \'cloze\'; there are inv'):
    pretexts.make_pairs('cloze', one, wordpiece.offsets, 0)


@pytest.mark.parametrize('first, end, expected', [
    (0, -1, [0, 1, 2, 3, 4]), (2, -1, [2, 3, 4]), (1, 3, [1, 2]),
    (3, 1, [0, 3, 4]), (2, 0, [2, 3, 4]), (5, 3, [0, 1, 2]),
])
def test_pieces(first, end, expected):
  pieces = pieces_of(pretexts.Pair('q', 0, first, end), 5)
  assert [i for piece in pieces for i in range(*piece)] == expected
  assert all(begin < stop for begin, stop in pieces)


def test_sentence_is_taken_out_of_its_passage(many, wordpiece):
  kept = 0
  for pair in many['inverse_cloze']:
    text = PASSAGES[pair.row].text
    asked = [text[start:end] for start, end in sentences.split(text)]
    assert pair.query in map(fold, asked) and len(asked) > 1 and pair.title
    query, positive = tokens_of(pair, wordpiece)
    whole = wordpiece.encode(text)
    if pair.end == pretexts.TO_END:
      kept += 1
      assert positive == [whole]
      continue
    assert whole[pair.end : pair.first] == query
    assert len(query) + sum(map(len, positive)) == len(whole)
    number = pair.query.split()[-1].casefold().strip('.!?')
    left = ' '.join(map(wordpiece._backend.decode, positive))
    assert number[0] == 'n' and number not in left.split()
  assert 0.05 < kept / len(many['inverse_cloze']) < 0.15


def test_sentences_that_tell_little_are_no_queries(wordpiece):
  make = lambda text: pretexts.make_pairs(
      'inverse_cloze', [make_passage(0, text)], wordpiece.offsets, 0, 9)
  long = 'A river runs to the sea.', 'Its water is cold and clear.'
  assert {pair.query for pair in make(' '.join(long))} == set(long)
  assert {pair.query for pair in make(' '.join(['He sighed.', *long]))} == (
      set(long))
  kanji = '日本の首都は東京都。', '大阪府は西にある都市。'
  for pair in make(''.join(kanji)):
    tokens = wordpiece.encode(''.join(kanji))[pair.end : pair.first]
    assert pair.query in kanji and tokens == wordpiece.encode(pair.query)
  assert make(f'{long[0]} Yes.') == []  # Too little would be left.
  assert {pair.query for pair in make(' '.join([*long, long[0].upper()]))} == (
      set(long[1:]))  # The other one would stay.


def test_crops_are_runs_of_whole_words(many, wordpiece):
  lengths = []
  for pair in many['crops']:
    text = PASSAGES[pair.row].text
    query, (positive,) = tokens_of(pair, wordpiece)
    whole = wordpiece.encode(text)
    assert f' {" ".join(map(str, query))} ' in f' {" ".join(map(str, whole))} '
    assert query != positive
    if not set('東京都') & {*pair.query.split()[0], *pair.query.split()[-1]}:
      assert f' {pair.query} ' in f' {fold(text)} '
    lengths.append((len(query), len(positive), len(whole)))
  queries, positives, wholes = np.array(lengths).T
  for lengths in (queries, positives):
    assert lengths.min() >= crops.MIN_CROP_TOKENS
    parts = lengths[wholes > 60] / wholes[wholes > 60]
    assert 0.15 < parts.mean() < 0.45 and parts.max() < 0.75
    assert len(np.unique(lengths)) > 10
  assert abs(np.corrcoef(queries / wholes, positives / wholes)[0, 1]) < 0.5


def test_crops_of_unspaced_texts_and_split_characters(wordpiece):
  text = '東京都は日本の首都である。大阪府は西にある都市だ。' * 3
  pairs = pretexts.make_pairs(
      'crops', [make_passage(0, text)], wordpiece.offsets, 0, 20)
  assert max(len(pair.query) for pair in pairs) < 0.6 * len(text)
  shared = [(i // 2, i // 2 + 1) for i in range(80)]  # Two tokens a character.
  for pair in pretexts.make_pairs('crops', [make_passage(0, '京' * 40)],
                                 lambda _: shared, 0, 20):
    assert pair.first % 2 == 0 and pair.end % 2 == 0


def test_crops_leave_a_title_that_tells(plain):
  words = [f'word{i}' for i in range(40)]
  pairs = pretexts.make_pairs(
      'crops', [make_passage(0, ' '.join(words), 'Word9 word10')],
      plain.offsets, 0, 60)
  tells = ['word9 word10' in f'{pair.query} '.replace('word10 ', 'word10')
           for pair in pairs]
  assert 5 < sum(tells) < 55
  assert [not pair.title for pair in pairs] == tells


def spans_document(rng, plants):
  """Passages of words of their own, with runs of words planted in them."""
  document, fresh = [], itertools.count()
  for row in range(4):
    words = [f'u{next(fresh)}' for _ in range(60)]
    for run, rows in plants.items():
      if row in rows:
        words.insert(rng.integers(len(words)), run)
    document.append(make_passage(row, ' '.join(words), 'Some title'))
  return document


def place_of(part, whole):
  """Where a list begins in another one; None where it does not."""
  return next((i for i in range(len(whole) - len(part) + 1)
               if whole[i : i + len(part)] == part), None)


def test_window_finds_another_passage_of_its_span(plain):
  """Also: the longest span is taken, and taken out of half of the queries."""
  rng = np.random.default_rng(0)
  plants = {'Alpha the Beta gamma': (0, 1), 'alpha Delta': (1, 2, 3)}
  kept, lengths, rows = [], [], collections.Counter()
  for seed in range(60):
    document = spans_document(rng, plants)
    texts = {row: passage.text.split() for row, passage in document}
    pairs = pretexts.make_pairs(
        'recurring_spans', document, plain.offsets, seed, 3)
    assert len(pairs) == 12
    for pair in pairs:
      words = pair.query.split()
      home = next(row for row, text in texts.items()
                  if any(word in text for word in words if word[0] == 'u'))
      run, = (run.split() for run, rows in plants.items()
              if {home, pair.row} <= set(rows))
      assert home != pair.row
      assert (pair.first, pair.end, pair.title) == (0, -1, True)
      at = place_of(run, texts[home])
      kept.append(place_of(run, words) is not None)
      text = texts[home]
      if not kept[-1]:
        text = text[:at] + text[at + len(run) :]
      lengths.append(len(words) - kept[-1] * len(run))
      begin = place_of(words, text)
      assert begin is not None and begin <= at <= begin + len(words)
      rows[home, pair.row] += 1
  assert 0.45 < np.mean(kept) < 0.55
  assert (min(lengths), max(lengths)) == (5, 30)
  assert 16.5 < np.mean(lengths) < 18.5
  assert set(rows) == {(0, 1), (1, 0), (1, 2), (1, 3), (2, 1), (2, 3), (3, 1),
                       (3, 2)}


def brute_force(document):
  """Case-folded runs -> {(passage, first word)}, the tellingly maximal ones."""
  found = collections.defaultdict(set)
  for place, (_, passage) in enumerate(document):
    for part, words in enumerate(passage.text.casefold().split(',')):
      words = words.split()
      for i in range(len(words)):
        for j in range(i + 2, min(i + 10, len(words)) + 1):
          if not {words[i], words[j - 1]} & {'the', 'of'}:
            found[tuple(words[i:j])].add((place, part, i))
  texts = [passage.text.casefold() for _, passage in document]
  recurring = {
      run: places for run, places in found.items()
      if len({texts[place] for place, _, _ in places}) > 1
  }
  holds = lambda long, run: any(
      long[i : i + len(run)] == run for i in range(len(long) - len(run) + 1))
  return {
      run: places for run, places in recurring.items()
      if not any(len(long) > len(run) and holds(long, run)
                 and len(more) == len(places)
                 for long, more in recurring.items())
  }


def test_spans_are_all_maximal_ones():
  rng = np.random.default_rng(0)
  total = 0
  for _ in range(60):
    texts = [' '.join(rng.choice(['The', 'of', 'f,', 'Bb', 'bb', 'c', 'd', 'e'],
                                 rng.integers(25))) for _ in range(4)]
    texts.append(texts[0].upper())
    long = ' '.join(f'w{i}' for i in range(rng.integers(2, 14)))
    texts = [f'{text}, {long}' if rng.random() < 0.5 else text
             for text in texts]
    document = [make_passage(i, text) for i, text in enumerate(texts)]
    words = spans.Words(document)
    found = {}
    for span in spans.maximal(words, spans.recurring(words)):
      run = words.folded[span.starts[0] : span.starts[0] + span.length]
      assert tuple(run) not in found
      found[tuple(run)] = len(span.starts)
    expected = brute_force(document)
    assert found == {run: len(places) for run, places in expected.items()}
    total += len(found)
  assert total > 300


@pytest.mark.parametrize('texts', [
    ['w1 w2 w3 w4 the of w5 w6 w7', 'w8 the of w9 wa wb wc'],
    ['w1 w2 w3 w4 Some Title w5 w6 w7', 'w8 some title w9 wa wb wc'],
    ['w1 w2 w3 w4 x, y w5 w6 w7', 'w8 x y w9 wa wb wc wd'],
    ['w1 w2 w3 w4 5 1,200 w5 w6 w7', 'w8 5 1,200 w9 wa wb wc'],
    ['w1 w2 w3 x y z w5 w6 w7', 'W1 w2 w3 x y z w5\nw6 w7'],
    ['w1 x y w2', 'w3 x y w4'],
], ids=['stop words', 'title', 'comma', 'numbers', 'copy', 'short'])
def test_runs_that_are_no_spans(texts, plain):
  document = [make_passage(i, text, 'Some Title')
              for i, text in enumerate(texts)]
  assert pretexts.make_pairs(
      'recurring_spans', document, plain.offsets, 0, 5) == []


def test_copies_are_not_found_by_each_other(plain):
  texts = ['w1 w2 w3 x y z w5 w6 w7', 'W1 w2 w3 x y z w5\nw6 w7',
           'v1 v2 v3 v4 x y z v5 v6']
  document = [make_passage(i, text) for i, text in enumerate(texts)]
  rows = collections.defaultdict(set)
  for pair in pretexts.make_pairs(
      'recurring_spans', document, plain.offsets, 0, 50):
    rows['v' in pair.query].add(pair.row)
  assert rows == {True: {0, 1}, False: {2}}


def test_every_span_in_the_window_is_taken_out(plain, monkeypatch):
  monkeypatch.setattr(recurring_spans, 'KEPT_SPANS', 0.0)
  text = 'x y, u1 (x y), u2 X Y u3 u4 x y. u5 u6'
  document = [make_passage(0, text), make_passage(1, 'x y')]
  pairs = pretexts.make_pairs(
      'recurring_spans', document, plain.offsets, 0, 50)
  queries = {pair.query for pair in pairs}
  assert len(queries) == len(pairs) > 10
  assert 'u1 (), u2 u3 u4. u5 u6' in queries
  assert 'u1 (), u2 u3 u4 x' in queries  # Half a span at the window's end.
  assert all(query[0] in 'uxXyY' for query in queries)


def test_neighbours_are_the_nearest_of_another_text(many, wordpiece):
  texts = ['One river runs to the sea.', 'Two rivers run to the sea.', '',
           'two rivers run - to the Sea', 'Three rivers run to the sea.', '!']
  document = [make_passage(10 * i, text) for i, text in enumerate(texts)]
  pairs = pretexts.make_pairs('neighbours', document, wordpiece.offsets, 0, 9)
  rows = collections.defaultdict(set)
  for pair in pairs:
    rows[pair.query].add(pair.row)
    assert (pair.first, pair.end, pair.title) == (0, -1, True)
  assert rows == {texts[0]: {10}, texts[1]: {0, 40}, texts[3]: {0, 40},
                  texts[4]: {30}}
  sides = collections.Counter()
  for document in DOCUMENTS:
    for pair in pretexts.make_pairs('neighbours', document, wordpiece.offsets,
                                   0):
      homes = [row for row, passage in document
               if pair.query in fold(passage.text)]
      if len(homes) == 1:
        sides[pair.row > homes[0]] += 1
        assert pair.row != homes[0]
  assert 0.35 < sides[True] / sides.total() < 0.65


def test_title_is_asked_for_and_not_in_the_positive(many, wordpiece):
  expected = [
      pretexts.Pair(passage.title, row, title=False)
      for row, passage in PASSAGES.items() if passage.title and passage.text]
  assert many['title'] == expected and 50 < len(expected) < len(PASSAGES)
  document = [make_passage(0, 'a  Text.', 'A text'),
              make_passage(1, 'b', ' c ')]
  assert pretexts.make_pairs('title', document, wordpiece.offsets, 0) == [
      pretexts.Pair('c', 1, title=False)]
