"""Stage 1 as a whole: pairs, questions, generators, one command for all."""

import contextlib
import dataclasses
import json
import shutil
import time
import types

import jax
import numpy as np
import pytest

from neg_contrast import errors, jobs
from neg_contrast.artifacts import artifact, plan
from neg_contrast.artifacts import parts as shards_lib
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import synthetic_pairs as pairs_lib
from neg_contrast.jobs import generate_questions, train, train_generator
from neg_contrast.jobs.common import (
  declared_pairs,
  declared_runs,
  settings_of_rooms,
)
from neg_contrast.models import by_name as model_lib
from neg_contrast.models import t5_config
from neg_contrast.retrieval import bm25_search
from neg_contrast.settings import config as config_lib
from neg_contrast.stage1 import beir_questions, questions
from neg_contrast.training import generator_runs, recipe, shown_questions
from tests import corpora, processes, tiny
from tests.jobs import test_train

NANO = t5_config.T5Config(
    d_model=16, d_kv=4, d_ff=32, num_layers=1, num_decoder_layers=1,
    num_heads=4, gated=True, activation='gelu_new', dropout=0.1,
)


def make_config(root, **overrides):
  """Training on gold pairs without hard negatives."""
  if not (root / 'data').exists():
    tiny.write_sentences(root / 'data')
    tiny.write_model(root / 'model')
  return tiny.make_config(root, **{
      'negatives__sources': (),
      'optim__steps': 4, 'evaluation__eval_steps': 2,
      'evaluation__bm25': False, 'synthetic__dir': str(root / 'synthetic'),
      'negatives__mined_dir': str(root / 'mined'), 'model__query_length': 24,
      'model__passage_length': 40, **overrides})


def make_generator(root, **overrides):
  return make_config(root, **{
      'job': 'train_generator', 'workdir': str(root / 'generator'),
      'model__init': f'random:t5-nano@{root / "model"}',
      'model__query_length': 8, 'optim__learning_rate': 1e-2,
      'optim__steps': 12, 'evaluation__eval_steps': 6,
      'checkpointing__save_steps': 2, **overrides})


@pytest.fixture(autouse=True)
def nano(monkeypatch):
  monkeypatch.setitem(t5_config.T5_SIZES, 't5-nano', NANO)


@pytest.fixture(scope='module')
def root(tmp_path_factory):
  """A folder with a corpus, a BERT and a trained generator.

  A copy of that at step 6 of 12 is in `cut`.
  """
  folder = tmp_path_factory.mktemp('stage1')
  with pytest.MonkeyPatch.context() as patch:
    patch.setitem(t5_config.T5_SIZES, 't5-nano', NANO)
    with test_train.copied_at(6, folder / 'generator', folder / 'cut'):
      run(train_generator.TrainGeneratorJob, make_generator(folder),
          folder / 'generator')
  return folder


def titles(targets):
  """Of all that a plan shows, in order."""
  return [one.title for one in artifact.closure(targets) if one.is_listed]


def run(job_type, config, workdir):
  """Runs a job to its end; the titles of what was to do."""
  job = job_type(config_lib.parse(config), workdir)
  targets = job.targets()
  artifact.forget()
  done = [one for one in artifact.closure(targets) if one.is_made()] if (
      workdir / 'manifest.json').exists() else []
  workdir.mkdir(exist_ok=True)
  plan.run(targets)
  job.finish()
  return [one.title for one in artifact.closure(targets)
          if one.is_listed and one not in done]


def losses_of(workdir):
  lines = (workdir / 'log.jsonl').read_text().splitlines()
  return {row['step']: row['loss'] for row in map(json.loads, lines)
          if 'loss' in row}


def declare_pairs(config):
  parsed = config_lib.parse(config)
  return declared_pairs.training_data(
      parsed, dataset_lib.data_of(parsed.data))


def make_pairs(config):
  made = declare_pairs(config)
  plan.run([made])
  return made.load()


