"""Beam's workers share a bucket and no disk, and make what one program does."""

import re

import pytest

pytest.importorskip(
    'apache_beam', reason='Apache Beam is not installed: the extra [beam]')

from neg_contrast import beams
from neg_contrast.artifacts import artifact, bucket_path, buckets, places, plan
from neg_contrast.data import (
  beam_corpus,
  dataset,
  passages,
  pieces,
  tfds_records,
)
from neg_contrast.jobs import (
  evaluate,
  generate_questions,
  mine,
  train_generator,
)
from neg_contrast.models import t5_config
from neg_contrast.settings import config
from tests import beam_runs, bucket, corpora, tiny
from tests.data import test_beam
from tests.jobs import test_stage1
from tests.test_bucket_hosts import (
  MINING,
  far_files,
  near_files,
  pairs_of,
  settings_of,
)

SEARCH = {'job': 'evaluate', 'evaluation__bm25': True,
          'index__chunk_tokens': 1, 'index__table_rows': 32}

# Beam's workers are programs of their own; this gives each a cache of its own.
_OWN_CACHE = '''
import os, sys
if any('sdk_worker' in one for one in sys.orig_argv):
  os.environ['NEG_CONTRAST_CACHE'] += f'-of-worker-{os.getpid()}'
'''


@pytest.fixture(scope='module')
def small():
  """All is cut small."""
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(pieces, 'PIECE_BYTES', 700)
    patch.setattr(beam_corpus, '_PART_ROWS', 20)
    patch.setattr(tfds_records, 'ROWS_PER_SHARD', 16)
    yield


@pytest.fixture(scope='module')
def disk(tmp_path_factory, small):
  """What one program makes on a disk."""
  root = tmp_path_factory.mktemp('disk')
  tiny.write_beir(root / 'data', documents=20)
  tiny.write_model(root / 'model')
  (root / 'asked').mkdir()
  with pytest.MonkeyPatch.context() as patch:
    patch.setitem(t5_config.T5_SIZES, 't5-nano', test_stage1.NANO)
    tiny.run(train_generator.TrainGeneratorJob, test_stage1.make_generator(
        root / 'asked'), root / 'asked' / 'generator')
  make_all(root)
  return root


def make_all(root):
  """Mines and evaluates, makes pairs, writes questions, cuts documents."""
  for job, settings in ((mine.MineJob, MINING), (evaluate.EvaluateJob, SEARCH)):
    artifact.forget()
    tiny.run(job, tiny.make_config(root, **settings_of(root, 'made', settings)),
             root / 'made' / job.__name__)
  artifact.forget()
  asked = root / 'asked'
  test_stage1.make_pairs(test_stage1.make_config(asked, **pairs_of(asked)))
  tiny.run(generate_questions.GenerateQuestionsJob,
           test_stage1.make_questions(asked), asked / 'written')
  data = corpora.data_of(root / 'made', f'beir:{root}/data')
  passages.Passages(data, root / 'made' / 'cut', 3, 0, None).build()


@pytest.fixture(scope='module')
def far(disk, small, tmp_path_factory):
  """The same in a bucket, by workers of Beam; the folder of all caches.

  One of two is killed while it reads the source, and now and then a connection
  breaks while an object is read. Once the worker is dead, no pipeline needs a
  process beside its workers, or two of these: what one wrote, that of the next
  reads.
  """
  read, run = [], beams.run

  def go_on_without_helper():
    assert (caches / 'died').exists()
    beam_runs.without_helper(patch, have_own_caches=True)
    beams.choose('direct', beam_runs.ONE_PROCESS)  # A new one each time.

  def trouble(method, path):
    if not emulator.reads(method, path):
      return ''
    read.append(path)
    return '' if len(read) % 40 else 'break'

  caches = tmp_path_factory.mktemp('caches')
  start = caches / 'start'
  start.mkdir()
  (start / 'sitecustomize.py').write_text(_OWN_CACHE)
  with (bucket.running(caches / 'here') as emulator,
        pytest.MonkeyPatch.context() as patch):
    patch.setenv('DIES_ONCE', str(caches / 'died'))
    test_beam.reader_dies(patch)
    beam_runs.after_the_first(patch, go_on_without_helper)
    patch.syspath_prepend(str(start))  # Which workers take along.
    for name in ('data', 'model', 'asked/data', 'asked/model',
                 'asked/generator'):
      bucket.upload(disk / name, f'{bucket.BUCKET}/{name}')
    root = places.path(bucket.BUCKET)
    # One corpus by Beam is enough.
    plan.run([dataset.data_of(config.parse(
        test_stage1.make_config(root / 'asked')).data)])
    beams.choose('direct', '--direct_num_workers=2')
    emulator.trouble = trouble
    try:
      make_all(root)
    finally:
      beams.choose('local')
      emulator.trouble = lambda method, path: ''
    assert beams.run is run and len(read) > 400
    yield caches


def without_place(files):
  """Where a source lies is in the name of its folder."""
  return {re.sub('(beir-data)-[0-9a-f]{8}', r'\1', str(path)): data
          for path, data in files.items()}


@pytest.mark.usefixtures('far')
@pytest.mark.parametrize(
    'name', ['made', 'asked/pairs', 'asked/synthetic', 'asked/written'])
def test_the_same_bytes(disk, name):
  near, found = map(without_place, (near_files(disk / name), far_files(name)))
  assert sorted(near) == sorted(found)
  assert near == found
  assert len(near) > {'made': 20}.get(name, 1)


def test_each_worker_read_what_it_needed(far):
  """From the bucket: no file of the source was fetched as a whole."""
  workers = sorted(far.glob('here-of-worker-*'))
  assert len(workers) >= 2
  assert [path for one in workers for path in one.rglob('*.npy')]
  assert not [path for one in workers for path in one.rglob('corpus.jsonl')]
  # Ids of tokens come in ranges; who started Beam has fetched them.
  assert not [path for one in workers for path in one.rglob('text_ids.bin')]
  assert not [path for one in workers for path in one.rglob('title_ids.bin')]
  assert [path for one in workers for path in one.rglob('text_offsets.bin')]


@pytest.mark.usefixtures('far')
def test_nothing_is_left_in_the_bucket():
  assert not [one for one in bucket.names(bucket.BUCKET)
              if '.partial' in one or 'beam/' in one or '.parts/' in one]


def test_what_is_read_in_ranges(far, monkeypatch):
  del far
  monkeypatch.setattr(buckets, '_RANGE_BYTES', 50)
  place: bucket_path.BucketPath = places.path(
      f'{bucket.BUCKET}/ranges/file')
  data = bytes(range(32, 128)) * 8
  place.write_bytes(data)
  ranged = places.in_ranges(place)
  with ranged.open('rb') as f:
    assert f.read(3) == data[:3]
    assert f.seek(500) == 500 and f.tell() == 500
    assert f.peek(1)[:1] == data[500:501]
    assert f.read() == data[500:]
  assert not place.copy.exists()
  assert ranged.read_text() == data.decode()
