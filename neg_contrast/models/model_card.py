"""The README.md of an exported model: what is known of it, and no more.

https://huggingface.co/docs/hub/model-cards
"""

import dataclasses
import json
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax

from neg_contrast import terminal
from neg_contrast.models import families, loading, pooling
from neg_contrast.settings import config as config_lib
from neg_contrast.settings import source_list

_TAGS = ('sentence-transformers', 'feature-extraction', 'dense-retrieval',
         'neg_contrast')
_SYSTEMS = {
    'trained': 'this model',
    'initial': 'what training began with',
    'bm25': 'a ranking by words over title and text',
}


@dataclasses.dataclass(frozen=True)
class Facts:
  """What lies on disk about a model. Empty: nothing does.

  Attributes:
    name: heading.
    source: of the weights, for models that were not trained by us.
    base_model: name on the hub of what training began with, or of `source`.
    init: what training began with.
    selected: how the checkpoint was chosen.
    run: of a workdir's `run.json`.
    evaluations: manifests of a workdir's evaluations.
    metrics: of the workdir's evaluations, as its `metrics.json` has them.
  """

  name: str
  source: str = ''
  base_model: str | None = None
  init: str = ''
  selected: str = ''
  run: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  evaluations: Sequence[Mapping[str, Any]] = ()
  metrics: Mapping[str, float] = dataclasses.field(default_factory=dict)


def model_card(model: loading.Model, facts: Facts) -> str:
  """The text of README.md, front matter included."""
  paragraphs = [
      _front_matter(facts), f'# {_plain(facts.name)}',
      _introduction(model, facts),
      '## Use', *_usage(model, facts),
      '## Model', _layers(model),
      *_data(facts), *_training(facts), *_scores(facts),
      '## Limits', _limits(model),
  ]
  return terminal.clean('\n\n'.join(paragraphs) + '\n')


def _front_matter(facts: Facts) -> str:
  """YAML; a json string is a YAML string."""
  lines = ['---', 'library_name: sentence-transformers',
           'pipeline_tag: sentence-similarity', 'tags:',
           *(f'- {tag}' for tag in _TAGS)]
  if facts.base_model:
    lines.append(f'base_model: {json.dumps(facts.base_model)}')
  return '\n'.join([*lines, '---'])


def _introduction(model: loading.Model, facts: Facts) -> str:
  what = (
      'A dual encoder for dense passage retrieval: queries and passages become '
      f'vectors of {model.spec.dim} features, and the inner product of two '
      'says how well a passage answers a query.'
  )
  if facts.run:
    return (f'{what} Trained with neg_contrast, starting from '
            f'{_model_name(facts.init, facts.base_model)}.')
  return (f'{what} Written by neg_contrast from the weights of '
          f'{_model_name(facts.source, facts.base_model)}, which it did not '
          'train.')


def _usage(model: loading.Model, facts: Facts) -> list[str]:
  """How to embed queries and passages exactly as we do."""
  text, separator = model.text, model.tokenizer.separator
  lines = ['from sentence_transformers import SentenceTransformer', '']
  cut = text.query_length != text.passage_length
  if model.spec.shared:
    lines.append("model = SentenceTransformer('model')  # The folder of this "
                 'file.')
    names = {'query': 'model', 'passage': 'model'}
  else:
    cut = False
    names = {'query': 'query_model', 'passage': 'passage_model'}
    lines += ["query_model = SentenceTransformer('model/query')",
              "passage_model = SentenceTransformer('model/passage')"]
  set_length = lambda role: (
      [f'model.max_seq_length = {text.length(role)}  # For {role} inputs.']
      if cut else []
  )
  lines += [
      *set_length('query'),
      f'query_vecs = {names["query"]}.encode(',
      "    ['How tall is the Eiffel Tower?'], prompt_name='query'",
      ')',
      *set_length('passage'),
      f'passage_vecs = {names["passage"]}.encode(',
      f'    [{f"Eiffel Tower{separator}It is 330 metres tall."!r},'
      '  # With a title.',
      "     'The Brooklyn Bridge was opened in 1883.'],  # Without.",
      "    prompt_name='document',",
      ')',
      'print(query_vecs @ passage_vecs.T)',
  ]
  code = _code(f"title + '{separator}' + text")
  notes = [
      f'A passage with a title is one string, {code}; one without is its text '
      'alone. Do not pass pairs: '
      + ('of long ones sentence-transformers would cut the title.'
         if model.tokenizer.template.between
         else 'they would lose what stands between both.')
  ]
  prompts = [f'{_prompt(text.prefix(role))} before every {role}'
             for role in ('query', 'passage') if text.prefix(role)]
  if prompts:
    notes.append(f'The prompts put {" and ".join(prompts)}; keep '
                 '`prompt_name`.')
  else:
    notes.append('The prompts are empty.')
  if any(map(_prompts_of_data, _sets(facts).values())):
    notes.append('In their place training put before texts what stands below '
                 'under Data: put it there yourself, and leave out '
                 '`prompt_name`.')
  notes.append(
      'neg_contrast itself takes this folder as `--config.checkpoint` or '
      '`--config.model.init`'
      + ('.' if model.spec.shared else ', with `--config.model.shared=False`.')
  )
  return ['\n'.join(['```python', *lines, '```']), ' '.join(notes)]


