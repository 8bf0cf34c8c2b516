"""Whatever files and settings hold: it works, or says why in a `UserError`.

3,000 cases and more. What a case found once stays here as an example.
"""

import sys

import hypothesis
import numpy as np
import pytest
import tokenizers
from hypothesis import strategies as st
from safetensors.numpy import save_file

from neg_contrast import errors, jobs, main
from neg_contrast.data import records, sources, tokenizer
from neg_contrast.evaluation import runs, trec
from neg_contrast.models import (
  families,
  loading,
  sentence_modules,
  tensor_files,
)
from neg_contrast.settings import config as config_lib
from tests import fuzz, tiny
from tests.data import test_tfds_source

KEYS = config_lib.flat(config_lib.base_config())


def cases(number):
  """So many, without limits of time; the machine may be busy."""
  return hypothesis.settings(
      max_examples=number, deadline=None, database=None,
      suppress_health_check=list(hypothesis.HealthCheck),
  )


def try_to(call):
  """Whether a call succeeds; else its error is for people.

  Raises:
    Exception: any other.
  """
  try:
    call()
  except Exception as e:
    # Tests check types of what functions return, which reads properties.
    cause: BaseException | None = e
    while cause and not isinstance(cause, errors.UserError):
      cause = cause.__cause__
    if cause is None:
      raise
    text = str(cause)
    assert text.strip() and len(text) < 5000
    assert text.isascii() or text.encode()  # It can be printed.
    return False
  return True


def read_all(spec, skip):
  source = sources.open_source(spec, records.InvalidRecords(skip))
  list(source.passages())
  list(source.queries())
  for split in source.splits:
    list(source.judgements(split))


@pytest.fixture(scope='module')
def place(tmp_path_factory):
  return tmp_path_factory.mktemp('fuzz')


@pytest.fixture(scope='module')
def contents(place):
  """`fuzz.SOURCES`, with the files that tensorflow-datasets writes."""
  stored = test_tfds_source.store(place / 'stored', test_tfds_source.ROWS)
  return {**fuzz.SOURCES, 'tfds': {
      path.name: path.read_bytes() for path in sorted(stored.iterdir())}}


@pytest.fixture(scope='module')
def folders(place, contents):
  """A whole folder of each format."""
  made = {}
  for scheme, files in contents.items():
    folder = made[scheme] = place / scheme
    for name, content in files.items():
      path = folder / name
      path.parent.mkdir(parents=True, exist_ok=True)
      path.write_bytes(fuzz.whole_file(name, content))
  return made


def spec_of(scheme, folder):
  if scheme in fuzz.ONE_FILE:
    return f'{scheme}:{folder / next(iter(fuzz.SOURCES[scheme]))}'
  named = scheme.replace('hf_pairs', 'hf')
  return f'{named}:{folder}'


@pytest.mark.parametrize('scheme', fuzz.SOURCES)
def test_the_folders_are_whole(folders, scheme):
  read_all(spec_of(scheme, folders[scheme]), False)


@pytest.mark.parametrize('scheme', fuzz.SOURCES)
def test_readers(folders, contents, scheme):
  @cases(30 if scheme == 'tfds' else 95)  # It takes the longest.
  @hypothesis.given(st.data())
  def check(data):
    name = data.draw(st.sampled_from(sorted(contents[scheme])))
    content = contents[scheme][name]
    changed = data.draw(fuzz.changed_file(name, content))
    path = folders[scheme] / name
    path.write_bytes(changed)
    try:
      try_to(lambda: read_all(
          spec_of(scheme, folders[scheme]), data.draw(st.booleans())
      ))
    finally:
      path.write_bytes(fuzz.whole_file(name, content))

  check()


def test_ir_datasets(place, monkeypatch):
  """From local files; its names are none of folders."""
  library = pytest.importorskip('ir_datasets')
  whole = {'docs.tsv': b'd1\tone\nd2\ttwo\n', 'queries.tsv': b'q1\twhat\n',
           'x.qrels': b'q1 0 d1 1\nq1 0 d2 0\n'}
  paths = [str(place / name) for name in whole]
  monkeypatch.setattr(library, 'registry', type(library.registry)())

  @cases(100)
  @hypothesis.given(st.data())
  def check(data):
    name = data.draw(st.sampled_from(sorted(whole)))
    changed = data.draw(fuzz.changed_bytes(whole[name]))
    for one, content in {**whole, name: changed}.items():
      (place / one).write_bytes(content)
    library.registry._registered.clear()
    library.registry.register('ours', library.create_dataset(
        docs_tsv=paths[0], queries_tsv=paths[1], qrels_trec=paths[2]))
    try_to(lambda: read_all('ir_datasets:ours', data.draw(st.booleans())))

  check()


