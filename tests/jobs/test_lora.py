"""Whole jobs with LoRA: train, resume, evaluate, export, start from it."""

import json
import pathlib
import re
import shutil

import jax
import numpy as np
import pytest
import safetensors.numpy

from neg_contrast import api, errors
from neg_contrast.artifacts import checkpoints, folders, plan
from neg_contrast.jobs import ensemble, train
from neg_contrast.jobs import export as export_job
from neg_contrast.models import (
  adapted,
  by_name,
  exported_model,
  loading,
  peft_folder,
)
from neg_contrast.settings import config as config_lib
from tests import tiny
from tests.jobs.test_train import copied_at, losses_of
from tests.models import test_family_parity

TEXTS = ['word1 word2 word3', 'word7', 'word9 word30 word31 word2']
FEW = {'mesh__data': 1, 'data__groups': 1, 'evaluation__bm25': False,
       'checkpointing__log_steps': 1, 'model__lora_rank': 2}


def make_config(root, **overrides):
  return tiny.make_config(root, **{
      **FEW, 'optim__steps': 4, 'evaluation__eval_steps': 2,
      'checkpointing__save_steps': 2, 'optim__learning_rate': 3e-2,
      'model__projection_dim': 6, **overrides})


def run_training(root, workdir):
  folders.make_folder(workdir)
  config = config_lib.parse(make_config(root))
  plan.run([train.TrainJob(config, workdir).run])


def export(checkpoint, workdir):
  folders.make_folder(workdir)
  job = export_job.ExportJob(config_lib.Config(
      job='export', checkpoint=str(checkpoint)), workdir)
  plan.run(job.targets())
  return job


@pytest.fixture(scope='module')
def root(tmp_path_factory):
  """`model`, its training in `work`, and exports of that in `out`.

  `cut` is a copy of the training at step 2 of 4.
  """
  root = tmp_path_factory.mktemp('lora')
  with copied_at(2, root / 'work', root / 'cut'):
    run_training(root, root / 'work')
  export(root / 'work', root / 'out')
  return root


def leaves_of(folder):
  """Name -> shape, of all arrays of a checkpoint."""
  opened = checkpoints.Checkpoints(folder)
  step = opened.latest_step()
  opened.close()
  found = {}
  for item in ('params', 'optimizer'):
    text = (folder / 'checkpoints' / str(step) / item / '_METADATA').read_text()
    for key in json.loads(text)['tree_metadata']:
      found[item, key] = None
  return found


def test_checkpoints_hold_what_is_trained(root):
  names = {f'{item} {key}' for item, key in leaves_of(root / 'work')}
  kept = {name for name in names if 'lora_a' in name or 'lora_b' in name
          or 'projection' in name}
  assert sum('lora_a' in name for name in kept) == 3 * 2  # And two moments.
  assert not any('embedding' in name or "'kernel'" in name
                 for name in names - kept)
  sizes = [
      size for folder in (root / 'work' / 'checkpoints' / '4').iterdir()
      if folder.name in ('params', 'optimizer')
      for size in [sum(path.stat().st_size for path in folder.rglob('*')
                       if path.is_file())]]
  assert len(sizes) == 2
  # A whole one has two moments of each weight.
  assert max(sizes) < (root / 'model' / 'model.safetensors').stat().st_size


def test_it_learns_and_leaves_the_base_as_it_was(root):
  losses = losses_of(root / 'work')
  assert losses[4] < losses[1]
  before = by_name.load_as_it_comes(str(root / 'model'), 0).params['shared']
  after = by_name.load_workdir(root / 'work').params['shared']
  flat = lambda tree: {jax.tree_util.keystr(path): leaf for path, leaf in
                       jax.tree_util.tree_leaves_with_path(tree['bert'])}
  before, after = flat(before), flat(after)
  changed = {name for name in before
             if not np.array_equal(before[name], after[name])}
  assert changed == {"['layers']['attention']['query']['kernel']",
                     "['layers']['attention']['value']['kernel']"}


def test_resumes_bit_equal(root, tmp_path):
  shutil.copytree(root / 'cut', tmp_path / 'work')
  run_training(root, tmp_path / 'work')
  assert losses_of(tmp_path / 'work') == losses_of(root / 'work')
  jax.tree.map(
      np.testing.assert_array_equal,
      by_name.load_workdir(tmp_path / 'work').params,
      by_name.load_workdir(root / 'work').params)


