"""The data of a job: its splits, what is refused, and what is its identity."""

import json
import types

import pytest

from neg_contrast import errors
from neg_contrast.artifacts import artifact
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import records, statistics
from neg_contrast.data import tokenizer as tokenizer_lib
from neg_contrast.settings import config as config_lib
from tests import corpora, tiny

PASSAGES = {f'p{n}': ('same' if n < 2 else f'title {n}', f'text {n}')
            for n in range(6)}
QUERIES = {f'q{n}': f'query {n}' for n in range(6)}
TRAIN = {f'q{n}': {f'p{n}': 1} for n in range(4)}


def data_of(folder, passages=PASSAGES, queries=QUERIES, config=None, **splits):
  splits = {'train': TRAIN, 'dev': {'q4': {'p4': 1}},
            'test': {'q5': {'p5': 1}}, **splits}
  return corpora.data_of(folder, corpora.write_beir(
      folder / 'data', passages, queries, **splits
  ), **{'tune_split': 'dev', **(config or {})})


def test_splits_are_those_of_the_config(tmp_path):
  dataset = data_of(tmp_path).load()
  train, tune, test = (of.queries.tolist() for of in (
      dataset.splits.train, dataset.splits.tune, dataset.splits.test))
  assert (train, tune, test) == ([0, 1, 2, 3], [4], [5])
  assert dataset.gold is dataset and dataset.train_split == 'train'
  assert dataset.name == 'data'


def test_a_part_of_training_is_for_tuning_where_no_split_is(tmp_path):
  dataset = data_of(
      tmp_path, config={'tune_split': '', 'tune_fraction': 0.5}).load()
  train, tune = (of.queries.tolist() for of in dataset.train_and_tune)
  assert train and tune and sorted(train + tune) == [0, 1, 2, 3]


def test_tuning_needs_a_positive(tmp_path):
  dataset = data_of(tmp_path, dev={'q4': {'p4': 0}}).load()
  with pytest.raises(errors.UserError, match=r'config\.data\.tune_split="dev": '
                     'has answers but no positive passages'):
    _ = dataset.train_and_tune


def test_numbers_are_not_tuned_on_test_queries(tmp_path):
  dataset = data_of(tmp_path, test={'q5': {'p5': 1}, 'q4': {'p5': 0}}).load()
  with pytest.raises(errors.UserError, match=(
      'the tune split and the split "test", .* have 1 queries in common, such '
      r'as "q4": query 4\. ')):
    _ = dataset.splits
  assert dataset.apart('train') is not None


def test_miners_need_no_test_split(tmp_path):
  dataset = data_of(tmp_path, config={'test_split': 'none'}).load()
  assert dataset.train_and_tune[1].queries.tolist() == [4]
  with pytest.raises(errors.UserError, match='no split "none"'):
    _ = dataset.splits


def test_documents_are_the_readers_or_of_equal_titles(tmp_path):
  reader = data_of(tmp_path).load().documents
  assert reader.tolist() == [-1] * 6  # It says nothing of them.
  by_title = data_of(tmp_path, config={'document': 'title'}).load()
  titles = by_title.documents
  assert titles[0] == titles[1] and len(set(titles.tolist())) == 5
  assert (titles >= 0).all()
  names = list(map(by_title.document_of, by_title.prepared.passages))
  assert names[0] == names[1] and len(set(names)) == 5 and all(names)


def test_names_of_documents_are_the_readers_or_folded_titles(tmp_path):
  passage = records.Passage('p', 'A  title ', 'text', 'A0')
  of_reader = data_of(tmp_path).load().document_of
  of_title = data_of(tmp_path, config={'document': 'title'}).load().document_of
  assert of_reader(passage) == 'A0' and of_title(passage) == 'A title'
  blank = records.Passage('p', ' ', 'text')
  assert of_reader(blank) == of_title(blank) == ''


@pytest.mark.parametrize(('source', 'name'), [
    ('beir:some/scifact', 'scifact'), ('beir:some/scifact/', 'scifact'),
    ('dpr:some/train.json.gz', 'train.json.gz'), ('squad', 'squad'),
    ('', ''),
])
def test_a_data_set_is_named_by_its_place(source, name):
  assert dataset_lib.name_of(config_lib.DataConfig(source=source)) == name


