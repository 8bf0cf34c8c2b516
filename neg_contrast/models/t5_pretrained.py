"""Reads and writes T5 folders as transformers does, without torch."""

import pathlib
from collections.abc import Mapping
from typing import Any

import flax.traverse_util
import numpy as np

from neg_contrast import errors
from neg_contrast.artifacts import folders
from neg_contrast.models import (
  family,
  json_objects,
  t5,
  t5_config,
  tensor_files,
)

_MODEL_CLASS = 'AutoModelForSeq2SeqLM'
_SHARED, _HEAD = 'shared.weight', 'lm_head.weight'
_COPIES = ('encoder.embed_tokens.weight', 'decoder.embed_tokens.weight')
# In old files; no layer uses it.
_UNUSED = 'decoder.block.0.layer.1.EncDecAttention.relative_attention_bias'
# Ours -> key of config.json; what has a default may be missing there.
_KEYS = {
    'vocab_size': 'vocab_size',
    'd_model': 'd_model',
    'd_kv': 'd_kv',
    'd_ff': 'd_ff',
    'num_layers': 'num_layers',
    'num_decoder_layers': 'num_decoder_layers',
    'num_heads': 'num_heads',
    'relative_buckets': 'relative_attention_num_buckets',
    'relative_max_distance': 'relative_attention_max_distance',
    'dropout': 'dropout_rate',
    'layer_norm_eps': 'layer_norm_epsilon',
    'initializer_factor': 'initializer_factor',
    'pad_id': 'pad_token_id',
    'eos_id': 'eos_token_id',
    'decoder_start_id': 'decoder_start_token_id',
    'activation': 'feed_forward_proj',
}
_NEEDED = ('vocab_size', 'd_model', 'd_kv', 'd_ff', 'num_layers', 'num_heads')
_ATTENTION = {'query': 'q', 'key': 'k', 'value': 'v', 'output': 'o'}


def read(
    values: json_objects.JsonObject,
) -> tuple[t5_config.T5Config, dict[str, Any]]:
  """Shapes and parameters of a T5, T5 v1.1, FLAN-T5 or mT5 folder.

  Whether the output matrix is tied, and its input scaled, is decided as in
  transformers 5: tied unless there is another `lm_head.weight`; scaled as
  `scale_decoder_outputs` says, else unless `tie_word_embeddings` is false, but
  never in an mT5.

  Args:
    values: of its config.json; filled up from `generation_config.json`.

  Raises:
    UserError: weights do not fit them, or are not safetensors.
  """
  folder, values = values.path.parent, _with_generation(values)
  tensors = dict(tensor_files.read_tensors(folder, _MODEL_CLASS))
  _merge_copies(tensors, str(folder))
  tensors.pop(_UNUSED + '.weight', None)
  is_tied = values.flag('tie_word_embeddings', True)
  if _HEAD in tensors:
    is_tied = np.array_equal(tensors[_HEAD], tensors[_SHARED])
    if is_tied:
      del tensors[_HEAD]
  config = _make_config(values, is_tied)
  return config, convert_t5(tensors, config, str(folder))


def config_of(values: json_objects.JsonObject) -> t5_config.T5Config:
  """Shapes of a folder, as config.json says whether its matrices are tied.

  Raises:
    UserError: it is not supported.
  """
  values = _with_generation(values)
  return _make_config(values, values.flag('tie_word_embeddings', True))


def _with_generation(
    values: json_objects.JsonObject
) -> json_objects.JsonObject:
  """config.json, filled up from `generation_config.json`."""
  generation = json_objects.read_if_there(
      values.path.parent / 'generation_config.json'
  )
  return json_objects.JsonObject(
      values.path, {**generation.values, **values.values}
  )


