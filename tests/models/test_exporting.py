"""Exported folders against sentence-transformers itself."""

import dataclasses
import functools
import json
import re
import shutil

import jax
import numpy as np
import pytest
import tokenizers
from tokenizers import models, normalizers, pre_tokenizers

from neg_contrast import errors, sharding
from neg_contrast.data import tokenized
from neg_contrast.data import tokenizer as tokenizer_lib
from neg_contrast.models import (
  dual_encoder,
  exporting,
  loading,
  model_card,
  projections,
  text_spec,
)
from neg_contrast.retrieval import encoding
from neg_contrast.settings import config as config_lib
from tests import tiny

st = pytest.importorskip('sentence_transformers')

QUERIES = ['word1 word2', 'word3', 'word5 ' * 30, 'other word7 WORD8', '.']
PASSAGES = [  # (title, text)
    ('', 'word1 word2 word3'), ('word4 word5', 'word6 word7'),
    ('word9', 'word8 ' * 40), ('', 'word11 ' * 40), ('word12 naïve', ''),
    ('  ', 'word13 word14'), ('word1', 'word2 [SEP] word3'),
]
SPECS = {  # For EncoderSpec, TextSpec and make_tokenizer.
    'plain': ({}, {}, {}),
    'mean, not normalised': ({'pooling': 'mean', 'normalize': False}, {}, {}),
    'projection': ({'projections': (projections.Projection(5),)}, {}, {}),
    'projection without bias, tanh': (
        {'projections': (projections.Projection(7, False, 'tanh'),),
         'pooling': 'mean'}, {}, {}),
    'three projections': ({'projections': (
        projections.Projection(7, False, 'gelu'),
        projections.Projection(9, activation='relu'),
        projections.Projection(6)), 'pooling': 'mean'}, {}, {}),
    'two towers': (
        {'shared': False, 'projections': (projections.Projection(5),),
         'pooling': 'mean'},
        {'query_prefix': 'word20:'}, {}),
    'prefixes': (
        {}, {'query_prefix': 'word20 word21', 'passage_prefix': 'word22 '}, {}),
    'one length': ({}, {'query_length': 14}, {}),
    'longer queries': ({}, {'query_length': 20}, {}),
    'gaps in the vocabulary': ({'pooling': 'mean'}, {}, {'stride': 3}),
    'BERT tokenizer': ({}, {'query_prefix': 'word2'}, {'bert': True}),
}


def make_tokenizer(folder, stride=1, bert=False):
  names = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', *tiny.WORDS]
  vocab = {name: stride * i for i, name in enumerate(names)}
  if bert:
    vocab |= {name: len(vocab) + i
              for i, name in enumerate(['.', 'naive', '##e', 'other'])}
    backend = tokenizers.Tokenizer(models.WordPiece(vocab, unk_token='[UNK]'))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
  else:
    backend = tokenizers.Tokenizer(models.WordLevel(vocab, unk_token='[UNK]'))
    backend.normalizer = normalizers.Lowercase()
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
  backend.add_special_tokens(names[:5])
  folder.mkdir(parents=True, exist_ok=True)
  backend.save(str(folder / 'tokenizer.json'))
  return tokenizer_lib.load_tokenizer(str(folder))


def make_model(folder, name='plain'):
  """A model of random weights, biases and norms included."""
  layers, text, tokens = SPECS[name]
  tokenizer = make_tokenizer(folder / 'tokenizer', **tokens)
  spec = dual_encoder.EncoderSpec(
      tiny.bert_config(
          vocab_size=tokenizer.vocab_size + 3, type_vocab_size=3,
          hidden_act='gelu_new', layer_norm_eps=1e-3, hidden_dropout=0.2,
      ), **layers,
  )
  rng = np.random.default_rng(0)
  means, deviations = {'scale': 1}, {'scale': 0.1, 'bias': 0.1}
  params = jax.tree_util.tree_map_with_path(
      lambda path, a: rng.normal(
          means.get(path[-1].key, 0), deviations.get(path[-1].key, 0.5), a.shape
      ).astype(np.float32),
      loading.shape_of(spec),
  )
  values = {'query_length': 9, 'passage_length': 14, **text}
  return loading.Model(
      spec, text_spec.TextSpec(**values), tokenizer, params, name, 'fingerprint'
  )


