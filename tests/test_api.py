"""Encoding and searching from Python, and the jobs that use the same."""

import contextlib
import dataclasses
import io
import json
import pathlib
import re
import shutil

import numpy as np
import pytest

from neg_contrast import api, errors, jobs
from neg_contrast.artifacts import folders, plan
from neg_contrast.data import dataset, preparation, records
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.evaluation import trec
from neg_contrast.jobs import evaluate, search, split
from neg_contrast.jobs.common import shown_hits
from neg_contrast.retrieval import (
  exported_vectors,
  finding,
  quantized_index,
  searched,
)
from neg_contrast.settings import config as config_lib
from tests import corpora, processes, tiny
from tests.jobs import test_train

ROOT = pathlib.Path(__file__).parents[1]


@pytest.fixture(scope='module')
def root(tmp_path_factory):
  root = tmp_path_factory.mktemp('api')
  tiny.make_config(root)
  return root


def settings(root):
  return dict(data__prepared_dir=str(root / 'prepared'),
              model__query_length=16, model__passage_length=24)


def load_retriever(root, folder=None, **kwargs):
  return api.load_retriever(str(root / 'model'), f'beir:{root / "data"}',
                            folder, **settings(root), **kwargs)


def make_config(root, **kwargs):
  config = config_lib.parse(
      tiny.make_config(root, checkpoint=str(root / 'model'), **kwargs)
  )
  jobs.check(config)
  return config


def run_job(job, workdir):
  folders.make_folder(workdir)
  output = io.StringIO()
  with contextlib.redirect_stdout(output):
    plan.run(job.targets())
    job.finish()
  return output.getvalue()


def test_encodes_any_number_of_texts(root):
  encoder = api.load_encoder(str(root / 'model'), **settings(root))
  assert encoder.encode_queries([]).shape == (0, 16)
  vecs = encoder.encode_passages(['word1 word2', ('word3', 'word1 word2')])
  assert vecs.shape == (2, 16) and vecs.dtype == np.float32
  np.testing.assert_allclose(np.linalg.norm(vecs, axis=1), 1, atol=1e-5)
  alone = encoder.encode_passages([('word3', 'word1 word2')])
  np.testing.assert_allclose(alone[0], vecs[1], atol=1e-5)
  assert np.abs(vecs[0] - vecs[1]).max() > 1e-3
  # A query is cut to 16 tokens, a passage to 24.
  long = ' '.join(tiny.WORDS)
  assert np.abs(encoder.encode_queries([long])
                - encoder.encode_passages([long])).max() > 1e-4
  np.testing.assert_allclose(
      encoder.encode_queries([long]),
      encoder.encode_passages([' '.join(tiny.WORDS[:14])]), atol=1e-5)


def test_corpus_is_read(root):
  corpus = api.load_corpus(f'beir:{root / "data"}',
                           data__prepared_dir=str(root / 'prepared'))
  assert len(corpus.passages) == 48 and corpus.splits == ('test', 'train')


def test_find_ranks_by_dot_product_and_marks_the_match(root):
  searcher = load_retriever(root)
  query = 'word1 word2 word3'
  found = searcher.find(query, depth=48)
  assert len(found) == 48
  encoder = searcher.vectors.encoder
  vecs = encoder.encode_passages([one.passage for one in found])
  scores = vecs @ encoder.encode_queries([query])[0]
  np.testing.assert_allclose([one.score for one in found], scores, atol=1e-5)
  assert (np.diff([one.score for one in found]) <= 0).all()
  assert all(one.passage.text[slice(*one.match)] for one in found)
  rows = searcher.search([query], depth=3).rows[0]
  corpus = api.load_corpus(f'beir:{root / "data"}',
                           data__prepared_dir=str(root / 'prepared'))
  assert [corpus.passages[int(row)].id for row in rows] == [
      one.passage.id for one in found[:3]]


def test_match_is_the_nearest_part(root, tmp_path):
  (tmp_path / 'data').mkdir()
  (tmp_path / 'data' / 'corpus.jsonl').write_text(json.dumps({
      '_id': 'a', 'title': 'word9',
      'text': 'word1 word2 word3 word4. word5 word6 word7 word8.',
  }) + '\n' + json.dumps({'_id': 'b', 'title': 'word8', 'text': ''}) + '\n')
  searcher = api.load_retriever(str(root / 'model'),
                                 f'beir:{tmp_path / "data"}', **settings(root))
  for part in ('word1 word2 word3 word4.', 'word5 word6 word7 word8.'):
    found = {one.passage.id: one for one in searcher.find(part)}
    assert found['a'].passage.text[slice(*found['a'].match)] == part
    assert found['b'].match == (0, 0)


