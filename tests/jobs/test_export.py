"""The export job: what it leaves, refuses and says; scores by other means."""

import dataclasses
import json
import resource
import shutil

import numpy as np
import pytest

from neg_contrast import api, errors
from neg_contrast.artifacts import folders, plan
from neg_contrast.jobs import evaluate
from neg_contrast.jobs import export as export_job
from neg_contrast.models import (
  bert_pretrained,
  descriptions,
  exporting,
  families,
  loading,
  model_names,
)
from neg_contrast.retrieval import stores
from neg_contrast.settings import config as config_lib
from tests import tiny
from tests.jobs import test_train

METRICS = ('accuracy@1', 'accuracy@5', 'precision@5', 'recall@5', 'mrr@10',
           'ndcg@10', 'map')
LENGTHS = {'query_length': 9, 'passage_length': 12}


def run(checkpoint, workdir, **model):
  folders.make_folder(workdir)
  job = export_job.ExportJob(config_lib.Config(
      job='export', checkpoint=str(checkpoint),
      model=config_lib.ModelConfig(**model),
  ), workdir)
  plan.run(job.targets())
  job.finish()
  return workdir / 'model'


@pytest.fixture(scope='module')
def root(tmp_path_factory):
  """A trained workdir `work`, and `model`, its export, in `out`."""
  root = tmp_path_factory.mktemp('export')
  config = tiny.make_config(
      root, mesh__data=1, data__groups=1, optim__steps=1,
      evaluation__eval_steps=1, evaluation__metrics=METRICS,
      evaluation__bm25=False, index__chunk_tokens=512,
      model__query_prefix='word7', model__projection_dim=6,
  )
  path = root / 'data' / 'corpus.jsonl'
  rows = [json.loads(line) for line in path.read_text().splitlines()]
  for i, row in enumerate(rows):
    row['title'] = f'word{i % 60} word{i * 7 % 60}' if i % 2 else ''
  path.write_text(''.join(json.dumps(row) + '\n' for row in rows))
  test_train.run_train(config, root / 'work')
  run(root / 'work', root / 'out')
  return root


def evaluate_with_sentence_transformers(folder, text, data, split, take=None):
  """Metric -> value, by its InformationRetrievalEvaluator."""
  st = pytest.importorskip('sentence_transformers')
  from sentence_transformers.sentence_transformer import evaluation as theirs

  read = lambda name: [json.loads(line) for line
                       in (data / name).read_text().splitlines()]
  relevant = {}
  for line in (data / 'qrels' / f'{split}.tsv').read_text().splitlines()[1:]:
    query, passage, grade = line.split('\t')
    if int(grade) > 0:
      relevant.setdefault(query, set()).add(passage)
  relevant = dict(list(relevant.items())[:take])
  corpus = {p['_id']: exporting.passage_text(p.get('title', ''), p['text'])
            for p in read('corpus.jsonl')}
  queries = {q['_id']: q['text'] for q in read('queries.jsonl')
             if q['_id'] in relevant}
  model = st.SentenceTransformer(str(folder), device='cpu')
  # No query of these is cut, so that both may have the passages' length.
  assert max(map(len, model.tokenizer([*queries.values()])['input_ids'])) < (
      text.query_length)
  result = theirs.InformationRetrievalEvaluator(
      queries, corpus, relevant, mrr_at_k=[10], ndcg_at_k=[10],
      accuracy_at_k=[1, 5, 20, 100], precision_recall_at_k=[5],
      map_at_k=[len(corpus)], query_prompt_name='query',
      corpus_prompt_name='document',
  )(model)
  renamed = {f'dot_map@{len(corpus)}': 'map'}
  return {renamed.get(name, name.removeprefix('dot_')): value
          for name, value in result.items()}


def test_scores_are_those_of_sentence_transformers(root):
  ours = json.loads((root / 'work' / 'metrics.json').read_text())
  theirs = evaluate_with_sentence_transformers(
      root / 'out' / 'model', loading.read_description(root / 'work')[1],
      root / 'data', 'test')
  for name in METRICS:
    value = ours[f'data/test/trained/{name}']
    assert 0 < value < 1
    assert value == pytest.approx(theirs[name], abs=1e-9), name


