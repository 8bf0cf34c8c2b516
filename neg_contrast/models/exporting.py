"""Writes encoders as sentence-transformers folders, without torch.

The layout is the legacy one, whose class paths every release reads. Weights are
safetensors, so a projection needs sentence-transformers 3.0.1 (its pull request
2722). `pretrained.py` reads the folders back.
"""

import functools
import pathlib
from typing import Any

import jax
import numpy as np
import tokenizers
from jaxtyping import Float
from tokenizers import processors

from neg_contrast import errors
from neg_contrast.artifacts import folders as folders_lib
from neg_contrast.batches import packing
from neg_contrast.data import sequences, tokenized
from neg_contrast.data import tokenizer as tokenizer_lib
from neg_contrast.models import (
  dual_encoder,
  families,
  loading,
  pair_types,
  pooling,
  pretrained,
  projections,
  tensor_files,
  text_spec,
  transformer,
)
from neg_contrast.settings import config as config_lib

_TOLERANCE = 1e-5
_TOKENS = {'unk': ('[UNK]', '<unk>'),
           'pad': ('[PAD]', '<pad>', '<|endoftext|>'),
           'mask': ('[MASK]', '<mask>')}
_POOLING_MODES = ('cls_token', 'mean_tokens', 'max_tokens',
                  'mean_sqrt_len_tokens', 'weightedmean_tokens', 'lasttoken')
# (title, text); queries have no title. The long ones are cut by any model.
_LONG = 'The quick brown fox jumps over the lazy dog. ' * 120
_PROBES = (
    ('', 'How tall is the Eiffel Tower?'), ('', ''), ('', ' \n\t'), ('', '.'),
    ('', 'naïve café — “quotes”, ünïcödé, 日本語, Ελληνικά 😀 e\u0301'),
    ('', 'word1 word2 [SEP] word3 [MASK] query: passage:'), ('', _LONG),
    ('Eiffel Tower', 'It is 330 metres tall.'), ('Eiffel Tower', ''),
    (' ', 'A blank title.'), ('Tōkyō (東京)', _LONG), (_LONG, 'A long title.'),
)


def passage_text(title: str, text: str, separator: str = ' [SEP] ') -> str:
  """The one string that stands for a passage in sentence-transformers.

  Its tokens are those of `[CLS] title [SEP] text [SEP]`, but where a title is
  cut: there we keep a [SEP] for the text, and it keeps one more title token.

  Args:
    title: of the passage; blank: none.
    text: of the passage.
    separator: of the tokenizer.
  """
  if separator.isspace():
    title = title.rstrip()
  return f'{title}{separator}{text}' if title.strip() else text


def prompt(prefix: str, tokenizer: tokenizer_lib.Tokenizer) -> str:
  """A prefix as a string to put directly before a text.

  One that is tokenized apart may not merge with what follows it.
  """
  if not prefix or prefix[-1].isspace() or not tokenizer.is_apart(prefix):
    return prefix
  return prefix + ' '


def max_length(text: text_spec.TextSpec, tower: str) -> int:
  """Tokens at which a tower's folder cuts.

  A folder has one length for all its inputs. A shared tower gets that of
  passages: many are cut, and an index of passages cut elsewhere is another
  index; queries are seldom cut.
  """
  return text.length('query' if tower == 'query' else 'passage')


def tower_folders(
    model: loading.Model, folder: pathlib.Path
) -> dict[str, pathlib.Path]:
  """Where each tower goes: `shared` into the folder itself, others below."""
  return {tower: folder if tower == 'shared' else folder / tower
          for tower in model.params}


def usage(folder: pathlib.Path) -> str:
  """Says how to load a folder that `write_model` wrote, for the terminal."""
  towers = [tower for tower in (folder / 'query', folder / 'passage')
            if tower.is_dir()] or [folder]
  return '\n' + '\n'.join(
      f"SentenceTransformer('{tower}')" for tower in towers
  ) + f'\n{folder / "README.md"} tells the rest'


