"""A look at data before it is prepared."""

import dataclasses
import json

import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.data import dataset, peek
from neg_contrast.data import tokenizer as tokenizer_lib
from neg_contrast.settings import config as config_lib
from tests import tiny


@pytest.fixture
def config(tmp_path):
  tiny.write_beir(tmp_path / 'data')
  return config_lib.DataConfig(
      source=f'beir:{tmp_path / "data"}',
      prepared_dir=str(tmp_path / 'prepared'), tune_fraction=0.25,
  )


def test_a_source_and_its_prepared_form(config, tmp_path):
  first = peek.look(config, ('train', 'test'), needs_tuning=True)
  assert not first.is_prepared and not (tmp_path / 'prepared').exists()
  assert (first.passages.number, first.passages.is_exact) == (48, True)
  assert first.splits['test'] == peek.Split(peek.Count(12), peek.Count(12))
  assert first.splits['train'].positives == peek.Count(27, False)
  assert first.splits[None].queries == peek.Count(9, False)  # 36 / 4.
  assert len(first.texts) == len(first.questions) == 48
  loaded = dataset.Dataset(config)
  second = peek.look(config, ('train', 'test'), needs_tuning=True)
  train, tune = loaded.train_and_tune
  assert second.is_prepared and second.bytes == first.bytes
  assert second.splits[None].queries.number == len(tune.queries)
  assert second.splits['train'].positives.number == (train.grades > 0).sum()
  assert sorted(second.questions) == sorted(first.questions)


def test_positives_that_are_not_trained_on(config, tmp_path):
  """Those of weight 0, and DPR's after the first; `equal` knows the former."""
  path = tmp_path / 'data' / 'qrels' / 'train.tsv'
  header, *lines = path.read_text().splitlines()
  path.write_text('\n'.join([header + '\tweight', *(
      f'{line}\t{number % 2}' for number, line in enumerate(lines)), '']))
  counted = [line for line in lines if line.endswith('\t1')]
  trained = [line for number, line in enumerate(lines)
             if line.endswith('\t1') and number % 2]
  assert 0 < len(trained) < len(counted)
  config = dataclasses.replace(config, tune_split='test', test_split='train')
  look = lambda: peek.look(config, ('train', 'test'), True).splits['train']
  first = look()
  assert first.positives == peek.Count(len(trained))
  assert first.weightless == peek.Count(len(counted) - len(trained))
  dataset.Dataset(config)
  assert look() == first
  passages = [{'title': '', 'text': f'text {n}', 'passage_id': str(n)}
              for n in range(4)]
  file = tmp_path / 'dpr-train.json'
  file.write_text(json.dumps([{
      'question': f'question {n}', 'answers': [], 'positive_ctxs': passages,
      'negative_ctxs': [], 'hard_negative_ctxs': []} for n in range(5)]))
  config = dataclasses.replace(config, source=f'dpr:{file}', tune_split='',
                               test_split='test')
  found = peek.look(config, ('train',), False).splits['train']
  assert found == peek.Split(peek.Count(5), peek.Count(5))


def test_a_large_source_is_read_for_some_seconds(config, tmp_path, monkeypatch):
  path = tmp_path / 'data' / 'corpus.jsonl'
  path.write_text(path.read_text() + ''.join(
      json.dumps({'_id': f'more{i}', 'title': '', 'text': 'a b'}) + '\n'
      for i in range(1000)
  ))
  monkeypatch.setattr(peek, '_SECONDS', 0.0)
  found = peek.look(config, ('test',), needs_tuning=False)
  assert found.passages == peek.Count(64, is_exact=False)
  assert str(found.passages) == 'at least 64'


@pytest.mark.parametrize('split', ['dev', ''])
def test_splits_that_are_not_there(config, split):
  with pytest.raises(errors.UserError, match=(
      rf'config\.data\.test_split="{split}": .* has no such split, but test '
      'and train')):
    peek.look(config_lib.DataConfig(
        source=config.source, prepared_dir=config.prepared_dir,
        test_split=split), ('train', split), False)


def test_a_corpus_alone_needs_no_split(config, tmp_path):
  (tmp_path / 'data' / 'queries.jsonl').unlink()
  for path in (tmp_path / 'data' / 'qrels').iterdir():
    path.unlink()
  (tmp_path / 'data' / 'qrels').rmdir()
  found = peek.look(config, (), needs_tuning=False)
  assert found.splits == {} and found.questions == ()
  with pytest.raises(errors.UserError, match='but none at all'):
    peek.look(config, ('train',), False)


def test_lengths_are_those_of_the_model(tmp_path):
  tiny.write_tokenizer(tmp_path)
  tokenizer = tokenizer_lib.load_tokenizer(str(tmp_path))
  texts = (('', 'word1 word2 word3'), ('word4', 'word5'))
  found = peek.lengths(texts, tokenizer, 4)
  # [CLS] and [SEP], and one more [SEP] after a title.
  assert found.counts.tolist() == [0, 0, 0, 0, 0, 2]
  assert found.cut_sequences == 2 and found.cut_tokens == 2
  np.testing.assert_array_equal(peek.spread(found), [4, 4])


def test_without_a_tokenizer_words_are_counted():
  found = peek.lengths((('', ' '.join(['word'] * 100)),), None, 384)
  assert found.longest == 142
