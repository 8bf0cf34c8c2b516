"""launch/studies: the scripts that divide and join data for studies."""

import dataclasses
import gzip
import json
import os
import pathlib
import runpy
import shutil
import sys

import numpy as np
import pytest
import transformers

from neg_contrast.data import dataset, records
from neg_contrast.data.formats import beir
from neg_contrast.evaluation import trec
from neg_contrast.jobs import mine
from neg_contrast.mining import label_share
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.negatives import verdicts
from neg_contrast.settings import config as config_lib
from tests import processes, tiny

STUDIES = pathlib.Path(__file__).parents[2] / 'launch' / 'studies'


def start_script(name, *arguments):
  """It has the package's modules already, as `processes` says."""
  script = STUDIES / f'{name}.py'
  return processes.run(processes.Process(
      'import runpy, sys\n'
      f'sys.path[0] = {str(STUDIES)!r}\n'
      f'runpy.run_path({str(script)!r}, run_name="__main__")',
      arguments,
      env={**os.environ, 'XLA_FLAGS': processes.with_devices(1)}))


def run_script(name, *arguments):
  result = start_script(name, *arguments)
  assert result.returncode == 0, result.stderr
  return result.stdout


def write_language_model(folder):
  tiny.write_tokenizer(folder)
  tokenizer = transformers.PreTrainedTokenizerFast(
      tokenizer_file=str(folder / 'tokenizer.json'), unk_token='[UNK]',
      pad_token='[PAD]', eos_token='[SEP]')
  tokenizer.save_pretrained(folder)
  transformers.LlamaForCausalLM(transformers.LlamaConfig(
      vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64,
      num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
      bos_token_id=None, eos_token_id=tokenizer.eos_token_id,
  )).save_pretrained(folder)


def judged(folder, split):
  lines = (folder / 'qrels' / f'{split}.tsv').read_text().splitlines()
  return {line.split('\t')[0] for line in lines[1:]}


def test_beir_folders_are_divided_and_joined(tmp_path):
  tiny.write_beir(tmp_path / 'data')
  parts, split = tmp_path / 'parts', judged(tmp_path / 'data', 'train')
  run_script('split_beir', parts, tmp_path / 'data', '--split=train',
             '--queries', 'train=7', 'tune=5', '--keep', 'test')
  train, tune = judged(parts, 'train'), judged(parts, 'tune')
  assert (len(train), len(tune)) == (7, 5)
  assert not train & tune and train | tune < split
  assert judged(parts, 'test') == judged(tmp_path / 'data', 'test')
  joined = tmp_path / 'joined'
  run_script('join_beir', joined, f'{tmp_path / "data"}:test',
             f'{parts}:train,tune')
  names = {f'parts-{name}' for name in train | tune}
  assert judged(joined, 'train') == names | {
      f'data-{name}' for name in judged(parts, 'test')}
  corpus = (joined / 'corpus.jsonl').read_text().splitlines()
  assert len(corpus) == 2 * 48 and json.loads(corpus[-1])['_id'] == (
      'parts-d11p3')


def test_folders_that_are_made_keep_weights(tmp_path):
  """One that is 0 says that a positive is not trained on."""
  data = tmp_path / 'data'
  tiny.write_beir(data)
  path = data / 'qrels' / 'train.tsv'
  head, *lines = path.read_text().splitlines()
  path.write_text('\n'.join([
      f'{head}\tweight', *(f'{line}\t{number / 4}'
                           for number, line in enumerate(lines)), '']))
  given = path.read_text().splitlines()[1:]
  run_script('split_beir', tmp_path / 'parts', data, '--split=train',
             '--queries', 'train=7')
  parts = (tmp_path / 'parts' / 'qrels' / 'train.tsv').read_text().splitlines()
  assert parts[0].endswith('\tscore\tweight')
  positives = {line for line in parts[1:] if line.split('\t')[2] != '0'}
  assert positives < {*given} and len(positives) >= 7
  run_script('join_beir', tmp_path / 'joined', f'{data}:train')
  joined = (tmp_path / 'joined' / 'qrels' / 'train.tsv').read_text()
  assert joined.replace('data-', '').splitlines()[1:] == given