def write_model(
    model: loading.Model, folder: pathlib.Path, card: str
) -> None:
  """Writes a folder for every tower, reads it back and compares embeddings.

  Args:
    model: what to write.
    folder: exists; holds a shared tower itself, separate ones in `query/` and
      `passage/`.
    card: text of each README.md.

  Raises:
    UserError: sentence-transformers could not use its tokenizer, has no place
      for what the model puts between title and text or for its features, or
      what was read back is not what was written.
    OSError: the disk is full, or the like.
  """
  refuse_features(model)
  if model.text.title_end:
    raise errors.UserError(
        f'{model.name}: was trained with {errors.key("model.title_end")}='
        f'{model.text.title_end!r} between title and text; in the one text '
        'that sentence-transformers takes that is no token, so that it can\'t '
        'be exported. Train with the usual [SEP] (an empty key) for that'
    )
  for tower, place in tower_folders(model, folder).items():
    place.mkdir(exist_ok=True)
    length = max_length(model.text, tower)
    pad_id = _write_tokenizer(model, place, length)
    family = families.FAMILIES[model.spec.transformer.model_type]
    assert family.to_json and family.to_tensors  # Those we compute have both.
    folders_lib.write_json(
        place / 'config.json', family.to_json(model.spec.transformer, pad_id)
    )
    folders_lib.write_json(place / 'sentence_bert_config.json', {
        'max_seq_length': length, 'do_lower_case': False,
    })
    folders_lib.write_json(place / 'config_sentence_transformers.json', {
        'prompts': {
            'query': prompt(model.text.query_prefix, model.tokenizer),
            'document': prompt(model.text.passage_prefix, model.tokenizer),
        },
        'default_prompt_name': None,
        'similarity_fn_name': 'dot',
        pretrained.OWN_KEY: {  # Others ignore it.
            'query_length': model.text.query_length,
            'passage_length': model.text.passage_length,
            'query_prefix': model.text.query_prefix,
            'passage_prefix': model.text.passage_prefix,
        },
    })
    params = model.params[tower]
    tensor_files.save(place, family.to_tensors(
        params[transformer.KEY], model.spec.transformer, pad_id
    ))
    _write_modules(place, model.spec, params)
    (place / 'README.md').write_text(card, encoding='utf-8')
  (folder / 'README.md').write_text(card, encoding='utf-8')
  check(model, folder)


def refuse_features(model: loading.Model) -> None:
  """Refuses a model that reads more than text.

  Raises:
    UserError: names the features.
  """
  if model.side_features:
    names = ', '.join(one.text for one in model.side_features)
    raise errors.UserError(
        f'{model.name}: reads {names} beside text ('
        f'{errors.key("model.features")}), and the folders of '
        'sentence-transformers and peft have no place for them, so that it '
        'can\'t be exported. job=search and neg_contrast.api use it as it is; '
        'or train without features'
    )


def check(model: loading.Model, folder: pathlib.Path) -> None:
  """Whether a folder does to a set of probes what the model does.

  Every weight must come back as it was, the embeddings of the probes must agree
  to 1e-5, and a tokenizer used as sentence-transformers uses it must give them
  our tokens.

  Raises:
    UserError: one of these fails.
  """
  again = loading.from_pretrained(
      str(folder),
      config_lib.ModelConfig(init=str(folder), shared=model.spec.shared),
      seed=0,
  )
  same = jax.tree.map(np.array_equal, model.params, again.params)
  if not all(jax.tree.leaves(same)):
    raise errors.UserError(
        f'{model.name}: weights changed on their way through {folder}, or are '
        'not numbers'
    )
  folders = tower_folders(model, folder)
  for role in ('query', 'passage'):
    probes = [(title if role == 'passage' else '', text)
              for title, text in _PROBES]
    backend = tokenizers.Tokenizer.from_file(str(
        (folders.get(role) or folders['shared']) / 'tokenizer.json'
    ))
    backend.enable_truncation(model.text.length(role))
    for probe in probes:
      _check_tokens(model, role, probe, backend)
    difference = np.abs(embed(model, role, probes)
                        - embed(again, role, probes)).max()
    if not difference <= _TOLERANCE:
      raise errors.UserError(
          f'{model.name}: embeddings of {role} probes differ by {difference:g} '
          f'after being written to {folder} and read back'
      )


def _check_tokens(
    model: loading.Model,
    role: str,
    probe: tuple[str, str],
    backend: tokenizers.Tokenizer,
) -> None:
  """Compares tokens with those sentence-transformers would make."""
  prefix = model.text.prefix(role)
  title = model.tokenizer.encode(probe[0])
  template = model.tokenizer.template
  most = model.text.length(role) - template.around - len(template.between)
  if title and len(model.tokenizer.encode(prefix)) + len(title) > most:
    return  # See `passage_text`.
  start, own = prompt(prefix, model.tokenizer), _tokens(model, role, [probe])[0]
  theirs = backend.encode(start + passage_text(
      *probe, model.tokenizer.separator
  )).ids
  is_pair = probe[0].strip() and template.between
  if is_pair and len(own) < model.text.length(role):
    pair = backend.encode(start + probe[0], probe[1])
    if pair.ids != own.tolist() or any(pair.type_ids):
      theirs = pair.ids
  if theirs != own.tolist():
    raise errors.UserError(
        f'{model.name}: its tokenizer splits {probe[0][:40]!r} and '
        f'{probe[1][:40]!r}, put together as one text, otherwise than each '
        'alone, so that sentence-transformers would give other embeddings. '
        'Tokenizers of BERT models do not'
    )


