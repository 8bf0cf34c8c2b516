"""`--compile_only`: what is told is what the compiler says."""

import dataclasses
import re

import pytest

from neg_contrast import errors
from neg_contrast.jobs.common import settings_of_rooms
from neg_contrast.settings import config as config_lib
from neg_contrast.training import compile_report

SLICE = 'v3:2x2'


def make_config(**overrides):
  config = config_lib.base_config()
  config.data.source = 'beir:not/there'
  config.data.batch_size, config.data.groups = 32, 8
  config.data.expected_passage_tokens = 30
  config.model.init = 'bert-tiny'
  config.model.remat = 'attention'
  config.model.query_length, config.model.passage_length = 16, 64
  config.negatives.sources = ('bm25:2',)
  for key, value in overrides.items():
    config.update_from_flattened_dict({key.replace('__', '.'): value})
  return config_lib.parse(config)


def report(config, topology):
  return compile_report.report(
      config.job, settings_of_rooms.training(config), topology
  )


def shares(text):
  """Subject -> part of the bytes that move."""
  found = {}
  lines = text.partition('communication')[2].splitlines()[1:]
  for line in lines:
    what, part = re.match(r'  ([a-z ]+), .*\(([\d.]+)%\)', line).groups()
    found[what] = found.get(what, 0) + float(part) / 100
  return found


@pytest.fixture(scope='module')
def libtpu():
  pytest.importorskip('libtpu')
  compile_report.prepare(SLICE)


@pytest.fixture(scope='module')
def of_a_retriever(libtpu):
  return report(make_config(), SLICE)


def test_a_retriever_on_a_slice(of_a_retriever):
  text = of_a_retriever
  assert '8 x TPU v3, mesh' in text
  moved = shares(text)
  assert moved.keys() <= {'gradients', 'embeddings', 'other'}
  assert moved['gradients'] + moved['embeddings'] > 0.98, text
  memory = re.search(r'memory of a device: ([\d.]+) GiB of 16.0', text)
  assert 0.01 < float(memory[1]) < 16
  # 32 queries of 12 tokens and 96 passages of 30.
  useful, processed = re.search(r'([\d,]+) of ([\d,]+) tokens', text).groups()
  useful, processed = (int(n.replace(',', '')) for n in (useful, processed))
  assert useful == pytest.approx(32 * 12 + 96 * 30, rel=0.02)
  assert useful < processed < 32 * 16 + 96 * 64
  floor = re.search(r'floor: [\d.]+ useful TFLOP / 61.5 TFLOP/s = ([\d.]+)',
                    text)
  assert floor is not None


def test_a_queue_moves_nothing_but_its_scores_embeddings(of_a_retriever):
  """A momentum encoder, 64 passages of the queue, 16 of the corpus."""
  text = report(make_config(
      negatives__sources=('bm25:2', 'queue:64', 'shared_corpus:16'),
      negatives__momentum=0.9,
      optim__ema=0.9,
  ), SLICE)
  moved = shares(text)
  assert moved['gradients'] + moved['embeddings'] > 0.95, text
  useful = lambda text: int(re.search(
      r'([\d,]+) of [\d,]+ tokens', text)[1].replace(',', ''))
  added = useful(text) - useful(of_a_retriever)
  assert added == pytest.approx(16 * 30, rel=0.1)


def test_hidden_states_are_told_of_where_they_move(libtpu):
  config = make_config(mesh__model=2, mesh__data=4)
  moved = shares(report(config, SLICE))
  assert moved['hidden states'] > 0.1


def test_a_generator_on_this_machine():
  config = make_config(
      job='train_generator', model__init='t5-tiny',
      negatives__sources=(),
  )
  text = report(config, '')
  assert '8 x cpu' in text and 't5-tiny' in text
  assert 'hidden states' not in shares(text)


def test_a_reranker_on_this_machine():
  config = make_config(
      job='train_reranker', mesh__data=1, data__groups=2, data__batch_size=4,
  )
  text = report(config, '')
  assert 'bert-tiny' in text
  # 4 queries of 12 tokens, each with 3 passages of 30 less their [CLS].
  useful, processed = re.search(r'([\d,]+) of ([\d,]+) tokens', text).groups()
  useful, processed = (int(n.replace(',', '')) for n in (useful, processed))
  assert useful == pytest.approx(4 * 3 * (12 + 30 - 1), rel=0.1)
  assert useful < processed < 4 * 3 * (16 + 64 - 1)
  part = re.search(r'useful [\d.,]+ \(([\d.]+)%\)', text)[1]
  # Products with padding, and with other sequences of a row, come on top.
  assert 0.5 * useful / processed < float(part) / 100 < useful / processed


@pytest.mark.parametrize(('overrides', 'topology', 'message'), [
    ({'job': 'split'}, '', 'job=split: --compile_only is for trainings'),
    ({'model__init': 'org/unknown'}, '', 'shapes are not known'),
    ({'data__groups': 2}, '', 'must be a multiple of the 8'),
    ({}, 'v9:1x1', '--topology=v9:1x1'),
    ({}, 'nonsense', '--topology=nonsense'),
])
def test_mistakes_are_told_with_the_remedy(
    overrides, topology, message, request
):
  if topology:
    request.getfixturevalue('libtpu')
  with pytest.raises(errors.UserError, match=re.escape(message)):
    report(make_config(**overrides), topology)


def test_a_missing_compiler_is_named(monkeypatch):
  monkeypatch.setattr(compile_report.importlib.util, 'find_spec',
                      lambda name: None)
  with pytest.raises(errors.UserError, match='pip install libtpu'):
    report(make_config(), SLICE)


@pytest.mark.parametrize('told', [
    'XLA:TPU compile permanent error. Ran out of memory in memory space hbm. '
    'Used 83.01G of 15.48G hbm. Exceeded hbm capacity',
    'Ran out of memory on HBM, the total memory required for HLO temporaries '
    '(83.01G) exceeds available HBM (15.48G).',
])
def test_what_does_not_fit_comes_with_advice(told):
  told = RuntimeError(f'RESOURCE_EXHAUSTED: {told}')
  for remat, advice in (('none', 'remat=attention'),
                        ('attention', 'remat=full')):
    config = settings_of_rooms.training(make_config())
    config = dataclasses.replace(
        config, model=dataclasses.replace(config.model, remat=remat)
    )
    error = compile_report._explained(told, config)
    assert '83.01GiB of 15.48GiB' in str(error) and advice in str(error)


def test_fused_attention_on_a_slice(libtpu, monkeypatch):
  """A kernel, no attention matrix, and no hidden state that moves."""
  texts = []
  collectives = compile_report.costs.collectives
  monkeypatch.setattr(
      compile_report.costs, 'collectives',
      lambda text: texts.append(text) or collectives(text),
  )
  config = make_config(
      model__attention='flash', model__attention_dropout=0.0,
      model__remat='none', data__row_length=384,
  )
  told = report(config, 'v5e:2x4')
  assert '8 x TPU v5 lite' in told and 'attention Pallas' in told
  assert shares(told).keys() <= {'gradients', 'embeddings', 'other'}
  calls = re.findall(r'custom_call_target="tpu_custom_call"', texts[0])
  assert len(calls) == 2  # Forward and backward, each in a loop over layers.
  assert ',384,384]' not in texts[0]
  dtypes = {dtype for one in collectives(texts[0]) for dtype, _ in one.arrays}
  assert 'f32' in dtypes and 'bf16' not in dtypes  # Nor are gradients rounded.
  with pytest.raises(errors.UserError, match='attention_dropout=0'):
    report(make_config(model__attention='flash'), 'v5e:2x4')