def test_the_merged_model_is_evaluated(root):
  log = (root / 'work' / 'log.jsonl').read_text().splitlines()
  records = [json.loads(line) for line in log]
  assert [one['step'] for one in records if 'evaluation' in one] == [2, 4]


def test_other_adapters_are_another_run(root):
  for key, value in (('rank', 3), ('alpha', 8.0), ('targets', ('key',))):
    with pytest.raises(errors.UserError, match=f'model.lora_{key}: '):
      tiny.run(train.TrainJob, make_config(
          root, **{f'model__lora_{key}': value}), root / 'work')


def test_a_changed_base_is_refused(root, tmp_path):
  for name in ('model', 'work', 'out'):
    shutil.copytree(root / name, tmp_path / name)
  shutil.rmtree(tmp_path / 'model')
  tiny.write_model(tmp_path / 'model', seed=1)
  with pytest.raises(errors.UserError, match='LoRA adapts .*model as it was '
                     r'\(\w{12}\), and that is another model by now'):
    by_name.load_workdir(tmp_path / 'work')
  shutil.rmtree(tmp_path / 'model')
  path = tmp_path / 'work' / loading.FILE
  saved = json.loads(path.read_text())
  saved.pop('checksum')
  saved['lora']['settings']['init'] = str(tmp_path / 'model')
  folders.write_sealed(path, saved)
  with pytest.raises(errors.UserError, match="can't be read: .*no such model "
                     'folder.*Put it back'):
    by_name.load_workdir(tmp_path / 'work')


def test_a_workdir_moves_with_its_base(root, tmp_path):
  for name in ('model', 'work'):
    shutil.copytree(root / name, tmp_path / name)
  moved = by_name.load_workdir(tmp_path / 'work')
  assert moved.adapted.init == str(tmp_path / 'model')
  assert moved.fingerprint == by_name.load_workdir(root / 'work').fingerprint


def test_the_export_is_merged(root):
  st = pytest.importorskip('sentence_transformers')
  encoder = api.load_encoder(str(root / 'work'))
  theirs = st.SentenceTransformer(str(root / 'out' / 'model'), device='cpu')
  np.testing.assert_allclose(
      encoder.encode_queries(TEXTS), theirs.encode(TEXTS), atol=1e-5)


@pytest.mark.parametrize(('kind', 'target'), [
    ('qwen3', 'q_proj'), ('modernbert', 'Wqkv')])
def test_other_families_are_trained_and_exported(kind, target, tmp_path):
  st = pytest.importorskip('sentence_transformers')
  test_family_parity.write(tmp_path / 'model', kind)
  folders.make_folder(tmp_path / 'work')
  config = config_lib.parse(make_config(
      tmp_path, model__lora_targets=('all',), model__projection_dim=None,
      evaluation__eval_steps=0,
      model__pooling='last' if kind == 'qwen3' else 'mean'))
  plan.run([train.TrainJob(config, tmp_path / 'work').run])
  losses = losses_of(tmp_path / 'work')
  assert losses[4] < losses[1]
  export(tmp_path / 'work', tmp_path / 'out')
  short = TEXTS[:2]  # Bytes are tokens: longer ones are cut as queries.
  encoder = api.load_encoder(str(tmp_path / 'work'))
  theirs = st.SentenceTransformer(str(tmp_path / 'out' / 'model'), device='cpu')
  np.testing.assert_allclose(
      encoder.encode_queries(short), theirs.encode(short), atol=1e-5)
  adapter = tmp_path / 'out' / 'adapter' / 'adapter_config.json'
  assert target in json.loads(adapter.read_text())['target_modules']


def torch_model(root, adapter):
  """The base in transformers, with the formula of peft for its modules."""
  torch = pytest.importorskip('torch')
  transformers = pytest.importorskip('transformers')
  model = transformers.AutoModel.from_pretrained(root / 'model')
  config = json.loads((adapter / 'adapter_config.json').read_text())
  tensors = safetensors.numpy.load_file(adapter / 'adapter_model.safetensors')
  with torch.no_grad():
    for name, module in model.named_modules():
      if any(f'.{name}'.endswith(f'.{one}')
             for one in config['target_modules']):
        a, b = (tensors.pop(f'base_model.model.{name}.lora_{one}.weight')
                for one in 'AB')
        module.weight += torch.tensor(
            config['lora_alpha'] / config['r'] * b @ a)
  assert not tensors
  return model


