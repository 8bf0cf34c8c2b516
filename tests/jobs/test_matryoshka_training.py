"""A training at several widths, evaluated at them; what is refused."""

import json
import shutil

import numpy as np
import pytest
import safetensors.numpy
import sentence_transformers

from neg_contrast import errors, jobs
from neg_contrast.artifacts import artifact, plan
from neg_contrast.evaluation import trec
from neg_contrast.jobs import evaluate, export, train
from neg_contrast.retrieval import corpus_vectors
from neg_contrast.settings import config as config_lib
from tests import tiny

DIMS = (4, 8)


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
  """A folder with a training in `work`."""
  root = tmp_path_factory.mktemp('matryoshka')
  config = tiny.make_config(
      root, loss__matryoshka=DIMS, evaluation__dims=DIMS, optim__steps=8,
      negatives__sources=('bm25:1',), negatives__mined_dir=str(root / 'mined'),
      checkpointing__log_steps=1)
  tiny.run(train.TrainJob, config, root / 'work')
  return root, config


def test_each_width_is_logged(trained):
  root, _ = trained
  steps = [json.loads(line) for line
           in (root / 'work' / 'log.jsonl').read_text().splitlines()]
  steps = [step for step in steps if 'loss_4' in step]
  assert len(steps) == 8
  for step in steps:
    assert step['loss'] == pytest.approx(np.mean(
        [step['loss_all'], step['loss_4'], step['loss_8']]), rel=1e-5)


def test_rankings_are_those_of_the_first_features(trained):
  root, config = trained
  written = json.loads((root / 'work' / 'metrics.json').read_text())
  systems = {key.split('/')[2] for key in written}
  assert {'trained', 'trained@4', 'trained@8'} <= systems
  job = train.TrainJob(config_lib.parse(config), root / 'work')
  vectors = job.vectors(job.run).load()
  prepared = job.gold.load().prepared
  run = trec.read_run(
      root / 'work' / 'evaluation' / 'data-test-trained@4' / 'run.trec')
  passages = vectors.passage_vecs[:][:, :4].astype(float)
  passages /= np.linalg.norm(passages, axis=1, keepdims=True)
  for query, ranking in list(run.items())[:5]:
    row = np.array([prepared.query_ids.row_of(query)])
    own = vectors.query_vecs(row)[0, :4].astype(float)
    own /= np.linalg.norm(own)
    scores = passages @ own
    found = [prepared.passage_ids.row_of(name) for name, _ in ranking]
    np.testing.assert_allclose(
        [score for _, score in ranking], scores[found], atol=1e-5)
    assert ranking[0][1] == pytest.approx(scores.max(), abs=1e-5)


def test_sentence_transformers_truncates_to_the_same(trained, tmp_path):
  root, _ = trained
  config = tiny.make_config(root, job='export')
  config.model.init = ''
  config.checkpoint = str(root / 'work')
  tiny.run(export.ExportJob, config, tmp_path / 'out')
  theirs = sentence_transformers.SentenceTransformer(
      str(tmp_path / 'out' / 'model'), device='cpu', truncate_dim=4)
  texts = [' '.join(tiny.WORDS[i:i + 4]) for i in range(3)]
  got = theirs.encode_query(texts, normalize_embeddings=True)
  job = train.TrainJob(config_lib.parse(trained[1]), root / 'work')
  narrow = corpus_vectors.FirstFeatures(job.vectors(job.run), 4).load()
  np.testing.assert_allclose(
      got, narrow.encoder.encode_queries(texts), atol=1e-5)


def test_a_trained_model_is_evaluated_at_widths(trained, tmp_path):
  root, config = trained
  config = config.copy_and_resolve_references()
  config.job, config.checkpoint = 'evaluate', str(root / 'work')
  config.model.init = ''
  config.negatives.sources = ()
  tiny.run(evaluate.EvaluateJob, config, tmp_path / 'seen')
  written = json.loads((tmp_path / 'seen' / 'metrics.json').read_text())
  before = json.loads((root / 'work' / 'metrics.json').read_text())
  for system in ('trained', 'trained@4'):
    name = f'data/test/{system}/accuracy@1'
    assert written[name] == before[name]
  artifact.forget()
  config.evaluation.dims = (8, 64)
  job = evaluate.EvaluateJob(config_lib.parse(config), tmp_path / 'seen')
  with pytest.raises(errors.UserError, match='evaluation.dims=64: the vectors'):
    plan.run(job.targets())


def test_first_features_of_an_earlier_model_are_left_out(trained, tmp_path):
  root, config = trained
  shutil.copytree(root / 'model', tmp_path / 'other')
  path = tmp_path / 'other' / 'model.safetensors'
  tensors = safetensors.numpy.load_file(path)
  safetensors.numpy.save_file(
      {name: values * 2 for name, values in tensors.items()}, path)
  config = config.copy_and_resolve_references()
  config.job, config.model.init = 'evaluate', ''
  config.negatives.sources, config.evaluation.bm25 = (), False
  systems = []
  for checkpoint, dims in (
      (root / 'model', (4,)), (tmp_path / 'other', ()), (root / 'model', ())):
    config.checkpoint, config.evaluation.dims = str(checkpoint), dims
    tiny.run(evaluate.EvaluateJob, config, tmp_path / 'seen')
    written = json.loads((tmp_path / 'seen' / 'metrics.json').read_text())
    systems.append({key.split('/')[2] for key in written})
    made = (tmp_path / 'seen' / 'significance-data-test.tsv').exists()
    assert made == (len(systems[-1]) > 1)
  assert systems == [{'initial', 'initial@4'}, {'initial'},
                     {'initial', 'initial@4'}]


@pytest.mark.parametrize(('overrides', 'message'), [
    ({'loss__matryoshka': (4, 4096)}, 'widths below that of the vectors'),
    ({'loss__matryoshka': (4,), 'model__score': 'som'},
     'is of one vector of each text'),
    ({'loss__matryoshka': (4,), 'job': 'train_reranker'},
     'is for dual encoders'),
])
def test_what_has_no_widths_is_refused(tmp_path, overrides, message):
  config = config_lib.parse(tiny.make_config(tmp_path, **overrides))
  with pytest.raises(errors.UserError, match=message):
    jobs.check(config)
    plan.run([train.TrainJob(config, tmp_path / 'work').run])