@pytest.mark.parametrize('folders, told', [
    (('data:train,tests',), "data has no split 'tests'; it has "),
    (('data:train', 'data:test'), 'folders data, data: ids get their names'),
    (('missing:train',), 'corpus.jsonl'),
])
def test_what_can_not_be_joined_is_told(
    tmp_path, monkeypatch, capsys, folders, told):
  tiny.write_beir(tmp_path / 'data')
  monkeypatch.setattr(sys, 'argv', [
      '-', str(tmp_path / 'out'), *(f'{tmp_path}/{name}' for name in folders)])
  with pytest.raises(SystemExit) as stop:
    runpy.run_path(str(STUDIES / 'join_beir.py'), run_name='__main__')
  said = capsys.readouterr().err.splitlines()
  assert stop.value.code == 2 and told in said[-1]
  assert said[-1].startswith('error: ') and not (tmp_path / 'out').exists()


def zip_file(path):
  path.with_name(f'{path.name}.gz').write_bytes(gzip.compress(
      path.read_bytes()))
  path.unlink()


def test_a_gzipped_corpus_is_linked(tmp_path):
  data, parts = tmp_path / 'data', tmp_path / 'parts'
  tiny.write_beir(data)
  zip_file(data / 'corpus.jsonl')
  run_script('split_beir', parts, data, '--split=train', '--queries', 'train=7')
  source = beir.Beir(str(parts), records.InvalidRecords(skip=False))
  assert len(list(source.passages())) == 48


@pytest.mark.parametrize('parts', [
    ('train=30', 'tune=6', 'spare=1'), ('train=0.5',), ('train=7', 'tune=0')])
def test_too_few_queries_are_refused(tmp_path, monkeypatch, capsys, parts):
  tiny.write_beir(tmp_path / 'data')
  monkeypatch.setattr(sys, 'argv', [
      '-', str(tmp_path / 'out'), str(tmp_path / 'data'), '--split=train',
      '--queries', *parts])
  with pytest.raises(SystemExit) as stop:
    runpy.run_path(str(STUDIES / 'split_beir.py'), run_name='__main__')
  said = capsys.readouterr().err.splitlines()
  assert stop.value.code == 2 and said[-1] == (
      f'error: --queries {" ".join(parts)}: parts are whole numbers from 1, '
      'and the split has 36 queries')
  assert not (tmp_path / 'out').exists()


def test_a_language_model_writes_queries(tmp_path):
  data, model = tmp_path / 'data', tmp_path / 'model'
  tiny.write_beir(data)
  write_language_model(model)
  queries = data / 'queries.jsonl'
  queries.write_text(queries.read_text().rstrip())  # Its last line ends so.
  said = run_script(
      'language_model', 'tune', tmp_path / 'writer', model, f'{data}:train',
      '--steps=30', '--batch=8', '--learning_rate=0.01')
  losses = [float(line.split()[-1]) for line in said.splitlines()]
  assert len(losses) == 30 and np.mean(losses[-5:]) < np.mean(losses[:5]) - 1
  out, tested = tmp_path / 'out', judged(data, 'test')
  for name in ('corpus.jsonl', 'queries.jsonl', 'qrels/test.tsv'):
    zip_file(data / name)
  run_script('language_model', 'write', out, tmp_path / 'writer', data,
             '--passages=20', '--keep', 'test')
  source = beir.Beir(out, records.InvalidRecords(skip=False))
  assert {j.query_id for j in source.judgements('test')} == tested
  texts = {q.id: q.text for q in source.queries()}
  written = list(source.judgements('written'))
  assert 15 <= len({j.passage_id for j in written}) == len(written) <= 20
  assert set(' '.join(texts[j.query_id] for j in written).split()) <= {
      *tiny.WORDS}