def _tokens(
    model: loading.Model, role: str, probes: list[tuple[str, str]]
) -> sequences.AnySequences:
  """The input of a model."""
  return tokenized.tokenize_in_memory(
      probes, model.tokenizer, model.text.length(role), model.text.prefix(role),
      model.text.title_end,
  ).tokens(np.arange(len(probes)))


def embed(
    model: loading.Model, role: str, probes: list[tuple[str, str]]
) -> Float[np.ndarray, 'probes features']:
  """Embeddings of probes, a row each: both roles need one compilation."""
  row_length = max(model.text.query_length, model.text.passage_length)
  layout = packing.plan(np.full(len(probes), row_length), 1, row_length)
  vecs = _encode(
      model.spec, dual_encoder.tower(model.params, role),
      packing.fill(layout, _tokens(model, role, probes)),
  )
  return np.asarray(vecs).reshape(-1, model.spec.dim)[layout.flat_slot]


@functools.partial(jax.jit, static_argnums=0)
def _encode(spec, params, batch):
  return dual_encoder.encode(dual_encoder.Encoder(spec), params, batch, None)


def _write_modules(
    folder: pathlib.Path,
    spec: dual_encoder.EncoderSpec,
    params: Any,
) -> None:
  """Writes modules.json and the folders of all modules but the first."""
  modules = [('Transformer', '')]

  def add(kind: str, values: dict[str, Any]) -> pathlib.Path:
    place = folder / f'{len(modules)}_{kind}'
    place.mkdir()
    folders_lib.write_json(place / 'config.json', values)
    modules.append((kind, place.name))
    return place

  own = pooling.POOLINGS[spec.pooling].switch
  add('Pooling', {
      'word_embedding_dimension': spec.transformer.hidden_size,
      **{f'pooling_mode_{mode}': mode == own for mode in _POOLING_MODES},
      'include_prompt': True,
  })
  features = spec.transformer.hidden_size
  for number, layer in enumerate(spec.projections):
    place = add('Dense', {
        'in_features': features,
        'out_features': layer.features,
        'bias': layer.bias,
        'activation_function':
            projections.ACTIVATIONS[layer.activation].theirs,
    })
    own = params[projections.name(number)]
    tensor_files.save(place, {
        'linear.weight': own['kernel'].T,
        **({'linear.bias': own['bias']} if layer.bias else {}),
    })
    features = layer.features
  if spec.normalize:
    add('Normalize', {})
  folders_lib.write_json(folder / 'modules.json', [
      {'idx': i, 'name': str(i), 'path': path,
       'type': f'sentence_transformers.models.{kind}'}
      for i, (kind, path) in enumerate(modules)
  ])


def _write_tokenizer(
    model: loading.Model, folder: pathlib.Path, length: int
) -> int:
  """Writes the tokenizer as transformers reads it; returns its padding id."""
  path = folder / 'tokenizer.json'
  try:
    model.tokenizer.save(folder)
  except Exception as e:  # The library raises nothing more special.
    raise OSError(f'{path}: {e}') from e
  backend = tokenizers.Tokenizer.from_file(str(path))
  specials = {f'{name}_token': token for name, known in _TOKENS.items()
              for token in reversed(known)
              if backend.token_to_id(token) is not None}
  pad_id = backend.token_to_id(specials.get('pad_token', ''))
  if pad_id is None:
    raise errors.UserError(
        f'{model.name}: its tokenizer has no [PAD] or <pad>, which '
        'sentence-transformers needs; give the folder of a model'
    )
  template = model.tokenizer.template
  last = 'sep_token' if template.start else 'eos_token'
  for name, ids in (('cls_token', template.start), (last, template.end)):
    if ids:
      specials[name] = str(backend.id_to_token(ids[0]))
  if backend.post_processor is None:
    first, last = specials['cls_token'], specials[last]
    backend.post_processor = processors.TemplateProcessing(
        single=f'{first} $A {last}',
        pair=f'{first} $A {last} $B:1 {last}:1',
        special_tokens=[(first, template.start[0]), (last, template.end[0])],
    )
    path.write_text(backend.to_str(pretty=True), encoding='utf-8')
  pair_types.make_equal(path)
  folders_lib.write_json(folder / 'special_tokens_map.json', specials)
  folders_lib.write_json(folder / 'tokenizer_config.json', {
      **specials,
      # Takes tokenizer.json as it is, where BertTokenizer makes its own.
      'tokenizer_class': 'PreTrainedTokenizerFast',
      'model_max_length': length,
      'clean_up_tokenization_spaces': False,
      # Without token types, as DistilBERT is, transformers' class takes none.
      **({} if model.spec.transformer.type_vocab_size else {
          'model_input_names': ['input_ids', 'attention_mask'],
      }),
  })
  return pad_id