@pytest.mark.parametrize('kind', [
    'inverse_cloze', 'crops', 'recurring_spans', 'neighbours', 'title'])
def test_pretext_pairs_are_data_to_train_on(root, kind):
  made = make_pairs(make_config(root, synthetic__pairs=kind,
                                synthetic__per_passage=1))
  prepared = made.prepared
  judged = made.train_and_tune[0]
  homes_too = judged
  judged = judged.select(judged.is_example)
  assert len(judged.query_rows) > 8 and (judged.grades == 1).all()
  assert len(prepared.passages) == 24
  cuts = pairs_lib.read_cuts(prepared)
  assert (cuts is None) == (kind in ('recurring_spans', 'neighbours'))
  fold = lambda text: ' '.join(text.casefold().split())
  texts = [fold(passage.text) for passage in prepared.passages]
  for query, row in zip(judged.query_rows, judged.passage_rows, strict=True):
    said = fold(prepared.queries[int(query)].text)
    if kind == 'title':
      assert said == fold(prepared.passages[int(row)].title)
    elif kind == 'neighbours':
      homes = {n for n, text in enumerate(texts) if said in text}
      assert row not in homes and any(abs(row - n) == 1 for n in homes)
      known = homes_too.passage_rows[homes_too.query_rows == query]
      assert set(known) == {row, *homes}  # No negative of its own query.
    elif kind != 'recurring_spans':
      assert said in texts[row]


def test_cut_positives_are_what_the_encoder_sees(root):
  config = make_config(root, synthetic__pairs='inverse_cloze',
                       synthetic__per_passage=1)
  parsed = config_lib.parse(config)
  dataset = make_pairs(config)
  from neg_contrast.training import encoder_run
  run_ = encoder_run.DualEncoderTraining(
      settings_of_rooms.training(parsed), root / 'unused',
      recipe.Given(declare_pairs(config), declared_runs.start(parsed)))
  batcher, count = run_._make_batch()
  tokenizer = run_.model.tokenizer
  sequences = batcher.passage_tokens(
      batcher.examples.positive_rows, batcher.examples.cuts)
  removed = 0
  for number in range(count):
    row = int(batcher.examples.positive_rows[number])
    first, end, title = batcher.examples.cuts[number].tolist()
    passage = dataset.prepared.passages[row]
    ids = tokenizer.encode(passage.text)
    want = ids[:end] + ids[first:] if 0 <= end <= first else (
        ids[first:] if end < 0 else ids[first:end])
    seen = sequences[number]
    body = seen[1 + len(tokenizer.encode(passage.title)) + 1:-1].tolist()
    assert title == 1 and body == want[:len(body)] and len(body) > 8
    query = dataset.prepared.queries[int(batcher.examples.query_rows[number])]
    removed += tokenizer.encode(query.text) == ids[end:first]
  assert removed > count / 2  # The sentence itself is what is left out.


def test_queries_of_equal_text_are_one(root, tmp_path):
  base = dataset_lib.Dataset(config_lib.parse(make_config(root)).data).prepared
  path = tmp_path / 'pairs.jsonl'
  with open(path, 'w') as f:
    pairs_lib.write_pair(f, 'who', 'd0p0')
    pairs_lib.write_pair(f, 'who', 'd1p1', (2, 5, 0))
    pairs_lib.write_pair(f, 'where', 'd0p0', (1, 2, 1))
    pairs_lib.write_pair(f, 'where', 'd0p0', (3, 4, 1))  # The first counts.
  made = corpora.write_pairs(base, [path], tmp_path / 'made')
  judged, cuts = made.judgements('synthetic'), pairs_lib.read_cuts(made)
  found = {(made.queries[int(q)].text, made.passage_ids[int(p)].decode()):
           tuple(cut) for q, p, cut in zip(
               judged.query_rows, judged.passage_rows, cuts.tolist(),
               strict=True)}
  assert found == {('who', 'd0p0'): (0, -1, 1), ('who', 'd1p1'): (2, 5, 0),
                   ('where', 'd0p0'): (1, 2, 1)}
  assert made.folder != made.corpus_folder
  assert made.manifest['corpus_fingerprint'] == (
      base.manifest['corpus_fingerprint'])


