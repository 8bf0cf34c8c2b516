"""A model at work: which tokens it reads, and what it says of its work."""

import dataclasses

import jax
import numpy as np
import pandas
import polars
import pytest

from neg_contrast.data import records, tokenized
from neg_contrast.models import given
from neg_contrast.retrieval import encoding, text_encoder, vectors
from neg_contrast.settings import config as config_lib
from tests import tiny


def settings(chunk_tokens=64, row_length=0, **index):
  """Of encoding on this machine."""
  return encoding.EncodingSettings(
      config_lib.ModelConfig(), config_lib.IndexConfig(
          chunk_tokens=chunk_tokens, **index),
      config_lib.MeshConfig(), row_length)


@pytest.fixture(scope='module')
def model(tmp_path_factory):
  folder = tmp_path_factory.mktemp('model')
  tiny.write_model(folder)
  return given.Checkpoint(str(folder), 0, config_lib.ModelConfig(
      init=str(folder), query_length=6, passage_length=9)).load()


@pytest.fixture(scope='module')
def encoder(model):
  return text_encoder.TextEncoder(model, settings())


def same(one, other):
  np.testing.assert_allclose(one, other, atol=1e-5)


def words(*numbers):
  return ' '.join(f'word{n}' for n in numbers)


def table(model, texts):
  """Passages as tokens of the model."""
  return tokenized.tokenize_in_memory(
      [('', text) for text in texts], model.tokenizer, 9, '')


def test_vectors_are_of_unit_length_and_of_their_text_alone(encoder):
  texts = [words(*range(n, n + 5)) for n in range(12)]
  vecs = encoder.encode_passages(texts)
  assert vecs.shape == (12, encoder.dim) and encoder.dim == 16
  assert encoder.score.is_dot and vecs.dtype == np.float32
  same(np.linalg.norm(vecs, axis=1), 1)
  same(vecs[7:8], encoder.encode_passages(texts[7:8]))
  assert np.abs(vecs[0] - vecs[1]).max() > 1e-3


def test_texts_are_cut_to_their_role(encoder):
  # [CLS] and [SEP] are two of the tokens: 4 words of a query, 7 of a passage.
  six, four = words(1, 2, 3, 4, 5, 6), words(1, 2, 3, 4)
  same(encoder.encode_queries([six]), encoder.encode_queries([four]))
  assert np.abs(encoder.encode_passages([six])
                - encoder.encode_passages([four])).max() > 1e-3
  many = words(*range(20))
  same(encoder.encode_passages([many]),
       encoder.encode_passages([words(*range(7))]))


def test_a_prefix_is_read_before_every_query(model, encoder):
  prefixed = text_encoder.TextEncoder(dataclasses.replace(
      model, text=dataclasses.replace(model.text, query_prefix=words(7) + ' ')
  ), settings())
  same(prefixed.encode_queries([words(8), words(9)]),
       encoder.encode_queries([words(7, 8), words(7, 9)]))
  same(prefixed.encode_passages([words(8)]),
       encoder.encode_passages([words(8)]))


def test_passages_have_titles(encoder):
  whole = records.Passage('any', words(3), words(4, 5), 'document')
  found = encoder.encode_passages([whole, (words(3), words(4, 5)), words(4, 5)])
  same(found[0], found[1])
  assert np.abs(found[1] - found[2]).max() > 1e-3
  same(encoder.encode_passages([('', words(4, 5))]), found[2:])
  same(encoder.encode_passages([
      {'title': words(3), 'text': words(4, 5)}, {'text': words(4, 5)}]),
       found[1:])


@pytest.mark.parametrize('text', ['word1', ('word1', 'word2')])
def test_one_text_is_no_list(encoder, text):
  for encode in (encoder.encode_queries, encoder.encode_passages):
    with pytest.raises(TypeError, match='a list of texts is expected'):
      encode(text)


@pytest.mark.parametrize('one', [
    None, 3, float('nan'), ('a', 'b', 'c'), {'title': 'word1'},
    {'text': 'word1', 'body': 'word2'}, {'word1', 'word2'}, ['word1', None]])
