"""Which question generator is meant: its T5, tokenizer, text settings, weights.

Reads files; the T5 itself is pure.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from neg_contrast import errors
from neg_contrast.artifacts import folders
from neg_contrast.data import inputs, sequences
from neg_contrast.data import tokenizer as tokenizer_lib
from neg_contrast.models import (
  descriptions,
  model_names,
  named_sizes,
  pretrained,
  t5,
  t5_config,
)
from neg_contrast.settings import config as config_lib

FILE = 'generator.json'
# What a T5 gets that does not say otherwise; room for a passage of 100 words.
_PASSAGE_LENGTH, _QUESTION_LENGTH = 384, 64
_PREFIX = 'generate question: '
_ANSWER_PREFIX, _PASSAGE_PREFIX = 'answer: ', 'passage: '


@dataclasses.dataclass(frozen=True)
class TextSpec:
  """How passages become sources and questions targets; saved with the model.

  Attributes:
    passage_length: tokens a source is cut to, the end included.
    question_length: tokens of a question, the end included.
    prefix: text put before every source.
    with_answer: whether an answer stands before the passage.
  """

  passage_length: int
  question_length: int
  prefix: str
  with_answer: bool


@dataclasses.dataclass(frozen=True)
class Generator:
  """A question generator, ready to train or to write.

  Attributes:
    config: shapes and constants of its T5.
    text: how text becomes input.
    tokenizer: makes token ids, and texts of them.
    params: of the T5, numpy or jax arrays.
    name: where it came from.
    fingerprint: of weights and settings.
  """

  config: t5_config.T5Config
  text: TextSpec
  tokenizer: tokenizer_lib.Seq2SeqTokenizer
  params: Any
  name: str
  fingerprint: str

  def sources(
      self,
      titles: sequences.Sequences,
      texts: sequences.Sequences,
      answers: Sequence[str] = (),
  ) -> sequences.Chained:
    """The inputs of passages: prefix, answer, title, text, end.

    Args:
      titles: without special tokens; may be empty.
      texts: the same; the end is cut where the whole is too long.
      answers: what is asked for of each; for a generator that reads answers.

    Returns:
      Views: ids of titles and texts are read when they are taken out.

    Raises:
      UserError: the prefix leaves no room for them.
    """
    head = sequences.repeated(self._prefix_ids, len(texts))
    pieces = [head, titles, texts]
    if self.text.with_answer:
      asked = self.tokenizer.encode_batch([
          f'{_ANSWER_PREFIX}{answer} {_PASSAGE_PREFIX}'
          for answer in answers
      ])
      pieces.insert(1, sequences.listed(
          np.array(ids, np.int32) for ids in asked
      ))
    end = sequences.repeated([self.config.eos_id], len(texts))
    return sequences.Chained(
        (*inputs.fit(pieces, self.text.passage_length - 1), end)
    )

  @functools.cached_property
  def _prefix_ids(self) -> list[int]:
    ids = self.tokenizer.encode_batch([self.text.prefix])[0]
    if len(ids) + 1 >= self.text.passage_length:
      raise errors.UserError(
          f'{self.name}: the prefix {self.text.prefix!r:.60} has {len(ids)} '
          f'tokens, which leaves none of {self.text.passage_length} for a '
          'passage; make it shorter, or raise '
          f'{errors.key("model.passage_length")}')
    return ids


def from_pretrained(
    name: str, config: config_lib.ModelConfig, with_answer: bool, seed: int
) -> Generator:
  """A generator with the weights of a T5 folder, or random ones.

  Args:
    name: folder, hub name, or `random:SIZE`.
    config: lengths, prefix and dropout.
    with_answer: whether it reads answers.
    seed: of random weights.

  Raises:
    UserError: the folder can't be used, or a setting does not fit it.
  """
  if model_names.is_random(name):
    shape, folder = named_sizes.read(name, 'generator')
    tokenizer = tokenizer_lib.load_seq2seq_tokenizer(str(folder))
    shape = dataclasses.replace(
        shape, eos_id=tokenizer.eos_id, pad_id=tokenizer.pad_id,
        decoder_start_id=tokenizer.pad_id,
    )
    params = jax.jit(t5.init_params, static_argnums=0)(
        shape, jax.random.key(seed)
    )
    fingerprint = f'{name}, seed {seed}'
  else:
    source = pretrained.load_t5(name)
    shape, params, fingerprint = (
        source.config, source.params, source.fingerprint
    )
    tokenizer = tokenizer_lib.load_seq2seq_tokenizer(str(source.folder))
    _check_tokenizer(name, tokenizer, shape)
  if config.hidden_dropout is not None:
    shape = dataclasses.replace(shape, dropout=config.hidden_dropout)
  return _make(
      shape, _text(config, with_answer), tokenizer,
      jax.tree.map(np.asarray, params), name, fingerprint,
  )


def shape_by_name(
    name: str, config: config_lib.ModelConfig
) -> tuple[t5_config.T5Config, TextSpec]:
  """Shapes and text settings of a generator, without its weights.

  Args:
    name: as of `from_pretrained`; what lies on this machine is read, the shapes
      of others have to be in `t5_config.T5_SIZES`.
    config: lengths, prefix and dropout.

  Raises:
    UserError: nothing is known of it.
  """
  if model_names.has_folder(name):
    shape = pretrained.load_t5(name).config
  else:
    shape = named_sizes.shape_by_name(name, 'generator')
  if config.hidden_dropout is not None:
    shape = dataclasses.replace(shape, dropout=config.hidden_dropout)
  return shape, _text(config, with_answer=False)


def _text(config: config_lib.ModelConfig, with_answer: bool) -> TextSpec:
  either = lambda value, default: default if value is None else value
  return TextSpec(
      passage_length=either(config.passage_length, _PASSAGE_LENGTH),
      question_length=either(config.query_length, _QUESTION_LENGTH),
      prefix=either(config.passage_prefix, _PREFIX),
      with_answer=with_answer,
  )


def save_description(generator: Generator, workdir: pathlib.Path) -> None:
  """Writes all of a generator but its weights."""
  descriptions.save(workdir / FILE, {
      't5': dataclasses.asdict(generator.config),
      'text': dataclasses.asdict(generator.text),
      'init': generator.name,
      'init_fingerprint': generator.fingerprint,
  }, generator.tokenizer)


def from_workdir(
    workdir: pathlib.Path,
    params_of: Callable[[Any], tuple[Any, str]],
    name: str,
) -> Generator:
  """The generator that a workdir describes.

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
  shape, text = descriptions.parse(path, saved, lambda values: (
      t5_config.T5Config(**values['t5']), TextSpec(**values['text'])
  ), 'a question generator')
  tokenizer = descriptions.read_tokenizer(
      path, saved, tokenizer_lib.load_seq2seq_tokenizer
  )
  params, weights = params_of(t5.shape_of(shape))
  return _make(shape, text, tokenizer, params, name, weights)


def _make(shape, text, tokenizer, params, name, weights) -> Generator:
  fingerprint = folders.sha256_json({
      'weights': weights,
      't5': dataclasses.asdict(shape),
      'text': dataclasses.asdict(text),
      'tokenizer': tokenizer.sha256,
  })
  return Generator(shape, text, tokenizer, params, name, fingerprint)


def _check_tokenizer(name, tokenizer, shape) -> None:
  """Refuses a tokenizer of another model.

  Raises:
    UserError: it has more tokens than the model, or another end.
  """
  if tokenizer.vocab_size > shape.vocab_size:
    raise errors.UserError(
        f'{name}: its tokenizer has {tokenizer.vocab_size} tokens and its '
        f'model {shape.vocab_size} embeddings; the tokenizer belongs to '
        'another model'
    )
  if tokenizer.eos_id != shape.eos_id:
    raise errors.UserError(
        f'{name}: its tokenizer ends a text with token {tokenizer.eos_id} and '
        f'config.json says eos_token_id={shape.eos_id}; the tokenizer belongs '
        'to another model'
    )
