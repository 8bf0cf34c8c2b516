"""Which model a config or a checkpoint means: its spec, text settings, weights.

Reads files; the modules it assembles are pure.
"""

import dataclasses
import pathlib
from typing import Any

import jax
import numpy as np

from neg_contrast import errors, scoring
from neg_contrast.artifacts import folders
from neg_contrast.data import tokenizer as tokenizer_lib
from neg_contrast.models import bert, dual_encoder, pretrained, random_init
from neg_contrast.settings import config as config_lib

ENCODER_FILE = 'encoder.json'
TOKENIZER_FOLDER = 'tokenizer'

# What a plain BERT gets (Lu et al., section 5.3, "size 64 and 384").
_PAPER_QUERY_LENGTH = 64
_PAPER_PASSAGE_LENGTH = 384

# As BLINK and the code of Zhang and Stratos have them: BERT's vocabularies hold
# these, and no text does.
_MENTION_MARKERS = '[unused0]', '[unused1]'


@dataclasses.dataclass(frozen=True)
class TextSpec:
  """How text becomes input; saved with the model.

  Attributes:
    query_length: tokens a query is cut to, [CLS] and [SEP] included.
    passage_length: the same for passages.
    query_prefix: text put before every query.
    passage_prefix: text put before every passage.
    mention_start: token put before a mention in its context.
    mention_end: token put after it.
  """

  query_length: int
  passage_length: int
  query_prefix: str = ''
  passage_prefix: str = ''
  mention_start: str = _MENTION_MARKERS[0]
  mention_end: str = _MENTION_MARKERS[1]

  @property
  def markers(self) -> tuple[str, str]:
    """Tokens put before and after a mention."""
    return self.mention_start, self.mention_end

  @property
  def identity(self) -> dict[str, Any]:
    """What embeddings depend on; usual markers go without saying."""
    values = dataclasses.asdict(self)
    if self.markers == _MENTION_MARKERS:
      del values['mention_start'], values['mention_end']
    return values

  def length(self, role: str) -> int:
    """The length of `query` or `passage` inputs."""
    return self.query_length if role == 'query' else self.passage_length

  def prefix(self, role: str) -> str:
    """The prefix of `query` or `passage` inputs."""
    return self.query_prefix if role == 'query' else self.passage_prefix


@dataclasses.dataclass(frozen=True)
class Model:
  """A dual encoder, ready to train or to encode.

  Attributes:
    spec: shapes and layers of a tower.
    text: how text becomes input.
    tokenizer: makes token ids.
    params: towers, numpy or jax arrays.
    name: where it came from.
    fingerprint: of weights and settings.
  """

  spec: dual_encoder.EncoderSpec
  text: TextSpec
  tokenizer: tokenizer_lib.Tokenizer
  params: Any
  name: str
  fingerprint: str


def from_pretrained(
    name: str, config: config_lib.ModelConfig, seed: int
) -> Model:
  """A model with the weights of a BERT-family or sentence-transformers folder.

  Args:
    name: folder, hub name, `minilm` or `random:SIZE`; or an exported folder of
      two towers.
    config: settings that override what the folder brings.
    seed: of random weights.

  Raises:
    UserError: the folder can't be used, or a setting does not fit it.
  """
  sources = {
      role: first_layers(source, config.layers, name)
      for role, source in load_towers(name, seed).items()
  }
  source = next(iter(sources.values()))
  if len(sources) > 1:
    _check_towers(sources, config, name)
  tokenizer = tokenizer_lib.load_tokenizer(str(source.folder))
  if tokenizer.vocab_size > source.bert.vocab_size:
    raise errors.UserError(
        f'{name}: its tokenizer has {tokenizer.vocab_size} tokens and its '
        f'model {source.bert.vocab_size} embeddings; the tokenizer belongs to '
        'another model'
    )
  text = text_of(sources, config, name)
  spec = _with_score(_spec(source, config), text, config)
  params = _towers(sources, spec, seed)
  return Model(
      spec=spec,
      text=text,
      tokenizer=tokenizer,
      params=params,
      name=name,
      fingerprint=folders.sha256_json({
          'weights': source.fingerprint if len(sources) == 1 else [
              tower.fingerprint for tower in sources.values()
          ],
          'spec': spec.to_json(),
          'text': text.identity,
          'tokenizer': tokenizer.sha256,
          'seed': seed if (
              _new_projection(spec, source) or spec.score.codes
          ) else 0,
      }),
  )


