"""The settings of an encoder: what a folder brings, and what a config asks for.

A key of `config.model` overrides the folder; None: as the folder has it.
"""

import dataclasses
from typing import Any

from neg_contrast import errors, scoring
from neg_contrast.data.side_features import feature_kinds
from neg_contrast.models import dual_encoder, pretrained, text_spec
from neg_contrast.models import projections as projections_lib
from neg_contrast.settings import config as config_lib

# What a plain BERT gets (Lu et al., section 5.3, "size 64 and 384").
PAPER_QUERY_LENGTH = 64
PAPER_PASSAGE_LENGTH = 384


def layers_of(
    source: pretrained.Pretrained, config: config_lib.ModelConfig
) -> dual_encoder.EncoderSpec:
  """The layers of a tower, with the score function `dual`.

  Raises:
    UserError: of a decoder the first token is asked for, which sees no other.
  """
  own = source.projections
  own_dim = own[-1].features if own else 0
  dim = own_dim if config.projection_dim is None else config.projection_dim
  new = (projections_lib.Projection(dim),) if dim else ()
  dropout = {
      key: getattr(config, key)
      for key in ('hidden_dropout', 'attention_dropout')
      if getattr(config, key) is not None
  }
  return dual_encoder.EncoderSpec(
      transformer=dataclasses.replace(source.transformer, **dropout),
      pooling=_pooling(source, config),
      projections=own if dim == own_dim else new,
      normalize=_first(config.normalize, source.normalize, True),
      shared=config.shared,
  )


def _pooling(
    source: pretrained.Pretrained, config: config_lib.ModelConfig
) -> str:
  is_causal = source.transformer.causal
  usual = 'last' if is_causal else 'cls'
  pooling = config.pooling or source.pooling or usual
  if is_causal and pooling == 'cls':
    raise errors.UserError(
        f'{errors.key("model.pooling")}="cls": the model is a decoder, whose '
        'first token sees no other; use "last" or "mean"'
    )
  return pooling


def with_score(
    spec: dual_encoder.EncoderSpec, text: text_spec.TextSpec,
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
        f'{errors.key("model.score")}={config.score!r}: {e} '
        f'({errors.key("model")})'
    ) from None


def with_unfitted_features(
    spec: dual_encoder.EncoderSpec, config: config_lib.ModelConfig
) -> dual_encoder.EncoderSpec:
  """The spec with features of which no data is known, for its shapes.

  Raises:
    UserError: the shape of one depends on data.
  """
  if not config.features or spec.side_features:
    return spec
  features = feature_kinds.parse_all(config.features)
  for one in features:
    if one.kind == 'categorical' and not one.parameters:
      raise config.error(
          'features', f'"{one.text}" has as many embeddings as the data has '
          'categories, which --compile_only does not read; write '
          f'{one.text}-1000 or the like'
      )
  return dataclasses.replace(spec, side_features=features)


def score_by_name(
    name: str | None, text: text_spec.TextSpec
) -> scoring.ScoreFunction:
  """The score function of `config.model.score`; `dual`, where it is None."""
  return scoring.named(
      name or 'dual', text.query_length, text.passage_length
  )


def text_of(
    sources: dict[str, pretrained.Pretrained],
    config: config_lib.ModelConfig,
    name: str,
) -> text_spec.TextSpec:
  """Lengths and prefixes; of two towers, each has its own role's."""
  query, passage = (sources.get(role) or sources['shared']
                    for role in ('query', 'passage'))
  text = text_spec.TextSpec(
      query_length=_first(
          config.query_length, query.query_length, query.max_length,
          min(PAPER_QUERY_LENGTH, query.transformer.max_positions),
      ),
      passage_length=_first(
          config.passage_length, passage.passage_length, passage.max_length,
          min(PAPER_PASSAGE_LENGTH, passage.transformer.max_positions),
      ),
      query_prefix=_first(config.query_prefix, query.query_prompt, ''),
      passage_prefix=_first(config.passage_prefix, passage.passage_prompt, ''),
      mention_start=_first(config.mention_start, text_spec.MENTION_MARKERS[0]),
      mention_end=_first(config.mention_end, text_spec.MENTION_MARKERS[1]),
      title_end=_first(config.title_end, passage.title_end, ''),
  )
  for role in ('query', 'passage'):
    if text.length(role) > query.transformer.max_positions:
      raise errors.UserError(
          f'{errors.key(f"model.{role}_length")}={text.length(role)}: {name} '
          f'has {query.transformer.max_positions} positions; choose at most '
          'that'
      )
  return text


def is_projection_new(
    spec: dual_encoder.EncoderSpec, source: pretrained.Pretrained
) -> bool:
  """Whether there is a projection that the source does not bring."""
  return bool(spec.projections) and spec.projections != source.projections


def refuse_other_settings(
    config: config_lib.ModelConfig,
    spec: dual_encoder.EncoderSpec,
    text: text_spec.TextSpec,
    name: str,
) -> None:
  """Whether a trained model has the settings that a config asks for.

  Args:
    config: None in a key asks for nothing.
    spec: of the model.
    text: of the model.
    name: of the model, for messages.

  Raises:
    UserError: it was trained with others.
  """
  own = {**spec.to_json(), **dataclasses.asdict(text),
         'projection_dim': spec.projection_dim}
  for key in ('pooling', 'projection_dim', 'normalize', 'query_length',
              'passage_length', 'query_prefix', 'passage_prefix',
              'mention_start', 'mention_end', 'title_end'):
    wanted = getattr(config, key)
    if wanted is not None and (wanted or None) != (own[key] or None):
      raise errors.UserError(
          f'{errors.key(f"model.{key}")}={wanted!r}: {name} was trained '
          f'with {own[key]!r}; leave it out, or set that'
      )
  if config.score is not None and score_by_name(
      config.score, text
  ) != spec.score:
    raise errors.UserError(
        f'{errors.key("model.score")}={config.score!r}: {name} was trained '
        f'with {spec.score}; leave it out, or set that'
    )
  features = tuple(one.text for one in spec.side_features)
  if config.features and features and config.features != features:
    raise config.error('features', f'{name} was trained with {features!r}; '
                       'leave it out')
  layers = spec.transformer.num_layers
  if config.layers not in (None, layers):
    raise errors.UserError(
        f'{errors.key("model.layers")}={config.layers}: {name} has {layers}; '
        'leave it out, or set that'
    )


def _first(*values: Any) -> Any:
  """The first value that is not None."""
  return next(value for value in values if value is not None)
