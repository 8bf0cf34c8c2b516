"""How many passages are decoded at once, and that it changes no question."""

import numpy as np
import pytest

from neg_contrast import device_memory
from neg_contrast.batches import packing
from neg_contrast.data import sequences, tokenizer
from neg_contrast.models import decoding, generator, question_writer
from neg_contrast.settings import config as config_lib
from tests.models import test_t5

PASSAGE_LENGTH, SOURCES = 20, 70


class Numbers(tokenizer.Seq2SeqTokenizer):
  """Its tokens are numbers."""

  def __init__(self):
    """Needs no file."""

  def encode_batch(self, texts):
    return [[] for _ in texts]

  def decode_batch(self, ids):
    return [' '.join(map(str, row)) for row in ids]


def make_writer(batch_passages):
  config, params = test_t5.random_t5()
  text = generator.TextSpec(PASSAGE_LENGTH, 8, '', False)
  model = generator.Generator(config, text, Numbers(), params, 'test', 'test')
  writer = question_writer.QuestionWriter(
      model, config_lib.ModelConfig(),
      decoding.Decoding('greedy', max_tokens=8), batch_passages, seed=0,
  )
  return writer, writer.put(params)


def make_sources():
  rng = np.random.default_rng(0)
  return sequences.listed(
      rng.integers(2, 41, n).astype(np.int32)
      for n in rng.integers(1, PASSAGE_LENGTH + 1, SOURCES)
  )


def write(batch_passages):
  """Questions by number, and how many sources each batch had."""
  writer, params = make_writer(batch_passages)
  found, sizes = {}, []
  for written in writer(params, make_sources(), range(SOURCES)):
    found |= dict(zip(written.numbers, written.questions, strict=True))
    sizes.append(len(written.numbers))
  return [found[number] for number in range(SOURCES)], sizes


@pytest.mark.parametrize('limit', [0, 10**5, 1_234_567, 10**9])
def test_the_most_that_fit(limit):
  taken = lambda sources: 50_000 + 3_000 * sources
  fitting = question_writer.that_fit(limit, taken)
  assert packing.round_up_rows(fitting) == fitting >= 1
  assert taken(fitting) <= limit or fitting == 1
  assert taken(packing.round_up_rows(fitting + 1)) > limit


@pytest.mark.parametrize(('most', 'fitting'), [(15, 8), (7, 4), (3, 2), (1, 1)])
def test_where_the_compiler_refuses_fewer_are_tried(most, fitting):
  taken = lambda sources: sources if sources <= most else None
  assert question_writer.that_fit(10**9, taken) == fitting


def test_a_few_are_decoded_at_once_and_nothing_is_tried(monkeypatch):
  monkeypatch.setattr(question_writer, '_is_cpu', lambda mesh: False)
  monkeypatch.setattr(device_memory, 'bytes_of_step', None)
  writer, params = make_writer(0)
  few = make_sources().take(np.arange(3))
  assert [len(written.numbers) for written in writer(params, few, range(3))
          ] == [3]


def test_a_cpu_decodes_64_at_once():
  assert write(0)[1] == [64, 6]


@pytest.mark.parametrize('fitting', [3, 9])
def test_devices_decode_what_they_hold(monkeypatch, fitting):
  """By the compiler's word of programs of a size that was not tried."""
  writer, params = make_writer(0)
  devices = writer._mesh.size
  bytes_of = lambda sources: writer._bytes_of(params, sources)
  a_source = (bytes_of(16) - bytes_of(8)) / 8
  limit = bytes_of(fitting) + a_source / 2
  monkeypatch.setattr(question_writer, '_is_cpu', lambda mesh: False)
  monkeypatch.setattr(device_memory, 'limit', lambda: limit)
  questions, sizes = write(0)
  at_once = min(fitting * devices, SOURCES)
  assert sizes == [at_once] * (SOURCES // at_once) + (
      [SOURCES % at_once] if SOURCES % at_once else []
  )
  assert questions == write(5)[0]


def test_nothing_to_write():
  writer, params = make_writer(0)
  assert not list(writer(params, sequences.listed([]), []))