def test_folder_keeps_embeddings_until_the_model_changes(root, tmp_path):
  folder = str(tmp_path / 'kept')
  first = load_retriever(root, folder)
  before = first.find('word1', 5)
  tables = lambda: list((tmp_path / 'kept').rglob('passages-00000.npy'))
  path, = tables()
  written = path.stat().st_mtime_ns
  again = load_retriever(root, folder)
  assert again.is_made()
  assert again.find('word1', 5) == before
  assert path.stat().st_mtime_ns == written
  other = load_retriever(root, folder, model__passage_prefix='word2')
  assert not other.is_made()
  other.find('word1', 5)
  assert len(tables()) == 2 and path.stat().st_mtime_ns == written


def test_embeddings_on_disk_are_those_in_memory(root, tmp_path):
  """In files of one block, of which the middle one is made by another run."""
  tiny.write_beir(tmp_path / 'data', documents=40)
  load = lambda folder, **kwargs: api.load_retriever(
      str(root / 'model'), f'beir:{tmp_path / "data"}', folder, **{
          **settings(root), 'index__chunk_tokens': 1, 'index__table_rows': 40,
          **kwargs})
  expected: np.ndarray = load(None).vectors.passage_vecs
  made = load(str(tmp_path / 'a')).vectors.passage_vecs
  assert expected.shape == made.shape == (160, 16)
  assert made[:].tobytes() == expected.tobytes()
  folder, = (tmp_path / 'a').glob('retrieval/*/embeddings')
  files = sorted(folder.glob('*.npy'))
  assert [len(np.load(path)) for path in files] == [64, 64, 32]
  bytes_before = files[1].read_bytes()
  files[1].unlink()
  (folder / 'manifest.json').rename(folder / 'unfinished.json')
  again = load(str(tmp_path / 'a'))
  assert not again.is_made()
  again.make()
  assert again.is_made() and files[1].read_bytes() == bytes_before
  # Smaller ones are another table.
  small = load(str(tmp_path / 'a'), index__embedding_dtype='int8')
  assert not small.is_made()
  assert small.vectors.passage_vecs.nbytes == 160 * (16 + 4)
  np.testing.assert_allclose(
      small.vectors.passage_vecs[:], expected, atol=1 / 254)
  found, best = (one.search(['word1 word2'], 5) for one in (small, again))
  np.testing.assert_allclose(found.scores, best.scores, atol=0.02)


def test_says_when_many_passages_are_cut(root, monkeypatch):
  said = []
  dataset._MEASURED.clear()
  monkeypatch.setattr(dataset.logging, 'warning',
                      lambda text, *args: said.append(text % args))
  load_retriever(root).make()
  assert said == []
  api.load_retriever(
      str(root / 'model'), f'beir:{root / "data"}',
      **{**settings(root), 'model__passage_length': 8}).make()
  line, = said
  assert '% of the passages are longer than 8 tokens' in line


def test_two_processes_share_a_folder(root, tmp_path):
  """Both encode the corpus at the same time, if nobody makes one wait."""
  code = ("import sys; from neg_contrast import api; "
          "found = api.load_retriever(*sys.argv[1:4], model__query_length=16, "
          "data__prepared_dir=sys.argv[4], model__passage_length=24)"
          ".find('word1 word2', 48); "
          "print([(one.passage.id, one.score) for one in found])")
  both = [processes.Process(code, (
      root / 'model', f'beir:{root / "data"}', tmp_path, root / 'prepared',
  )) for _ in range(2)]
  outputs = [process.communicate()[0] for process in both]
  assert [process.returncode for process in both] == [0, 0]
  expected = [one.passage.id for one in load_retriever(root).find(
      'word1 word2', 48)]
  for output in outputs:
    found = json.loads(output.translate(str.maketrans("()'", '[]"')))
    assert [name for name, _ in found] == expected
    assert all(score != 0 for _, score in found)


