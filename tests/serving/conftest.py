"""A tiny corpus, searched and served."""

import pytest

from neg_contrast import api
from tests import corpora, tiny

PASSAGES = {
    'd0': ('<b>bold</b>', 'word1 word2 word3 word4. <script>alert(1)</script> '
           'word5 word6 word7 word8.'),
    'd1': ('"\'&', 'word9 word10 word11 word12.'),
    'd2': '<img src=x onerror=alert(2)> word13 word14 word15.',
    'd3': 'word20 word21 word22 word23',
    'same1': 'word30 word31 word32', 'same2': 'word30 word31 word32',
    'same3': 'word30 word31 word32',
    **{f'p{n}': f'word{n} word{2 * n} word{3 * n}' for n in range(1, 20)},
}


@pytest.fixture(scope='session')
def served(tmp_path_factory):
  """(folder with `model` and `data`, retriever over both)."""
  root = tmp_path_factory.mktemp('served')
  tiny.write_model(root / 'model')
  source = corpora.write_beir(
      root / 'data', PASSAGES, {'q': 'word1'}, test={'q': {'d0': 1}})
  return root, api.load_retriever(
      str(root / 'model'), source, str(root / 'work'),
      data__prepared_dir=str(root / 'prepared'), model__query_length=16,
      model__passage_length=24, index__chunk_tokens=512)