def shape_by_name(
    name: str, config: config_lib.ModelConfig
) -> tuple[dual_encoder.EncoderSpec, TextSpec]:
  """Shapes and text settings of a model, without its weights.

  Args:
    name: as of `from_pretrained`; what lies on this machine is read, the shapes
      of others have to be in `bert.BERT_SIZES`.
    config: settings that override what the model brings.

  Raises:
    UserError: nothing is known of it.
  """
  if random_init.has_folder(name):
    found = from_pretrained(name, config, seed=0)
    return found.spec, found.text
  shape = random_init.shape_by_name(name, bert.BERT_SIZES)
  if config.layers is not None:
    shape = dataclasses.replace(shape, num_layers=config.layers)
  source = pretrained.Pretrained(pathlib.Path(), name, shape, {})
  text = text_of({'shared': source}, config, name)
  return _with_score(_spec(source, config), text, config), text


def load_towers(name: str, seed: int) -> dict[str, pretrained.Pretrained]:
  """`pretrained.load_towers`, and `random:SIZE` too."""
  if not random_init.is_random(name):
    return pretrained.load_towers(name)
  config, folder = random_init.read(name, bert.BERT_SIZES)
  spec = dual_encoder.EncoderSpec(config)
  params = dual_encoder.init_params(spec, jax.random.key(seed))
  return {'shared': pretrained.Pretrained(
      folder, f'{name}, seed {seed}', config,
      jax.tree.map(np.asarray, params['shared']['bert']),
  )}


def save_description(model: Model, workdir: pathlib.Path) -> None:
  """Writes all of a model but its weights, so that a workdir is complete."""
  model.tokenizer.save(workdir / TOKENIZER_FOLDER)
  folders.write_json(workdir / ENCODER_FILE, {
      'encoder': model.spec.to_json(),
      'text': dataclasses.asdict(model.text),
      'tokenizer': model.tokenizer.sha256,
      'init': model.name,
      'base_model': pretrained.hub_name(model.name),
      'init_fingerprint': model.fingerprint,
  })


def read_description(
    workdir: pathlib.Path,
) -> tuple[dual_encoder.EncoderSpec, TextSpec, tokenizer_lib.Tokenizer]:
  """Reads back what `save_description` wrote.

  Raises:
    UserError: a file is missing or broken, or the tokenizer is another one.
  """
  path = workdir / ENCODER_FILE
  saved = folders.read_json(path)
  try:
    spec = dual_encoder.EncoderSpec.from_json(saved['encoder'])
    text = TextSpec(**saved['text'])
  except (KeyError, TypeError, ValueError) as e:
    raise errors.UserError(f'{path}: not a description of an encoder: {e}'
                           ) from None
  tokenizer = tokenizer_lib.load_tokenizer(str(workdir / TOKENIZER_FOLDER))
  if tokenizer.sha256 != saved['tokenizer']:
    raise errors.UserError(
        f'{workdir / TOKENIZER_FOLDER}: tokenizer {tokenizer.sha256[:12]} is '
        f'not the one the model was trained with '
        f'({saved["tokenizer"][:12]}); put the original back'
    )
  return spec, text, tokenizer


def first_layers(
    source: pretrained.Pretrained, count: int | None, name: str
) -> pretrained.Pretrained:
  """A tower without its upper layers."""
  if count is None or count == source.bert.num_layers:
    return source
  if count > source.bert.num_layers:
    raise errors.UserError(
        f'config.model.layers={count}: {name} has {source.bert.num_layers}'
    )
  return dataclasses.replace(
      source,
      bert=dataclasses.replace(source.bert, num_layers=count),
      bert_params={
          **source.bert_params,
          'layers': jax.tree.map(
              lambda leaf: leaf[:count], source.bert_params['layers']
          ),
      },
  )


def _spec(
    source: pretrained.Pretrained, config: config_lib.ModelConfig
) -> dual_encoder.EncoderSpec:
  own = source.projection
  own_dim = 0 if own is None else own['kernel'].shape[1]
  dim = own_dim if config.projection_dim is None else config.projection_dim
  is_own = own is not None and dim == own_dim
  dropout = {
      key: getattr(config, key)
      for key in ('hidden_dropout', 'attention_dropout')
      if getattr(config, key) is not None
  }
  return dual_encoder.EncoderSpec(
      bert=dataclasses.replace(source.bert, **dropout),
      pooling=config.pooling or source.pooling or 'cls',
      projection_dim=dim or None,
      projection_bias='bias' in own if own is not None and is_own else True,
      projection_activation=(
          source.projection_activation if is_own else 'identity'
      ),
      normalize=_first(config.normalize, source.normalize, True),
      shared=config.shared,
  )