def test_evaluates_as_the_workdir_did(root, tmp_path):
  config = tiny.make_config(
      root, job='evaluate', checkpoint=str(root / 'out' / 'model'),
      evaluation__metrics=METRICS, evaluation__bm25=False, mesh__data=1,
      index__chunk_tokens=512, model__query_length=None,
      model__passage_length=None,
  )
  job = evaluate.EvaluateJob(config_lib.parse(config), tmp_path)
  plan.run(job.targets())
  job.finish()
  values = json.loads((tmp_path / 'metrics.json').read_text())
  before = json.loads((root / 'work' / 'metrics.json').read_text())
  assert values == {
      name.replace('/trained/', '/initial/'): value
      for name, value in before.items() if '/trained/' in name
  }


def test_card_says_what_lies_in_the_workdir(root):
  from huggingface_hub import ModelCard

  card = ModelCard.load(root / 'out' / 'model' / 'README.md')
  assert card.data.library_name == 'sentence-transformers'
  assert card.data.base_model is None  # A local folder.
  for name, value in json.loads(
      (root / 'work' / 'metrics.json').read_text()).items():
    _, _, system, metric = name.split('/')
    row = next(line for line in card.text.splitlines()
               if line.startswith(f'| {metric} |'))
    assert f'{value:.4f}' in row, (system, metric)
  saved = json.loads((root / 'work' / 'run.json').read_text())
  for part in (
      'other rows of a batch, and at each step given (2).',
      'the best on the tune split',
      'starting from the local folder `model`', '`beir:data`',
      f'{saved["examples"]} pairs', saved['identity']['needs']['data']['data'],
      '| optim.learning_rate | `0.001` |', '12 queries over 48 passages',
      "`'word7'` before every query", '`--config.checkpoint`',
  ):
    assert part in card.text, part
  assert str(root) not in card.text  # Whose folders they were is private.


def test_base_model_is_a_hub_name(root, tmp_path):
  shutil.copytree(root / 'work', tmp_path / 'work')
  path = tmp_path / 'work' / 'encoder.json'
  values = descriptions.read(path)
  assert values['base_model'] is None
  descriptions.write(path, {**values, 'base_model': 'owner/some-bert'})
  text = (run(tmp_path / 'work', tmp_path / 'out') / 'README.md').read_text()
  assert '\nbase_model: "owner/some-bert"\n' in text
  assert model_names.hub_name('minilm') == (
      'sentence-transformers/all-MiniLM-L6-v2')
  assert model_names.hub_name('owner/some-bert') == 'owner/some-bert'
  for local in ('', str(tmp_path), 'a/b/c', './a', 'tests'):
    assert model_names.hub_name(local) is None


def test_second_run_keeps_it(root, capsys):
  folder = root / 'out' / 'model'
  times = lambda: {p: p.stat().st_mtime_ns for p in folder.rglob('*')}
  before = times()
  run(root / 'work', root / 'out')
  assert times() == before
  assert f"SentenceTransformer('{folder}')" in capsys.readouterr().out
  assert {str(p.relative_to(folder)) for p in folder.rglob('*')
          if p.is_file()} == {*folders.file_names(folder), 'manifest.json'}


def test_a_damaged_export_is_not_done(root, tmp_path):
  shutil.copytree(root / 'out', tmp_path / 'out')
  path = tmp_path / 'out' / 'model' / 'model.safetensors'
  data = bytearray(path.read_bytes())
  data[-5] ^= 1
  path.write_bytes(data)
  with pytest.raises(errors.UserError, match='model.safetensors: damaged'):
    run(root / 'work', tmp_path / 'out')
  with pytest.raises(errors.UserError, match='model.safetensors: damaged'):
    run(path.parent, tmp_path / 'again')


def test_a_folder_with_a_file_missing_is_made_anew(root, tmp_path):
  shutil.copytree(root / 'out', tmp_path / 'out')
  (tmp_path / 'out' / 'model' / 'modules.json').unlink()
  run(root / 'work', tmp_path / 'out')
  assert (tmp_path / 'out' / 'model' / 'modules.json').exists()


