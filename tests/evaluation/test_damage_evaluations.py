"""Damage of what evaluation writes: an error with the remedy, or no change.

Each kind of file is damaged at random places: flipped bits, truncations, swaps
with another file. Then all is read as later steps and reports read it.
"""

import json
import random
import shutil

import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.artifacts import artifact, checksums, folders, plan
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.evaluation import (
  dense_members,
  evaluations,
  judged,
  per_query,
  summary,
  weight_tuning,
)
from neg_contrast.models import kinds
from neg_contrast.retrieval import (
  bm25_search,
  fused_vectors,
  search_settings,
)
from neg_contrast.settings import config as config_lib
from tests import tiny

_FLIPS, _CUTS, _SWAPS = 18, 3, 3  # Of each kind of file.


@pytest.fixture(scope='module')
def whole(tmp_path_factory):
  """(workdir, what reads it all) of BM25 under two names, and of weights."""
  root = tmp_path_factory.mktemp('damage')
  config = tiny.make_config(
      root, job='evaluate', evaluation__depth=10, evaluation__answer_ks=(1, 5),
      evaluation__dpr_results=True)
  config = config_lib.parse(config)
  data = dataset_lib.data_of(config.data)
  queries = judged.Judged(data, 'test', config.evaluation)
  index = bm25_search.bm25_of(config.evaluation, data)
  work = root / 'work'
  work.mkdir()
  bm25 = evaluations.Evaluation(
      judged.Bm25Ranking(queries, 'bm25', index), work)
  plan.run([bm25])
  shutil.copy(work / 'evaluation' / 'data-test-bm25' / 'run.trec',
              root / 'other.trec')
  other = evaluations.Evaluation(
      judged.RunRanking(queries, 'other', (root / 'other.trec',)), work)
  weights = weight_tuning.Weights(
      config_lib.EnsembleConfig(members=('a',), weights=(1.0,),
                                hybrid=False),
      dense_members.DenseMembers((), search_settings.SearchSettings(
          config.index, config.mesh, config.evaluation.depth), root),
      index, judged.TuneJudged(data, config.evaluation), work)
  plan.run([other, weights])
  dataset, test = data.load(), queries.open()
  fused_vectors.Ensemble(('a', 'b'), ('f' * 64, 'e' * 64), (0.25, 0.75)).save(
      work)

  def read():
    checksums._verified.clear()  # As another process would.
    artifact.forget()
    assert bm25.is_made() and other.is_made() and weights.is_made()
    found = summary.read_evaluations(work, dataset)
    return json.dumps([
        summary.gather(work, dataset, say=False),
        [manifest for _, manifest in found],
        [per_query.read(folder / per_query.FILE) for folder, _ in found],
        [test.read(folder / 'run.trec').rows.tolist() for folder, _ in found],
        weights.load()['fusion_embedding']['weights'],
        vars(fused_vectors.read(work)),
    ])

  return work, read


def damages(paths, others, rng):
  """(what was done, the files' new contents) of one kind."""
  for number in range(_FLIPS + _CUTS + _SWAPS):
    path = rng.choice(paths)
    data = bytearray(path.read_bytes())
    if number < _FLIPS:
      place = rng.randrange(8 * len(data))
      data[place // 8] ^= 1 << place % 8
      yield f'bit {place} of {path}', {path: bytes(data)}
    elif number < _FLIPS + _CUTS:
      size = rng.randrange(len(data))
      yield f'{path} cut to {size}', {path: bytes(data[:size])}
    else:
      other = rng.choice([one for one in others
                          if one.read_bytes() != bytes(data)])
      yield f'{path} <-> {other}', {path: other.read_bytes(),
                                    other: bytes(data)}


def test_no_damage_is_silent(whole):
  work, read = whole
  content, rng = read(), random.Random(0)
  by_kind = {
      name: sorted((work / 'evaluation').glob(f'*/{name}'))
      for name in ('manifest.json', 'run.trec', 'per_query.tsv', 'results.json')
  }
  by_kind['weights'] = [work / 'weights' / folders.MANIFEST]
  by_kind['ensemble'] = [work / kinds.ENSEMBLE.file]
  files = [path for paths in by_kind.values() for path in paths]
  assert len(files) == 4 * 2 + 2
  refused = 0
  for kind, paths in by_kind.items():
    for done, new in list(damages(paths, files, rng)):
      before = {path: path.read_bytes() for path in new}
      for path, data in new.items():
        path.write_bytes(data)
      try:
        assert read() == content, f'{kind}: {done}: silent'
      except errors.UserError as e:
        assert 'the same command' in str(e) or 'run the job' in str(e), done
        assert any(str(path.parent) in str(e) for path in new), (done, e)
        refused += 1
      finally:
        for path, data in before.items():
          path.write_bytes(data)
  count = (_FLIPS + _CUTS + _SWAPS) * len(by_kind)
  print(f'{count} damages of {len(by_kind)} kinds: {refused} refused')
  assert refused > 0.95 * count  # White space in a manifest means nothing.
  assert read() == content


def test_damaged_numbers_are_made_again(whole):
  """Nobody reads metrics.json: the same command writes it from manifests."""
  work, read = whole
  read()
  path, rng = work / 'metrics.json', np.random.default_rng(0)
  content = path.read_bytes()
  for place in rng.integers(8 * len(content), size=20).tolist():
    data = bytearray(content)
    data[place // 8] ^= 1 << place % 8
    path.write_bytes(data)
    read()
    assert path.read_bytes() == content


@pytest.mark.parametrize('name', ['per_query.tsv', 'run.trec'])
def test_a_file_that_is_gone_is_damage(whole, name):
  work, read = whole
  path = work / 'evaluation' / 'data-test-bm25' / name
  content = path.read_bytes()
  path.unlink()
  try:
    with pytest.raises(errors.UserError, match=f'{name}: damaged'):
      read()
  finally:
    path.write_bytes(content)


def test_another_format_is_refused(whole):
  work, read = whole
  path = work / 'evaluation' / 'data-test-bm25' / folders.MANIFEST
  content = path.read_bytes()
  folders.write_sealed(path, {**folders.read_sealed(path), 'format': 0})
  try:
    with pytest.raises(errors.UserError, match='of format 0; this revision '
                       'reads an evaluation of format 2. Remove'):
      read()
  finally:
    path.write_bytes(content)
