"""What a reranker gets: told by names alone."""

import pytest

from neg_contrast.artifacts import bucket_path, places
from neg_contrast.evaluation import first_stage, judged
from neg_contrast.models import given
from neg_contrast.retrieval import bm25_search, corpus_vectors
from neg_contrast.settings import config as config_lib
from tests import corpora
from tests.retrieval import test_retriever, test_text_encoder

CONFIG = config_lib.EvaluationConfig(bm25_k1=0.7)


def make(folder, *names):
  """(the data, the ranking of names)."""
  data = corpora.data_of(folder, 'beir:any')
  return data, first_stage.candidates(
      judged.Judged(data, 'test', CONFIG), names, test_text_encoder.settings(),
      test_retriever.settings(), folder / 'kept', 3)


def test_bm25_has_the_settings_of_the_evaluation(tmp_path):
  data, made = make(tmp_path, 'bm25')
  assert isinstance(made, judged.Bm25Ranking) and made.name == 'candidates'
  assert made.index == bm25_search.Bm25(data, 0.7, CONFIG.bm25_b)


@pytest.mark.parametrize('name', [
    'some.trec', 'a.run', 'a.txt', 'a.tsv', 'a.json', 'a.trec.gz',
])
def test_a_name_of_a_run_is_one_that_may_lack(tmp_path, name):
  _, made = make(tmp_path, str(tmp_path / name))
  assert isinstance(made, judged.RunRanking)
  assert made.paths == (tmp_path / name,)
  assert made.lacks() == f'{tmp_path / name}: no such file'


def test_any_file_is_a_run_and_no_folder_is(tmp_path):
  (tmp_path / 'mine').write_text('q Q0 d 1 1 tag\n')
  assert isinstance(make(tmp_path, str(tmp_path / 'mine'))[1],
                    judged.RunRanking)
  (tmp_path / 'model.json').mkdir()
  assert isinstance(make(tmp_path, str(tmp_path / 'model.json'))[1],
                    judged.DenseRanking)


def test_a_run_may_lie_in_a_bucket(tmp_path, monkeypatch):
  monkeypatch.setattr(bucket_path.buckets, 'look', lambda place: None)
  _, made = make(tmp_path, 'gs://bucket/run.trec')
  assert isinstance(made, judged.RunRanking)
  assert places.is_remote(made.paths[0])
  assert made.lacks() == 'gs://bucket/run.trec: no such file'


def test_several_are_runs_whatever_their_names(tmp_path):
  _, made = make(tmp_path, 'one', 'bm25')
  assert isinstance(made, judged.RunRanking)
  assert list(map(str, made.paths)) == ['one', 'bm25']


def test_others_are_checkpoints(tmp_path):
  _, made = make(tmp_path, 'some/model')
  assert isinstance(made, judged.DenseRanking)
  assert isinstance(made.vectors, corpus_vectors.Embeddings)
  assert made.vectors.model == given.Checkpoint('some/model', 3)
  assert made.vectors.folder == made.folder == tmp_path / 'kept'
