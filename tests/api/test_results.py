"""Results in a notebook: tables of the right numbers, and nothing hostile."""

import pathlib

import pytest

from neg_contrast import api
from neg_contrast.api import results
from neg_contrast.artifacts import folders
from neg_contrast.data import records
from neg_contrast.evaluation import metrics
from neg_contrast.retrieval import finding
from tests import test_html_parts

HOSTILE = test_html_parts.HOSTILE


def test_the_best_of_what_is_better_small_is_bold(monkeypatch):
  monkeypatch.setattr(metrics, 'less_is_better', lambda name: name == 'rank')
  page = results.Metrics({'a': {'rank': 2.0}, 'b': {'rank': 3.0}})
  assert '<b>2.0000</b>' in page._repr_html_()
  assert '<b>3.0000</b>' not in page._repr_html_()


def test_metrics_are_a_table():
  shown = results.Metrics({
      'bm25': {'mrr@10': 0.5, 'accuracy@1': 0.25},
      'trained': {'mrr@10': 0.75, 'answer_accuracy@1': 1.0}})
  page = shown._repr_html_()
  read = test_html_parts.check(page)
  assert read.cells == [
      'system', 'mrr@10', 'accuracy@1', 'answer_accuracy@1',
      'bm25', '0.5000', '0.2500', '', 'trained', '0.7500', '', '1.0000']
  assert '<b>0.7500</b>' in page and '<b>0.5000</b>' not in page
  assert '<b>' not in results.Metrics({'a': {'mrr@10': 1.0}})._repr_html_()
  nothing = test_html_parts.check(results.Metrics()._repr_html_())
  assert nothing.cells == ['system']


@pytest.mark.parametrize('text', HOSTILE)
def test_hostile_names_of_systems(text):
  page = results.Metrics({text: {text: 0.5}})._repr_html_()
  test_html_parts.check(page, [text])


def test_metrics_of_a_split_are_read(tmp_path):
  folders.write_json(tmp_path / 'metrics.json', {
      'objects/test/trained/mrr@10': 0.5, 'objects/test/bm25/mrr@10': 0.25,
      'objects/dev/bm25/mrr@10': 0.125, 'other/test/bm25/mrr@10': 0.0})
  assert list(results.read_metrics(tmp_path, 'objects', 'test').items()) == [
      ('bm25', {'mrr@10': 0.25}), ('trained', {'mrr@10': 0.5})]
  assert dict(results.read_metrics(tmp_path, 'objects', 'test', {'bm25'})) == {
      'bm25': {'mrr@10': 0.25}}


@pytest.mark.parametrize('text', HOSTILE)
def test_hostile_passages_are_shown_as_texts(text):
  passage = records.Passage(text, text, f'{text} word {text}')
  answers = finding.Answers(text, [
      finding.Found(passage, 0.5, (0, len(text))),
      finding.Found(records.Passage('b', '', ''), -0.25, (0, 0))])
  page = answers._repr_html_()
  read = test_html_parts.check(page, [text])
  assert read.tags.count('mark') == 1
  assert read.cells[0].strip() and '0.5000' in read.cells
  assert '-0.2500' in read.cells
  assert len(answers) == 2 and answers[0].score == 0.5
  both = finding.AnswerSets([answers, finding.Answers('b', [])])
  read = test_html_parts.check(both._repr_html_(), [text])
  assert read.tags.count('table') == 2 and both[0] == answers


def test_hostile_negatives_are_shown_as_texts(tmp_path):
  texts = [one for one in HOSTILE if one.strip()]
  queries = {f'<q{n}>': text for n, text in enumerate(texts)}
  passages = {f'<p{n}>': (text, f'word{n} {text} word')
              for n, text in enumerate(texts)}
  mined = api.mine(
      queries, passages, {f'<q{n}>': f'<p{n}>' for n in range(len(texts))},
      workdir=tmp_path, negatives__depth=len(texts),
      negatives__pool_size=len(texts))
  page = mined._repr_html_()
  read = test_html_parts.check(page, [texts[0]])
  assert f'Negatives of {len(texts)} queries; 5 are shown' in read.cells
  shown = [cell for cell in read.cells if cell.startswith('<p')]
  assert shown == [one.passage_id for name in list(queries)[:5]
                   for one in mined[name][:5]]
  assert repr(mined) == f'Negatives of {len(texts)} queries in {mined.folder}'


def test_a_training_shows_its_place_and_numbers():
  trained = api.Training(
      pathlib.Path('a<b>'), 'beir:a/objects/x',
      results.Metrics({'bm25': {'mrr@10': 0.5}}), {})
  test_html_parts.check(trained._repr_html_(), ['0.5000'])
  assert '<p>a&lt;b&gt;</p>' in trained._repr_html_()
  assert repr(trained) == "Training in a<b>: {'bm25': {'mrr@10': 0.5}}"
