"""Folders of text files."""

import dataclasses

import pytest
from absl import logging

from neg_contrast import errors
from neg_contrast.data import preparation, records, sources


def write(folder):
  (folder / 'deep er').mkdir(parents=True)
  (folder / 'b.md').write_bytes('# Título\r\nline\u2028two\n'.encode())
  (folder / 'deep er' / 'a b.txt').write_bytes(b'\xef\xbb\xbfwords of it')
  (folder / 'empty.txt').write_text('')
  (folder / 'other.pdf').write_bytes(b'%PDF')


def test_every_file_is_a_document(tmp_path):
  write(tmp_path / 'd')
  (tmp_path / 'd' / 'empty.txt').unlink()
  corpus = preparation.prepare(f'text:{tmp_path / "d"}', tmp_path / 'out',
                               False)
  first, second = corpus.passages
  assert (first.id, first.title) == ('b.md', 'Título')
  assert first.text.split('\n')[-2] == 'line\u2028two'
  assert second == records.Passage(
      'deep er/a b.txt', 'a b', 'words of it', 'deep er/a b.txt')
  assert corpus.splits == ()
  assert len(corpus.passages) == 2


@pytest.mark.parametrize(('page', 'title', 'text'), [
    ('<head><title>User\n guide</title></head><body><svg><title>Home</title>'
     '</svg>words<svg><title>Search</title></svg>', 'User guide', 'words'),
    ('<svg><title>Logo</title></svg><p>words', 'a', 'words'),
    ('<title></title><svg/><title>Second</title>words<title>Third</title>',
     'Second', 'words'),
])
def test_the_title_of_a_page_is_none_of_its_drawings(
    tmp_path, page, title, text
):
  (tmp_path / 'd').mkdir()
  (tmp_path / 'd' / 'a.html').write_text(page)
  [found] = preparation.prepare(
      f'text:{tmp_path / "d"}', tmp_path / 'out', False).passages
  assert (found.title, found.text.strip()) == (title, text)


def test_what_was_read_otherwise_is_prepared_anew(tmp_path, monkeypatch):
  write(tmp_path / 'd')
  spec, out = f'text:{tmp_path / "d"}', tmp_path / 'out'
  text = sources.FORMATS['text']
  monkeypatch.setitem(sources.FORMATS, 'text',
                      dataclasses.replace(text, reading=1))
  earlier = preparation.prepare(spec, out, True).folder
  monkeypatch.setitem(sources.FORMATS, 'text', text)
  assert not preparation.is_prepared(spec, out, True)
  assert preparation.prepare(spec, out, True).folder != earlier
  assert earlier.is_dir() and preparation.is_prepared(spec, out, True)


def test_an_empty_file_is_no_passage_and_upper_case_is_read(
    tmp_path, monkeypatch
):
  write(tmp_path / 'd')
  spec = f'text:{tmp_path / "d"}'
  (tmp_path / 'd' / 'blank.md').write_text('---\ntitle: a\n---\n \n')
  said = []
  monkeypatch.setattr(logging, 'warning',
                      lambda text, *args: said.append(text % args))
  corpus = preparation.prepare(spec, tmp_path / 'before', False)
  assert [p.id for p in corpus.passages] == ['b.md', 'deep er/a b.txt']
  assert {one for one in said if 'no text' in one} == {
      f'{tmp_path}/d/blank.md and 1 more: no text there; left out'}
  (tmp_path / 'd' / 'empty.txt').rename(tmp_path / 'd' / 'LAST.TXT')
  (tmp_path / 'd' / 'LAST.TXT').write_text('now it has')
  corpus = preparation.prepare(spec, tmp_path / 'out', False)
  assert [p.id for p in corpus.passages] == ['LAST.TXT', 'b.md',
                                             'deep er/a b.txt']


def test_faults(tmp_path):
  with pytest.raises(errors.UserError, match='no .txt, .md'):
    preparation.prepare(f'text:{tmp_path}', tmp_path / 'out', False)
  write(tmp_path / 'd')
  (tmp_path / 'd' / 'c.txt').write_bytes(b'ab\xffc')
  spec = f'text:{tmp_path / "d"}'
  with pytest.raises(errors.UserError, match=r'c.txt: not UTF-8 .*byte 2'):
    preparation.prepare(spec, tmp_path / 'out', False)
  corpus = preparation.prepare(spec, tmp_path / 'out', True)
  assert corpus.manifest['counts']['skipped'] == {'broken_record': 1}
  with pytest.raises(errors.UserError, match=f'did you mean {spec}'):
    sources.open_source(f'txt:{tmp_path / "d"}', records.InvalidRecords(True))