@pytest.mark.parametrize('kind', quantized_index.QUANTIZERS)
def test_quantized_index_is_kept_and_measured(kind, root, tmp_path):
  kwargs = dict(index__kind=kind, index__target_recall=0.99)
  first = load_retriever(root, str(tmp_path / 'kept'), **kwargs)
  exact = load_retriever(root)
  measured = searched.search_and_measure(first, np.arange(10), 5)
  found, facts = measured.found, measured.index
  np.testing.assert_array_equal(
      found.rows, exact.search_rows(np.arange(10), 5).rows)
  assert facts['kind'] == kind and facts['recall'] == 1
  again = load_retriever(root, str(tmp_path / 'kept'), **kwargs)
  assert again.is_made()
  assert isinstance(again.index, quantized_index.QuantizedIndex)
  np.testing.assert_array_equal(
      found.rows, again.search_rows(np.arange(10), 5).rows)


@pytest.mark.parametrize('kind', quantized_index.QUANTIZERS)
def test_recall_of_an_index_is_reported(kind, root, tmp_path):
  config = make_config(root, job='evaluate', index__kind=kind)
  output = run_job(evaluate.EvaluateJob(config, tmp_path), tmp_path)
  made = folders.read_json(
      tmp_path / 'evaluation' / 'data-test-initial' / 'manifest.json')
  assert 0.9 < made['index']['recall'] <= 1
  assert f'{kind} found {made["index"]["recall"]:.4f}' in output
  assert (tmp_path / 'report.html').stat().st_size > 10_000


def test_a_change_of_settings_is_evaluated_anew(root, tmp_path):
  path = tmp_path / 'evaluation' / 'data-test-initial' / 'manifest.json'
  bm25 = tmp_path / 'evaluation' / 'data-test-bm25' / 'manifest.json'
  evaluate_job(root, tmp_path)
  times = [path.stat().st_mtime_ns, bm25.stat().st_mtime_ns]
  evaluate_job(root, tmp_path)
  assert [path.stat().st_mtime_ns, bm25.stat().st_mtime_ns] == times
  evaluate_job(root, tmp_path, evaluation__bm25_k1=1.5)
  assert path.stat().st_mtime_ns == times[0] != bm25.stat().st_mtime_ns
  for key, value in (('data__row_length', 32), ('index__kind', 'scann'),
                     ('model__passage_length', 12)):
    before = path.stat().st_mtime_ns
    evaluate_job(root, tmp_path, **{key: value})
    assert path.stat().st_mtime_ns > before, key


def test_data_sets_share_a_workdir(root, tmp_path):
  shutil.copytree(root / 'data', tmp_path / 'other')
  first = evaluate_job(root, tmp_path / 'work')
  both = evaluate_job(root, tmp_path / 'work',
                      data__source=f'beir:{tmp_path / "other"}')
  assert both == first | {name.replace('data/', 'other/', 1): value
                          for name, value in first.items()}
  # Data that changed leaves no old system beside the new ones.
  qrels = tmp_path / 'other' / 'qrels' / 'test.tsv'
  qrels.write_text('\n'.join(qrels.read_text().splitlines()[:2]) + '\n')
  values = evaluate_job(root, tmp_path / 'work', evaluation__bm25=False,
                        data__source=f'beir:{tmp_path / "other"}')
  assert {name.split('/')[2] for name in values
          if name.startswith('other/')} == {'initial'}


def test_what_others_left_is_not_replaced(root, tmp_path):
  (tmp_path / 'corpus').mkdir()
  (tmp_path / 'corpus' / 'queries.jsonl').write_text('dear')
  config = make_config(root, job='split')
  with pytest.raises(errors.UserError, match='not made by this program'):
    run_job(split.SplitJob(config, tmp_path), tmp_path)
  assert (tmp_path / 'corpus' / 'queries.jsonl').read_text() == 'dear'


def test_ids_with_spaces_are_evaluated_without_a_run_file(root, tmp_path):
  shutil.copytree(root / 'data', tmp_path / 'data')
  for path in (tmp_path / 'data').rglob('*.*'):
    path.write_text(path.read_text().replace('d3p', 'd 3p'))
  values = evaluate_job(root, tmp_path / 'work',
                        data__source=f'beir:{tmp_path / "data"}')
  assert 'data/test/initial/mrr@10' in values
  assert not list((tmp_path / 'work').rglob('run.trec'))
  assert (tmp_path / 'work' / 'report.html').exists()


def test_a_checkpoint_keeps_the_settings_it_was_trained_with(root, tmp_path):
  test_train.run_train(
      tiny.make_config(root, optim__steps=1, evaluation__bm25=False), tmp_path)
  encoder = api.load_encoder(str(tmp_path))
  assert encoder.model.text.passage_length == 24
  api.load_encoder(str(tmp_path), model__passage_length=24)
  with pytest.raises(errors.UserError, match='was trained with 24; leave it'):
    api.load_encoder(str(tmp_path), model__passage_length=10)


