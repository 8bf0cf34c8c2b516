"""Train, mine, evaluate and search with objects: one journey and its laws."""

import json
import os
import pathlib
import signal
from typing import Any

import jax
import numpy as np
import pytest
from huggingface_hub import constants

from neg_contrast import api, errors
from neg_contrast.api import job_folders, verbs
from neg_contrast.artifacts import artifact, places
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.retrieval import text_encoder
from neg_contrast.training import run_log
from tests import tiny
from tests.api import hub_server, small_data


@pytest.fixture(scope='module')
def root(tmp_path_factory):
  return tmp_path_factory.mktemp('verbs')


def train(root, workdir, **kwargs):
  return api.train(*small_data.objects(), workdir=workdir,
                   **{**small_data.settings(root), **kwargs})


@pytest.fixture(scope='module')
def heard():
  return {'steps': [], 'evaluations': [], 'progress': []}


@pytest.fixture(scope='module')
def trained(root, heard):
  artifact.forget()
  return train(
      root, root / 'work',
      on_step=lambda step, record: heard['steps'].append((step, record)),
      on_evaluation=lambda *args: heard['evaluations'].append(args),
      on_progress=lambda *args: heard['progress'].append(args))


def times(folder):
  return {path: path.stat().st_mtime_ns
          for path in folder.rglob('*') if path.is_file()}


def test_training_has_numbers(trained):
  assert list(trained.metrics) == ['bm25', 'initial', 'trained']
  whole = json.loads((trained.workdir / 'metrics.json').read_text())
  assert trained.metrics['trained']['mrr@10'] == (
      whole['objects/test/trained/mrr@10'])
  assert trained.metrics['bm25']['accuracy@1'] > 0.5  # Words are shared.
  assert json.loads(json.dumps(trained.metrics)) == trained.metrics
  assert trained.source.startswith(f'beir:{trained.workdir}/objects/')
  assert (trained.workdir / 'report.html').exists()
  # Nothing lies anywhere else.
  assert not pathlib.Path('workdirs/prepared/objects').exists()


def test_callbacks_hear_all_of_it(trained, heard):
  logged = [one for one in run_log.read(trained.workdir / 'log.jsonl')
            if 'loss' in one]
  assert [step for step, _ in heard['steps']] == list(range(1, 7))
  assert [record['loss'] for _, record in heard['steps']] == [
      one['loss'] for one in logged]
  assert {record['total_steps'] for _, record in heard['steps']} == {6}
  assert [step for step, _ in heard['evaluations']] == [3, 6]
  assert all('mrr@10' in metrics for _, metrics in heard['evaluations'])
  assert ('encoding passages', 40, 40) in heard['progress']
  assert any(what.startswith('mining') for what, _, _ in heard['progress'])


def test_the_same_objects_again_make_nothing(root, trained, capfd):
  before = times(trained.workdir / 'objects') | times(
      trained.workdir / 'checkpoints') | times(trained.workdir / 'evaluation')
  assert before
  again = train(root, root / 'work')
  assert again.metrics == trained.metrics
  assert {path: path.stat().st_mtime_ns for path in before} == before
  assert capfd.readouterr().out == ''


def test_verbose_prints_what_the_command_does(root, trained, capfd):
  train(root, root / 'work', verbose=True)
  output = capfd.readouterr().out
  assert '[done   ]' in output and 'to do' not in output
  assert 'accuracy@1' in output


def test_other_settings_are_refused_in_a_workdir(root, trained):
  with pytest.raises(errors.UserError, match='learning_rate'):
    train(root, root / 'work', optim__learning_rate=1e-2)
  with pytest.raises(errors.UserError, match='did you mean optim.steps'):
    train(root, root / 'work', optim__step=3)


def test_other_objects_are_refused_in_a_workdir(root, trained):
  queries, passages, judged = small_data.objects()
  passages['p0'] += ' word1'
  with pytest.raises(errors.UserError):
    api.train(queries, passages, judged, workdir=root / 'work',
              **small_data.settings(root))


