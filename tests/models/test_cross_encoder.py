"""Cross-encoders: against pairs scored alone, and against transformers."""

import dataclasses
import json

import jax
import numpy as np
import pytest
from safetensors.numpy import save_file

from neg_contrast import errors, jobs
from neg_contrast.artifacts import plan
from neg_contrast.batches import packed, packing, text_pairs
from neg_contrast.data import sequences as sequences_lib
from neg_contrast.models import (
  bert,
  by_name,
  cross_encoder,
  dual_encoder,
  given,
  reranker,
)
from neg_contrast.settings import config as config_lib
from tests import tiny

CLS, SEP = 2, 3
QUERIES, PASSAGES = [4, 3, 6, 5, 3], [5, 8, 3, 7, 4]


def texts(lengths, seed):
  """`[CLS] ... [SEP]` of so many tokens each."""
  rng = np.random.default_rng(seed)
  return [np.array([CLS, *rng.integers(5, 60, n - 2), SEP], np.int32)
          for n in lengths]


def make_pairs():
  return text_pairs.join(*(
      sequences_lib.listed(texts(lengths, seed))
      for seed, lengths in enumerate((QUERIES, PASSAGES))
  ))


def packed_scores(spec, params, pairs, groups=2):
  """Scores of pairs in two groups of rows of 16 tokens, with empty slots."""
  layout = packing.plan(pairs.lengths, groups, 16, slots=4)
  batch = text_pairs.fill(layout, pairs)
  scores = jax.jit(lambda params, batch: dual_encoder.encode(
      cross_encoder.CrossEncoder(spec), params, batch, None
  ))(params, batch)
  assert scores.shape == (groups, 4, 1) and np.isfinite(scores).all()
  return np.asarray(scores).reshape(-1)[layout.flat_slot], batch


def test_pairs_are_one_sequence_of_two_types():
  pairs = make_pairs()
  assert pairs.starts.tolist() == QUERIES
  for one, query, passage in zip(pairs.sequences, texts(QUERIES, 0),
                                 texts(PASSAGES, 1), strict=True):
    assert one.tolist() == [*query, *passage[1:]]
  assert (text_pairs.pair_lengths(np.array(QUERIES), np.array(PASSAGES))
          == pairs.lengths).all()
  assert len(text_pairs.join(*[sequences_lib.listed([])] * 2)) == 0


@pytest.mark.parametrize('pooler', [False, True])
def test_score_is_that_of_the_equation(pooler):
  """w^T E_1(x, y) + b, computed of each pair in a row of its own."""
  spec = cross_encoder.CrossEncoderSpec(tiny.bert_config(), pooler)
  params = cross_encoder.init_params(spec, jax.random.key(0))
  params['score']['bias'] = params['score']['bias'] + 0.7
  pairs = make_pairs()
  got, _ = packed_scores(spec, params, pairs)
  place = np.arange(16, dtype=np.int32)
  model = bert.Bert(spec.transformer)
  encode = jax.jit(lambda ids, is_there, types: model.apply(
      {'params': params['bert']}, ids[None], is_there[None], place[None], True,
      types[None],
  ))
  for n, score in enumerate(got):
    ids = np.zeros(16, np.int32)
    length = pairs.lengths[n]
    ids[:length] = pairs.sequences[n]
    first = np.asarray(encode(
        ids, (place < length).astype(np.int32),
        (place >= QUERIES[n]).astype(np.int32),
    ))[0, 0]
    if pooler:
      first = np.tanh(first @ params['pooler']['kernel']
                      + params['pooler']['bias'])
    want = first @ params['score']['kernel'][:, 0] + 0.7
    np.testing.assert_allclose(score, want, rtol=1e-5, atol=1e-5)


def test_types_count_where_there_are_two():
  pairs = make_pairs()
  for rows in (1, 2):
    spec = cross_encoder.CrossEncoderSpec(
        tiny.bert_config(type_vocab_size=rows)
    )
    params = cross_encoder.init_params(spec, jax.random.key(0))
    got, batch = packed_scores(spec, params, pairs)
    plain = dataclasses.replace(
        batch, token_types=np.zeros_like(batch.token_types)
    )
    score = jax.jit(lambda params, batch, spec=spec: dual_encoder.encode(
        cross_encoder.CrossEncoder(spec), params, batch, None
    ))
    same, mixed = score(params, plain), score(params, batch)
    assert np.allclose(same, mixed) == (rows == 1)
    assert np.isin(got, mixed).all()


def test_bert_without_types_is_as_it_was():
  config = tiny.bert_config()
  model = bert.Bert(config)
  row = np.arange(6, dtype=np.int32)[None] + 5
  ones = np.ones_like(row)
  params = model.init(jax.random.key(0), row, ones, row - 5, True)
  plain = model.apply(params, row, ones, row - 5, True)
  zeros = model.apply(params, row, ones, row - 5, True, np.zeros_like(row))
  np.testing.assert_array_equal(plain, zeros)