def test_one_command_makes_stage_1_and_reuses_it(root):
  config = make_config(root)
  config.stage1 = make_config(
      root, synthetic__pairs='crops', synthetic__per_passage=1,
      workdir=str(root / 'crops'))
  names = run(train.TrainJob, config, root / 'two_stages')
  assert names == ['data', 'stage 1: pairs', 'stage 1: stop rows',
                   'stage 1: training', 'embeddings', 'initial', 'training',
                   'embeddings', 'trained']
  assert run(train.TrainJob, config, root / 'two_stages') == []
  first = model_lib.load_workdir(root / 'crops')
  manifest = json.loads((root / 'two_stages' / 'manifest.json').read_text())
  assert manifest['identity']['needs']['start'] == {'model': first.fingerprint}
  config.negatives.sources = ('corpus:1',)
  job = train.TrainJob(config_lib.parse(config), root / 'other')
  states = plan.describe(job.targets()).splitlines()
  assert [line.partition('[')[2][:6] for line in states[1:5]] == [
      'done  ', 'spared', 'done  ', 'done  ']
  assert all('to do' in line for line in states[5:])
  config.stage1.optim.learning_rate = 1e-4
  with pytest.raises(errors.UserError, match=r'config\.stage1\.workdir'):
    plan.describe(
        train.TrainJob(config_lib.parse(config), root / 'other').targets())


def test_generated_questions_get_context_negatives(root):
  config = make_config(root, negatives__sources=('context:1',), mesh__data=1,
                       synthetic__pairs='generated', synthetic__per_passage=2)
  config.generator = make_generator(root)
  names = run(train.TrainJob, config, root / 'generated')
  assert names[-8:] == ['questions', 'pairs', 'bm25 index', 'halves',
                        'stop rows', 'training', 'embeddings', 'trained']
  assert 'generator: training' in names
  job = train.TrainJob(config_lib.parse(config), root / 'generated')
  batcher, count = job.run.training()._make_batch()
  documents, pairs = job._data.load().documents, batcher.examples
  drawn = batcher.draw(3, np.arange(count), pairs.query_rows).rows[:, 0]
  assert (drawn >= 0).all()
  assert (documents[drawn] == documents[pairs.positive_rows]).all()
  assert not pairs.positive_groups.holds(
      pairs.query_rows, drawn[:, None]).any()


def test_generator_learns_and_resumes_to_the_bit(root, tmp_path):
  whole = losses_of(root / 'generator')
  assert list(whole) == list(range(1, 13))
  assert np.mean(list(whole.values())[-3:]) < whole[1] - 0.2
  parsed = config_lib.parse(make_generator(root))
  shutil.copytree(root / 'cut', tmp_path / 'cut')
  declared_pairs.generator_run(parsed, tmp_path / 'cut').training().train()
  assert losses_of(tmp_path / 'cut') == whole
  shown = sorted((root / 'generator' / shown_questions.FOLDER).iterdir())
  assert len(shown) == 2 and len(json.loads(shown[0].read_text())) == 3


def test_generator_has_the_same_losses_on_any_mesh(root, tmp_path):
  """The other run used eight devices."""
  assert len(jax.devices()) == 8
  run(train_generator.TrainGeneratorJob,
      make_generator(root, evaluation__eval_steps=0, mesh__data=1), tmp_path)
  assert_close(losses_of(root / 'generator'), losses_of(tmp_path), 12)


def test_adafactor_has_the_same_losses_on_any_mesh(root, tmp_path):
  """Its factors are of whole matrices, of which a device has a part."""
  losses = []
  for mesh in ({'mesh__data': 1}, {'mesh__data': 2, 'mesh__model': 2}):
    workdir = tmp_path / str(len(losses))
    config = make_generator(root, optim__optimizer='adafactor',
                            optim__steps=8, evaluation__eval_steps=0, **mesh)
    run(train_generator.TrainGeneratorJob, config, workdir)
    losses.append(losses_of(workdir))
  one, other = losses
  assert_close(one, other, 8)


