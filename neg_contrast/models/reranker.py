"""Which cross-encoder is meant: its spec, tokenizer, text settings, weights.

Reads files; the module itself is pure.
"""

import dataclasses
import pathlib
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from neg_contrast import errors
from neg_contrast.artifacts import folders
from neg_contrast.data import tokenizer as tokenizer_lib
from neg_contrast.models import (
  cross_encoder,
  descriptions,
  encoder_settings,
  families,
  loading,
  model_names,
  pretrained,
  text_spec,
  transformer,
)
from neg_contrast.models import shape as shape_lib
from neg_contrast.settings import config as config_lib

FILE = 'reranker.json'
_STARTS = ('start from a BERT, DistilBERT, RoBERTa, XLM-R, MPNet, ModernBERT '
           'or NomicBERT')


@dataclasses.dataclass(frozen=True)
class Reranker:
  """A cross-encoder, ready to train or to score.

  Attributes:
    spec: shapes and layers.
    text: how each of the two texts becomes input, as of a dual encoder.
    tokenizer: makes token ids.
    params: numpy or jax arrays.
    name: where it came from.
    fingerprint: of weights and settings.
  """

  spec: cross_encoder.CrossEncoderSpec
  text: text_spec.TextSpec
  tokenizer: tokenizer_lib.Tokenizer
  params: Any
  name: str
  fingerprint: str

  @property
  def start(self) -> tuple[int, ...]:
    """What the passage's [CLS] becomes, see `text_pairs.join`."""
    return self.tokenizer.template.second_start

  @property
  def longest(self) -> int:
    """Tokens of a pair, at most."""
    both = self.text.query_length + self.text.passage_length
    return both - 1 + len(self.start)


def is_classifier(name: str) -> bool:
  """Whether a folder or hub name holds transformers' cross-encoder.

  Raises:
    UserError: there is no such folder, and it can't be downloaded; or its
      config.json is broken.
  """
  return not model_names.is_random(name) and families.is_classifier(
      model_names.locate(name)
  )


def from_pretrained(
    name: str, config: config_lib.ModelConfig, seed: int
) -> Reranker:
  """A cross-encoder with the weights of a BERT, or of a cross-encoder.

  An encoder gets a random score layer (and no pooler). Of transformers' class
  for sequences of the families that have a `read_head`, with one label, such as
  those of sentence-transformers and of BGE, pooler and score layer are taken
  too; scores are its logits, which order passages as their sigmoids do.

  Args:
    name: folder, hub name, `minilm` or `random:SIZE`.
    config: lengths, prefixes, markers and layers.
    seed: of random weights.

  Raises:
    UserError: the folder can't be used, or a setting does not fit it.
  """
  towers = loading.load_towers(name, seed)
  if len(towers) > 1:
    raise errors.UserError(
        f'{name}: holds a query and a passage tower, and a cross-encoder has '
        'one BERT for both; name one of its two folders'
    )
  source = pretrained.first_layers(towers['shared'], config.layers, name)
  tokenizer = tokenizer_lib.load_tokenizer(str(source.folder))
  folder = None if model_names.is_random(name) else model_names.locate(name)
  spec = spec_of(folder, source.transformer)
  source = _within_pairs(source, config.query_length, spec.pooler, tokenizer)
  text = encoder_settings.text_of({'shared': source}, config, name)
  params: dict[str, Any] = {transformer.KEY: source.params}
  if folder is not None and spec.pooler:
    params |= families.read_head(folder)
  else:
    params['score'] = cross_encoder.init_score(spec, jax.random.key(seed))
  return _make(
      spec, text, tokenizer, jax.tree.map(np.asarray, params), name,
      [source.fingerprint, None if spec.pooler else seed],
  )


