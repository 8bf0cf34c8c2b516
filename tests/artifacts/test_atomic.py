import gzip

import pytest

from neg_contrast.artifacts import atomic


@pytest.mark.parametrize('name', ['file', 'file.gz'])
def test_file_is_whole_or_the_older_one(tmp_path, name):
  path, read = tmp_path / name, gzip.open if name.endswith('gz') else open
  for text in ('é\r\n\u2028', 'newer\n'):
    with atomic.writing(path) as f:
      f.write(text)
    with read(path, 'rb') as f:
      assert f.read().decode() == text
  with pytest.raises(KeyError), atomic.writing(path) as f:
    f.write('half')
    f.flush()
    raise KeyError
  with read(path, 'rb') as f:
    assert f.read() == b'newer\n'
  assert list(tmp_path.iterdir()) == [path]


def test_compressed_files_of_equal_texts_are_equal(tmp_path):
  for name in ('a.gz', 'b.gz'):
    with atomic.writing(tmp_path / name) as f:
      f.write('text')
  packed = (tmp_path / 'a.gz').read_bytes()
  assert packed == (tmp_path / 'b.gz').read_bytes()
  assert packed[4:8] == bytes(4)  # The time of writing in a gzip header.