def test_the_adapters_alone_are_the_export(root):
  config = json.loads((root / 'out/adapter/adapter_config.json').read_text())
  assert config['peft_type'] == 'LORA' and config['r'] == 2
  assert config['target_modules'] == ['query', 'value']
  assert config['base_model_name_or_path'] == str(root / 'model')
  of_adapter = dict(
      torch_model(root, root / 'out/adapter').named_parameters())
  tensors = safetensors.numpy.load_file(root / 'out/model/model.safetensors')
  for name, tensor in tensors.items():
    name = name.removeprefix('bert.')
    if name in of_adapter and 'pooler' not in name:  # Ours has none.
      np.testing.assert_allclose(
          of_adapter[name].detach().numpy(), tensor, atol=1e-5, err_msg=name)
  assert sum('query.weight' in name for name in of_adapter) == 2


def test_an_export_is_made_once_and_damage_is_noticed(root, tmp_path):
  job = export(root / 'work', root / 'out')
  assert all(target.is_made() for target in job.targets())
  shutil.copytree(root / 'out', tmp_path / 'out')
  path = tmp_path / 'out' / 'adapter' / 'adapter_model.safetensors'
  data = bytearray(path.read_bytes())
  data[-1] ^= 1
  path.write_bytes(data)
  with pytest.raises(errors.UserError, match='damaged or changed since'):
    loading.load_towers(str(tmp_path / 'out' / 'adapter'), 0)


def test_a_relative_checkpoint_names_its_base_for_any_folder(
    root, tmp_path, monkeypatch
):
  monkeypatch.chdir(root)
  export('work', tmp_path / 'out')
  path = tmp_path / 'out' / 'adapter' / 'adapter_config.json'
  config = json.loads(path.read_text())
  assert config['base_model_name_or_path'] == str(root / 'model')


def test_members_of_an_ensemble_have_their_weights(root, tmp_path, capsys):
  """Of a member with LoRA there are two folders, and one weight."""
  config = make_config(
      root, job='ensemble', ensemble__members=(str(root / 'work'),
                                               str(root / 'model')),
      ensemble__weights=(0.1, 0.9), model__projection_dim=None,
      model__lora_rank=0)
  tiny.run(ensemble.EnsembleJob, config, tmp_path / 'ensemble')
  capsys.readouterr()
  job = export(tmp_path / 'ensemble', tmp_path / 'out')
  job.finish()
  lines = capsys.readouterr().out.splitlines()
  weights = [number for number, line in enumerate(lines)
             if line.startswith('weight of its scores')]
  assert [lines[number][-3:] for number in weights] == ['0.1', '0.9']
  above = [' '.join(lines[:number]) for number in weights]
  assert 'out/model/model' in above[1].replace(above[0], '')
  assert 'out/work/model' in above[0] and 'adapter' not in above[0]


def test_a_peft_folder_is_a_start(root, tmp_path):
  """Base and adapters; LoRA may be trained on top of it."""
  start = loading.load_towers(str(root / 'out' / 'adapter'), 0)['shared']
  after = by_name.load_workdir(root / 'work')
  jax.tree.map(lambda ours, theirs: np.testing.assert_allclose(
      ours, theirs, atol=1e-6), start.params, after.params['shared']['bert'])
  tiny.train_only(root, tmp_path / 'work', **{
      **FEW, 'model__init': str(root / 'out' / 'adapter'), 'optim__steps': 1})
  again = by_name.load_workdir(tmp_path / 'work')
  assert adapted.base_of(again) == str(root / 'out' / 'adapter')


APART = {**FEW, 'model__shared': False, 'model__lora_targets': ('all',),
         'negatives__sources': ('given:2', 'queue:16'), 'data__groups': 4,
         'negatives__momentum': 0.9, 'optim__ema': 0.5, 'optim__steps': 3,
         'optim__learning_rate': 3e-3}


@pytest.fixture(scope='module')
def apart(root):
  """A training of two towers with a queue, averages and all kernels."""
  tiny.train_only(root, root / 'apart', **APART)
  return root / 'apart'


def test_any_mesh_gives_the_same_losses(root, apart, tmp_path):
  """Split parameters, a gradient cache, remat and unrolled layers, too."""
  tiny.train_only(root, tmp_path, **{
      **APART, 'mesh__data': 2, 'mesh__model': 2, 'mesh__fsdp': True,
      'model__chunk_groups': 2, 'model__remat': 'full',
      'model__scan_unroll': 2})
  want, got = losses_of(apart), losses_of(tmp_path)
  assert want.keys() == got.keys() and want[3] != want[1]
  for step, value in want.items():
    assert abs(got[step] - value) <= 1e-5 * max(1, value), step


