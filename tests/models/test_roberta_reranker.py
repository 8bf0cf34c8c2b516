"""Cross-encoders of families with heads of their own, by transformers."""

import functools

import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.batches import text_pairs
from neg_contrast.data import sequences as sequences_lib
from neg_contrast.data import tokenized
from neg_contrast.models import reranker
from neg_contrast.retrieval import encoding, pair_scorer
from neg_contrast.settings import config as config_lib
from tests.models import test_roberta_pretrained as folders

torch = pytest.importorskip('torch')
transformers = pytest.importorskip('transformers')

CLASSES = {
    'roberta': (transformers.RobertaConfig,
                transformers.RobertaForSequenceClassification),
    'xlm-roberta': (transformers.XLMRobertaConfig,
                    transformers.XLMRobertaForSequenceClassification),
    'electra': (transformers.ElectraConfig,
                transformers.ElectraForSequenceClassification),
    'distilbert': (transformers.DistilBertConfig,
                   transformers.DistilBertForSequenceClassification),
    'modernbert': (transformers.ModernBertConfig,
                   transformers.ModernBertForSequenceClassification),
    'modernbert, mean': (
        functools.partial(transformers.ModernBertConfig, norm_eps=1e-3,
                          classifier_pooling='mean', classifier_bias=True,
                          classifier_activation='relu'),
        transformers.ModernBertForSequenceClassification),
    'mpnet': (transformers.MPNetConfig,
              transformers.MPNetForSequenceClassification),
}
QUERIES = ['How tall is the Eiffel Tower?', '.']
PASSAGES = ['It is 330 metres tall.', 'naïve café', '']


def write(folder, kind, labels=1):
  """A folder with a tokenizer and random weights; both."""
  folder.mkdir()
  torch.manual_seed(1)
  config, model = CLASSES[kind]
  sizes = {**folders.BERT_LIKE, 'max_position_embeddings': 70,
           'embedding_size': 16}
  if kind == 'distilbert':
    sizes |= {'dim': 16, 'n_layers': 2, 'n_heads': 2, 'hidden_dim': 24}
  reference = model(config(num_labels=labels, **sizes)).eval()
  with torch.no_grad():  # New ones have biases of 0 and scales of 1.
    for parameter in reference.parameters():
      if parameter.ndim == 1:
        parameter += 0.1 * torch.randn_like(parameter)
  kind = kind.partition(',')[0]
  reference.save_pretrained(folder)
  return reference, folders.write_tokenizer(
      folder, {'mpnet': 'roberta', 'electra': 'distilbert'}.get(kind, kind))


def model_config(query=24, passage=24):
  return config_lib.ModelConfig(
      init='x', query_length=query, passage_length=passage
  )


@pytest.mark.parametrize('kind', CLASSES)
def test_scores_are_those_of_transformers(tmp_path, kind):
  reference, backend = write(tmp_path / 'model', kind)
  name = str(tmp_path / 'model')
  assert reranker.is_classifier(name)
  model = reranker.from_pretrained(name, model_config(), 0)
  assert model.spec.pooler and model.longest == 47 + len(model.start)
  texts = [
      tokenized.tokenize_in_memory(
          [('', text) for text in some], model.tokenizer, 24, ''
      ) for some in (QUERIES, PASSAGES)
  ]
  pairs = np.array([(q, p) for q in range(2) for p in range(3)])
  joined = text_pairs.join(
      texts[0].tokens(pairs[:, 0]), texts[1].tokens(pairs[:, 1]), model.start
  )
  scores = pair_scorer.PairScorer(model, encoding.EncodingSettings(
      model_config(), config_lib.IndexConfig(), config_lib.MeshConfig()
  )).score(*texts, pairs)
  for number, (query, passage) in enumerate(pairs):
    ids = backend.encode(QUERIES[query], PASSAGES[passage]).ids
    assert joined.sequences[number].tolist() == ids
    want = reference(torch.tensor([ids])).logits.item()
    np.testing.assert_allclose(scores[number, 0], want, atol=1e-5)
  assert np.ptp(scores) > 0.01


def test_lengths_are_those_of_joined_pairs():
  one, other = [
      sequences_lib.listed([np.array(ids, np.int32) for ids in some])
      for some in ([[0, 5, 2], [0, 2]], [[0, 6, 7, 2], [0, 8, 2]])]
  joined = text_pairs.join(one, other, (2,))
  assert joined.sequences[0].tolist() == [0, 5, 2, 2, 6, 7, 2]
  assert joined.sequences[1].tolist() == [0, 2, 2, 8, 2]
  assert joined.starts.tolist() == [3, 2]
  assert other[0].tolist() == [0, 6, 7, 2]  # As it was.
  lengths = text_pairs.pair_lengths(one.lengths, other.lengths, (2,))
  assert lengths.tolist() == joined.lengths.tolist()


def test_what_is_no_reranker_is_refused(tmp_path):
  write(tmp_path / 'two', 'roberta', labels=2)
  with pytest.raises(errors.UserError, match=(
      r'classifier.out_proj.weight is \[2, 16\], and a reranker, which has one'
  )):
    reranker.from_pretrained(str(tmp_path / 'two'), model_config(), 0)
  write(tmp_path / 'one', 'roberta')
  with pytest.raises(errors.UserError, match='up to 70 tokens'):
    reranker.from_pretrained(str(tmp_path / 'one'), model_config(30, 40), 0)