def test_prompts_of_a_data_set_stand_for_the_models(root):
  load = lambda **own: api.load_encoder(
      str(root / 'model'), **settings(root), **own)
  plain, ours, theirs = load(), load(model__query_prefix='word5 '), load(
      data__query_prefix='word5 ', model__query_prefix='word6 ')
  vecs = [one.encode_queries(['word1 word2'])
          for one in (plain, ours, theirs)]
  np.testing.assert_array_equal(vecs[1], vecs[2])
  assert np.abs(vecs[0] - vecs[1]).max() > 1e-3
  np.testing.assert_array_equal(
      load(data__passage_prefix='word5 ').encode_passages(['word1']),
      plain.encode_passages(['word5 word1']))


def test_a_prompt_that_leaves_no_room_for_texts_is_refused(root):
  """All texts had one vector."""
  prompt = ' '.join(['word5'] * 14)  # 16 tokens with [CLS] and [SEP].
  encoder = api.load_encoder(
      str(root / 'model'), **settings(root), model__query_prefix=prompt)
  with pytest.raises(errors.UserError, match=(
      'has 14 tokens, which leaves none of 16 for a text; make it shorter')):
    encoder.encode_queries(['word1'])
  longer = api.load_encoder(str(root / 'model'), **{
      **settings(root), 'model__query_length': 17}, model__query_prefix=prompt)
  vecs = longer.encode_queries(['word1', 'word2'])
  assert np.abs(vecs[0] - vecs[1]).max() > 1e-4
  config = make_config(root, job='search',
                       model__passage_prefix=f'{prompt} {prompt}')
  with pytest.raises(errors.UserError, match='which leaves none of 24'):
    run_job(search.SearchJob(config, root / 'no_room'), root / 'no_room')


def test_answers_alone_are_nothing_to_tune_by(tmp_path):
  positive = {'title': '', 'text': 'word1', 'passage_id': '1'}
  (tmp_path / 'd').mkdir()
  (tmp_path / 'd' / 'nq-train.json').write_text(json.dumps([{
      'question': 'word2', 'answers': ['word1'], 'positive_ctxs': [positive]}]))
  (tmp_path / 'd' / 'nq-dev.qa.csv').write_text("word3\t['word1']\n")
  data = config_lib.DataConfig(
      source=f'dpr:{tmp_path / "d"}', prepared_dir=str(tmp_path / 'out'),
      tune_split='dev-qa')
  with pytest.raises(errors.UserError, match='tune_split="dev-qa": has answer'):
    _ = dataset.Dataset(data).splits


def test_bad_arguments(root):
  with pytest.raises(errors.UserError, match='no such model folder'):
    api.load_encoder('nowhere/at/all')
  with pytest.raises(errors.UserError, match='nowhere.py: no such file'):
    api.run('nowhere.py')
  with pytest.raises(errors.UserError, match='did you mean optim.steps'):
    api.run(ROOT / 'configs' / 'quickstart.py', optim__step=3)
  with pytest.raises(errors.UserError, match='unknown key "sise"'):
    api.run(f'{ROOT}/configs/squad_stage2.py:sise=small')
  with pytest.raises(errors.UserError, match='indx'):
    load_retriever(root, indx__kind='exact')
  with pytest.raises(errors.UserError, match='config.index.kind'):
    load_retriever(root, index__kind='fast')
  with pytest.raises(errors.UserError, match="embedding_dtype='float16'"):
    load_retriever(root, index__embedding_dtype='float16')
  with pytest.raises(errors.UserError, match='table_rows=0: must be at least'):
    load_retriever(root, index__table_rows=0)
  with pytest.raises(errors.UserError, match='corpus.jsonl'):
    api.load_retriever(str(root / 'model'), 'beir:nowhere')
  with pytest.raises(TypeError, match="such as \\['a text'\\], not str"):
    load_retriever(root).vectors.encoder.encode_queries('a text')
  with pytest.raises(ValueError, match='depth is 0'):
    load_retriever(root).find('word1', 0)
  assert load_retriever(root).search([], 3).rows.shape == (0, 3)
  with pytest.raises(errors.UserError, match='depth=5: must be at least 20, f'):
    make_config(root, job='evaluate', evaluation__depth=5)