def convert_t5(
    tensors: Mapping[str, np.ndarray], config: t5_config.T5Config, source: str
) -> dict[str, Any]:
  """Our parameter tree from the tensors of a `T5ForConditionalGeneration`.

  Args:
    tensors: by their names there.
    config: the shapes they must have.
    source: file name for messages.

  Raises:
    UserError: a tensor is missing, has another shape, or is not of a T5.
  """
  taken = set()

  def take(name: str, shape: tuple[int, ...]) -> np.ndarray:
    taken.add(name)
    return tensor_files.take(tensors, name, shape, source)

  most = len(tensors)
  if max(config.num_layers, config.num_decoder_layers) > most:
    raise errors.UserError(
        f'{source}: config.json asks for {config.num_layers} and '
        f'{config.num_decoder_layers} layers, and there are {most} tensors; '
        'weights and config are of two models'
    )
  params = {}
  shapes = flax.traverse_util.flatten_dict(t5.shape_of(config))
  for path, leaf in shapes.items():
    names, is_matrix = _their_names(path, config)
    shape = leaf.shape[-2:] if is_matrix or 'embedding' in path else (
        leaf.shape[-1:]
    )
    each = [take(name, shape[::-1] if is_matrix else shape) for name in names]
    each = [tensor.T for tensor in each] if is_matrix else each
    params[path] = np.stack(each) if 'layers' in path else each[0]
  extra = sorted(tensors.keys() - taken)
  if extra:
    raise errors.UserError(
        f'{source}: {extra[0]} and {len(extra) - 1} other tensors have no '
        'place in the model that config.json describes; weights and config are '
        'of two models'
    )
  return flax.traverse_util.unflatten_dict(params)


def to_t5_state(
    config: t5_config.T5Config, params: Mapping[str, Any]
) -> dict[str, np.ndarray]:
  """The tensors of a `T5ForConditionalGeneration`: `convert_t5` inverted.

  Args:
    config: of the model.
    params: its tree; gradients do as well.

  Returns:
    Name -> float32, contiguous; matrices are [out, in]. A tied output matrix
    is not repeated.
  """
  state = {}
  for path, leaf in flax.traverse_util.flatten_dict(params).items():
    names, is_matrix = _their_names(path, config)
    leaf = np.asarray(leaf, np.float32)
    each = leaf if 'layers' in path else leaf[None]
    for name, tensor in zip(names, each, strict=True):
      state[name] = np.ascontiguousarray(tensor.T if is_matrix else tensor)
  return state


def export_t5(
    folder: pathlib.Path, config: t5_config.T5Config, params: Mapping[str, Any]
) -> None:
  """Writes configs and weights as transformers reads them, and `load_t5`.

  Args:
    folder: exists.
    config: of the model.
    params: its tree.

  Raises:
    UserError: transformers has no name for the feed-forward block.
    OSError: the disk is full, or the like.
  """
  values = {theirs: getattr(config, ours) for ours, theirs in _KEYS.items()}
  folders.write_json(folder / 'config.json', {
      **values,
      'architectures': ['T5ForConditionalGeneration'],
      'model_type': 't5',
      'is_encoder_decoder': True,
      'feed_forward_proj': feed_forward_name(config.gated, config.activation),
      # Before transformers 5 the first decided both.
      'tie_word_embeddings': config.tie_embeddings,
      'scale_decoder_outputs': config.is_head_scaled,
      'torch_dtype': 'float32',
  })
  folders.write_json(folder / 'generation_config.json', {
      key: values[key]
      for key in ('pad_token_id', 'eos_token_id', 'decoder_start_token_id')
  })
  tensor_files.save(folder, to_t5_state(config, params))


def _make_config(
    values: json_objects.JsonObject, is_tied: bool
) -> t5_config.T5Config:
  for key in _NEEDED:
    values.integer(key)
  is_mt5 = values.text('model_type') == 'mt5'
  fields = {ours: _value(values, ours, theirs)
            for ours, theirs in _KEYS.items() if values.has(theirs)}
  fields.setdefault('num_decoder_layers', fields['num_layers'])
  fields.setdefault('decoder_start_id', fields.get('pad_id', 0))
  gated, fields['activation'] = feed_forward(
      values.path, fields.get('activation', 'gated-gelu' if is_mt5 else 'relu')
  )
  try:
    return t5_config.T5Config(
        **fields,
        gated=gated,
        tie_embeddings=is_tied,
        scale_head=not is_mt5 and values.flag(
            'scale_decoder_outputs', values.flag('tie_word_embeddings', True)
        ),
    )
  except ValueError as e:
    ours, equals, rest = str(e).partition('=')
    raise values.error(f'{_KEYS.get(ours, ours)}{equals}{rest}') from None