def test_a_training_goes_on_where_a_callback_stopped_it(
    root, trained, tmp_path):
  class Stop(Exception):
    pass

  def interrupt(step, record):
    if step == 2:  # As Ctrl-C, or the button of a notebook.
      os.kill(os.getpid(), signal.SIGINT)

  def stop(step, record):
    if step >= 4:
      raise Stop

  kwargs = dict(checkpointing__log_steps=1, checkpointing__save_steps=2)
  with pytest.raises(KeyboardInterrupt, match='the same call goes on'):
    train(root, tmp_path / 'work', on_step=interrupt, **kwargs)
  with pytest.raises(Stop):
    train(root, tmp_path / 'work', on_step=stop, **kwargs)
  steps = []
  again = train(root, tmp_path / 'work',
                on_step=lambda step, record: steps.append(step), **kwargs)
  assert steps and steps[-1] == 6 and steps[0] > 2
  assert again.metrics == trained.metrics


def assert_alike(found, others):
  """The same passages and parts; scores to rounding."""
  for some, theirs in zip(found, others, strict=True):
    assert [(one.passage, one.match) for one in some] == [
        (one.passage, one.match) for one in theirs]
    np.testing.assert_allclose([one.score for one in some],
                               [one.score for one in theirs], atol=1e-5)


def test_search_is_warm_after_one_call(trained):
  searched = api.Training(trained.workdir, trained.source, trained.metrics,
                          dict(index__chunk_tokens=64))
  queries, passages, _ = small_data.objects()
  first = searched.search([queries['q0'], queries['q1']], depth=5)
  assert [len(one) for one in first] == [5, 5]
  assert [one.query for one in first] == [queries['q0'], queries['q1']]
  encoder: text_encoder.TextEncoder = searched.retriever.vectors.encoder
  work = encoder.work('passage').processed_tokens
  compiled = []
  jax.monitoring.register_event_duration_secs_listener(
      lambda name, *args, **kwargs: compiled.append(name)
      if 'backend_compile' in name else None)
  again = searched.search(['word1 word2 word3', queries['q0']], depth=5)
  assert not compiled
  assert_alike([again[1]], [first[0]])
  # The parts of 10 passages are encoded, not the corpus of 40.
  assert encoder.work('passage').processed_tokens - work < 40 * 24
  assert all(passages[one.passage.id] == one.passage.text for one in first[0])


def test_batch_search_is_search_one_by_one(trained):
  retriever = trained.retriever
  texts = ['word1 word2 word3', 'word4', 'word5 word6']
  assert_alike(retriever.find_each(texts, 7),
               [retriever.find(text, 7) for text in texts])
  assert retriever.find_each([], 3) == []
  with pytest.raises(TypeError, match="such as \\['word1'\\], not str"):
    retriever.find_each('word1')
  with pytest.raises(TypeError):
    retriever.find_each({'q1': 'word1'})
  with pytest.raises(ValueError, match='the query is blank'):
    retriever.find_each(['word1', ' '])
  with pytest.raises(ValueError, match='depth is 0'):
    trained.search(['word1'], 0)


def test_objects_of_iterators(root, trained):
  queries, passages, judgements = small_data.objects()
  again = api.train(
      ({'id': name, 'text': text} for name, text in queries.items()), passages,
      judgements, workdir=trained.workdir, **small_data.settings(root))
  assert again.source == trained.source


def test_negatives_alone_are_nothing_to_evaluate_by(trained):
  queries, passages, _ = small_data.objects()
  judged = {next(iter(queries)): {next(iter(passages)): 0}}
  with pytest.raises(errors.UserError, match='all grades of the split "test" '
                     'are 0 or less'):
    api.evaluate(trained, queries, passages, judged)


def test_search_in_objects(root, trained):
  _, passages, _ = small_data.objects()
  found = api.search(['word1 word2'], trained, passages, depth=3,
                     index__chunk_tokens=64)
  assert_alike(found, trained.search(['word1 word2'], depth=3))
  assert_alike(found, api.search(
      ['word1 word2'], trained, trained.source, depth=3,
      folder=root / 'searched', index__chunk_tokens=64,
      data__prepared_dir=trained.workdir / 'prepared'))
  assert (root / 'searched' / 'retrieval').is_dir()


