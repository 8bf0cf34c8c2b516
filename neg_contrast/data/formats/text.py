"""Folders of text files: each one a document, to be cut by `job=split`."""

import pathlib
from collections.abc import Iterator

from neg_contrast import errors
from neg_contrast.data import records

SUFFIXES = ('.txt', '.md')


class Text:
  """All `.txt` and `.md` files below a folder, in the order of their paths.

  The id is the path within the folder, the title the name without its ending.
  """

  splits: tuple[str, ...] = ()

  def __init__(self, place: str, invalid: records.InvalidRecords):
    """Lists the files.

    Raises:
      UserError: there are none.
    """
    self._folder = pathlib.Path(place)
    self._invalid = invalid
    self.files = tuple(sorted(
        path for path in self._folder.rglob('*')
        if path.suffix.lower() in SUFFIXES and path.is_file()
    ))
    if not self.files:
      raise errors.UserError(
          f'text:{place}: no such folder, or no .txt or .md files below it'
      )

  def passages(self) -> Iterator[records.Passage]:
    """One a file."""
    for path in self.files:
      name = path.relative_to(self._folder)
      try:
        text = path.read_text(encoding='utf-8-sig')
      except UnicodeDecodeError as e:
        self._invalid.report(
            'broken_record', str(path), f'not UTF-8 ({e.reason} at byte '
            f'{e.start})'
        )
        continue
      if text.strip():
        yield records.Passage(
            name.as_posix(), path.stem, text, name.as_posix(), str(path)
        )
      else:  # Its name would be a title, and so a passage.
        self._invalid.report('empty_passage', str(path), 'holds no text')

  def queries(self) -> Iterator[records.Query]:
    """None."""
    return iter(())

  def judgements(self, split: str) -> Iterator[records.Judgement]:
    """None."""
    return iter(())


FORMAT = records.SourceFormat(
    'text:documents', Text,
    last_names=tuple(f'*{suffix}' for suffix in SUFFIXES), is_folder=True,
)