def write(model, folder):
  folder.mkdir()
  card = model_card.model_card(model, model_card.Facts('tiny', source='x'))
  exporting.write_model(model, folder, card)
  return folder


@functools.cache
def table_encoder(spec, length):
  return encoding.TableEncoder(
      dual_encoder.Encoder(spec),
      sharding.make_mesh(config_lib.MeshConfig(data=1)), length, 4 * length,
  )


def embed(model, role, pairs):
  """Our embeddings, by the encoder that jobs use."""
  texts = tokenized.tokenize_in_memory(
      pairs, model.tokenizer, model.text.length(role), model.text.prefix(role)
  )
  return table_encoder(model.spec, model.text.length(role))(
      dual_encoder.tower(model.params, role), texts.tokens, texts.lengths()
  )


def their_embeddings(model, folder, queries, passages):
  """Embeddings of sentence-transformers, loaded as the card says."""
  load = lambda f: st.SentenceTransformer(str(f), device='cpu')
  if model.spec.shared:
    query_model = passage_model = load(folder)
  else:
    query_model, passage_model = load(folder / 'query'), load(
        folder / 'passage')
  texts = [exporting.passage_text(*pair) for pair in passages]
  passage_vecs = passage_model.encode(texts, prompt_name='document')
  query_model.max_seq_length = model.text.query_length
  return query_model.encode(queries, prompt_name='query'), passage_vecs


@pytest.mark.parametrize('name', ['plain', 'prefixes', 'BERT tokenizer',
                                  'two towers'])
def test_pairs_are_passages_with_titles(name, tmp_path):
  """(title, text) and one string, side by side; a long text is cut alike."""
  model = make_model(tmp_path, name)
  folder = write(model, tmp_path / 'out')
  passages = [pair for pair in PASSAGES if pair[0].strip() and pair[1]]
  assert len(passages) == 3
  passage_model = st.SentenceTransformer(
      str(folder if model.spec.shared else folder / 'passage'), device='cpu')
  for given in (passages, [list(pair) for pair in passages]):
    np.testing.assert_allclose(
        passage_model.encode(given, prompt_name='document'),
        embed(model, 'passage', passages), atol=1e-5)
  card = (folder / 'README.md').read_text()
  assert 'Do not pass pairs: of long ones' in card  # Whose titles are cut.


def run_snippet(folder, monkeypatch):
  """What the code in README.md leaves behind."""
  code = re.search('```python\n(.*?)```', (folder / 'README.md').read_text(),
                   re.DOTALL)[1]
  monkeypatch.chdir(folder.parent)
  names = {}
  exec(code, names)  # It is our own.
  return names['query_vecs'], names['passage_vecs']


SHOWN_QUERY = ('', 'How tall is the Eiffel Tower?')
SHOWN_PASSAGES = [('Eiffel Tower', 'It is 330 metres tall.'),
                  ('', 'The Brooklyn Bridge was opened in 1883.')]


@pytest.mark.parametrize('name', SPECS)
def test_equals_sentence_transformers(tmp_path, monkeypatch, name):
  model = make_model(tmp_path, name)
  folder = write(model, tmp_path / 'model')
  theirs = their_embeddings(model, folder, QUERIES, PASSAGES)
  ours = (embed(model, 'query', [SHOWN_QUERY, *(('', q) for q in QUERIES)]),
          embed(model, 'passage', SHOWN_PASSAGES + PASSAGES))
  for mine, other, shown in zip(
      ours, theirs, run_snippet(folder, monkeypatch), strict=True
  ):
    assert np.abs(mine).max() > 0.1
    np.testing.assert_allclose(
        mine, np.concatenate([shown, other]), rtol=1e-5, atol=1e-5)
  scores = ours[0][1:] @ ours[1][2:].T
  assert np.std(scores, axis=1).min() > 1e-2
  rank = lambda queries, passages: np.argsort(-(queries @ passages.T), 1)
  np.testing.assert_array_equal(rank(ours[0][1:], ours[1][2:]), rank(*theirs))


@pytest.mark.parametrize('name', ['projection without bias, tanh',
                                  'three projections', 'two towers',
                                  'prefixes'])