def test_towers_apart_are_exported_apart(apart, tmp_path):
  job = export(apart, tmp_path)
  made, = (one for one in job.targets()
           if isinstance(one, exported_model.ExportedAdapter))
  named = re.findall(r"'([^']*)'\)$", made.usage(), re.MULTILINE)
  assert sorted(named) == [
      str(tmp_path / 'adapter' / role) for role in ('passage', 'query')]
  whole = by_name.load_workdir(apart)
  towers = loading.load_towers(str(tmp_path / 'adapter'), 0)
  assert sorted(towers) == ['passage', 'query']
  for name, tower in towers.items():
    jax.tree.map(lambda ours, theirs: np.testing.assert_allclose(
        ours, theirs, atol=1e-6), tower.params, whole.params[name]['bert'])
  different = jax.tree.map(np.array_equal, towers['query'].params,
                           towers['passage'].params)
  assert not all(jax.tree.leaves(different))


def test_a_frozen_tower_has_no_adapters(root, tmp_path):
  tiny.train_only(root, tmp_path / 'work', **{
      **FEW, 'model__shared': False, 'model__freeze': 'passage',
      'model__lora_frozen_dtype': 'bfloat16', 'optim__steps': 2})
  export(tmp_path / 'work', tmp_path / 'out')
  assert [path.name for path in (tmp_path / 'out' / 'adapter').iterdir()
          if path.is_dir()] == ['query']
  tower = loading.load_towers(str(tmp_path / 'out' / 'adapter'), 0)['passage']
  base = loading.load_towers(str(root / 'model'), 0)['shared']
  jax.tree.map(np.testing.assert_array_equal, tower.params, base.params)


@pytest.fixture
def adapter(root, tmp_path):
  """A copy of an adapter folder as peft writes it: without our manifest."""
  folder = tmp_path / 'adapter'
  folder.mkdir()
  for name in (peft_folder.CONFIG_FILE, peft_folder.TENSORS_FILE):
    shutil.copy(root / 'out' / 'adapter' / name, folder)
  return folder


def change_config(folder: pathlib.Path, **values):
  path = folder / peft_folder.CONFIG_FILE
  path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


@pytest.mark.parametrize(('values', 'message'), [
    ({'peft_type': 'IA3'}, 'peft_type is not "LORA"'),
    ({'use_dora': True}, 'use_dora=true is not supported'),
    ({'base_model_name_or_path': None}, "'base_model_name_or_path' is missing"),
    ({'base_model_name_or_path': '/no/such'}, 'adapters are for /no/such, which'
     " can't be read: /no/such: no such model folder"),
])
def test_adapters_that_are_refused(adapter, values, message):
  change_config(adapter, **values)
  with pytest.raises(errors.UserError, match=message):
    loading.load_towers(str(adapter), 0)


def test_adapters_of_another_base_are_refused(adapter, tmp_path):
  load = lambda: loading.load_towers(str(adapter), 0)
  change_config(adapter, base_model_name_or_path=str(adapter))
  with pytest.raises(errors.UserError, match='is this folder itself'):
    load()
  for number, (shape, message) in enumerate((
      ({'hidden_size': 24, 'num_heads': 4}, 'does not fit a layer of'),
      ({'num_layers': 1}, 'no LoRA of a layer of this model'),
      ({}, 'trained on other weights than those of'))):
    tiny.write_model(tmp_path / str(number), seed=3, **shape)
    change_config(
        adapter, base_model_name_or_path=str(tmp_path / str(number)))
    with pytest.raises(errors.UserError, match=message):
      load()
  (adapter / peft_folder.TENSORS_FILE).write_bytes(b'no')
  with pytest.raises(errors.UserError, match='not a safetensors file'):
    load()


def test_settings_that_are_refused(root, tmp_path):
  for overrides, message in (
      ({'model__lora_rank': -1}, 'lora_rank'),
      ({'model__lora_rank': 0, 'model__lora_alpha': 8.0},
       'lora_alpha=8.0: needs model.lora_rank'),
      ({'model__lora_targets': ()}, 'lora_targets.*names nothing to adapt'),
      ({'model__lora_targets': ('q_proj',)},
       'lora_targets.*matches no kernel .*it has layers/attention/key, '),
      ({'model__lora_rank': 17}, 'lora_rank.*above 16'),
  ):
    with pytest.raises(errors.UserError, match=message):
      tiny.train_only(root, tmp_path / 'work', **{
          **FEW, 'optim__steps': 1, **overrides})