def test_prompts_of_the_data_are_those_of_its_encoder(trained):
  other = api.Training(
      trained.workdir, trained.source, trained.metrics,
      dict(data__query_prefix='word1 word2 ', index__chunk_tokens=64))
  ours, corpus = (
      encoder.encode_queries(['word3 word4']) for encoder in (
          other.encoder, other.retriever.vectors.encoder))
  np.testing.assert_allclose(ours, corpus, atol=1e-6)
  plain = trained.encoder.encode_queries(['word3 word4'])
  assert np.abs(ours - plain).max() > 1e-3


def test_a_checkpoint_is_evaluated(root, trained):
  queries, passages, judged = small_data.objects()
  values = api.evaluate(trained, queries, passages, judged,
                        index__chunk_tokens=64, evaluation__bm25=False)
  assert list(values) == ['trained']
  vecs = [getattr(trained.encoder, f'encode_{name}')(list(texts.values()))
          for name, texts in (('queries', queries), ('passages', passages))]
  scores = vecs[0] @ vecs[1].T
  own = scores[np.arange(30), np.arange(30)]
  ranks = 1 + (scores > own[:, None]).sum(1)
  expected = np.mean(np.where(ranks <= 10, 1 / ranks, 0))
  assert values['trained']['mrr@10'] == pytest.approx(expected, abs=1e-6)


def test_an_evaluation_is_of_its_checkpoint_alone(root, trained):
  """Whatever was evaluated in that workdir before."""
  given = small_data.objects()
  kwargs: dict[str, Any] = dict(
      workdir=root / 'evaluated', index__chunk_tokens=64,
      model__query_length=16, model__passage_length=24)
  first = api.evaluate(trained, *given, **kwargs)
  other = api.evaluate(small_data.settings(root)['model'], *given, **kwargs,
                       evaluation__bm25=False)
  assert list(first) == ['bm25', 'trained'] and list(other) == ['initial']


@pytest.mark.parametrize('key, said', [
    ('hybrid', 'job=search and job=serve rank by BM25 and the model together'),
    ('by_document', 'job=search shows each document once')])
def test_a_retriever_ranks_passages_by_its_model(key, said):
  for ask in (api.load_retriever, lambda *args, **kwargs: api.search(
      ['word1'], *args, **kwargs)):
    with pytest.raises(errors.UserError, match=f'evaluation.{key}=True: a retr'
                       f'iever ranks passages by the model alone; .*{said}'):
      ask('minilm', 'beir:nowhere', **{f'evaluation__{key}': True})


def test_negatives_as_objects(root, trained, tmp_path):
  queries, passages, judged = small_data.objects()
  judged['q0'] = ['p0', 'p1']
  mined = api.mine(queries, passages, judged, workdir=tmp_path / 'mined',
                   negatives__depth=12, negatives__pool_size=5)
  assert set(mined) == set(queries) and len(mined) == 30
  for name, some in mined.items():
    assert 0 < len(some) <= 5
    assert not {one.passage_id for one in some} & set(judged[name])
    assert [one.rank for one in some] == sorted(one.rank for one in some)
    assert {one.source for one in some} == {'bm25'}
  dropped = {one.passage_id: one.dropped_by for one in mined.candidates('q0')}
  assert dropped['p0'] == 'positive'
  rows = list(mined.rows())
  assert len(rows) == sum(map(len, mined.values()))
  assert rows[0] == {
      'query_id': 'q0', 'passage_id': mined['q0'][0].passage_id,
      'source': 'bm25', 'rank': mined['q0'][0].rank,
      'score': mined['q0'][0].score, 'dropped_by': ''}
  # It is the pool on disk.
  pool = pool_lib.read(mined.folder)
  assert len(rows) == int(pool.is_negative().sum())
  for unknown in ('nobody', 3, 0.5, None, ''):
    assert unknown not in mined
    with pytest.raises(KeyError):
      _ = mined[unknown]


def test_places_in_a_list_are_ids_of_negatives(tmp_path):
  queries, passages, _ = small_data.objects()
  mined = api.mine(list(queries.values()), list(passages.values()),
                   [(0, 0), (1, 1)], workdir=tmp_path, negatives__depth=12,
                   negatives__pool_size=5)
  assert mined[np.int64(1)] == mined[1] == mined['1']
  assert mined[1][0].query_id == '1' and 1 in mined
  assert mined.candidates(1) == mined.candidates('1')