def test_ids_with_line_breaks_are_refused(tmp_path):
  exported_vectors.write_ids(tmp_path / 'ids.txt', [b'a b', 'é\u2028'.encode()])
  assert (tmp_path / 'ids.txt').read_bytes() == 'a b\né\u2028\n'.encode()
  with pytest.raises(errors.UserError, match=r"id 'a\\nb' holds a line break"):
    exported_vectors.write_ids(tmp_path / 'ids.txt', [b'a\nb'])


def test_search_job_answers_one_query(root, tmp_path):
  config = make_config(root, job='search', query='word1 word2',
                       evaluation__depth=3)
  output = run_job(search.SearchJob(config, tmp_path), tmp_path)
  found = load_retriever(root).find('word1 word2', 3)
  for rank, one in enumerate(found, start=1):
    assert f'{rank}. {one.score:.4f}  {one.passage.document_id}  ' in output
    assert f'[{one.passage.id}]' in output
  assert output.count('**') == 6
  with pytest.raises(errors.UserError, match="config.query=' ': is blank"):
    make_config(root, job='search', query=' ')


def test_search_job_shows_documents_as_the_data_has_them(root, tmp_path):
  config = make_config(root, job='search', query='word1 word2',
                       evaluation__depth=12, evaluation__by_document=True)
  whole = load_retriever(root).find('word1 word2', 48)
  documents = dict.fromkeys(one.passage.document_id for one in whole)
  output = run_job(search.SearchJob(config, tmp_path), tmp_path)
  assert [line.split()[2] for line in output.splitlines()
          if re.match(r' +\d+\. ', line)] == list(documents)
  config = dataclasses.replace(config, data=dataclasses.replace(
      config.data, document='title'))  # There are none here.
  output = run_job(search.SearchJob(config, tmp_path), tmp_path)
  assert re.findall(r'\[(\w+)\]', output) == [
      one.passage.id for one in whole[:12]]


def test_search_job_prompts(root, tmp_path, monkeypatch):
  lines = iter(['word1', 'word2 word3', ''])
  monkeypatch.setattr('builtins.input', lambda prompt: next(lines))
  config = make_config(root, job='search', evaluation__depth=2)
  output = run_job(search.SearchJob(config, tmp_path), tmp_path)
  assert output.count('  2. ') == 2


@pytest.mark.parametrize('end', [EOFError, KeyboardInterrupt, RuntimeError])
def test_search_job_ends_quietly(root, tmp_path, monkeypatch, end):
  lines = iter(['\udcff word1'])  # What a terminal gives for a wrong byte.

  def ask(prompt):
    for line in lines:
      return line
    raise end

  monkeypatch.setattr('builtins.input', ask)
  config = make_config(root, job='search', evaluation__depth=1)
  output = run_job(search.SearchJob(config, tmp_path), tmp_path)
  assert output.count('  1. ') == 1
  with pytest.raises(errors.UserError, match=r'config.query=.* no UTF-8'):
    make_config(root, job='search', query='word1 \udcff')


def test_passages_can_not_steer_the_terminal():
  passage = records.Passage('a', 'ti\x1b[2Jtle', 'one\x1b[31m two\nthree.')
  found = finding.Found(passage, 0.5, (0, len(passage.text)))
  text = shown_hits.format_found('query', [found], bold=False, width=80)
  assert '\x1b' not in text and '**one\ufffd[31m two three.**' in text


def test_split_job_makes_a_corpus(root, tmp_path):
  config = make_config(root, job='split', data__passage_words=5,
                       data__tune_split='dev')
  output = run_job(split.SplitJob(config, tmp_path), tmp_path)
  assert ' --config.data.tune_split=dev ' in output.splitlines()[-1]
  assert f'--config.data.source=beir:{tmp_path / "corpus"}' in output
  corpus = preparation.prepare(f'beir:{tmp_path / "corpus"}',
                                tmp_path / 'prepared', False)
  documents = api.load_corpus(f'beir:{root / "data"}',
                              data__prepared_dir=str(root / 'prepared'))
  texts = {}
  for passage in corpus.passages:
    document, _, number = passage.id.rpartition('#')
    assert int(number) == len(texts.setdefault(document, [])) + 1
    assert passage.document_id == document.partition('p')[0]
    texts[document].append(passage.text)
  assert {name: ' '.join(parts) for name, parts in texts.items()} == {
      document.id: document.text for document in documents.passages}
  assert output.splitlines()[-1].endswith(
      f' --workdir={tmp_path}-trained --plan')
  path = tmp_path / 'corpus' / 'corpus.jsonl'
  written = path.stat().st_mtime_ns
  run_job(split.SplitJob(config, tmp_path), tmp_path)
  assert path.stat().st_mtime_ns == written
  made, other = (
      split.SplitJob(make_config(root, job='split', data__passage_words=5,
                                 evaluation__bm25_b=b), tmp_path).targets()[0]
      for b in (0.4, 0.5))
  assert made.is_made() and not other.is_made()  # It chooses the nearest.
  with open(path, 'r+b') as f:
    f.truncate(100)
  with pytest.raises(errors.UserError, match='corpus.jsonl: damaged'):
    run_job(split.SplitJob(config, tmp_path), tmp_path)
  by_tokens = make_config(root, job='split', data__passage_tokens=5)
  run_job(split.SplitJob(by_tokens, tmp_path), tmp_path)
  assert path.stat().st_mtime_ns > written