def test_reads_back_as_it_was(tmp_path, name):
  model = make_model(tmp_path, name)
  folder = write(model, tmp_path / 'model')
  again = loading.from_pretrained(str(folder), config_lib.ModelConfig(
      init='x', shared=model.spec.shared), 0)
  assert (again.spec, again.text) == (model.spec, model.text)
  jax.tree.map(np.testing.assert_array_equal, again.params, model.params)
  assert again.tokenizer.encode('word1 [SEP] x') == model.tokenizer.encode(
      'word1 [SEP] x')


def test_saved_again_by_sentence_transformers(tmp_path):
  """Its own form has lengths and prompts of each tower, and nothing of ours."""
  model = make_model(tmp_path, 'two towers')
  folder = write(model, tmp_path / 'model')
  for tower in ('query', 'passage'):
    loaded = st.SentenceTransformer(str(folder / tower), device='cpu')
    loaded.save(str(tmp_path / 'again' / tower))
  again = loading.from_pretrained(
      str(tmp_path / 'again'), config_lib.ModelConfig(init='x', shared=False),
      0)
  assert again.text == dataclasses.replace(model.text,
                                           query_prefix='word20: ')
  np.testing.assert_array_equal(embed(again, 'passage', PASSAGES),
                                embed(model, 'passage', PASSAGES))


def test_towers_that_do_not_belong_together(tmp_path):
  folder = write(make_model(tmp_path, 'two towers'), tmp_path / 'model')
  read = lambda shared: loading.from_pretrained(
      str(folder), config_lib.ModelConfig(init='x', shared=shared), 0)
  with pytest.raises(errors.UserError, match='config.model.shared=False'):
    read(True)
  shutil.rmtree(folder / 'passage')
  write(make_model(tmp_path, 'plain'), folder / 'passage')
  with pytest.raises(errors.UserError, match='differ in their layers'):
    read(False)


def test_card_is_valid_and_claims_nothing(tmp_path):
  from huggingface_hub import ModelCard

  folder = write(make_model(tmp_path), tmp_path / 'model')
  card = ModelCard.load(folder / 'README.md')
  assert card.data.to_dict() == {
      'library_name': 'sentence-transformers',
      'pipeline_tag': 'sentence-similarity',
      'tags': ['sentence-transformers', 'feature-extraction',
               'dense-retrieval', 'neg_contrast'],
  }
  assert '## Training' not in card.text
  assert 'there were no scores' in card.text
  assert 'max_seq_length = 9' in card.text


HOSTILE = '<img src=x>](http://x) \x1b[2J `a``b` **c** | d\n# e'


def test_everything_in_a_card_is_escaped(tmp_path):
  """Rendered, names and settings are text: no tag, link, heading or cell."""
  markdown = pytest.importorskip('markdown_it')
  config = config_lib.to_dict(config_lib.Config(
      data=config_lib.DataConfig(
          source=f'beir:/home/me/{HOSTILE}', train_split=HOSTILE,
          tune_split=f'{HOSTILE} 2', test_split=f'{HOSTILE} 3'),
      optim=config_lib.OptimConfig(learning_rate=0.25)))
  config['negatives']['sources'] = [f'run:/home/me/{HOSTILE}:2']
  facts = model_card.Facts(
      HOSTILE, init=f'/home/me/{HOSTILE}', run={
          'identity': {}, 'config': config}, metrics={
              f'{HOSTILE}/test/{HOSTILE}/mrr@10': 0.5})
  model = make_model(tmp_path)
  model = dataclasses.replace(model, text=dataclasses.replace(
      model.text, query_prefix=HOSTILE))
  text = model_card.model_card(model, facts)
  assert '/home/me' not in text and '\x1b' not in text
  page = markdown.MarkdownIt('commonmark').enable('table').render(
      text.partition('---\n')[2].partition('---\n')[2])
  for tag in ('<img', '<a ', '<strong', '<em'):
    assert tag not in page, tag
  assert page.count('<h1>') == 1 and page.count('&lt;img src=x&gt;') > 6
  for table in re.findall('<table>.*?</table>', page, re.DOTALL):
    cells = {len(re.findall('<t[hd]', row)) for row in re.findall(
        '<tr>.*?</tr>', table, re.DOTALL)}
    assert len(cells) == 1, table


