"""A tiny corpus whose texts say a topic, and whose features say a place."""

import json
import pathlib

import numpy as np

from tests import tiny

PLACES = ('Paris', 'Łódź', 'São Paulo', 'Oslo', 'Kyiv', 'Quito', 'Lima', 'Bern')
TOPICS = tiny.WORDS[:8]
NOISE = tiny.WORDS[8:]


def write(folder: pathlib.Path, per_pair=4) -> None:
  """A passage for each topic and place; a query asks for one of them.

  A quarter of the pairs of topic and place is the split `test`, another quarter
  of the rest `tune`. By its topic, a query has a passage of each place.
  """
  rng = np.random.default_rng(0)
  (folder / 'qrels').mkdir(parents=True)
  passages, queries = [], []
  lines: dict[str, list[str]] = {'train': [], 'tune': [], 'test': []}
  for t, topic in enumerate(TOPICS):
    for p, place in enumerate(PLACES):
      name = f'{t}-{p}'
      split = {0: 'test', 1: 'tune'}.get((t + p) % 4, 'train')
      passages.append({
          '_id': name, 'title': '',
          'text': ' '.join([topic, *rng.choice(NOISE, 4, replace=False)]),
          'metadata': {'location': place, **_more(rng, p)},
      })
      for n in range(per_pair):
        queries.append({
            '_id': f'q{name}-{n}',
            'text': ' '.join([topic, *rng.choice(NOISE, 2, replace=False)]),
            'location': place, **_more(rng, p),
        })
        lines[split].append(f'q{name}-{n}\t{name}\t1')
  dump = lambda rows: ''.join(
      json.dumps(row, ensure_ascii=False) + '\n' for row in rows)
  (folder / 'corpus.jsonl').write_text(dump(passages), encoding='utf-8')
  (folder / 'queries.jsonl').write_text(dump(queries), encoding='utf-8')
  for split, of in lines.items():
    (folder / 'qrels' / f'{split}.tsv').write_text(
        '\n'.join(['query-id\tcorpus-id\tscore', *of, '']))


def _more(rng, place):
  """A number and a vector that say the place too, with some noise."""
  vector = np.eye(len(PLACES))[place] + 0.05 * rng.standard_normal(len(PLACES))
  return {'price': 100 * place + float(rng.normal()),
          'social': [round(float(x), 4) for x in vector]}


def make_config(tmp_path: pathlib.Path, **overrides):
  """A training config over that corpus, made if missing."""
  if not (tmp_path / 'located').exists():
    write(tmp_path / 'located')
  if not (tmp_path / 'model').exists():
    tiny.write_model(tmp_path / 'model')
  if not (tmp_path / 'data').exists():
    (tmp_path / 'data').mkdir()
  return tiny.make_config(tmp_path, **{
      'data__source': f'beir:{tmp_path / "located"}',
      'data__tune_split': 'tune', 'data__batch_size': 32,
      'negatives__sources': (), 'optim__learning_rate': 3e-3,
      'optim__steps': 150, 'checkpointing__save_steps': 150,
      'evaluation__eval_steps': 0,
      'evaluation__bm25': False, 'evaluation__depth': 8,
      'evaluation__metrics': ('accuracy@1',),
      'model__features': ('location:categorical',), **overrides,
  })