def test_does_not_overwrite(root, tmp_path):
  with pytest.raises(errors.UserError, match='holds another model, .*work '
                     r'step 1, and not .*model\. Name another --workdir'):
    run(root / 'model', root / 'out', **LENGTHS)
  (tmp_path / 'model').mkdir()
  (tmp_path / 'model' / 'thesis.tex').write_text('dear')
  with pytest.raises(errors.UserError, match='no export of ours'):
    run(root / 'work', tmp_path)
  assert (tmp_path / 'model' / 'thesis.tex').read_text() == 'dear'
  (tmp_path / 'other').mkdir()
  (tmp_path / 'other' / 'model').write_text('a file')
  with pytest.raises(errors.UserError, match='no export of ours'):
    run(root / 'work', tmp_path / 'other')


def test_a_workdir_may_hold_its_export_and_a_model_not(root, tmp_path):
  with pytest.raises(errors.UserError, match='lies in the checkpoint'):
    run(root / 'model', root / 'model' / 'exported')
  assert not (root / 'model' / 'exported' / 'model').exists()
  shutil.copytree(root / 'work', tmp_path / 'work')
  for _ in range(2):
    assert run(tmp_path / 'work', tmp_path / 'work').is_dir()


def test_two_towers(root, tmp_path):
  folder = run(root / 'model', tmp_path / 'first', shared=False, **LENGTHS)
  assert {p.name for p in folder.iterdir()} == {
      'README.md', 'manifest.json', 'passage', 'query'}
  again = run(folder, tmp_path / 'second', shared=False)
  for tower in ('query', 'passage'):
    name = f'{tower}/model.safetensors'
    assert folders.sha256_file(folder / name) == folders.sha256_file(
        again / name)


def test_checkpoints_that_are_none(root, tmp_path):
  with pytest.raises(errors.UserError, match='no such model folder'):
    run(tmp_path / 'nowhere', tmp_path / 'out')
  (tmp_path / 'empty').mkdir()
  with pytest.raises(errors.UserError, match=r'config.json: no such file'):
    run(tmp_path / 'empty', tmp_path / 'out')
  shutil.copytree(root / 'work', tmp_path / 'untrained')
  shutil.rmtree(tmp_path / 'untrained' / 'checkpoints')
  with pytest.raises(errors.UserError, match='no finished checkpoint'):
    run(tmp_path / 'untrained', tmp_path / 'out')
  assert list((tmp_path / 'out').iterdir()) == []


@pytest.mark.parametrize('limit_bytes', [400, 6_000, 20_000])
def test_a_full_disk_leaves_nothing(root, tmp_path, limit_bytes):
  """No file may grow longer: first the tokenizer fails, then the weights."""
  job = export_job.ExportJob(
      config_lib.Config(job='export', checkpoint=str(root / 'work')), tmp_path)
  target, = job.targets()
  assert not target.is_made()
  before = resource.getrlimit(resource.RLIMIT_FSIZE)
  resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, before[1]))
  try:
    with pytest.raises(
        errors.UserError, match='model: (can.t be written|not written)'
    ):
      target.build()
  finally:
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
  assert [p.name for p in tmp_path.iterdir()] == ['.locks']
  target.build()
  assert target.is_made()


def test_a_wrong_folder_leaves_nothing(root, tmp_path, monkeypatch):
  wrong = lambda params, config, pad_id: {
      name: tensor + np.float32(1e-3) for name, tensor
      in bert_pretrained.bert_tensors(params, config, pad_id).items()
  }
  monkeypatch.setitem(families.FAMILIES, 'bert', dataclasses.replace(
      bert_pretrained.BERT, to_tensors=wrong))
  with pytest.raises(errors.UserError, match='weights changed'):
    run(root / 'work', tmp_path)
  assert [p.name for p in tmp_path.iterdir()] == ['.locks']