def test_what_is_no_text_is_refused(encoder, one):
  for encode in (encoder.encode_queries, encoder.encode_passages):
    with pytest.raises(TypeError):
      encode([one])
  with pytest.raises(TypeError, match='a query is a text, not '):
    vectors.text_of(one)
  with pytest.raises(TypeError, match=r'a passage is a text, a \(title, text'):
    vectors.passage_of(one)


@pytest.mark.parametrize('texts, said', [
    ({'q1': 'word1'}, r'not a dict: list\(texts\.values'),
    ({'word1', 'word2'}, 'a list of texts is expected'),
    (None, r'is expected, such as \[None\], not NoneType'),
    (('a', 'b'), r'not a tuple: list\(texts\), or \[texts\] where it is the'),
    (pandas.DataFrame({'title': ['word1'], 'text': ['word2']}),
     r'not DataFrame: a column of it, or list\(zip\(table\["title"\], table\['),
    (polars.DataFrame({'text': ['word1']}), 'not DataFrame: a column of it'),
])
def test_what_is_no_list_is_refused(encoder, texts, said):
  for encode in (encoder.encode_queries, encoder.encode_passages):
    with pytest.raises(TypeError):
      encode(texts)
  with pytest.raises(TypeError, match=said):
    vectors.listed(texts)


def test_a_series_with_a_label_that_tables_have_is_no_table():
  texts = pandas.Series({'columns': 'word1', 'rows': 'word2'})
  assert vectors.listed(texts) == ['word1', 'word2']


def test_half_of_a_surrogate_pair(encoder):
  for encode in (encoder.encode_queries, encoder.encode_passages):
    with pytest.raises(ValueError, match='ud800x. is no valid Unicode'):
      encode(['\ud800x'])


def test_no_texts_have_no_vectors(encoder):
  assert encoder.encode_queries([]).shape == (0, 16)
  assert encoder.encode_passages([]).shape == (0, 16)


def test_some_rows_are_written_where_one_says(model, encoder):
  texts = [words(*range(n, n + 3)) for n in range(8)]
  all_of_them, done = encoder.encode_passages(texts), []
  rows = np.array([6, 1, 6], np.int32)
  out = np.full((3, 16), np.nan, np.float32)
  made = encoder.encode('passage', table(model, texts), rows, out=out,
                        on_progress=done.append)
  assert made is out
  same(out, all_of_them[rows])
  assert done[-1] == 3 and done == sorted(done)


def test_a_span_is_whole_blocks(model):
  encoder = text_encoder.TextEncoder(model, settings(chunk_tokens=9))
  texts = table(model, [words(*range(7))] * 2000)
  block = encoder.block_rows('passage', texts)
  assert 1 < block < 2000
  made = encoder.encode('passage', texts, span=range(block, 2 * block))
  assert made.shape == (block, 16)
  with pytest.raises(ValueError, match='cuts a block'):
    encoder.encode('passage', texts, span=range(1, block))


def test_work_is_counted_by_role(model):
  encoder = text_encoder.TextEncoder(model, settings())
  assert encoder.work('query') == encoder.work('passage') == encoding.Work()
  encoder.encode_queries([words(1, 2)] * 3)
  before = encoder.work('query')
  assert before.processed_tokens >= 3 * 4  # With [CLS] and [SEP].
  assert before.packing_seconds > 0
  assert encoder.work('passage') == encoding.Work()
  encoder.encode_queries([words(1, 2)])
  assert encoder.work('query').processed_tokens > before.processed_tokens


def test_other_weights_make_other_vectors(model, encoder):
  before = encoder.encode_queries([words(1, 2)])
  other = encoder.with_params(jax.tree.map(lambda one: 1.5 * one, model.params))
  assert np.abs(other.encode_queries([words(1, 2)]) - before).max() > 1e-3
  same(encoder.encode_queries([words(1, 2)]), before)
  assert other.model is model and other.settings is encoder.settings
