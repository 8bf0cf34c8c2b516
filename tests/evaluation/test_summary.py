"""What is gathered from the evaluations of a workdir."""

from neg_contrast.evaluation import summary


def test_table_is_aligned():
  table = summary.format_table({
      'bm25': {'mrr@10': 0.5, 'accuracy@1': 0.77237},
      'fusion_rank': {'accuracy@1': 1.0},
  })
  assert table == (
      'system       mrr@10  accuracy@1\n'
      'bm25         0.5000      0.7724\n'
      'fusion_rank       -      1.0000'
  )