def _layers(model: loading.Model) -> str:
  spec, bert, text = model.spec, model.spec.transformer, model.text
  count = sum(a.size for a in jax.tree.leaves(model.params))
  towers = ('one tower for queries and passages' if spec.shared else
            'a tower for queries (`query/`) and one for passages (`passage/`)')
  rows = [
      ('towers', towers),
      ('parameters', f'{count:,}'),
      ('transformer', f'{families.FAMILIES[bert.model_type].title}, '
       f'{bert.num_layers} layers, hidden size '
       f'{bert.hidden_size}, {bert.num_heads} heads, {bert.vocab_size:,} '
       'tokens'),
      ('pooling', pooling.POOLINGS[spec.pooling].text),
      ('projection', _projection(model)),
      ('normalised', 'to length 1' if spec.normalize else 'no'),
      ('query', f'cut to {text.query_length} tokens'),
      ('passage', f'cut to {text.passage_length} tokens'),
  ]
  return _table(('', ''), rows)


def _projection(model: loading.Model) -> str:
  said = []
  for layer in model.spec.projections:
    activation = ('' if layer.activation == 'identity'
                  else f', then {layer.activation}')
    said.append(f'linear to {layer.features} features, '
                f'{"with" if layer.bias else "without"} bias{activation}')
  return '; '.join(said) or 'none'


def _sets(facts: Facts) -> dict[str, Mapping[str, Any]]:
  """Keys of each data set that was trained on; of a single one, by no name."""
  config = facts.run['config'] if facts.run else {'data': {}}
  return config.get('mixture', {}).get('sets') or {'': config['data']}


def _prompts_of_data(values: Mapping[str, Any]) -> list[tuple[str, str]]:
  """What a data set puts before its texts, in place of the model's prompts."""
  prompts = {role: values.get(f'{role}_prefix')
             for role in ('query', 'passage')}
  return [(f'put before every {role}', _prompt(prompt) if prompt else 'nothing')
          for role, prompt in prompts.items() if prompt is not None]


def _data(facts: Facts) -> list[str]:
  if not facts.run:
    return []
  needs, sets = facts.run['identity'].get('needs', {}), _sets(facts)
  pairs = (f'{facts.run["examples"]:,} pairs of query and positive passage'
           if 'examples' in facts.run else '')
  rows = [(f'{name}: {what}' if name else what, value)
          for name, values in sets.items()
          for what, value in _set_rows(values, '' if name else pairs)]
  if pairs and '' not in sets:
    rows.append(('together', pairs))
  rows += [
      (f'fingerprint of the {what}', f'`{needs[role]["data"]}`')
      for role, what in (
          ('data', 'data with judgements'),
          ('gold', 'data that it was tuned on'),
          *((f'data of {name}', f'data of {name}') for name in sets))
      if 'data' in needs.get(role, {})
  ]
  return ['## Data', _table(('', ''), rows)]


def _set_rows(values: Mapping[str, Any], pairs: str) -> list[tuple[str, str]]:
  """What is said of a data set, by the keys that name it."""
  scheme, _, place = values['source'].partition(':')
  tune = values['tune_split'] or (
      f'{values["tune_fraction"]:g} of the training documents'
  )
  return [
      ('source', _code(f'{scheme}:{_public(place)}' if place else scheme)),
      ('trained on', ', '.join(filter(None, (
          f'split {_code(values["train_split"])}', pairs)))),
      ('tuned on', f'split {_code(tune)}' if values['tune_split'] else tune),
      ('tested on', f'split {_code(values["test_split"])}'),
      *_prompts_of_data(values),
  ]


def _training(facts: Facts) -> list[str]:
  if not facts.run:
    return []
  config = facts.run['config']
  named = config['negatives'].get('sources', ())
  together = config['data'].get('together')
  sentences = [
      _loss(config['loss']),
      'Negatives: the passages of the other rows of a batch' + (
          f' (together in it: {_code(together)})' if together else ''
      ) + (
          f', and at each step {_plain(source_list.label(_public(named)))}.'
          if named else '.'
      ),
      facts.selected,
  ]
  rows = [
      ('queries in a batch', f'{config["data"]["batch_size"]}'),
      *([('steps planned', f'{facts.run["total_steps"]}')]
        if 'total_steps' in facts.run else []),
      ('seed', f'{config["seed"]}'),
      *((f'{name}.{key}', _code(json.dumps(_public(value))))
        for name in ('optim', 'loss', 'negatives')
        for key, value in _set_keys(name, config[name])),
      *((f'model.{key}', _code(json.dumps(value)))
        for key, value in _set_keys('model', config['model'])
        if key in ('hidden_dropout', 'attention_dropout', 'dtype')),
  ]
  if 'versions' in facts.run.get('environment', {}):
    versions = facts.run['environment']['versions']
    rows.append(('versions', ', '.join(
        f'{name} {version}' for name, version in versions.items()
    )))
  return ['## Training', ' '.join(filter(None, sentences)),
          _table(('setting', 'value'), rows)]