@cases(250)
@hypothesis.given(fuzz.WILD_TEXT, st.sampled_from([*sources.FORMATS, '', 'x']))
def test_places_of_sources(text, scheme):
  spec = f'{scheme}:{text}' if scheme else text
  if text.strip('.') and '/' not in text and scheme not in (
      'tfds', 'python_docs'):  # They look outside of the place.
    try_to(lambda: read_all(spec, False))


RUN = b'q1 Q0 p1 1 2.5 tag\nq1 Q0 p2 2 1.5 tag\nq2 Q0 p1 1 0.5 tag\n'
QRELS = b'q1 0 p1 1\nq1 0 p2 0\nq2\t0\tp1\t2\n'
CANDIDATES = b'{"mention_id": "m", "tfidf_candidates": ["a", "b"]}\n'


@cases(400)
@hypothesis.given(st.data())
def test_runs_and_judgements(place, data):
  name, read, whole = data.draw(st.sampled_from([
      ('x.trec', runs.read_run, RUN), ('x.qrels', trec.read_qrels, QRELS),
      ('x.json', runs.read_run, CANDIDATES),
      ('x.trec.gz', runs.read_run, RUN)]))
  path = place / name
  path.write_bytes(data.draw(fuzz.changed_bytes(whole)))

  def call():
    read(path)

  try_to(call)


@pytest.fixture(scope='module')
def model(place):
  """A sentence-transformers folder with an index of two files."""
  folder = place / 'model'
  tiny.write_model(folder)
  tensors = tensor_files.read_tensors(folder)
  names = sorted(tensors)
  parts = {'a.safetensors': names[::2], 'b.safetensors': names[1::2]}
  for file, some in parts.items():
    save_file({name: np.ascontiguousarray(tensors[name]) for name in some},
              folder / file)
  (folder / 'model.safetensors').unlink()
  (folder / 'model.safetensors.index.json').write_bytes(fuzz.encoded({
      'metadata': {'total_size': 1},
      'weight_map': {name: file for file, some in parts.items()
                     for name in some}}))
  (folder / '1_Pooling').mkdir()
  (folder / '1_Pooling' / 'config.json').write_bytes(fuzz.encoded({
      'word_embedding_dimension': 16, 'pooling_mode_mean_tokens': True,
      'pooling_mode_cls_token': False, 'include_prompt': True}))
  (folder / 'modules.json').write_bytes(fuzz.encoded([
      {'idx': 0, 'name': '0', 'path': '',
       'type': 'sentence_transformers.models.Transformer'},
      {'idx': 1, 'name': '1', 'path': '1_Pooling',
       'type': 'sentence_transformers.models.Pooling'},
      {'idx': 2, 'name': '2', 'path': '2_Normalize',
       'type': 'sentence_transformers.models.Normalize'}]))
  (folder / 'sentence_bert_config.json').write_bytes(fuzz.encoded({
      'max_seq_length': 24, 'do_lower_case': False}))
  return folder


def read_model(folder):
  modules = sentence_modules.read(folder)
  sentence_modules.pooling(modules)
  sentence_modules.projections(modules, 16)
  sentence_modules.lengths(modules, 64)
  families.is_classifier(folder)
  families.read(folder, 'encoder')
  tensor_files.names(folder)


MODEL_FILES = ('config.json', 'modules.json', 'model.safetensors.index.json',
               '1_Pooling/config.json', 'sentence_bert_config.json')


@pytest.mark.parametrize('name', MODEL_FILES)
def test_model_folders(model, name):
  path = model / name
  whole = path.read_bytes()
  content = fuzz.json.loads(whole)

  @cases(110)
  @hypothesis.given(fuzz.changed_file(name, content))
  def check(changed):
    path.write_bytes(changed)
    try:
      try_to(lambda: read_model(model))
    finally:
      path.write_bytes(whole)

  read_model(model)
  check()