def score_by_name(
    name: str | None, text: TextSpec
) -> scoring.ScoreFunction:
  """The score function of `config.model.score`; `dual`, where it is None."""
  return scoring.named(
      name or 'dual', text.query_length, text.passage_length
  )


def _with_score(
    spec: dual_encoder.EncoderSpec, text: TextSpec,
    config: config_lib.ModelConfig,
) -> dual_encoder.EncoderSpec:
  """The spec with the score function of the config.

  Raises:
    UserError: it does not go with pooling or shared towers.
  """
  try:
    return dataclasses.replace(
        spec, score=score_by_name(config.score, text)
    )
  except ValueError as e:
    raise errors.UserError(
        f'config.model.score={config.score!r}: {e} (config.model)'
    ) from None


def text_of(
    sources: dict[str, pretrained.Pretrained],
    config: config_lib.ModelConfig,
    name: str,
) -> TextSpec:
  """Lengths and prefixes; of two towers, each has its own role's."""
  query, passage = (sources.get(role) or sources['shared']
                    for role in ('query', 'passage'))
  text = TextSpec(
      query_length=_first(
          config.query_length, query.query_length, query.max_length,
          min(_PAPER_QUERY_LENGTH, query.bert.max_positions),
      ),
      passage_length=_first(
          config.passage_length, passage.passage_length, passage.max_length,
          min(_PAPER_PASSAGE_LENGTH, passage.bert.max_positions),
      ),
      query_prefix=_first(config.query_prefix, query.query_prompt, ''),
      passage_prefix=_first(config.passage_prefix, passage.passage_prompt, ''),
      mention_start=_first(config.mention_start, _MENTION_MARKERS[0]),
      mention_end=_first(config.mention_end, _MENTION_MARKERS[1]),
  )
  for role in ('query', 'passage'):
    if text.length(role) > query.bert.max_positions:
      raise errors.UserError(
          f'config.model.{role}_length={text.length(role)}: {name} has '
          f'{query.bert.max_positions} positions; choose at most that'
      )
  return text


def _check_towers(
    sources: dict[str, pretrained.Pretrained],
    config: config_lib.ModelConfig,
    name: str,
) -> None:
  """Whether two towers make one model.

  Raises:
    UserError: one is asked for, or they differ in more than their weights.
  """
  if config.shared:
    raise errors.UserError(
        f'{name}: holds a query and a passage tower; add '
        '--config.model.shared=False, or name one of its two folders'
    )
  ours, theirs = (
      {
          'layers': _spec(source, config),
          'tokenizer': tokenizer_lib.load_tokenizer(str(source.folder)).sha256,
      }
      for source in (sources['query'], sources['passage'])
  )
  for key, value in ours.items():
    if theirs[key] != value:
      raise errors.UserError(
          f'{name}: query and passage differ in their {key}: {value} and '
          f'{theirs[key]}; these are not the two towers of one model'
      )


def _towers(
    sources: dict[str, pretrained.Pretrained],
    spec: dual_encoder.EncoderSpec,
    seed: int,
) -> dict[str, Any]:
  """The pretrained weights in each tower; a new projection is random."""

  def tower(name: str, source: pretrained.Pretrained) -> dict[str, Any]:
    params: dict[str, Any] = {'bert': source.bert_params}
    if spec.projection_dim:
      params['projection'] = (
          dual_encoder.init_projection(spec, jax.random.key(seed))
          if _new_projection(spec, source) else source.projection
      )
    if spec.score.codes and name == 'query':
      params['codes'] = dual_encoder.init_codes(spec, jax.random.key(seed))
    return jax.tree.map(np.asarray, params)

  names = ('shared',) if spec.shared else ('query', 'passage')
  return {name: tower(name, sources.get(name) or sources['shared'])
          for name in names}


def _new_projection(
    spec: dual_encoder.EncoderSpec, source: pretrained.Pretrained
) -> bool:
  """Whether there is a projection that the source does not bring."""
  own = source.projection
  return bool(spec.projection_dim) and (
      own is None or own['kernel'].shape[1] != spec.projection_dim
  )


def _first(*values: Any) -> Any:
  """The first value that is not None."""
  return next(value for value in values if value is not None)


def shape_of(spec: dual_encoder.EncoderSpec) -> Any:
  """Abstract parameters (ShapeDtypeStructs) of a spec."""
  return jax.eval_shape(
      lambda: dual_encoder.init_params(spec, jax.random.key(0))
  )