def test_it_is_made_as_long_as_the_files_are_the_same(tmp_path):
  data = data_of(tmp_path)
  assert not data.is_made() and data.contents() is None and not data.lacks()
  data.build()
  assert data.is_made()
  before = data.contents()
  data_of(tmp_path, {**PASSAGES, 'p6': 'more'})
  assert not data.is_made()
  artifact.changed(data)
  assert data.contents() is None
  data.build()
  assert data.is_made() and data.contents() != before


def test_what_lacks_is_told_with_how_to_get_it(tmp_path):
  data = corpora.data_of(tmp_path, f'beir:{tmp_path / "gone"}',
                         how_to_get='Ask the neighbours.')
  assert 'no such file' in data.lacks()
  assert data.lacks().endswith('\nAsk the neighbours.')
  with pytest.raises(errors.UserError, match='Ask the neighbours'):
    data.load()
  assert not data.is_made() and data.contents() is None


def contents(folder, role, **values):
  data = data_of(folder, **values)
  data.build()
  return data.contents(role)


@pytest.mark.parametrize(('values', 'changed'), [
    ({}, set()),
    ({'passages': {**PASSAGES, 'p5': 'new'}}, {'corpus', 'texts', 'data'}),
    ({'queries': {**QUERIES, 'q5': 'new'}}, {'texts', 'data'}),
    ({'test': {'q5': {'p4': 1}}}, {'data'}),
    ({'config': {'document': 'title', 'on_invalid': 'skip'}}, set()),
])
def test_a_role_has_what_it_reads(tmp_path, values, changed):
  one, other = (
      {role: contents(tmp_path / name, role, **of)
       for role in ('corpus', 'texts', 'data')}
      for name, of in (('one', {}), ('other', values)))
  assert {role for role in one if one[role] != other[role]} == changed
  assert one['corpus'].keys() == {'corpus'}
  assert one['texts'].keys() == {'corpus', 'queries'}
  assert one['data'].keys() == {'data'}


def test_data_of_two_trainings_are_one(tmp_path):
  config = data_of(tmp_path).config
  make = lambda **values: dataset_lib.data_of(config_lib.DataConfig(
      source=config.source, prepared_dir=config.prepared_dir, **values))
  one = make()
  assert one == make(batch_size=64, groups=4) and hash(one) == hash(make())
  assert one.load() is make(batch_size=64).load()
  for values in ({'train_split': 'dev'}, {'tune_fraction': 0.3},
                 {'document': 'title'}, {'split': 'dev'}):
    assert make(**values) != one


def test_broken_records_are_skipped_where_that_is_asked_for(tmp_path):
  data = data_of(tmp_path)
  with open(tmp_path / 'data' / 'corpus.jsonl', 'a') as f:
    f.write(json.dumps({'_id': '', 'text': 'no id'}) + '\n')
  with pytest.raises(errors.UserError, match=r'corpus\.jsonl:7'):
    data.load()
  skipping = data_of(tmp_path / 'other', config={'on_invalid': 'skip'})
  with open(tmp_path / 'other' / 'data' / 'corpus.jsonl', 'a') as f:
    f.write(json.dumps({'_id': '', 'text': 'no id'}) + '\n')
  assert len(skipping.load().prepared.passages) == 6


def test_a_store_is_measured_once_for_each_length(tmp_path, monkeypatch):
  tiny.write_tokenizer(tmp_path / 'tokenizer')
  tokenizer = tokenizer_lib.load_tokenizer(str(tmp_path / 'tokenizer'))

  def model(length):
    text = types.SimpleNamespace(
        length=lambda _: length, prefix=lambda _: '', title_end='',
        markers=('[unused0]', '[unused1]'),
    )
    return types.SimpleNamespace(tokenizer=tokenizer, text=text)

  measure, measured = statistics.measure_lengths, []
  monkeypatch.setattr(statistics, 'measure_lengths', lambda texts: (
      measured.append(texts.max_length) or measure(texts)))
  said = []
  monkeypatch.setattr(dataset_lib.logging, 'warning',
                      lambda text, *args: said.append(text % args))
  data = data_of(tmp_path)
  for length in (4, 4, 99, 4):  # [CLS], a title, [SEP], a text and [SEP].
    for loaded in (data.load(), dataset_lib.Dataset(data.config)):
      loaded.tokenize(model(length), 'passage')
  assert measured == [4, 99]
  assert len(said) == 1 and said[0].startswith('100% of the passages')
