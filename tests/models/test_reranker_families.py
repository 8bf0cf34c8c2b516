"""Cross-encoders started from each family of encoders, against transformers."""

import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.data import tokenized
from neg_contrast.models import reranker
from neg_contrast.retrieval import encoding, pair_scorer
from neg_contrast.settings import config as config_lib
from tests.models import test_family_parity as parity
from tests.models import test_roberta_pretrained as folders

torch = pytest.importorskip('torch')
QUERIES = ['How tall is the Eiffel Tower?', '.']
PASSAGES = ['It is 330 metres tall.', 'naïve café', '']


def model_config():
  return config_lib.ModelConfig(init='x', query_length=18, passage_length=18)


@pytest.mark.parametrize(
    'kind', [kind for kind in parity.CASES if kind != 'qwen3'])
def test_scores_are_the_layer_on_their_first_hidden_state(tmp_path, kind):
  reference = parity.write(tmp_path, kind)
  backend = folders.write_tokenizer(tmp_path, parity.CASES[kind].tokenizer)
  model = reranker.from_pretrained(str(tmp_path), model_config(), 0)
  assert not model.spec.pooler
  texts = [
      tokenized.tokenize_in_memory(
          [('', text) for text in some], model.tokenizer, 18, ''
      ) for some in (QUERIES, PASSAGES)
  ]
  pairs = np.array([(q, p) for q in range(2) for p in range(3)])
  scores = pair_scorer.PairScorer(model, encoding.EncodingSettings(
      model_config(), config_lib.IndexConfig(), config_lib.MeshConfig()
  )).score(*texts, pairs)
  head = model.params['score']
  for number, (query, passage) in enumerate(pairs):
    encoded = backend.encode(QUERIES[query], PASSAGES[passage])
    inputs = {'input_ids': torch.tensor([encoded.ids])}
    if model.spec.transformer.type_vocab_size > 1:
      inputs['token_type_ids'] = torch.tensor([encoded.type_ids])
    with torch.no_grad():
      first = reference(**inputs).last_hidden_state[0, 0].numpy()
    want = first @ head['kernel'] + head['bias']
    np.testing.assert_allclose(scores[number], want, atol=1e-5)
  assert np.ptp(scores) > 0.01


def test_a_decoder_is_refused(tmp_path):
  parity.write(tmp_path, 'qwen3')
  with pytest.raises(errors.UserError, match='start from a BERT, DistilBERT'):
    reranker.from_pretrained(str(tmp_path), model_config(), 0)