def test_a_model_mines(trained):
  given = small_data.objects()
  mined = api.mine(*given, checkpoint=trained, index__chunk_tokens=64,
                   negatives__depth=8, negatives__pool_size=3)
  found = trained.search([given[0]['q3']], depth=8)[0]
  best = [one.passage.id for one in found if one.passage.id != 'p3'][:3]
  assert [one.passage_id for one in mined['q3']] == best


def test_training_takes_a_mined_pool(root, tmp_path):
  given = small_data.objects()
  mined = api.mine(*given, test=0.2, workdir=tmp_path / 'mined',
                   negatives__depth=12, negatives__pool_size=5)
  trained = train(root, tmp_path / 'work', negatives__pool=mined.folder,
                  negatives__sources=('pool:1',), evaluation__bm25=False)
  assert 'trained' in trained.metrics
  with pytest.raises(errors.UserError, match='mined from something else'):
    api.train(given[0], given[1], given[2], test=0.5,
              workdir=tmp_path / 'other', **{
                  **small_data.settings(root),
                  'negatives__pool': mined.folder,
                  'negatives__sources': ('pool:1',)})


def test_temporary_folders_are_shared_by_equal_calls(root):
  given = small_data.objects()
  mine = lambda **kwargs: api.mine(*given, **{
      'negatives__depth': 12, 'negatives__pool_size': 5, **kwargs})
  first = mine()
  before = times(first.folder)
  assert mine().folder == first.folder and times(first.folder) == before
  assert mine(negatives__pool_size=2).folder != first.folder


def test_a_relative_workdir_outlives_a_change_of_folder(
    root, tmp_path, monkeypatch):
  """As notebooks do it: what a verb returned is still found."""
  (tmp_path / 'elsewhere').mkdir()
  monkeypatch.chdir(tmp_path)
  queries, passages, judged = small_data.objects()
  mined = api.mine(queries, passages, judged, workdir='workdirs/mined',
                   negatives__depth=12, negatives__pool_size=5)
  source, parsed, folder = verbs._prepared(
      'train', 'own_data', 'workdirs/faq',
      (passages, queries, {'train': judged}), {})
  monkeypatch.chdir(tmp_path / 'elsewhere')
  assert mined.folder.is_absolute() and mined.folder.exists()
  assert next(mined.rows())['source'] == 'bm25'
  assert folder == tmp_path / 'workdirs' / 'faq'
  assert source.startswith(f'beir:{folder}/')
  assert parsed.data.prepared_dir == str(folder / 'prepared')
  bucket = job_folders.folder_or_temporary('gs://bucket/faq')
  assert bucket == places.path('gs://bucket/faq')


def test_ids_of_queries_and_passages_are_apart(root, tmp_path):
  """Lists: query 3 and passage 3 have nothing to do with each other."""
  queries, passages, _ = small_data.objects()
  mined = api.mine(list(queries.values()), list(passages.values()),
                   {n: [n] for n in range(30)}, workdir=tmp_path,
                   negatives__depth=12, negatives__pool_size=12)
  others = api.mine(list(queries.values()), list(passages.values()),
                    {n: [(n + 1) % 40] for n in range(30)},
                    workdir=tmp_path / 'other', negatives__depth=12,
                    negatives__pool_size=12)
  assert '3' not in [one.passage_id for one in mined['3']]
  assert '3' in [one.passage_id for one in others['3']]


def test_a_training_is_exported(root, trained):
  folder = trained.export()
  assert folder == trained.workdir / 'exported' / 'model'
  again = api.load_encoder(folder, index__chunk_tokens=64)
  queries = list(small_data.objects()[0].values())
  np.testing.assert_allclose(again.encode_queries(queries),
                             trained.encoder.encode_queries(queries),
                             atol=1e-5)
  assert trained.export() == folder
  with pytest.raises(errors.UserError, match='is no export of ours'):
    tiny.write_model(root / 'taken' / 'model')
    trained.export(root / 'taken')


def test_a_training_is_pushed(trained, monkeypatch):
  monkeypatch.setattr(constants, 'HF_HUB_DISABLE_XET', True)
  with hub_server.running() as hub:
    trained.push_to_hub('me/own', token=hub_server.TOKEN, endpoint=hub.url)
    assert 'model.safetensors' in hub.files['me/own']