def test_embeddings_of_a_source(root, tmp_path):
  data = config_lib.DataConfig(
      source=f'beir:{root / "data"}', prepared_dir=str(root / 'prepared'))
  config = config_lib.Config(
      job='export', checkpoint=str(root / 'work'), data=data,
      index=config_lib.IndexConfig(chunk_tokens=512))

  def export_all():
    job = export_job.ExportJob(config, tmp_path)
    plan.run(job.targets())
    job.finish()

  export_all()
  folder = tmp_path / 'embeddings'
  encoder = api.load_encoder(str(root / 'work'))
  corpus = api.load_corpus(data.source, data__prepared_dir=data.prepared_dir)
  for name, expected in (
      ('passages', encoder.encode_passages(list(corpus.passages))),
      ('queries', encoder.encode_queries([q.text for q in corpus.queries])),
  ):
    vecs = np.load(folder / f'{name}.npy', allow_pickle=False)
    assert vecs.dtype == np.float32
    np.testing.assert_allclose(vecs, expected, atol=1e-5)
    assert (folder / f'{name}.ids.txt').read_text().splitlines() == [
        record.id for record in getattr(corpus, name)]
  written = (folder / 'passages.npy').stat().st_mtime_ns
  export_all()
  assert (folder / 'passages.npy').stat().st_mtime_ns == written
  (folder / 'manifest.json').unlink()
  with pytest.raises(errors.UserError, match='not made by this program'):
    export_all()
  assert (folder / 'passages.npy').exists()


@pytest.mark.parametrize('store, place', [
    ('milvus', 'here.db'), ('lancedb', 'here')])
def test_vectors_of_a_source_for_a_database(root, tmp_path, store, place):
  """In Parquet, and in the database: ids, titles and vectors of the corpus."""
  parquet = pytest.importorskip('pyarrow.parquet')
  pytest.importorskip({'milvus': 'pymilvus'}.get(store, store))
  data = config_lib.DataConfig(
      source=f'beir:{root / "data"}', prepared_dir=str(root / 'prepared'))
  config = config_lib.Config(
      job='export', checkpoint=str(root / 'work'), data=data,
      index=config_lib.IndexConfig(chunk_tokens=512),
      export=config_lib.ExportConfig(
          vectors='parquet', shard_rows=20, store=store,
          store_place=str(tmp_path / place)))

  def export_all():
    job = export_job.ExportJob(config, tmp_path)
    plan.run(job.targets())
    job.finish()
    return job._vectors[0].shards()

  shards = export_all()
  folder = tmp_path / 'embeddings'
  assert [path.name for path in sorted(folder.glob('p*'))] == [
      f'passages-0000{n}-of-00003.parquet' for n in range(3)]
  encoder = api.load_encoder(str(root / 'work'))
  corpus = api.load_corpus(data.source, data__prepared_dir=data.prepared_dir)
  rows = parquet.read_table(sorted(folder.glob('passages-*'))).to_pylist()
  assert [(row['id'], row['title']) for row in rows] == [
      (one.id, one.title) for one in corpus.passages]
  np.testing.assert_allclose(
      [row['vector'] for row in rows],
      encoder.encode_passages(list(corpus.passages)), atol=1e-5)
  queries = parquet.read_table(sorted(folder.glob('queries-*'))).to_pylist()
  assert [row['id'] for row in queries] == [one.id for one in corpus.queries]
  assert export_all() == shards  # What is there is kept.
  again = stores.STORES[store](str(tmp_path / place))
  assert not again.load(shards, 'passages')
  path = folder / 'passages-00001-of-00003.parquet'
  data = bytearray(path.read_bytes())
  data[len(data) // 2] ^= 1
  path.write_bytes(data)
  with pytest.raises(errors.UserError, match=f'{path.name}: damaged'):
    export_all()


@pytest.mark.parametrize('values, message', [
    ({'store': 'milvus'}, "vectors='npy': must be parquet, for milvus"),
    ({'store': 'lancedb', 'vectors': 'parquet'},
     r"export\.store_place='': is needed: where lancedb is"),
    ({'store': 'faiss'}, 'must be one of , milvus, lancedb'),
    ({'vectors': 'avro'}, 'must be one of npy, parquet, json, csv'),
    ({'store_name': 'a-b'}, 'must be letters, digits and _'),
])
def test_keys_of_exported_vectors(values, message):
  with pytest.raises(errors.UserError, match=message):
    config_lib.ExportConfig(**values)


def test_files_for_databases_need_a_source():
  config = config_lib.Config(
      job='export', checkpoint='x',
      export=config_lib.ExportConfig(vectors='json'))
  with pytest.raises(errors.UserError, match=r"='json': needs a data\.s"):
    export_job.check(config)
