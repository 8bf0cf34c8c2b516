"""Damaged files of models: an error that names the file, never a traceback.

What we write has checksums, so that no damage may be silent. Folders of others
have none: there a changed value may be another model, but never a traceback.
"""

import functools
import json
import pathlib

import jax
import numpy as np
import pytest
from safetensors.numpy import save_file

from neg_contrast import errors
from neg_contrast.data import tokenizer as tokenizer_lib
from neg_contrast.models import (
  cross_encoder,
  exported_model,
  exporting,
  generator,
  given,
  loading,
  pretrained,
  reranker,
  t5,
  t5_config,
  t5_pretrained,
  tensor_files,
  text_spec,
)
from neg_contrast.settings import config as config_lib
from tests import tiny
from tests.models import damages, test_exporting

T5 = t5_config.T5Config(
    vocab_size=41, d_model=8, d_kv=2, d_ff=6, num_layers=1,
    num_decoder_layers=1, num_heads=2, relative_buckets=4,
    relative_max_distance=9,
)


def try_all(path, variants, read, is_same=None):
  """How many damages were refused, silent, and of which the file was not named.

  Args:
    path: of the file; restored in the end.
    variants: (name, damaged bytes).
    read: reads the model.
    is_same: result of `read` -> whether it is as it was; None: another result
      is no fault.
  """
  whole = path.read_bytes()
  count, faults = 0, []
  for name, data in variants:
    if data == whole:
      continue
    path.write_bytes(data)
    count += 1
    try:
      result = read()
    except errors.UserError as e:
      # The folder, if the file is one of two that do not go together.
      if str(path) not in str(e) and str(path.parent) not in str(e):
        faults.append(f'{path.name}: {name}: {e}')
      if '\n' in str(e):
        faults.append(f'{path.name}: {name}: several lines: {e}')
    except BaseException as e:  # Rust panics are no Exceptions.
      faults.append(f'{path.name}: {name}: {type(e).__name__}: {e}'[:300])
    else:
      if is_same is not None and not is_same(result):
        faults.append(f'{path.name}: {name}: silent')
  path.write_bytes(whole)
  return count, faults


def described(kind, workdir):
  """Writes a workdir without checkpoints; returns what reads it."""
  tiny.write_tokenizer(workdir / 'source')
  load = (tokenizer_lib.load_seq2seq_tokenizer if kind == 'generator'
          else tokenizer_lib.load_tokenizer)
  tokenizer = load(str(workdir / 'source'))
  text = text_spec.TextSpec(9, 14, mention_start='[X]')
  spec = cross_encoder.CrossEncoderSpec(tiny.bert_config(vocab_size=65))
  module, model = {
      'encoder': lambda: (loading, test_exporting.make_model(workdir / 'x')),
      'generator': lambda: (generator, generator.Generator(
          T5, generator.TextSpec(9, 8, 'ask: ', True), tokenizer, {}, 'n', 'f'
      )),
      'reranker': lambda: (reranker, reranker.Reranker(
          spec, text, tokenizer, {}, 'n', 'f'
      )),
  }[kind]()
  module.save_description(model, workdir)

  def read():
    made = module.from_workdir(workdir, lambda like: ({}, ''), 'name')
    return made.fingerprint

  return workdir / module.FILE, read


@pytest.mark.parametrize('kind', ['encoder', 'generator', 'reranker'])
def test_descriptions_of_workdirs(tmp_path, kind):
  path, read = described(kind, tmp_path)
  before = read()
  is_same = lambda fingerprint: fingerprint == before
  data = path.read_bytes()
  swapped = data.replace(b'cls', b'mean').replace(b'"ask: "', b'"ask; "')
  count, faults = try_all(path, [
      *damages.of_bytes(data, 0), ('another value', swapped),
      *list(damages.of_object(data, 1))[::4],
  ], read, is_same)
  path = tmp_path / 'tokenizer' / 'tokenizer.json'
  more, others = try_all(
      path, damages.of_bytes(path.read_bytes(), 2), read, is_same
  )
  assert faults + others == []
  assert min(count, more) >= 20
  assert read() == before


def test_a_description_of_an_older_revision(tmp_path):
  path, read = described('encoder', tmp_path)
  values = json.loads(path.read_text())
  del values['checksum']
  path.write_text(json.dumps(values))
  with pytest.raises(errors.UserError, match='no checksum.*train again'):
    read()
  path.unlink()
  with pytest.raises(errors.UserError, match='no such file.*train again'):
    read()


def test_exported_folders(tmp_path):
  made = exported_model.ExportedModel(
      given.Checkpoint(str(by_others(tmp_path / 'others'))), tmp_path)
  made.build()
  folder = made.folder
  read = lambda: loading.from_pretrained(
      str(folder), config_lib.ModelConfig(init=str(folder)), 0).fingerprint
  before = read()
  total = 0
  for number, path in enumerate(sorted(folder.rglob('*'))):
    if path.is_dir() or path.name == 'README.md':
      continue
    count, faults = try_all(
        path, damages.of_bytes(path.read_bytes(), number), read,
        lambda fingerprint: fingerprint == before)
    assert faults == []
    assert count >= 10
    total += count
  assert total >= 200
  (folder / 'README.md').write_text('People edit cards.')
  assert made.is_made() and read() == before
  (folder / 'config.json').write_text('{}')
  with pytest.raises(errors.UserError, match='Remove .*; the same command'):
    made.is_made()


