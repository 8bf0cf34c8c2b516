"""What a worker of Beam does with its shard, without Beam."""

import numpy as np

from neg_contrast import beams
from neg_contrast.retrieval import (
  beam_best,
  beam_bm25,
  bm25,
  bm25_folder,
)
from tests import corpora

QUERIES = ['red stone', 'no word of it', 'green green blue', '']


def test_a_worker_reads_its_shard_alone(tmp_path, monkeypatch):
  rng = np.random.default_rng(0)
  words = np.array(['red', 'green', 'blue', 'stone', 'tree'])
  corpus = corpora.data_of(tmp_path, corpora.write_beir(
      tmp_path / 'data',
      {f'p{n}': ' '.join(rng.choice(words, 3)) for n in range(60)},
  )).load().prepared
  bm25_folder.make(corpus, shard_rows=16)
  shards = bm25_folder.open_shards(corpus)
  alone = bm25.Bm25Index(shards, corpus.tie_ranks).search(QUERIES, 25)
  kept = {path: path.read_bytes()
          for path in bm25_folder.folder_of(corpus).glob('postings-*')}
  assert len(kept) == 2 * len(shards) == 8

  def with_one_shard(task, number):
    """What a task gives, where no file of another shard is there."""
    for path in kept:
      path.unlink(missing_ok=True)
    for path, data in kept.items():
      if f'-{number:05d}.' in path.name:
        path.write_bytes(data)
    return task(number)

  def run(what, jobs):
    """As Beam does: tasks on any machine, and candidates merged by key."""
    del what
    (job,) = jobs
    if isinstance(job, beams.Each):
      for number in job.items:
        with_one_shard(job.task, number)
      return
    found = [with_one_shard(lambda shard: list(job.candidates(shard)), number)
             for number in range(job.parts)]
    keys = [sorted((key for pairs in found for line, key in pairs
                    if line == query), reverse=True)
            for query in range(len(QUERIES))]
    job.write(0, [(query, best[: job.depth])
                  for query, best in enumerate(keys)])

  monkeypatch.setattr(beams, 'run', run)
  with beam_best.scratch_in(tmp_path) as scratch:
    found = beam_bm25.search(corpus, QUERIES, 25, 0.9, 0.4, scratch)
  np.testing.assert_array_equal(found.rows, alone.rows)
  np.testing.assert_array_equal(found.scores, alone.scores)
  assert (alone.rows[0] >= 0).all()
