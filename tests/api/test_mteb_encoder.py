"""Checkpoints in mteb: its protocol, tasks made here, and every error."""

import sys

import numpy as np
import pytest

from neg_contrast import api, errors
from neg_contrast.api import mteb_encoder
from tests import tiny
from tests.api import small_data

mteb = pytest.importorskip('mteb')

import datasets  # noqa: E402
from mteb.abstasks.retrieval import AbsTaskRetrieval  # noqa: E402
from mteb.abstasks.sts import AbsTaskSTS  # noqa: E402
from mteb.abstasks.task_metadata import TaskMetadata  # noqa: E402
from mteb.models import EncoderProtocol  # noqa: E402
from mteb.types import PromptType  # noqa: E402

ABOUT = dict(
    description='Made here.', reference=None, category='t2t',
    dataset={'path': 'NA', 'revision': 'NA'}, eval_splits=['test'],
    eval_langs=['eng-Latn'], date=None, domains=None, task_subtypes=None,
    license=None, annotations_creators=None, dialect=None, modalities=['text'],
    sample_creation=None, bibtex_citation='')


class OwnRetrieval(AbsTaskRetrieval):
  metadata = TaskMetadata(name='OwnRetrieval', type='Retrieval',
                          main_score='ndcg_at_10', **ABOUT)

  def load_data(self, **kwargs):
    queries, passages, judged = small_data.objects()
    self.dataset = {'default': {'test': {
        'queries': datasets.Dataset.from_list(
            [{'id': name, 'text': text} for name, text in queries.items()]),
        'corpus': datasets.Dataset.from_list(
            [{'id': name, 'title': text.split()[0],
              'text': ' '.join(text.split()[1:])}
             for name, text in passages.items()]),
        'relevant_docs': {name: {one: 1} for name, one in judged.items()},
        'top_ranked': None}}}
    self.data_loaded = True


class OwnSimilarity(AbsTaskSTS):
  metadata = TaskMetadata(name='OwnSimilarity', type='STS',
                          main_score='cosine_spearman', **ABOUT)
  min_score, max_score = 0, 1

  def load_data(self, **kwargs):
    texts = list(small_data.objects()[1].values())
    self.dataset = datasets.DatasetDict({'test': datasets.Dataset.from_dict({
        'sentence1': texts[:10], 'sentence2': texts[10:20],
        'score': [n / 10 for n in range(10)]})})
    self.data_loaded = True


class Unreachable(OwnRetrieval):
  metadata = TaskMetadata(name='Unreachable', type='Retrieval',
                          main_score='ndcg_at_10', **ABOUT)

  def load_data(self, **kwargs):
    raise ConnectionError("Couldn't reach\n'mteb/Unreachable' on the Hub")


@pytest.fixture(scope='module')
def root(tmp_path_factory):
  root = tmp_path_factory.mktemp('mteb')
  tiny.write_model(root / 'model')
  return root


SETTINGS = dict(model__query_length=16, model__passage_length=24,
                model__query_prefix='word9', index__chunk_tokens=64)


@pytest.fixture(scope='module')
def encoder(root):
  return api.MtebEncoder(root / 'model', **SETTINGS)


def test_protocol(encoder: api.MtebEncoder):
  assert isinstance(encoder, EncoderProtocol)
  meta = encoder.mteb_model_meta
  assert meta.name == 'neg_contrast/model' and meta.embed_dim == 16
  assert meta.revision == encoder.encoder.model.fingerprint
  other = api.MtebEncoder(encoder.encoder.model.name, **{
      **SETTINGS, 'model__dtype': 'bfloat16'}).mteb_model_meta
  assert other.revision != meta.revision  # Its results are others.
  assert meta.similarity_fn_name.value == 'dot' and meta.max_tokens == 24
  assert api.MtebEncoder(encoder.encoder.model.name, 'v1',
                         device='cpu').mteb_model_meta.revision == 'v1'


