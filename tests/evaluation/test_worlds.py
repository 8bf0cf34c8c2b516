from neg_contrast.evaluation import worlds


def test_worlds_as_a_table(tmp_path):
  worlds.write_worlds(tmp_path / 'w.tsv', {
      'bm25': {'x': {'queries': 2.0, 'mrr': 1 / 3}, 'y': {'queries': 1.0}}})
  assert (tmp_path / 'w.tsv').read_text() == (
      'system\tworld\tqueries\tmrr\n'
      'bm25\tx\t2\t0.3333333333\nbm25\ty\t1\t\n')