def _loss(values: Mapping[str, Any]) -> str:
  """A sentence on the loss."""
  kind = values.get('kind', 'softmax')
  if kind != 'softmax':
    return f'Loss: {_code(kind)}.'
  if not values.get('bidirectional', True):
    return 'Loss: the softmax over the passages of the batch, for each query.'
  return ('Loss: the softmax over the batch, both ways (Lu et al., "Neural '
          'Passage Retrieval with Improved Negative Contrast").')


def _scores(facts: Facts) -> list[str]:
  """A table for each data set and split: metrics down, systems across."""
  tables: dict[str, dict[str, dict[str, float]]] = {}
  for name, value in facts.metrics.items():
    where, _, metric = name.rpartition('/')
    group, _, system = where.rpartition('/')
    if group:
      tables.setdefault(group, {}).setdefault(metric, {})[system] = value
  if not tables:
    return ['## Scores', 'Where the weights lay, there were no scores.']
  sizes = {e['key'].rpartition('/')[0]: e for e in facts.evaluations}
  parts = ['## Scores']
  for group, by_metric in tables.items():
    systems = list(dict.fromkeys(s for row in by_metric.values() for s in row))
    size = sizes.get(group)
    parts.append(_code(group) + (
        f', {size["queries"]:,} queries over {size["passages"]:,} passages:'
        if size else ':'
    ))
    parts.append(_table(('', *map(_plain, systems)), [
        (_plain(metric),
         *(f'{row[s]:.4f}' if s in row else '-' for s in systems))
        for metric, row in by_metric.items()
    ]))
  present = {system for by_metric in tables.values()
             for row in by_metric.values() for system in row}
  meanings = [f'{_code(system)} is {meaning}.'
              for system, meaning in _SYSTEMS.items() if system in present]
  parts.append(' '.join([
      *meanings,
      'Metrics are those of trec_eval; `accuracy@k` is its `success`.',
  ]))
  return parts


def _limits(model: loading.Model) -> str:
  text, is_shared = model.text, model.spec.shared
  points = [
      f'Queries are cut after {text.query_length} tokens and passages after '
      f'{text.passage_length}, special tokens included; what follows is not '
      'seen.',
  ]
  if is_shared and text.query_length != text.passage_length:
    points.append(
        'sentence-transformers knows one `max_seq_length`, and this folder '
        f'sets that of passages, {text.passage_length}. A query of more than '
        f'{min(text.query_length, text.passage_length)} tokens gets the '
        'embedding it had in training only with `max_seq_length = '
        f'{text.query_length}`, as above; shorter ones need no care.'
    )
  points += [
      *([
          'A title too long to leave room for text is cut one token later here '
          'than in training.',
          f'A {_code(model.tokenizer.separator.strip())} inside a title or '
          'text counts as a separator.',
      ] if model.tokenizer.template.between else []),
      *(["The weights of BERT's pooler are zeros: it is no part of the model."]
        if model.spec.transformer.type_vocab_size else []),
      'Languages, domains and data that are not named above were not looked '
      'at.',
  ]
  return '\n'.join(f'- {point}' for point in points)


def _table(
    head: Sequence[str], rows: Sequence[Sequence[str]]
) -> str:
  line = lambda cells: '| ' + ' | '.join(
      cell.replace('|', '\\|').replace('\n', ' ') for cell in cells
  ) + ' |'
  return '\n'.join([line(head), '|---' * len(head) + '|', *map(line, rows)])


def _model_name(name: str, hub_name: str | None) -> str:
  if hub_name:
    return f'[{hub_name}](https://huggingface.co/{hub_name})'
  return f'the local folder {_code(pathlib.Path(name).name)}'


def _public(value: Any) -> Any:
  """A value; of a path, its last part: whose folders they were is private."""
  if isinstance(value, list | tuple):
    return [*map(_public, value)]
  is_path = isinstance(value, str) and '/' in value
  return pathlib.Path(value).name if is_path else value


def _set_keys(
    section: str, values: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
  """Keys and values of a section that differ from the defaults."""
  defaults = config_lib.base_config().to_dict()[section]
  for key, value in values.items():
    # As json, since a run's list is a tuple among the defaults.
    if key not in defaults or json.dumps(value) != json.dumps(defaults[key]):
      yield key, value


def _prompt(text: str) -> str:
  """A prompt as Python writes it: line breaks and blanks at its end count."""
  return _code(repr(text))


def _code(text: str) -> str:
  """A text as code, whatever it holds."""
  text = ' '.join(text.split('\n'))
  fence = '`' * (1 + max(map(len, re.findall('`+', text)), default=0))
  space = ' ' * (text.startswith('`') or text.endswith('`'))
  return f'{fence}{space}{text}{space}{fence}'


def _plain(text: str) -> str:
  """A text as it is, none of it markup."""
  return re.sub(r'([\\`*_\[\]<>&])', r'\\\1', ' '.join(text.split()))