def _within_pairs(
    source: pretrained.Pretrained, query_length: int | None,
    is_of_pairs: bool, tokenizer: tokenizer_lib.Tokenizer,
) -> pretrained.Pretrained:
  """A transformer with a length for each text of a pair.

  The length that a cross-encoder names is that of a pair; an encoder's is that
  of a text, and two such may be more than it has positions.
  """
  named, longest = source.max_length, source.transformer.max_positions
  more = len(tokenizer.template.second_start) - 1
  if named is None or not is_of_pairs and 2 * named + more <= longest:
    return source
  both = (min(named, longest) if is_of_pairs else longest) - more
  query = query_length or min(encoder_settings.PAPER_QUERY_LENGTH, both // 2)
  return dataclasses.replace(
      source, query_length=query, passage_length=max(both - query, 1))


def spec_of(
    folder: pathlib.Path | None, shape: shape_lib.Shape
) -> cross_encoder.CrossEncoderSpec:
  """The layers over a transformer; the head is that of a cross-encoder.

  Args:
    folder: of the model; None: it has none, or none here.
    shape: of its transformer.

  Raises:
    UserError: it is a cross-encoder that can't be read.
  """
  if folder is None or not families.is_classifier(folder):
    return cross_encoder.CrossEncoderSpec(shape)
  return cross_encoder.CrossEncoderSpec(
      shape, pooler=True, **families.head_of(folder))


def save_description(model: Reranker, workdir: pathlib.Path) -> None:
  """Writes all of a cross-encoder but its weights."""
  descriptions.save(workdir / FILE, {
      'cross_encoder': model.spec.to_json(),
      'text': dataclasses.asdict(model.text),
      'init': model.name,
      'init_fingerprint': model.fingerprint,
  }, model.tokenizer)


def from_workdir(
    workdir: pathlib.Path,
    params_of: Callable[[Any], tuple[Any, str]],
    name: str,
) -> Reranker:
  """The cross-encoder that a workdir describes.

  Args:
    workdir: has what `save_description` wrote.
    params_of: abstract parameters -> those of the wanted checkpoint, and a hash
      of them.
    name: what to call it.

  Raises:
    UserError: a file is missing or damaged, or the tokenizer is another one.
  """
  path = workdir / FILE
  saved = descriptions.read(path)
  spec, text = descriptions.parse(path, saved, lambda values: (
      cross_encoder.CrossEncoderSpec.from_json(values['cross_encoder']),
      text_spec.TextSpec(**values['text']),
  ), 'a reranker')
  tokenizer = descriptions.read_tokenizer(
      path, saved, tokenizer_lib.load_tokenizer
  )
  params, weights = params_of(jax.eval_shape(
      lambda: cross_encoder.init_params(spec, jax.random.key(0))
  ))
  return _make(spec, text, tokenizer, params, name, weights)


def with_weights(model: Reranker, params: Any) -> Reranker:
  """The same with other weights, as a checkpoint of these loads."""
  return _make(model.spec, model.text, model.tokenizer, params, model.name,
               descriptions.sha256_of(params))


def _make(spec, text, tokenizer, params, name, weights) -> Reranker:
  if spec.transformer.causal:
    raise errors.UserError(
        f'{name}: is a decoder, whose first token sees no other, and a '
        f'reranker scores by that one; {_STARTS}'
    )
  template = tokenizer.template
  is_pair = template.between[:1] == template.end and len(template.between) < 3
  if len(template.start) != 1 or not is_pair:
    raise errors.UserError(
        f'{name}: its tokenizer makes no [CLS] query [SEP] passage [SEP], for '
        f'which rerankers are built; {_STARTS}'
    )
  longest = (text.query_length + text.passage_length - 1
             + len(template.second_start))
  if longest > spec.transformer.max_positions:
    raise errors.UserError(
        f'{errors.key("model.query_length")}={text.query_length} and '
        f'passage_length={text.passage_length}: pairs have up to {longest} '
        f'tokens, and {name} has {spec.transformer.max_positions} positions; '
        'choose shorter ones'
    )
  if tokenizer.vocab_size > spec.transformer.vocab_size:
    raise errors.UserError(
        f'{name}: its tokenizer has {tokenizer.vocab_size} tokens and its '
        f'model {spec.transformer.vocab_size} embeddings; the tokenizer '
        'belongs to another model'
    )
  return Reranker(spec, text, tokenizer, params, name, folders.sha256_json({
      'weights': weights, 'spec': spec.to_json(), 'text': text.identity,
      'tokenizer': tokenizer.sha256,
  }))