def _value(values: json_objects.JsonObject, ours: str, theirs: str) -> Any:
  """The value of a key, of the type of our field."""
  if ours == 'eos_id' and isinstance(values.values[theirs], list):
    listed = values.values[theirs]  # The first is the usual one.
    values = json_objects.JsonObject(
        values.path, {theirs: listed[0] if listed else None}
    )
  like = getattr(t5_config.T5Config, ours)
  read_as = {str: values.text, float: values.number}
  return read_as.get(type(like), values.integer)(theirs)


def feed_forward(path: pathlib.Path, block: str) -> tuple[bool, str]:
  """Whether a block is gated, and our name of its activation.

  Args:
    path: of config.json, for messages.
    block: its `feed_forward_proj`.

  Raises:
    UserError: there is no such block.
  """
  if block == 'gated-gelu':  # In transformers this means another one.
    return True, 'gelu_new'
  kind, dash, activation = block.rpartition('-')
  if dash and kind != 'gated':
    raise errors.UserError(
        f'{path}: feed_forward_proj="{block}" is not supported; an activation, '
        'or "gated-" and an activation, is'
    )
  return bool(dash), activation


def feed_forward_name(gated: bool, activation: str) -> str:
  """The `feed_forward_proj` of a block: the inverse of `feed_forward`.

  Raises:
    UserError: transformers has no name for it.
  """
  if not gated:
    return activation
  if activation == 'gelu':  # Theirs of that name is gelu_new.
    raise errors.UserError(
        'activation="gelu" in gated blocks has no name in transformers; '
        'train with "gelu_new"'
    )
  return 'gated-' + activation.removesuffix('_new')


def _merge_copies(tensors: dict[str, np.ndarray], source: str) -> None:
  """Leaves the embeddings under their one name.

  Raises:
    UserError: encoder and decoder have different ones, or there are none.
  """
  for name in _COPIES:
    copy = tensors.pop(name, None)
    if copy is None:
      continue
    if not np.array_equal(copy, tensors.setdefault(_SHARED, copy)):
      raise errors.UserError(
          f'{source}: {name} differs from the other embeddings; a T5 with '
          'separate ones is not supported'
      )
  if _SHARED not in tensors:
    raise errors.UserError(
        f'{source}: no tensor {_SHARED}; this is no T5 of transformers. '
        f'Convert it there: {_MODEL_CLASS}.from_pretrained(DIR)'
        '.save_pretrained(DIR)'
    )


def _their_names(
    path: tuple[str, ...], config: t5_config.T5Config
) -> tuple[list[str], bool]:
  """The names of a leaf there, one a layer, and whether it is a matrix."""
  if path[0] == 'embeddings':
    return [_SHARED], False
  if path[0] == 'head':
    return [_HEAD], True
  side, kind, *rest = path
  if kind == 'norm':
    return [f'{side}.final_layer_norm.weight'], False
  if kind == 'relative_bias':
    return [f'{side}.block.0.layer.0.SelfAttention.relative_attention_bias'
            '.weight'], False
  blocks = {'attention': 'SelfAttention', 'cross_attention': 'EncDecAttention',
            'feed_forward': 'DenseReluDense'}
  if side == 'encoder':
    del blocks['cross_attention']
  block = rest[0].removesuffix('_norm')
  if block not in blocks:
    block = 'feed_forward'
  place = list(blocks).index(block)
  if rest[0].endswith('_norm'):
    name = 'layer_norm'
  elif block == 'feed_forward':
    wide = {'gate': 'wi_0', 'intermediate': 'wi_1'} if config.gated else {
        'intermediate': 'wi'
    }
    name = f'DenseReluDense.{ {**wide, "output": "wo"}[rest[0]]}'
  else:
    name = f'{blocks[block]}.{_ATTENTION[rest[1]]}'
  count = (config.num_layers if side == 'encoder'
           else config.num_decoder_layers)
  return [f'{side}.block.{i}.layer.{place}.{name}.weight'
          for i in range(count)], not rest[0].endswith('_norm')


T5 = family.Family(
    't5', 'T5', 'generator', read, t5_config.T5_SIZES, shape_of=config_of
)
MT5 = family.Family('mt5', 'mT5', 'generator', read, shape_of=config_of)