def test_roles_have_their_own_inputs(encoder):
  batches = [{'text': ['word1 word2', 'word3']}, {'text': ['word4']}]
  texts = ['word1 word2', 'word3', 'word4']
  queries = encoder.encode(batches, prompt_type=PromptType.query,
                           task_metadata=None, hf_split='', hf_subset='',
                           batch_size=2)
  np.testing.assert_allclose(queries, encoder.encoder.encode_queries(texts),
                             atol=1e-6)
  neither = encoder.encode(batches)
  np.testing.assert_allclose(neither, encoder.encoder.encode_passages(texts),
                             atol=1e-6)
  assert np.abs(queries - neither).max() > 1e-3  # The prompt.
  titled = [{'text': ['word1 word2'], 'title': ['word1'], 'body': ['word2']}]
  found = encoder.encode(titled, prompt_type=PromptType.document)
  np.testing.assert_allclose(
      found, encoder.encoder.encode_passages([('word1', 'word2')]), atol=1e-6)
  assert np.abs(found[0] - neither[0]).max() > 1e-3  # [SEP] after the title.


def test_similarity_is_the_score(encoder):
  import torch

  rng = np.random.default_rng(0)
  left, right = (rng.normal(size=(n, 16)).astype(np.float32) for n in (5, 3))
  np.testing.assert_allclose(encoder.similarity(left, torch.tensor(right)),
                             left @ right.T, atol=1e-5)
  one = encoder.similarity(left[0], right[0])
  assert float(one) == pytest.approx(left[0] @ right[0], abs=1e-5)
  assert all(map(torch.is_tensor, (
      one, encoder.similarity_pairwise(left[:3], right))))
  np.testing.assert_allclose(encoder.similarity(left[0], right),
                             left[:1] @ right.T, atol=1e-5)
  np.testing.assert_allclose(encoder.similarity_pairwise(left[:3], right),
                             (left[:3] * right).sum(1), atol=1e-5)


def test_retrieval_is_what_we_measure(root, encoder, tmp_path):
  values = api.evaluate_mteb(root / 'model', [OwnRetrieval(), OwnSimilarity()],
                             folder=tmp_path, **SETTINGS)
  assert list(values) == ['OwnRetrieval', 'OwnSimilarity']
  queries, passages, judged = small_data.objects()
  split = {name: (text.split()[0], ' '.join(text.split()[1:]))
           for name, text in passages.items()}
  ours = api.evaluate(
      root / 'model', queries, split, judged, evaluation__bm25=False,
      evaluation__metrics=('ndcg@10', 'mrr@10', 'accuracy@1'), **SETTINGS)
  assert 0 < ours['initial']['ndcg@10'] < 1
  for theirs, name in (('ndcg_at_10', 'ndcg@10'), ('mrr_at_10', 'mrr@10'),
                       ('recall_at_1', 'accuracy@1'),
                       ('main_score', 'ndcg@10')):
    assert values['OwnRetrieval'][theirs] == pytest.approx(
        ours['initial'][name], abs=2e-5)  # mteb rounds to five digits.
  assert -1 <= values['OwnSimilarity']['main_score'] <= 1
  assert next(iter(values['OwnRetrieval'])) == 'main_score'

  class Never(OwnRetrieval):
    def load_data(self, **kwargs):
      raise AssertionError('it was kept')

  again = api.evaluate_mteb(root / 'model', Never(), folder=tmp_path,
                            **SETTINGS)['OwnRetrieval']
  assert again == pytest.approx(values['OwnRetrieval'], abs=2e-5)


def test_benchmarks_are_known_by_name():
  names = [task.metadata.name for task in mteb_encoder._tasks('NanoBEIR')]
  assert len(names) == 13 and 'NanoSciFactRetrieval' in names
  assert 'SciFact' in [
      task.metadata.name for task in mteb_encoder._tasks(['BEIR'])]
  assert [task.metadata.name for task in mteb_encoder._tasks(
      ['SciFact', 'NFCorpus'])] == ['SciFact', 'NFCorpus']


def one_line(caught):
  assert '\n' not in str(caught.value) and len(str(caught.value)) < 500


def test_errors(root, monkeypatch):
  with pytest.raises(errors.UserError, match='neither .*mean.*SciFact') as e:
    api.evaluate_mteb(root / 'model', 'SciFactt')
  one_line(e)
  with pytest.raises(errors.UserError, match='Unreachable: its data set') as e:
    api.evaluate_mteb(root / 'model', Unreachable(), **SETTINGS)
  one_line(e)
  with pytest.raises(errors.UserError, match='no such model folder'):
    api.evaluate_mteb(root / 'nothing', OwnRetrieval())
  monkeypatch.setitem(sys.modules, 'mteb', None)
  with pytest.raises(errors.UserError, match='pip install mteb') as e:
    api.evaluate_mteb(root / 'model', 'NanoBEIR')
  one_line(e)
