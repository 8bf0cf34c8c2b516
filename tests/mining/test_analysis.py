import pathlib
import statistics

import numpy as np
import pytest

from neg_contrast.artifacts import folders
from neg_contrast.data import records
from neg_contrast.mining import analysis, candidates, pool_files
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.settings import config as config_lib
from tests import tiny

QUERIES, PASSAGES, DEPTH = 23, 30, 14
SOURCES = ('bm25', 'context', 'model')
GROUPS = np.arange(PASSAGES, dtype=np.int32) // 2 * 2  # Pairs of equal text.
# Of each query: a passage of each of two groups.
POSITIVES = np.stack([np.arange(QUERIES) % 7 * 2, np.full(QUERIES, 20)], 1)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
  monkeypatch.setattr(analysis, '_QUERIES_AT_ONCE', 5)


def mined(seed=0):
  """Distinct rows in random order, some halves; short lists are padded."""
  rng = np.random.default_rng(seed)
  found = {}
  for name in SOURCES:
    rows = np.stack([rng.permutation(PASSAGES + 4)[:DEPTH]
                     for _ in range(QUERIES)]).astype(np.int32)
    rows[np.arange(DEPTH) >= rng.integers(0, DEPTH + 4, QUERIES)[:, None]] = -1
    scores = -np.sort(-rng.normal(size=rows.shape), axis=1)
    own = rng.normal(size=QUERIES)
    own[3] = {'bm25': -np.inf, 'model': np.nan}.get(name, 0)
    found[name] = candidates.Candidates(
        rows, scores.astype(np.float32), own.astype(np.float32)
    )
  return found


def make_pool(folder, found, **settings):
  names = tuple(found)
  config = config_lib.NegativesConfig(
      sources=(f'{"+".join(names)}:2',), pool_size=4,
      depth=DEPTH, first_rank=2, **settings,
  )
  folder, manifest = pathlib.Path(folder), {}
  with folders.writing(folder, manifest, format=pool_lib.FORMAT) as scratch:
    queries = np.arange(QUERIES, dtype=np.int32) * 2
    corpus = pool_files.Corpus(
        GROUPS, tiny.positives(np.repeat(POSITIVES, 2, axis=0)),
        lambda _, rows, where: where & (rows % 11 == 5),
    )
    pool_files.write(
        scratch, manifest, queries, found, np.zeros((4, 3), np.int32),
        len(GROUPS), pool_files.drop_all(queries, found, corpus, config),
    )
  return pool_lib.read(folder)


def negatives_of(pool, number):
  """(line, column) of a source's negatives."""
  return [(line, column) for line in range(QUERIES)
          for column in range(pool.rows.shape[1])
          if pool.rows[line, column] >= 0
          and pool.source[line, column] == number
          and pool.dropped_by[line, column] == 0]


def test_counts(tmp_path):
  pool = make_pool(tmp_path / 'pool', mined())
  summary = analysis.summarize(pool, GROUPS)
  assert summary.queries == QUERIES
  assert [source.name for source in summary.sources] == list(SOURCES)
  assert summary.sources[0].by_filter[pool_lib.code('answer')] > 0
  for number, source in enumerate(summary.sources):
    ours = negatives_of(pool, number)
    counts = pool.counts()[source.name]
    assert source.negatives == len(ours) == counts['negatives']
    assert source.by_filter.tolist() == [
        counts[name or 'negatives'] for name in pool_lib.DROPPED_BY]
    assert source.candidates == sum(counts.values())
    sizes = [sum(line == each for line, _ in ours) for each in range(QUERIES)]
    assert source.median == statistics.median(sizes)
    assert (source.least, source.without) == (min(sizes), sizes.count(0))
    ranks = [pool.rank[place] for place in ours]
    assert source.ranks.tolist() == [
        ranks.count(rank) for rank in range(len(source.ranks))]


def test_score_gaps(tmp_path):
  pool = make_pool(tmp_path / 'pool', mined())
  summary = analysis.summarize(pool, GROUPS)
  assert summary.sources[1].gaps is None  # Distances are not compared.
  for number in (0, 2):
    expected = [
        float(pool.score[line, column])
        - float(pool.positive_scores[line, number])
        for line, column in negatives_of(pool, number) if line != 3
    ]
    gaps = summary.sources[number].gaps
    assert gaps.edges[0] == min(expected) and gaps.edges[-1] == max(expected)
    counts, _ = np.histogram(expected, gaps.edges)
    np.testing.assert_array_equal(gaps.counts, counts)
    assert gaps.counts.sum() == len(expected) > 20


def test_equal_scores_have_a_histogram(tmp_path):
  found = mined()
  for each in found.values():
    each.scores[:] = 1
    each.positive_scores[:] = 0.75
  source = analysis.summarize(
      make_pool(tmp_path / 'pool', found), GROUPS).sources[0]
  assert source.gaps.counts.sum() == source.negatives
  assert source.gaps.edges[0] < 0.25 < source.gaps.edges[-1]