def test_a_language_model_refuses(tmp_path, monkeypatch, capsys):
  data, model, out = tmp_path / 'data', tmp_path / 'model', tmp_path / 'out'
  tiny.write_beir(data)
  write_language_model(model)
  (out / 'mine').mkdir(parents=True)
  fresh, gone = tmp_path / 'fresh', tmp_path / 'gone'
  capsys.readouterr()
  for arguments, told in (
      (('tune', out, model, f'{data}:train'), 'is there already'),
      (('tune', fresh, gone, f'{data}:train'), f'{gone}: no such model'),
      (('tune', fresh, model, f'{data}:dev'), "no split 'dev'; there are"),
      (('write', fresh, model, data, '--keep', 'dev'), "no split 'dev'"),
      (('write', fresh, model, gone), 'corpus.jsonl'),
  ):
    monkeypatch.setattr(sys, 'argv', ['-', *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
      runpy.run_path(str(STUDIES / 'language_model.py'), run_name='__main__')
    said = capsys.readouterr().err
    assert stop.value.code == 2 and told in said and said.count('\n') == 1
  assert list(out.iterdir()) == [out / 'mine'] and not fresh.exists()


def test_documents_are_set_apart(tmp_path):
  tiny.write_beir(tmp_path / 'data')
  parts = tmp_path / 'parts'
  run_script('split_beir', parts, tmp_path / 'data', '--split=train',
             '--documents', 'test=0.3', 'train=0.7')
  documents = [{name.split('-')[0] for name in judged(parts, split)}
               for split in ('train', 'test')]
  assert all(documents) and not documents[0] & documents[1]
  assert len(documents[0] | documents[1]) == 9


def test_revisions_of_passages_are_positives_that_nobody_judged(tmp_path):
  data = tmp_path / 'data'
  (data / 'qrels').mkdir(parents=True)
  texts = {'a': 'Cats sleep. Dogs bark. Birds sing.', 'b': 'One alone.',
           'c': 'It rains. It snows.'}
  (data / 'corpus.jsonl').write_text(''.join(
      json.dumps({'_id': name, 'title': 'T', 'text': text}) + '\n'
      for name, text in texts.items()))
  answers = {'q1': 'sleep', 'q2': 'bark', 'q3': 'sing', 'q4': 'alone',
             'q5': 'rains', 'q6': 'snows'}
  (data / 'queries.jsonl').write_text(''.join(
      json.dumps({'_id': name, 'text': f'{name}?', 'answers': [answer]}) + '\n'
      for name, answer in answers.items()))
  judged = {'train': ['q1 a', 'q2 a', 'q3 a', 'q4 b'], 'test': ['q5 c', 'q6 c']}
  for split, pairs in judged.items():
    (data / 'qrels' / f'{split}.tsv').write_text(
        'query-id\tcorpus-id\tscore\n' + ''.join(
            '\t'.join(pair.split()) + '\t1\n' for pair in pairs))
  said = run_script('revise_beir', tmp_path / 'out', data)
  assert said.startswith('2 revisions of 3 passages; 2 of 4 queries of train')
  corpus = {row['_id']: row['text'] for row in map(
      json.loads, (tmp_path / 'out' / 'corpus.jsonl').read_text().splitlines())}
  assert sorted(corpus) == ['a', 'a~', 'b', 'c', 'c~']
  assert [len(corpus[name].split('. ')) for name in ('a~', 'c~')] == [2, 1]
  positives = lambda path: {tuple(line.split('\t')[:2]) for line in
                            path.read_text().splitlines()[1:]}
  expected = lambda name: {
      (query, f'{name}~') for query, answer in answers.items()
      if answer in corpus[f'{name}~']}
  hidden = positives(tmp_path / 'out' / 'hidden.tsv')
  assert hidden == expected('a') and len(hidden) == 2
  assert not (tmp_path / 'out' / 'qrels' / 'hidden.tsv').exists()
  assert positives(tmp_path / 'out' / 'qrels' / 'test.tsv') == expected('c') | {
      ('q5', 'c'), ('q6', 'c')}
  run_script('revise_beir', tmp_path / 'known', data, '--known')
  assert positives(tmp_path / 'known' / 'qrels' / 'hidden.tsv') == hidden
  assert (tmp_path / 'known' / 'corpus.jsonl').read_bytes() == (
      tmp_path / 'out' / 'corpus.jsonl').read_bytes()


def test_hidden_judgements_are_counted_in_pools(tmp_path):
  tiny.write_beir(tmp_path / 'data')
  with (tmp_path / 'data' / 'qrels' / 'train.tsv').open('a') as file:
    for d in range(12):  # Second positives, where there is none.
      if d % 4 != 3:
        file.writelines(f'q{d}-{n}\td{(d + 1) % 12}p{(n + 1) % 4}\t1\n'
                        for n in range(4))
  less = tmp_path / 'less'
  said = run_script('split_beir', less, tmp_path / 'data', '--split=train',
                    '--hide=0.4', '--keep=test')
  rows = lambda path: {tuple(line.split('\t')) for line in
                       path.read_text().splitlines()[1:]}
  whole, left, hidden = map(rows, (
      tmp_path / 'data' / 'qrels' / 'train.tsv', less / 'qrels' / 'train.tsv',
      less / 'hidden.tsv'))
  assert left | hidden == whole and not left & hidden
  assert {grade for *_, grade in hidden} == {'1'}
  kept = {query for query, _, grade in left if grade == '1'}
  unjudged = (less / 'unjudged.jsonl').read_text().splitlines()
  assert 0 < len(unjudged) == len({query for query, *_ in hidden} - kept)
  assert said.startswith(f'{len(hidden)} of 72 positives')

  config = tiny.make_config(
      tmp_path, data__source=f'beir:{less}', job='mine', negatives__depth=60,
      negatives__sources=('bm25:2',), negatives__pool_size=3,
      negatives__drop_answers=(),
      negatives__mined_dir=str(tmp_path / 'mined'))
  tiny.run(mine.MineJob, config, tmp_path / 'mine')
  with (less / 'hidden.tsv').open('a') as file:
    file.write('nobody\td0p0\t1\n')  # No judgement of it is left.
  table = run_script('hidden', less, tmp_path / 'mine' / 'pool').splitlines()
  *cells, estimated = [cell.strip() for cell in table[-1].split('|')[2:-1]]
  assert not estimated  # Nobody has judged this pool.
  cells = [cell.split(' of ') for cell in cells]
  pool = pool_lib.read(tmp_path / 'mine' / 'pool')
  names = dataset.Dataset(config_lib.parse(config).data).prepared
  found, drawn = set(), set()
  for line, query in enumerate(pool.query_rows):
    for row, code in zip(pool.rows[line], pool.dropped_by[line], strict=True):
      if row < 0:
        continue
      pair = (names.query_ids[query].decode(), names.passage_ids[row].decode())
      if (*pair, '1') in hidden:
        found.add(pair)
        if not code:
          drawn.add(pair)
  assert 0 < len(drawn) < len(found)
  assert [int(first) for first, _ in cells] == [
      len(found), len(drawn), len(found) - len(drawn), 0]
  assert int(cells[1][1]) == pool.is_negative().sum()

  is_known = pool.dropped_by == pool_lib.code('positive')
  scores = np.random.default_rng(0).normal(is_known).astype(np.float32)
  scores[1], scores[pool.rows < 0] = np.nan, np.nan  # Not judged.
  is_judged = np.isfinite(scores)
  believed = label_share.fit(scores[is_judged], is_known[is_judged]).believed(
      scores[is_judged & ~is_known])
  estimate = runpy.run_path(str(STUDIES / 'hidden.py'))['estimate']
  assert estimate(dataclasses.replace(pool, verdicts=verdicts.Verdicts(
      scores, scores, pool.rows[:, :1], scores[:, :1], {})
  )) == f'{believed.sum():,.0f}' != '0'


def test_hubs_and_the_age_of_negatives(tmp_path):
  folder = tmp_path / 'hard-seed0' / 'evaluation' / 'data-dev-trained'
  folder.mkdir(parents=True)
  trec.write_run(folder / 'run.trec', {
      'q1': [('hub', 2.0), ('a', 1.0)], 'q2': [('hub', 2.0)],
      'q3': [('b', 2.0), ('hub', 1.0)], 'q4': [('hub', 3.0), ('c', 1.0)],
  }, 'trained')
  for number, start in enumerate((0, 4)):
    drawn = tmp_path / 'hard-seed0' / 'sampled' / f'{number:05}'
    drawn.mkdir(parents=True)
    (drawn / 'manifest.json').write_text(json.dumps({'step': start}))
  (tmp_path / 'hard-seed0' / 'log.jsonl').write_text(''.join(
      json.dumps({'step': step, 'step_seconds': step / 4,
                  'contrast': {'hard': {'accuracy': solved}}}) + '\n'
      for step, solved in enumerate((0, .3, .6, .9, .6, .9, .9, 1), start=1)
  ) + json.dumps({'step': 5, 'refresh': {
      'passages': 9, 'seconds': {'encoding': 2, 'searching': 1.5},
  }}) + '\n')
  expected = '| hard-seed0 | 0.750 | 4 | 2 | 0.55 | 0.77 | 1.12 | 3.50 |'
  table = run_script('hubs', tmp_path / 'hard-seed0').splitlines()
  assert table[-1] == expected
  # The same of a pool that was made again after step 4.
  shutil.rmtree(tmp_path / 'hard-seed0' / 'sampled')
  (tmp_path / 'hard-seed0' / 'refreshed' / '0000004').mkdir(parents=True)
  log = tmp_path / 'hard-seed0' / 'log.jsonl'
  log.write_text(log.read_text().replace('"hard"', '"model"'))
  table = run_script('hubs', tmp_path / 'hard-seed0').splitlines()
  assert table[-1] == expected


def test_what_stands_first(tmp_path):
  data = tmp_path / 'data'
  (data / 'qrels').mkdir(parents=True)
  passages = [('a', 'Gout', '1'), ('b', 'gout', '2'), ('c', 'Gout!', None),
              ('d', 'Flu', '2'), ('e', '', None), ('f', '', None)]
  (data / 'corpus.jsonl').write_text(''.join(
      json.dumps({'_id': name, 'title': title, 'text': f'text {name}',
                  'metadata': {'document_id': document}}) + '\n'
      for name, title, document in passages))
  questions = {'q1': 'What is Gout?', 'q2': 'what is gout', 'q3': 'Causes?',
               'q4': 'Which?'}
  (data / 'queries.jsonl').write_text(''.join(
      json.dumps({'_id': name, 'text': text}) + '\n'
      for name, text in questions.items()))
  head = 'query-id\tcorpus-id\tscore\n'
  (data / 'qrels' / 'test.tsv').write_text(
      head + 'q1\ta\t1\nq3\tb\t1\nq3\te\t0\nq4\te\t1\n')
  (data / 'qrels' / 'train.tsv').write_text(head + 'q2\tb\t1\n')
  firsts = {  # One that is judged not to answer is no positive.
      'right': ('a', 'b', 'e'), 'asked': ('b', 'b', 'e'),
      'subject': ('c', 'd', 'e'), 'other': ('d', 'e', 'f'),
  }
  for name, first in firsts.items():
    folder = tmp_path / name / 'evaluation' / 'data-test-trained'
    folder.mkdir(parents=True)
    trec.write_run(folder / 'run.trec', {
        query: [(passage, 1.0)]
        for query, passage in zip(('q1', 'q3', 'q4'), first, strict=True)
    }, 'trained')
  table = run_script('first_passages', data, 'test',
                     *(tmp_path / name for name in firsts)).splitlines()
  assert table[2:] == [
      '| right | 1.000 | 0.000 | 0.000 | 0.000 |',
      '| asked | 0.667 | 0.333 | 0.000 | 0.000 |',
      '| subject | 0.333 | 0.000 | 0.667 | 0.000 |',
      '| other | 0.000 | 0.000 | 0.000 | 1.000 |',
  ]
  renamed = tmp_path / 'right' / 'evaluation' / 'data-train-trained'
  (renamed.parent / 'data-test-trained').rename(renamed)
  for split, reason in (
      ('train', 'right/evaluation/data-train-trained/run.trec: query q1 has no '
                'positive in the split'),
      ('test', 'right: has no evaluation/*-test-trained/run.trec'),
      ('tune', 'no split "tune"; it has test, train')):
    result = start_script('first_passages', data, split, tmp_path / 'right')
    assert result.returncode == 2 and reason in result.stderr
    assert len(result.stderr.splitlines()) == 1