def assert_close(one, other, steps):
  assert list(one) == list(other) == list(range(1, steps + 1))
  for step, loss in one.items():
    assert abs(loss - other[step]) <= 1e-5 * loss


def make_questions(root, **overrides):
  return make_config(root, **{
      'job': 'generate_questions', 'checkpoint': str(root / 'generator'),
      'synthetic__shard_passages': 3, 'synthetic__batch_passages': 2,
      'synthetic__temperature': 1.5, **overrides})


def files_of(folder):
  return {path.relative_to(folder): path.read_bytes()
          for path in folder.rglob('*') if path.is_file()
          and path.suffix in ('.jsonl', '.tsv')}


@pytest.fixture(scope='module')
def asked(root):
  """A folder with all questions in `whole`, and the work of their job in `a`.
  """
  folder = root / 'asked'
  folder.mkdir()
  with pytest.MonkeyPatch.context() as patch:
    patch.setitem(t5_config.T5_SIZES, 't5-nano', NANO)
    config = make_questions(root, synthetic__dir=str(folder / 'whole'))
    run(generate_questions.GenerateQuestionsJob, config, folder / 'a')
  return folder


def test_killed_generation_ends_the_same(root, asked, tmp_path):
  """kill -9 at random, three times; a shard at most is lost each time."""
  code = (
      'import pathlib\n'
      'from neg_contrast.models import t5\n'
      'from neg_contrast.jobs import generate_questions\n'
      'from tests.jobs import test_stage1 as test\n'
      f'root = pathlib.Path({str(root)!r})\n'
      'config = test.make_questions(root, '
      f'synthetic__dir={str(tmp_path / "killed")!r})\n'
      'print("ready", flush=True)\n'
      'test.run(generate_questions.GenerateQuestionsJob, config, '
      f'pathlib.Path({str(tmp_path / "b")!r}))\n'
  )
  rng = np.random.default_rng(int(time.time()))
  shards, came = tmp_path / 'killed' / 'questions', 0
  finished = lambda: len(list(shards.glob('*/*/manifest.json')))
  for _ in range(3):
    process = processes.Process(code)
    before = finished()
    next(process.lines())
    end = time.monotonic() + 60
    while (process.poll() is None and finished() == before
           and time.monotonic() < end):
      time.sleep(0.002)
    time.sleep(rng.uniform(0, 0.05))
    came += process.poll() is None
    process.kill()
    process.communicate()
    assert finished() >= before
  assert came and finished() > 0
  again = make_questions(root, synthetic__dir=str(tmp_path / 'killed'))
  run(generate_questions.GenerateQuestionsJob, again, tmp_path / 'b')
  assert finished() == 8
  one, other = files_of(asked / 'whole'), files_of(tmp_path / 'killed')
  assert one and one == other
  assert files_of(asked / 'a') == files_of(tmp_path / 'b')
  assert run(generate_questions.GenerateQuestionsJob, again, tmp_path / 'b'
             ) == []


def test_questions_read_as_beir_and_are_counted(root, asked, tmp_path):
  made = json.loads((asked / 'a' / 'manifest.json').read_text())
  counts = made['counts']
  assert counts['passages'] == 24 and counts['written'] == 72
  assert counts['written'] == (
      counts['empty'] + counts['repeated'] + counts['kept'])
  folder = tmp_path / 'beir'
  shutil.copytree(asked / 'a' / beir_questions.FOLDER, folder)
  (folder / 'corpus.jsonl').write_bytes(
      (root / 'data' / 'corpus.jsonl').read_bytes())
  data = config_lib.DataConfig(source=f'beir:{folder}',
                               prepared_dir=str(tmp_path / 'prepared'))
  prepared = dataset_lib.Dataset(data).prepared
  assert len(prepared.judgements('gen-train').query_rows) == counts['kept']
  assert set(made['statistics']) == {'generated', 'gold', 'agreement'}


