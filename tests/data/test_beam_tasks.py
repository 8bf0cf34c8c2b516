"""Tasks of Beam that fail; test_beam.py has what Beam makes of them."""

import pytest

from neg_contrast import errors
from neg_contrast.data import beam_tasks, pieces


@pytest.mark.parametrize(('failure', 'is_kept'), [
    (errors.UserError('corpus.jsonl:3: no text'), True),
    (errors.Unreached('gs://b/corpus.jsonl: the connection failed'), False),
])
def test_a_connection_is_no_mistake_in_the_data(tmp_path, failure, is_kept):
  """One is told in the order of the pieces; the other is tried again."""
  (tmp_path / 'corpus.jsonl').write_text('{}\n')
  whole = pieces.divide([tmp_path / 'corpus.jsonl'])
  scratch = beam_tasks.Scratch(tmp_path)

  def reader(block):
    raise failure

  task = beam_tasks._ReadPiece(reader, scratch, whole)
  if is_kept:
    task(0, [(0, 1)])
    assert str(failure) in scratch.summary(whole[0]).read_text()
  else:
    with pytest.raises(errors.Unreached):
      task(0, [(0, 1)])
    assert not scratch.summary(whole[0]).exists()
  assert not scratch.records(whole[0]).exists()
