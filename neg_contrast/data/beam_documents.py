"""Documents cut by Beam into passages, to the bytes of one process.

Each part is some documents of a prepared corpus. A worker cuts them into a file
of its own; this process appends the files in the order of the documents, and
adds up the counts.
"""

import collections
import dataclasses
import functools
import json
import pathlib
import shutil

from neg_contrast import beams
from neg_contrast.artifacts import passed_on
from neg_contrast.data import cut_documents
from neg_contrast.data import prepared as prepared_lib

_PART_DOCUMENTS = 1 << 14  # Of Wikipedia, 40 MB of text.


@dataclasses.dataclass(frozen=True)
class _CutPart:
  """Cuts the documents of a part.

  Attributes:
    corpus: folder of the prepared documents.
    cut: finds the passages of a document.
    folder: gets `lines-<part>`, and then `counts-<part>`.
    size: documents of a part.
  """

  corpus: pathlib.Path
  cut: cut_documents.Cutter
  folder: pathlib.Path
  size: int

  def __call__(self, part: int) -> None:
    """Writes the files of a part, unless they are there."""
    done = self.folder / f'counts-{part}'
    if done.exists():
      return
    documents = _prepared(self.corpus).passages
    rows = range(part * self.size,
                 min((part + 1) * self.size, len(documents)))
    with (passed_on.putting(self.folder / f'lines-{part}') as path,
          open(path, 'w', encoding='utf-8') as f):
      counts = cut_documents.write(f, documents.some(rows), self.cut)
    with passed_on.putting(done) as path:
      path.write_text(json.dumps(counts))


@functools.lru_cache(1)
def _prepared(corpus: pathlib.Path) -> prepared_lib.Prepared:
  return prepared_lib.Prepared(corpus)


def write(
    prepared: prepared_lib.Prepared, cut: cut_documents.Cutter,
    path: pathlib.Path, scratch: pathlib.Path,
) -> dict[str, int]:
  """Writes the passages of all documents; returns counts.

  Args:
    prepared: its passages are the documents.
    cut: finds the passages of a document.
    path: of `corpus.jsonl`.
    scratch: place of a folder, see `passed_on.shared`.

  Returns:
    As `cut_documents.write`.
  """
  with passed_on.shared(scratch) as seen:
    return _write(prepared, cut, path, seen)


def _write(prepared, cut, path, scratch) -> dict[str, int]:
  parts = range(-(-len(prepared.passages) // _PART_DOCUMENTS))
  beams.run('cutting documents', [beams.Each(
      _CutPart(prepared.corpus_folder, cut, scratch, _PART_DOCUMENTS),
      list(parts),
  )])
  counts = collections.Counter(documents=0, passages=0, blank=0)
  with open(path, 'wb') as lines:
    for part in parts:
      with open(scratch / f'lines-{part}', 'rb') as f:
        shutil.copyfileobj(f, lines)
      counts.update(json.loads((scratch / f'counts-{part}').read_text()))
  return dict(counts)