@pytest.mark.parametrize('seed', [0, 1])
@pytest.mark.parametrize('drop_duplicates', [True, False])
def test_overlap_is_that_of_the_pools_alone(tmp_path, seed, drop_duplicates):
  found = mined(seed)
  alone = {}
  for name in SOURCES:
    pool = make_pool(tmp_path / name, {name: found[name]},
                     drop_duplicates=drop_duplicates)
    groups = pool_lib.groups_of(GROUPS, pool.rows)
    alone[name] = {(line, int(groups[line, column]))
                   for line, column in negatives_of(pool, 0)}
  for order in (SOURCES, SOURCES[::-1], ('model', 'bm25', 'context')):
    pool = make_pool(tmp_path / '-'.join(order),
                     {name: found[name] for name in order},
                     drop_duplicates=drop_duplicates)
    summary = analysis.summarize(pool, GROUPS)
    assert summary.shared.tolist() == [
        [len(alone[one] & alone[other]) for other in order] for one in order]
    np.testing.assert_allclose(summary.overlap[0, 1], (
        len(alone[order[0]] & alone[order[1]]) / len(alone[order[0]])))
  # Some copies beyond M repeat what is beyond M too.
  assert any(
      pool.dropped_by[line, column] == pool_lib.code('duplicate')
      for line in range(QUERIES) for column in range(pool.rows.shape[1]))


def test_a_source_without_candidates(tmp_path):
  found = mined()
  found['context'].rows[:] = -1
  summary = analysis.summarize(make_pool(tmp_path / 'pool', found), GROUPS)
  empty = summary.sources[1]
  assert (empty.candidates, empty.negatives, empty.median) == (0, 0, 0.0)
  assert empty.without == QUERIES and empty.gaps is None
  assert np.isnan(summary.overlap[1]).all()
  assert summary.overlap[0, 1] == 0


def test_sample_is_even():
  np.testing.assert_array_equal(analysis.sample_lines(4, 9), [0, 1, 2, 3])
  lines = analysis.sample_lines(1000, 7)
  assert lines[0] == 0 and lines[-1] == 999 and len(lines) == 7
  assert np.ptp(np.diff(lines)) <= 1
  assert len(np.unique(analysis.sample_lines(501, 500))) == 500
  assert not len(analysis.sample_lines(0))


def test_near_copies_and_what_is_read():
  words = [f'w{i}' for i in range(9)]
  passages = {0: words, 1: words[:8], 2: words[:7], 3: words + ['X', 'y'],
              4: ['W0', *words[1:]], 5: [], 6: []}
  read = []

  def texts(row):
    read.append(row)
    return records.Passage(str(row), 'a title', ' '.join(passages[row]))

  rows = np.array([[1, 2, 3, 4, 0], [5, 1, 4, -1, 2]], np.int32)
  where = rows >= 0
  where[0, 4] = False
  copies = analysis.near_copies(
      texts, np.array([[6, 0], [6, -1]], np.int32), rows, where
  )
  # 8 of 9, 7 of 9, 9 of 11 words; two texts without words are not alike.
  assert copies.tolist() == [[True, False, True, True, False], [False] * 5]
  assert sorted(read[3:]) == [1, 2, 3, 4, 5]


def test_suspects():
  mask = lambda text: np.array([[c == 'x' for c in line]
                                for line in text.split()])
  gaps = np.array([[1.0, -1, np.nan, 1], [0, 2, 3, np.nan]])
  found = analysis.count_suspects(
      'a', mask('xxx. .xxx'), np.array([True, False]), mask('x.xx .xx.'),
      mask('..x. x..x'), gaps,
  )
  # Answers and copies count where they are ours; a gap of 0 is not above.
  assert found == analysis.Suspects('a', 6, 3, 2, 2, 4, 3)


def test_lines_to_show(tmp_path):
  pool = make_pool(tmp_path / 'pool', mined())
  having = []
  for line in range(QUERIES):
    best = analysis.best_of_each(pool, line)
    for number, name in enumerate(SOURCES):
      ranks = [pool.rank[line, column] for column in range(pool.rows.shape[1])
               if pool.rows[line, column] >= 0
               and pool.source[line, column] == number
               and pool.dropped_by[line, column] in (0, 6)]
      assert (name in best) == bool(ranks)
      if ranks:
        assert pool.rank[line, best[name]] == min(ranks)
    having.append(len(best))
  assert pool_lib.DROPPED_BY[6] == 'duplicate' and min(having) < 3
  everything = np.arange(QUERIES)
  full = [line for line in everything if having[line] == 3]
  chosen = analysis.telling_lines(pool, everything, 4)
  assert set(chosen) <= set(full) and len(set(chosen)) == 4
  assert chosen[0] == full[0] and chosen[-1] == full[-1]
  # Where too few have all sources, the best of the rest follow.
  few = np.array([line for line in everything if having[line] < 3] + full[:1])
  few.sort()
  chosen = analysis.telling_lines(pool, few, 3)
  assert full[0] in chosen and list(chosen) == sorted(chosen)
  assert sorted(having[line] for line in chosen) == sorted(
      (having[line] for line in few), reverse=True)[:3][::-1]