def test_round_trip_keeps_what_is_found(root, asked, tmp_path):
  shutil.copytree(asked / 'whole', tmp_path / 'made')
  config = make_questions(root, synthetic__dir=str(tmp_path / 'made'),
                          synthetic__round_trip_rank=4)
  parsed = config_lib.parse(config)
  job = generate_questions.GenerateQuestionsJob(parsed, tmp_path / 'work')
  run(generate_questions.GenerateQuestionsJob, config, tmp_path / 'work')
  kept = [(pair['query'], pair['passage_id'])
          for pair in pairs_lib.read_pairs(job._questions.files())]
  written = [(pair['query'], pair['passage_id'])
             for path in job._questions.written.shards.folder.glob(
                 '*/pairs.jsonl')
             for pair in pairs_lib.read_pairs([path])]
  assert 0 < len(kept) < len(written)
  prepared = job._data.load().prepared
  index = bm25_search.Bm25Search(parsed.evaluation, job._data.load())
  for query, name in written:
    rows = index.search([query], 4).rows[0]
    found = name in [prepared.passage_ids[int(r)].decode() for r in rows
                     if r >= 0]
    assert found == ((query, name) in kept)


def test_a_model_makes_the_round_trip(root, asked, tmp_path):
  shutil.copytree(asked / 'whole', tmp_path / 'made')
  config = make_questions(root, synthetic__dir=str(tmp_path / 'made'),
                          synthetic__round_trip_rank=4,
                          synthetic__round_trip_checkpoint=str(root / 'model'))
  job, workdir = generate_questions.GenerateQuestionsJob, tmp_path / 'work'
  assert run(job, config, workdir) == [
      'data', 'questions', 'embeddings', 'index', 'round trip', 'files']
  counts = json.loads((workdir / 'manifest.json').read_text())['counts']
  assert 0 < counts['round_trip'] <= counts['kept']
  assert run(job, config, workdir) == []
  config.index.kind = 'scann'
  assert run(job, config, workdir) == ['index', 'round trip', 'files']
  declared = job(config_lib.parse(config), workdir)
  shutil.rmtree(declared._questions.written.shards.place(1))
  assert run(job, config, workdir) == ['questions']  # `finish` counts them.


