"""A tiny model, corpus and config that whole jobs run on in seconds."""

import collections
import functools
import json
import math
import pathlib

import numpy as np
import tokenizers
from safetensors.numpy import save_file
from tokenizers import models, normalizers, pre_tokenizers

from neg_contrast import hosts
from neg_contrast.artifacts import folders, plan
from neg_contrast.data import examples
from neg_contrast.jobs import train
from neg_contrast.models import bert, dual_encoder
from neg_contrast.settings import config as config_lib

WORDS = [f'word{i}' for i in range(60)]


def positives(groups) -> examples.Positives:
  """Known positives from a list of groups for each query."""
  pairs = [(query, group) for query, some in enumerate(groups)
           for group in some]
  return examples.Positives(np.array(pairs, np.int32), len(groups))


def write_tokenizer(folder: pathlib.Path, words=WORDS) -> None:
  names = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', *words]
  tokenizer = tokenizers.Tokenizer(models.WordLevel(
      {name: i for i, name in enumerate(names)}, unk_token='[UNK]'
  ))
  tokenizer.normalizer = normalizers.Lowercase()
  tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
  tokenizer.add_special_tokens(names[:5])
  folder.mkdir(parents=True, exist_ok=True)
  tokenizer.save(str(folder / 'tokenizer.json'))


def fill_vocabulary(backend, texts, marks, size: int) -> None:
  """Gives a WordPiece or Unigram its pieces: letters, then frequent words.

  The library's trainers are not used: they order what is equally frequent by
  the hash of a process, so that every process gets other ids.
  """
  normalize = backend.normalizer.normalize_str if backend.normalizer else str
  counts = collections.Counter(
      word for text in texts for word, _ in
      backend.pre_tokenizer.pre_tokenize_str(normalize(text)))
  words = sorted(counts, key=lambda word: (-counts[word], word))
  counts.update(''.join(counts.elements()))
  letters = sorted(set(''.join(words)))
  is_word_piece = isinstance(backend.model, models.WordPiece)
  if is_word_piece:
    letters += [f'##{letter}' for letter in letters]
  pieces = list(dict.fromkeys([*letters, *words]))[:size - len(marks)]
  if is_word_piece:
    backend.model = models.WordPiece(
        {piece: i for i, piece in enumerate([*marks, *pieces])},
        unk_token='[UNK]')
  else:
    backend.model = models.Unigram(
        [*((mark, 0.0) for mark in marks),
         *((piece, math.log(counts[piece] / counts.total()))
           for piece in pieces)], unk_id=marks.index('<unk>'))
  backend.add_special_tokens(marks)


def bert_config(**kwargs) -> bert.BertConfig:
  values = dict(vocab_size=65, hidden_size=16, num_layers=2, num_heads=4,
                intermediate_size=24, max_positions=40,
                initializer_range=0.3)
  return bert.BertConfig(**{**values, **kwargs})


def hf_names(params, config: bert.BertConfig) -> dict[str, np.ndarray]:
  """The tensors of our tree under the names of transformers' BertModel."""
  layers, out = params['layers'], {}
  embeddings = params['embeddings']
  for name in ('word', 'position', 'token_type'):
    out[f'embeddings.{name}_embeddings.weight'] = embeddings[name]['embedding']
  out['embeddings.LayerNorm.weight'] = embeddings['norm']['scale']
  out['embeddings.LayerNorm.bias'] = embeddings['norm']['bias']
  pieces = {
      'attention.self.query': layers['attention']['query'],
      'attention.self.key': layers['attention']['key'],
      'attention.self.value': layers['attention']['value'],
      'attention.output.dense': layers['attention']['output'],
      'attention.output.LayerNorm': layers['attention_norm'],
      'intermediate.dense': layers['intermediate'],
      'output.dense': layers['output'],
      'output.LayerNorm': layers['output_norm'],
  }
  for i in range(config.num_layers):
    for name, piece in pieces.items():
      weight = (piece['kernel'][i].T if 'kernel' in piece
                else piece['scale'][i])
      out[f'encoder.layer.{i}.{name}.weight'] = weight
      out[f'encoder.layer.{i}.{name}.bias'] = piece['bias'][i]
  return {k: np.ascontiguousarray(v, np.float32) for k, v in out.items()}