def by_others(folder):
  """A sentence-transformers folder without a manifest."""
  model = test_exporting.make_model(folder, 'projection')
  exporting.write_model(model, _made(folder / 'out'), 'A card.')
  return folder / 'out'


def _made(folder: pathlib.Path) -> pathlib.Path:
  folder.mkdir()
  return folder


READ_BY_US = ('config.json', 'modules.json', '1_Pooling/config.json',
              '2_Dense/config.json', 'sentence_bert_config.json',
              'config_sentence_transformers.json', 'tokenizer.json')


@pytest.mark.parametrize('name', READ_BY_US)
def test_folders_of_others(tmp_path, name):
  folder = by_others(tmp_path)
  read = lambda: loading.from_pretrained(
      str(folder), config_lib.ModelConfig(init=str(folder)), 0)
  path = folder / name
  data = path.read_bytes()
  variants = list(damages.of_bytes(data, 3))
  if isinstance(json.loads(data), dict) and name != 'tokenizer.json':
    variants += damages.of_object(data, 4)
  count, faults = try_all(path, variants, read)
  assert faults == []
  assert count >= 20


def test_safetensors_with_a_damaged_header(tmp_path):
  folder = by_others(tmp_path)
  read = lambda: pretrained.load_towers(str(folder))
  for path in (folder / 'model.safetensors',
               folder / '2_Dense' / 'model.safetensors'):
    data = path.read_bytes()
    size = 8 + int.from_bytes(data[:8], 'little')
    variants = [
        (name, header + data[size:]) for name, header
        in damages.of_bytes(data[:size], 5, 60)
    ] + list(damages.of_bytes(data, 6, 0))
    count, faults = try_all(path, variants, read)
    assert faults == []
    assert count >= 20


def test_an_index_of_several_files(tmp_path):
  tiny.write_model(tmp_path)
  (tmp_path / 'model.safetensors').rename(tmp_path / 'a.safetensors')
  path = tmp_path / 'model.safetensors.index.json'
  path.write_text(json.dumps({
      'metadata': {'total_size': 1}, 'weight_map': {'x': 'a.safetensors'}}))
  read = lambda: pretrained.load_towers(str(tmp_path))
  assert read()['shared'].transformer.hidden_size == 16
  count, faults = try_all(path, [
      *damages.of_bytes(path.read_bytes(), 7, 10),
      *damages.of_object(path.read_bytes(), 8),
      ('a number', b'{"weight_map": {"x": 3}}'),
      ('none', b'{"weight_map": {}}'),
  ], read)
  assert faults == []
  assert count >= 20


def test_weights_of_integers_are_refused(tmp_path):
  tiny.write_model(tmp_path)
  path = tmp_path / 'model.safetensors'
  tensors = pretrained.tensor_files.read_tensors(tmp_path)
  name = 'embeddings.LayerNorm.weight'
  save_file({**tensors, name: tensors[name].view(np.int32)}, path)
  with pytest.raises(errors.UserError, match='is of int32, and weights are'):
    pretrained.load_towers(str(tmp_path))


@pytest.mark.parametrize('name', ['config.json', 'generation_config.json'])
def test_t5_folders_of_others(tmp_path, name, monkeypatch):
  monkeypatch.setattr(t5, 'shape_of', functools.cache(t5.shape_of))
  rng = np.random.default_rng(0)
  params = jax.tree.map(
      lambda a: rng.normal(size=a.shape).astype(np.float32), t5.shape_of(T5))
  t5_pretrained.export_t5(tmp_path, T5, params)
  tiny.write_tokenizer(tmp_path)
  read = lambda: pretrained.load_t5(str(tmp_path))
  path = tmp_path / name
  data = path.read_bytes()
  variants = [*damages.of_bytes(data, 9, 10),
              *list(damages.of_object(data, 10))[::2]]
  count, faults = try_all(path, variants, read)
  assert faults == []
  assert count >= 20


@pytest.mark.parametrize('value', [np.nan, np.inf])
def test_weights_that_are_not_finite_are_refused(tmp_path, value):
  tiny.make_config(tmp_path)
  tensors = tensor_files.read_tensors(tmp_path / 'model')
  name = sorted(tensors)[0]
  tensors[name] = tensors[name].copy()
  tensors[name].flat[3] = value
  save_file(tensors, tmp_path / 'model' / 'model.safetensors')
  with pytest.raises(errors.UserError, match=f'{name} holds values that are'):
    pretrained.load_towers(str(tmp_path / 'model'))