@pytest.mark.parametrize(('made', 'name'), [
    ('generator', f'{generator_runs.FOLDER}/model.safetensors'),
    ('asked/a', f'{beir_questions.FOLDER}/gen-queries.jsonl'),
    ('asked/a', f'{beir_questions.FOLDER}/gen-qrels/train.tsv'),
])
def test_damaged_output_is_told(root, asked, tmp_path, made, name):
  workdir, job, config = tmp_path / 'work', *{
      'generator': (train_generator.TrainGeneratorJob, make_generator(root)),
      'asked/a': (generate_questions.GenerateQuestionsJob, make_questions(
          root, synthetic__dir=str(asked / 'whole')))}[made]
  shutil.copytree(root / made, workdir)
  assert run(job, config, workdir) == []
  data = bytearray((workdir / name).read_bytes())
  data[len(data) // 2] ^= 1
  for damaged in data, data[: len(data) // 2]:
    (workdir / name).write_bytes(damaged)
    with pytest.raises(errors.UserError, match=f'{name}: damaged.*Remove'):
      run(job, config, workdir)


def test_pairs_stand_in_the_place_of_data(root, tmp_path):
  config = make_config(root, synthetic__pairs='crops',
                       synthetic__dir=str(tmp_path))
  made = declare_pairs(config)
  assert not made.is_made() and made.contents('corpus') is None
  plan.run([made])
  manifest, gold = made.load().prepared.manifest, made.data.contents('texts')
  assert made.contents('corpus') == {'corpus': gold['corpus']}
  assert made.contents('texts') == {
      'corpus': gold['corpus'], 'queries': manifest['queries_fingerprint']}
  assert made.contents('data') == {'data': manifest['fingerprint']}
  assert manifest['queries_fingerprint'] != gold['queries']
  folder = made.folder
  config.synthetic.per_passage = 2
  assert declare_pairs(config).folder != folder
  config.synthetic.pairs = 'generated'  # Which the tokenizer does not cut.
  config.checkpoint = str(root / 'generator')
  parsed = config_lib.parse(config)
  asked = declared_pairs.training_data(parsed, made.data)
  assert titles([asked]) == ['data', 'questions', 'pairs']
  assert set(asked.identity['needs']) == {'corpus', 'questions'}


def test_processes_divide_the_shards(root, asked, tmp_path, monkeypatch):
  config = config_lib.parse(make_questions(
      root, synthetic__dir=str(tmp_path / 'shared')))
  shards = lambda: sorted(path.parent.name for path in (
      tmp_path / 'shared').glob('questions/*/*/manifest.json'))

  class Killed(Exception):
    pass

  def write(*args):
    if index == 1 and len(shards()) == 4:
      raise Killed
    whole_write(*args)

  whole_write = questions.write_shard
  monkeypatch.setattr(questions, 'write_shard', write)
  for index, made in ((1, [1, 3, 5, 7]), (0, [*range(8)])):
    monkeypatch.setattr(shards_lib, 'jax', types.SimpleNamespace(
        process_count=lambda: 2, process_index=lambda index=index: index))
    job = generate_questions.GenerateQuestionsJob(config, tmp_path / 'b')
    with pytest.raises(Killed) if index else contextlib.nullcontext():
      plan.run([job._questions])
    assert [int(name[:5]) for name in shards()] == made
  assert files_of(asked / 'whole') == files_of(tmp_path / 'shared')


class TestRefusals:

  def refused(self, job_type, config, match, tmp_path):
    with pytest.raises(errors.UserError, match=match):
      run(job_type, config, tmp_path / 'refused')

  def test_generator_where_an_encoder_is_needed(self, root, tmp_path):
    config = make_config(root, model__init=str(root / 'generator'))
    self.refused(train.TrainJob, config, 'holds a question generator', tmp_path)

  def test_bert_where_a_t5_is_needed(self, root, tmp_path):
    config = make_generator(root, model__init=str(root / 'model'))
    self.refused(train_generator.TrainGeneratorJob, config, 'bert', tmp_path)
    config = make_questions(root, checkpoint=str(root / 'model'))
    self.refused(generate_questions.GenerateQuestionsJob, config, 'bert',
                 tmp_path)

  def test_a_generator_whose_tokenizer_is_of_another_model(
      self, root, tmp_path
  ):
    made = model_lib.load_generator_workdir(root / 'generator')
    folder = tmp_path / 't5'
    shutil.copytree(root / 'generator' / generator_runs.FOLDER, folder)
    from transformers import AutoTokenizer
    text = ' '.join(tiny.WORDS[:3])
    theirs = AutoTokenizer.from_pretrained(folder)
    assert theirs(text).input_ids == [
        *made.tokenizer.encode_batch([text])[0], made.config.eos_id]
    again = model_lib.load_generator(
        str(folder), config_lib.parse(make_questions(root)).model, 0)
    assert again.config == dataclasses.replace(made.config,
                                               scale_head=again.config.scale_head)
    (folder / 'manifest.json').unlink()  # Which knows what was exported.
    path = folder / 'config.json'
    values = json.loads(path.read_text())
    values['eos_token_id'] = 7
    path.write_text(json.dumps(values))
    config = make_questions(root, checkpoint=str(folder))
    self.refused(generate_questions.GenerateQuestionsJob, config,
                 'the tokenizer belongs to another model', tmp_path)

  def test_encoder_workdir_writes_no_questions(self, root, tmp_path):
    workdir = tmp_path / 'encoder'
    tiny.train_only(root, workdir, optim__steps=1, mesh__data=1,
                    negatives__sources=())
    config = make_questions(root, checkpoint=str(workdir))
    self.refused(generate_questions.GenerateQuestionsJob, config,
                 'writes no questions', tmp_path)

  def test_tokenizer_was_exchanged(self, root, tmp_path):
    shutil.copytree(root / 'generator', tmp_path / 'generator')
    tiny.write_tokenizer(tmp_path / 'generator' / 'tokenizer',
                         tiny.WORDS[::-1])
    config = make_questions(root, checkpoint=str(tmp_path / 'generator'))
    self.refused(generate_questions.GenerateQuestionsJob, config,
                 'put the original back', tmp_path)

  def test_empty_corpus(self, root, tmp_path):
    (tmp_path / 'empty').mkdir()
    (tmp_path / 'empty' / 'corpus.jsonl').write_text('')
    config = make_questions(root)
    config.data.source = f'beir:{tmp_path / "empty"}'
    self.refused(generate_questions.GenerateQuestionsJob, config,
                 'holds no passages', tmp_path)

  def test_answers(self, root, tmp_path):
    workdir = tmp_path / 'with_answer'
    run(train_generator.TrainGeneratorJob,
        make_generator(root, synthetic__with_answer=True, optim__steps=2,
                       mesh__data=1),
        workdir)
    config = make_questions(root, checkpoint=str(workdir))
    self.refused(generate_questions.GenerateQuestionsJob, config,
                 r'--config\.synthetic\.with_answer=False', tmp_path)
    config.generator = make_generator(
        root, synthetic__with_answer=True, optim__steps=2, mesh__data=1,
        workdir=str(workdir))
    job = generate_questions.GenerateQuestionsJob(
        config_lib.parse(config), tmp_path / 'refused')
    said = plan.describe(job.targets())
    assert '[done   ] generator: training' in said
    with pytest.raises(
        errors.UserError,
        match=r'--config\.generator\.synthetic\.with_answer=False'):
      plan.run(job.targets())

  def test_nothing_to_make_pairs_of(self, root, tmp_path):
    tiny.write_beir(tmp_path / 'short')
    config = make_config(root, synthetic__pairs='crops')
    config.data.source = f'beir:{tmp_path / "short"}'
    self.refused(train.TrainJob, config, 'makes no pair', tmp_path)

  @pytest.mark.parametrize('key, value, match', [
      ('stage1.optim.epochs', -1.0, r'config\.stage1\.optim\.epochs'),
      ('stage1.job', 'train_generator', r'config\.stage1\.job'),
      ('synthetic.pairs', 'generated', 'config.checkpoint'),
      ('synthetic.method', 'diverse', 'sample, beam, greedy'),
      ('model.query_length', 20, r'set both'),
      ('job', 'mine', ':stage1=none'),
      ('loss.label_smoothing', 0.1, 'job=train_generator'),
  ])
  def test_config(self, root, key, value, match):
    config = make_config(root)
    config.stage1 = make_config(root, workdir='w')
    config.update_from_flattened_dict({key: value})
    with pytest.raises(errors.UserError, match=match):
      jobs.check(config_lib.parse(config))


@pytest.mark.parametrize('counts', ['given', 'equal'])
def test_a_generator_says_that_weights_do_not_count(tmp_path, caplog, counts):
  config = make_generator(
      tmp_path, optim__steps=1, evaluation__eval_steps=0,
      loss__example_weights=counts)
  qrels = tmp_path / 'data' / 'qrels' / 'train.tsv'
  head, first, *lines = qrels.read_text().splitlines()
  qrels.write_text('\n'.join([
      f'{head}\tweight', f'{first}\t0.5', *(f'{line}\t1' for line in lines),
      '']))
  job = train_generator.TrainGeneratorJob(
      config_lib.parse(config), tmp_path / 'generator')
  plan.run([*job._run.needs().values()])
  job._run.training()._make_batch()
  assert ('learns from all alike' in caplog.text) == (counts != 'equal')
