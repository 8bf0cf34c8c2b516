"""Makes a tokenizer take (title, text) as models are trained on it.

Tokenizers of BERT models give the second text of a pair a token type of its
own. Retrievers see one type in title and text alike.
"""

import json
import pathlib
from typing import Any


def make_equal(path: pathlib.Path) -> None:
  """Gives all tokens of a pair the type 0.

  Args:
    path: of a tokenizer.json, which is changed; ids stay as they are.
  """
  values = json.loads(path.read_text(encoding='utf-8'))
  values['post_processor'] = _equal(values['post_processor'])
  path.write_text(json.dumps(values, indent=2, ensure_ascii=False),
                  encoding='utf-8')


def _equal(processor: Any) -> Any:
  """A post-processor without types."""
  if not isinstance(processor, dict):
    return processor
  if processor['type'] == 'Sequence':
    return {**processor,
            'processors': [*map(_equal, processor['processors'])]}
  if processor['type'] == 'BertProcessing':
    processor = _as_template(processor)
  if processor['type'] != 'TemplateProcessing':
    return processor
  return {**processor, 'pair': [
      {name: {**piece, 'type_id': 0} for name, piece in one.items()}
      for one in processor['pair']
  ]}


def _as_template(processor: dict[str, Any]) -> dict[str, Any]:
  (sep, sep_id), (cls, cls_id) = processor['sep'], processor['cls']
  special = lambda name: {'SpecialToken': {'id': name, 'type_id': 0}}
  text = lambda name: {'Sequence': {'id': name, 'type_id': 0}}
  single = [special(cls), text('A'), special(sep)]
  return {
      'type': 'TemplateProcessing', 'single': single,
      'pair': [*single, text('B'), special(sep)],
      'special_tokens': {
          name: {'id': name, 'ids': [number], 'tokens': [name]}
          for name, number in ((cls, cls_id), (sep, sep_id))
      },
  }