@functools.cache
def _init(config: bert.BertConfig, seed: int):
  """Random weights; hundreds of tests have the same."""
  import jax

  init = functools.partial(
      dual_encoder.init_params, dual_encoder.EncoderSpec(config)
  )
  params = jax.jit(init)(jax.random.key(seed))['shared']['bert']
  return jax.tree.map(np.asarray, params)


def write_model(folder: pathlib.Path, seed=0, words=WORDS, **kwargs):
  """A BERT folder with random weights."""
  import jax

  write_tokenizer(folder, words)
  config = bert_config(**kwargs)
  params = jax.tree.map(np.asarray, _init(config, seed))  # A tree of its own.
  save_file(hf_names(params, config), str(folder / 'model.safetensors'),
            metadata={'format': 'pt'})
  (folder / 'config.json').write_text(json.dumps({
      'model_type': 'bert', 'vocab_size': config.vocab_size,
      'hidden_size': config.hidden_size,
      'num_hidden_layers': config.num_layers,
      'num_attention_heads': config.num_heads,
      'intermediate_size': config.intermediate_size,
      'max_position_embeddings': config.max_positions,
      'type_vocab_size': config.type_vocab_size, 'hidden_act': 'gelu',
      'hidden_dropout_prob': 0.1, 'attention_probs_dropout_prob': 0.1,
      'layer_norm_eps': 1e-12,
  }))
  return config, params


def write_beir(folder: pathlib.Path, documents=12, per_document=4) -> None:
  """Queries repeat three words of their passage; some grade-0 judgements."""
  rng = np.random.default_rng(0)
  (folder / 'qrels').mkdir(parents=True)
  passages, queries, lines = [], [], {'train': [], 'test': []}
  for d in range(documents):
    split = 'test' if d % 4 == 3 else 'train'
    for n in range(per_document):
      words = rng.choice(WORDS, rng.integers(4, 16), replace=False)
      pid, qid = f'd{d}p{n}', f'q{d}-{n}'
      passages.append({'_id': pid, 'title': '', 'text': ' '.join(words),
                       'metadata': {'document_id': f'd{d}'}})
      queries.append({'_id': qid, 'text': ' '.join(words[:3]),
                      'answers': [str(words[0])]})
      lines[split].append(f'{qid}\t{pid}\t1')
      for other in rng.choice(documents, 3, replace=False):
        if other != d:
          lines[split].append(f'{qid}\td{other}p{n}\t0')
  dump = lambda rows: ''.join(json.dumps(row) + '\n' for row in rows)
  (folder / 'corpus.jsonl').write_text(dump(passages))
  (folder / 'queries.jsonl').write_text(dump(queries))
  for split, rows in lines.items():
    (folder / 'qrels' / f'{split}.tsv').write_text(
        '\n'.join(['query-id\tcorpus-id\tscore', *rows, ''])
    )


def write_sentences(folder, documents=8, per_document=3):
  """Titled passages of several sentences, some words in all of a document."""
  rng = np.random.default_rng(0)
  (folder / 'qrels').mkdir(parents=True)
  passages, queries, lines = [], [], {'train': [], 'test': []}
  for d in range(documents):
    name = ' '.join(rng.choice(WORDS, 3, replace=False))
    for n in range(per_document):
      said = [' '.join(rng.choice(WORDS, 9, replace=False)).capitalize()
              for _ in range(4)]
      text = f'{said[0]} . {said[1]} {name} . {said[2]} . {said[3]} .'
      passages.append({'_id': f'd{d}p{n}', 'title': name, 'text': text,
                       'metadata': {'document_id': f'd{d}'}})
      queries.append({'_id': f'q{d}-{n}', 'text': said[0],
                      'answers': [said[1].split()[0]]})
      lines['test' if d % 4 == 3 else 'train'].append(
          f'q{d}-{n}\td{d}p{n}\t1')
  dump = lambda rows: ''.join(json.dumps(row) + '\n' for row in rows)
  (folder / 'corpus.jsonl').write_text(dump(passages))
  (folder / 'queries.jsonl').write_text(dump(queries))
  for split, rows in lines.items():
    (folder / 'qrels' / f'{split}.tsv').write_text(
        '\n'.join(['query-id\tcorpus-id\tscore', *rows, '']))


WORLDS = {'train': ('apple', 'berry'), 'val': ('cherry',),
          'test': ('damson', 'elder')}


