"""Documentation strings of the Python standard library as a retrieval task.

Real text that every machine has. A module is a document; the summary line of a
docstring is the query and the rest of it the passage.
"""

import ast
import functools
import hashlib
import inspect
import pathlib
import sysconfig
from collections.abc import Iterator

from neg_contrast import errors
from neg_contrast.artifacts import places
from neg_contrast.data import records

# Tests, vendored and generated code, and things that are no library.
_SKIPPED = frozenset((
    'test', 'tests', 'idlelib', 'idle_test', 'lib2to3', 'turtledemo',
    'ensurepip', 'site-packages', 'dist-packages', '__pycache__', '_vendor',
    'pydoc_data',
))
_LEAST_QUERY_WORDS = 3
_LEAST_PASSAGE_WORDS = 15
# Parts of a hundred modules; the rest trains.
_TEST_PERCENT = 25
_TUNE_PERCENT = 11


class PythonDocs:
  """Pairs of summary and description, read from source, never imported.

  A description that was seen before (inherited ones are) is left out, so that
  all passages differ. Splits go by a hash of the module's name.
  """

  splits = ('train', 'tune', 'test')

  def __init__(self, root: pathlib.Path | None = None):
    """Lists the modules of `root`, by default of this Python's library.

    Args:
      root: a folder of modules, or a package, such as xml of the library.

    Raises:
      UserError: it holds none.
    """
    self._root = root or pathlib.Path(sysconfig.get_path('stdlib'))
    self.files = tuple(sorted(_modules(self._root)))
    if not self.files:
      raise errors.UserError(
          f'python_docs: {self._root} holds no Python source; use a Python '
          'that ships its standard library as files'
      )

  def passages(self) -> Iterator[records.Passage]:
    """The descriptions."""
    for _, passage in self._pairs:
      yield passage

  def queries(self) -> Iterator[records.Query]:
    """The summaries."""
    for query, _ in self._pairs:
      yield query

  def judgements(self, split: str) -> Iterator[records.Judgement]:
    """Each summary's own description."""
    for query, passage in self._pairs:
      if _split_of(passage.document_id) == split:
        yield records.Judgement(query.id, passage.id, 1, query.where)

  @functools.cached_property
  def _pairs(self) -> list[tuple[records.Query, records.Passage]]:
    return list(self._read())

  def _read(self) -> Iterator[tuple[records.Query, records.Passage]]:
    seen: set[str] = set()
    names: dict[str, int] = {}
    for path in self.files:
      parts = path.relative_to(self._root).with_suffix('').parts
      module = '.'.join(p for p in parts if p != '__init__') or self._root.name
      for name, docstring, line in _docstrings(path, module):
        summary, _, rest = inspect.cleandoc(docstring).partition('\n')
        summary, rest = summary.strip(), rest.strip()
        key = ' '.join(rest.split())
        if (len(summary.split()) < _LEAST_QUERY_WORDS
            or len(rest.split()) < _LEAST_PASSAGE_WORDS or key in seen):
          continue
        seen.add(key)
        count = names[name] = names.get(name, 0) + 1
        unique = name if count == 1 else f'{name}~{count}'
        where = f'{path}:{line}'
        yield (records.Query(unique, summary, where=where),
               records.Passage(unique, '', rest, module, where))


def _modules(folder: pathlib.Path) -> Iterator[pathlib.Path]:
  """Files below a folder; of what is skipped, the files are not listed."""
  if not folder.is_dir():
    return
  for path in folder.iterdir():
    if path.name in _SKIPPED:
      continue
    if path.suffix == '.py':
      yield path
    elif path.is_dir() and not path.is_symlink():
      yield from _modules(path)


def _docstrings(
    path: pathlib.Path, module: str
) -> Iterator[tuple[str, str, int]]:
  """(dotted name, docstring, line) of a module and all it defines."""
  try:
    tree = ast.parse(path.read_bytes())
  except (SyntaxError, ValueError):  # Templates and broken samples.
    return

  def visit(node, name):
    docstring = ast.get_docstring(node, clean=False)
    if docstring:
      yield name, docstring, getattr(node, 'lineno', 1)
    for child in node.body:
      if isinstance(child, (ast.ClassDef, ast.FunctionDef,
                            ast.AsyncFunctionDef)):
        yield from visit(child, f'{name}.{child.name}')

  yield from visit(tree, module)


def _split_of(module: str) -> str:
  percent = int(hashlib.sha256(module.encode()).hexdigest(), 16) % 100
  if percent < _TEST_PERCENT:
    return 'test'
  return 'tune' if percent < _TEST_PERCENT + _TUNE_PERCENT else 'train'


FORMAT = records.SourceFormat(
    'python_docs',
    lambda place, _: PythonDocs(places.path(place) if place else None),
    needs_place=False,
)