def test_what_passages_would_make_another_task_of_is_not_split(tmp_path):
  """Queries that are documents (ArguAna), and worlds."""
  corpora.write_beir(tmp_path / 'own', {'a': 'one two three', 'b': 'four'},
                     {'a': 'one two'}, train={'a': {'b': 1}})
  worlds = corpora.write_worlds(
      tmp_path / 'worlds', {'air': {'a0': 'wind', 'a1': 'kite'}},
      [('m0', 'a0', 0, 'a1')])
  split_of = lambda source, **more: split.SplitJob(config_lib.parse(
      tiny.make_config(tmp_path, job='split', data__source=source, **more)
  ), tmp_path / 'passages')
  own = f'beir:{tmp_path / "own"}'
  for source, message in ((own, 'has queries with the ids of documents'),
                          (worlds, 'has worlds, and a BEIR folder has no')):
    with pytest.raises(errors.UserError, match=message):
      run_job(split_of(source), tmp_path / 'passages')
  assert not (tmp_path / 'passages' / 'corpus').exists()
  run_job(split_of(own, data__drop_own_passage=False), tmp_path / 'passages')


def evaluate_job(root, workdir, **kwargs):
  config = make_config(root, job='evaluate', **kwargs)
  run_job(evaluate.EvaluateJob(config, workdir), workdir)
  return json.loads((workdir / 'metrics.json').read_text())


def test_run_files_are_evaluated(root, tmp_path):
  evaluate_job(root, tmp_path / 'first')
  run = tmp_path / 'first' / 'evaluation' / 'data-test-bm25' / 'run.trec'
  theirs = tmp_path / 'theirs.trec.gz'
  trec.write_run(theirs, trec.read_run(run), 'theirs')
  values = evaluate_job(root, tmp_path / 'second',
                        evaluation__runs=(str(theirs),))
  for metric in ('accuracy@1', 'mrr@10'):
    assert (values[f'data/test/theirs/{metric}']
            == values[f'data/test/bm25/{metric}'])


def test_run_files_that_do_not_fit(root, tmp_path):
  path = tmp_path / 'theirs.trec'
  path.write_text('q3-0 Q0 nowhere 1 2.0 x\n')
  with pytest.raises(errors.UserError, match=r'theirs.trec: passage "nowhere"'):
    evaluate_job(root, tmp_path / 'work', evaluation__runs=(str(path),))
  with pytest.raises(errors.UserError, match='two systems called bm25'):
    evaluate_job(root, tmp_path / 'work',
                 evaluation__runs=(str(tmp_path / 'bm25.txt'),))
  path.write_text('nobody Q0 d0p0 1 2.0 x\n')
  with pytest.raises(errors.UserError, match='it ranks nothing for the queri'):
    evaluate_job(root, tmp_path / 'work', evaluation__runs=(str(path),))


def test_split_with_answers_alone(root, tmp_path, monkeypatch):
  """As DPR's qa files: no judgements, only answers."""
  whole = prepared_lib.Prepared.judgements

  def judgements(self, split):
    found = whole(self, split)
    return prepared_lib.Judgements(
        found.query_rows[:0], found.passage_rows[:0], found.grades[:0],
        found.is_example[:0], found.queries)

  monkeypatch.setattr(prepared_lib.Prepared, 'judgements', judgements)
  values = evaluate_job(root, tmp_path / 'work', evaluation__answer_ks=(1, 5))
  assert set(values) == {
      f'data/test/{system}/answer_accuracy@{k}'
      for system in ('bm25', 'initial') for k in (1, 5)}
  with pytest.raises(errors.UserError, match='answers but no judgements'):
    evaluate_job(root, tmp_path / 'other')