def write_zeshel(folder: pathlib.Path, documents=6, words=WORDS) -> None:
  """Mentions of two words in each document, of another one of its world."""
  rng = np.random.default_rng(0)
  dump = lambda rows: ''.join(json.dumps(row) + '\n' for row in rows)
  for name in ('documents', 'mentions', 'tfidf_candidates'):
    (folder / name).mkdir(parents=True)
  for split, worlds in WORLDS.items():
    mentions, candidates = [], []
    for world in worlds:
      texts = [rng.choice(words, 12).tolist() for _ in range(documents)]
      ids = [f'{world}{d}' for d in range(documents)]
      (folder / 'documents' / f'{world}.json').write_text(dump(
          {'document_id': name, 'title': text[0], 'text': ' '.join(text)}
          for name, text in zip(ids, texts, strict=True)
      ))
      for d, text in enumerate(texts):
        start, label = int(rng.integers(0, 11)), (d + 1) % documents
        mentions.append({
            'mention_id': f'm-{ids[d]}', 'corpus': world,
            'context_document_id': ids[d], 'label_document_id': ids[label],
            'text': ' '.join(text[start : start + 2]),
            'start_index': start, 'end_index': start + 1,
            'category': 'LOW_OVERLAP',
        })
        candidates.append({'mention_id': f'm-{ids[d]}', 'tfidf_candidates': [
            ids[other] for other in rng.permutation(documents)[:4]
        ]})
    for name, rows in (('mentions', mentions),
                       ('tfidf_candidates', candidates)):
      (folder / name / f'{split}.json').write_text(dump(rows))


MARKED = [*WORDS, '[unused0]', '[unused1]']
"""Words of a vocabulary with the markers of mentions; 67 tokens."""


def make_linking_config(tmp_path: pathlib.Path, **overrides):
  """A training config over tiny worlds, made if missing."""
  if not (tmp_path / 'zeshel').exists():
    write_zeshel(tmp_path / 'zeshel')
  if not (tmp_path / 'model').exists():
    write_model(tmp_path / 'model', words=MARKED, vocab_size=67)
  config = make_config(tmp_path, **{
      'data__source': f'zeshel:{tmp_path / "zeshel"}',
      'data__tune_split': 'val', 'negatives__sources': (),
      'optim__steps': 3, 'evaluation__eval_steps': 3,
      'evaluation__depth': 4,
      'evaluation__metrics': ('accuracy@4', 'macro_accuracy@1'), **overrides,
  })
  return config


def make_config(tmp_path: pathlib.Path, **overrides):
  """A training config over the tiny corpus and model, made if missing."""
  if not (tmp_path / 'data').exists():
    write_beir(tmp_path / 'data')
  if not (tmp_path / 'model').exists():
    write_model(tmp_path / 'model')
  config = config_lib.base_config()
  config.data.source = f'beir:{tmp_path / "data"}'
  config.data.prepared_dir = str(tmp_path / 'prepared')
  config.data.batch_size = 8
  config.data.groups = 8
  config.data.tune_fraction = 0.3
  config.model.init = str(tmp_path / 'model')
  config.model.query_length = 16
  config.model.passage_length = 24
  config.negatives.sources = ('given:2',)
  config.optim.learning_rate = 1e-3
  config.optim.steps = 20
  config.evaluation.eval_steps = 5
  config.checkpointing.save_steps = 3
  config.checkpointing.log_steps = 2
  config.index.chunk_tokens = 64
  for key, value in overrides.items():
    config.update_from_flattened_dict({key.replace('__', '.'): value})
  return config


def train_only(folder: pathlib.Path, workdir: pathlib.Path, **overrides):
  """Trains as a job does, in any number of processes; evaluates nothing."""
  config = make_config(folder, evaluation__eval_steps=0, **overrides)
  job = train.TrainJob(config_lib.parse(config), workdir)
  hosts.on_first(lambda: folders.make_folder(workdir))
  plan.run([job.run])


def run(job_type, config, workdir: pathlib.Path):
  """Runs a job to its end, in any number of processes, and returns it."""
  hosts.on_first(lambda: folders.make_folder(workdir))
  job = job_type(config_lib.parse(config), workdir)
  plan.run(job.targets())
  hosts.on_first(job.finish)
  return job