def test_a_card_has_the_keys_that_were_set(tmp_path):
  config = config_lib.to_dict(config_lib.Config(
      optim=config_lib.OptimConfig(learning_rate=0.25),
      negatives=config_lib.NegativesConfig(sources=('bm25:2',)),
      loss=config_lib.LossConfig(bidirectional=False)))
  text = model_card.model_card(make_model(tmp_path), model_card.Facts(
      'x', init='minilm', base_model='owner/name',
      run={'identity': {}, 'config': config}))
  assert re.findall(r'^\| (\w+\.\w+) \| (.*) \|$', text, re.MULTILINE) == [
      ('optim.learning_rate', '`0.25`'), ('loss.bidirectional', '`false`'),
      ('negatives.sources', '`["bm25:2"]`')]
  assert '\nbase_model: "owner/name"\n' in text
  assert 'starting from [owner/name](https://huggingface.co/owner/name)' in text
  assert 'for each query.' in text and 'both ways' not in text


def damage_weight(folder):
  from safetensors.numpy import load_file, save_file

  path = str(folder / 'model.safetensors')
  tensors = load_file(path)
  tensors['embeddings.word_embeddings.weight'][50, 3] += 1e-4
  save_file(tensors, path, metadata={'format': 'pt'})


def damage_modules(folder):
  path = folder / 'modules.json'
  path.write_text(json.dumps(json.loads(path.read_text())[:-1]))


def damage_tokenizer(folder):
  path = folder / 'tokenizer.json'
  text = path.read_text()
  assert '"WhitespaceSplit"' in text
  path.write_text(text.replace('"WhitespaceSplit"', '"Whitespace"'))


@pytest.mark.parametrize('damage, message', [
    (damage_weight, 'weights changed'),
    (damage_modules, 'embeddings of query probes differ by'),
    (damage_tokenizer, 'its tokenizer splits'),
])
def test_check_sees_what_changed(tmp_path, damage, message):
  model = make_model(tmp_path)
  folder = write(model, tmp_path / 'model')
  exporting.check(model, folder)
  damage(folder)
  with pytest.raises(errors.UserError, match=message):
    exporting.check(model, folder)


def test_not_a_number_is_refused(tmp_path):
  model = make_model(tmp_path)
  model.params['shared']['bert']['embeddings']['norm']['bias'][0] = np.nan
  with pytest.raises(errors.UserError, match='are not finite'):
    write(model, tmp_path / 'model')


def test_tokenizers_that_cannot_be_used(tmp_path):
  model = make_model(tmp_path)
  path = tmp_path / 'tokenizer' / 'tokenizer.json'
  with_tokenizer = lambda backend: dataclasses.replace(
      model, tokenizer=tokenizer_lib.Tokenizer(backend))
  # Without them, [SEP] in a text is three words.
  values = json.loads(path.read_text()) | {'added_tokens': []}
  with pytest.raises(errors.UserError, match='put together as one text'):
    write(with_tokenizer(tokenizers.Tokenizer.from_str(json.dumps(values))),
          tmp_path / 'words')
  path.write_text(path.read_text().replace('[PAD]', 'padding'))
  with pytest.raises(errors.UserError, match=r'no \[PAD\]'):
    write(with_tokenizer(tokenizers.Tokenizer.from_file(str(path))),
          tmp_path / 'unpadded')


def test_real_minilm(minilm, tmp_path):
  del minilm
  model = loading.from_pretrained('minilm', config_lib.ModelConfig(
      init='minilm', query_length=16, passage_length=48), 0)
  folder = write(model, tmp_path / 'model')
  queries = ['How tall is the Eiffel Tower?', 'naïve café — “quotes” 日本語',
             'Which of the many words of this query are cut off? ' * 4]
  passages = [
      ('Eiffel Tower', 'It is 330 metres tall.'), ('Tōkyō (東京)', ''),
      ('Dogs', 'The quick brown fox jumps over the lazy dog. ' * 20),
      ('', 'Paris is the capital of France.'), ('', 'x' * 300), ('', '😀'),
  ]
  theirs = their_embeddings(model, folder, queries, passages)
  ours = (embed(model, 'query', [('', q) for q in queries]),
          embed(model, 'passage', passages))
  for mine, other in zip(ours, theirs, strict=True):
    np.testing.assert_allclose(mine, other, atol=1e-5)