def write_classifier(folder, labels=1, seed=0):
  """A BertForSequenceClassification with random weights."""
  config, params = tiny.write_model(folder)
  rng = np.random.default_rng(seed)

  def draw(*shape: int):
    return rng.normal(size=shape).astype(np.float32) * 0.4

  size = config.hidden_size
  tensors = {f'bert.{name}': value
             for name, value in tiny.hf_names(params, config).items()}
  tensors |= {
      'bert.pooler.dense.weight': draw(size, size),
      'bert.pooler.dense.bias': draw(size),
      'classifier.weight': draw(labels, size), 'classifier.bias': draw(labels),
  }
  save_file(tensors, str(folder / 'model.safetensors'),
            metadata={'format': 'pt'})
  saved = json.loads((folder / 'config.json').read_text())
  saved |= {'architectures': ['BertForSequenceClassification'],
            'num_labels': labels}
  (folder / 'config.json').write_text(json.dumps(saved))


def lengths(query, passage):
  return config_lib.ModelConfig(query_length=query, passage_length=passage)


def test_equals_transformers(tmp_path):
  torch = pytest.importorskip('torch')
  transformers = pytest.importorskip('transformers')
  write_classifier(tmp_path)
  theirs = transformers.BertForSequenceClassification.from_pretrained(
      tmp_path, attn_implementation='eager'
  ).eval()
  assert reranker.is_classifier(str(tmp_path))
  loaded = reranker.from_pretrained(str(tmp_path), lengths(16, 24), 0)
  assert loaded.spec.pooler and loaded.longest == 39
  pairs = make_pairs()
  got, _ = packed_scores(loaded.spec, loaded.params, pairs)
  for n, score in enumerate(got):
    ids = torch.tensor(pairs.sequences[n].astype(np.int64))[None]
    types = (torch.arange(ids.shape[1]) >= QUERIES[n]).long()[None]
    want = theirs(ids, token_type_ids=types).logits.item()
    np.testing.assert_allclose(score, want, atol=1e-5)


def test_what_is_no_reranker_is_refused(tmp_path):
  write_classifier(tmp_path / 'three', labels=3)
  with pytest.raises(errors.UserError, match=r'classifier.weight is \[3, 16\], '
                     r'and a reranker, which has one label'):
    reranker.from_pretrained(str(tmp_path / 'three'), lengths(16, 24), 0)
  tiny.write_model(tmp_path / 'plain')
  assert not reranker.is_classifier(str(tmp_path / 'plain'))
  with pytest.raises(errors.UserError, match='up to 41 tokens'):
    reranker.from_pretrained(str(tmp_path / 'plain'), lengths(18, 24), 0)


def test_a_cross_encoder_is_no_dual_encoder(tmp_path):
  write_classifier(tmp_path)
  model = given.Checkpoint(str(tmp_path))
  assert 'is a cross-encoder, whose first layers are no' in model.lacks()
  with pytest.raises(errors.UserError, match='rank by this one with configs/'):
    model.read()
  # A training may start from its layers.
  assert given.Start(str(tmp_path), 0, lengths(16, 24)).lacks() is None


def test_a_bert_gets_a_score_layer_by_seed(tmp_path):
  tiny.write_model(tmp_path)
  one, two, other = (
      reranker.from_pretrained(str(tmp_path), lengths(16, 24), seed)
      for seed in (0, 0, 1)
  )
  assert not one.spec.pooler and set(one.params) == {'bert', 'score'}
  assert one.fingerprint == two.fingerprint != other.fingerprint
  jax.tree.map(np.testing.assert_array_equal, one.params, two.params)
  assert one.params['score']['bias'] == 0
  spec = cross_encoder.CrossEncoderSpec.from_json(one.spec.to_json())
  assert spec == one.spec
  assert packed.PackedSequences(1, 1, 1, 1).token_types is None


@pytest.mark.parametrize('job', ['search', 'evaluate', 'export', 'serve'])
def test_a_cross_encoder_is_no_retriever_of_a_job(tmp_path, job):
  """Its first layers had numbers of their own; a start of a training may be."""
  write_classifier(tmp_path / 'ce')
  tiny.write_beir(tmp_path / 'data')
  config = config_lib.parse(tiny.make_config(
      tmp_path, job=job, checkpoint=str(tmp_path / 'ce'),
      negatives__sources=()))
  targets = jobs.make_job(config, tmp_path / 'work').targets()
  assert 'is a cross-encoder, whose first layers' in plan.describe(targets)
  with pytest.raises(errors.UserError, match='whose first layers are no dual'):
    by_name.load_checkpoint(str(tmp_path / 'ce'), config.model, 0)
  start = given.Start(str(tmp_path / 'ce'), 0, dataclasses.replace(
      config.model, init=str(tmp_path / 'ce')))
  assert start.lacks() is None and start.load().spec.shared


@pytest.mark.parametrize(('named', 'asked', 'wanted'), [
    (40, {}, (20, 21)), (24, {}, (12, 13)), (40, {'query_length': 8}, (8, 33)),
    (24, {'passage_length': 20}, (12, 20)),
])
def test_the_length_of_a_cross_encoder_is_that_of_a_pair(
    tmp_path, named, asked, wanted
):
  """As sentence-transformers saves it; such a folder was refused."""
  write_classifier(tmp_path)
  (tmp_path / 'sentence_bert_config.json').write_text(
      json.dumps({'max_seq_length': named}))
  (tmp_path / 'modules.json').write_text(json.dumps([{
      'idx': 0, 'name': '0', 'path': '',
      'type': 'sentence_transformers.models.Transformer'}]))
  found = reranker.from_pretrained(
      str(tmp_path), config_lib.ModelConfig(**asked), 0)
  assert (found.text.query_length, found.text.passage_length) == wanted
  if not asked:
    assert found.longest == named
