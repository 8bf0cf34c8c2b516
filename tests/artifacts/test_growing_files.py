"""Files that another thread writes to while they go to a bucket."""

import pytest

from neg_contrast import errors
from neg_contrast.artifacts import buckets

ADDRESS = 'gs://bucket/events'


@pytest.mark.parametrize(('kept', 'grows', 'is_whole'), [
    (10, b'', True), (10, b'more', True), (13, b'more', True),
    (9, b'', False), (9, b'more', False), (15, b'more', False),
])
def test_at_least_what_was_there_comes(
    tmp_path, monkeypatch, kept, grows, is_whole
):
  path = tmp_path / 'events'
  path.write_bytes(b'0123456789')
  growths = [grows]

  class System:

    def put_file(self, source, address):
      with open(source, 'ab') as f:
        f.write(growths.pop() if growths else b'')

  monkeypatch.setattr(buckets, '_writable', lambda address: System())
  monkeypatch.setattr(buckets, 'look',
                      lambda address: buckets.Found(False, kept))
  if is_whole:
    assert buckets.put(path, ADDRESS).size == kept
    return
  with pytest.raises(errors.UserError, match='not whole'):
    buckets.put(path, ADDRESS)


def test_what_came_in_part_is_put_again(tmp_path, monkeypatch):
  path, sizes, puts = tmp_path / 'events', [7, 10], []
  path.write_bytes(b'0123456789')

  class System:

    def put_file(self, source, address):
      puts.append(address)

  monkeypatch.setattr(buckets, '_writable', lambda address: System())
  monkeypatch.setattr(buckets, 'look',
                      lambda address: buckets.Found(False, sizes.pop(0)))
  assert buckets.put(path, ADDRESS).size == 10
  assert puts == [ADDRESS] * 2