def test_whole_models_by_their_tokenizers(model):
  """Fewer, since each loads a tokenizer."""
  path = model / 'tokenizer_config.json'
  whole = path.read_bytes() if path.exists() else b'{}'
  content = {'model_max_length': 24, 'do_lower_case': True, **fuzz.json.loads(
      whole)}

  @cases(15)
  @hypothesis.given(fuzz.changed_file('x.json', content))
  def check(changed):
    path.write_bytes(changed)
    try_to(lambda: loading.from_pretrained(
        str(model), config_lib.ModelConfig(), 0
    ))

  check()
  path.write_bytes(whole)


TOKENS = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', 'a', '##b', 'c']


@pytest.mark.parametrize('name', ['vocab.txt', 'tokenizer.json'])
def test_tokenizers(place, name):
  """A tokenizer that is read encodes whatever there is."""
  folder = place / name.partition('.')[0]
  folder.mkdir()
  (folder / 'config.json').write_text('{"model_type": "bert"}')
  if name == 'vocab.txt':
    content = '\n'.join(TOKENS).encode()
  else:
    backend = tokenizers.Tokenizer(tokenizers.models.WordPiece(
        {token: i for i, token in enumerate(TOKENS)}, unk_token='[UNK]'))
    backend.post_processor = tokenizers.processors.BertProcessing(
        ('[SEP]', 3), ('[CLS]', 2))
    backend.add_special_tokens(TOKENS[:5])
    content = fuzz.json.loads(backend.to_str())

  def read(load):
    load(str(folder)).encode_batch(['ab c', 'zz \u65e5', '[SEP]', ''])

  @cases(120)
  @hypothesis.given(fuzz.changed_file(name, content), st.sampled_from(
      [tokenizer.load_tokenizer, tokenizer.load_seq2seq_tokenizer]))
  def check(changed, load):
    (folder / name).write_bytes(changed)
    try_to(lambda: read(load))

  (folder / name).write_bytes(fuzz.whole_file(name, content))
  read(tokenizer.load_tokenizer)
  check()


def set_in(values, key, value):
  *sections, last = key.split('.')
  for section in sections:
    values = values[section]
  values[last] = value


@cases(700)
@hypothesis.given(st.dictionaries(
    st.sampled_from(KEYS),
    st.one_of(fuzz.WILD, st.lists(fuzz.WILD_TEXT, max_size=2).map(tuple)),
    min_size=1, max_size=2))
def test_config_values(changes):
  def read():
    config = config_lib.base_config().to_dict()
    for key, value in changes.items():
      set_in(config, key, value)
    config_lib.from_dict(config)

  try_to(read)


@cases(120)
@hypothesis.example('loss.offset', 10**400, 'train')  # No float holds it.
@hypothesis.given(st.sampled_from(KEYS), fuzz.WILD_NUMBER,
                  st.sampled_from(sorted(jobs.JOBS)))
def test_numbers_are_refused_before_anything_is_made(place, key, value, job):
  """What a config lets through, its job checks."""
  config = config_lib.base_config()
  config.data.source = f'text:{place / "text"}'
  config.model.init = 'random:tiny'
  config.job = job

  def read():
    config_lib.set_key(config, key, value)
    jobs.check(config_lib.parse(config))

  try_to(read)


TYPED = st.one_of(fuzz.WILD_TEXT, fuzz.WILD_NUMBER.map(str), st.sampled_from([
    'True', 'None', '()', '(1,', "('a',)", '1,2', 'a,b', '{}', "{'a': 1}"]))


def parse_flag(flag):
  main.flags.FLAGS.unparse_flags()
  for name in [name for name in main.flags.FLAGS
               if name.startswith('config.')]:
    delattr(main.flags.FLAGS, name)
  argv = ['main', '--config=quickstart', flag]
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(sys, 'argv', argv)  # Where overrides are looked for.
    main._parse_flags(argv)


@cases(120)
@hypothesis.given(st.sampled_from([*KEYS, 'optim.step', 'x', '']), TYPED)
def test_flags(key, value):
  try_to(lambda: parse_flag(f'--config.{key}={value}'))


@pytest.mark.parametrize('flag, said', [
    ('generator.optim.steps=1', 'config.generator.optim.steps: this config has '
     'no generator; choose one'),
    ('optim=adam', 'it holds keys, such as --config.optim.'),
])
def test_what_the_library_says_of_flags_is_known(flag, said):
  """Its own words, as it is installed: `unknown_keys` reads them."""
  with pytest.raises(errors.UserError, match=said):
    parse_flag(f'--config.{flag}')
