"""Search that shows each document once, with its best passage."""

from collections.abc import Callable

from neg_contrast.data import records
from neg_contrast.retrieval import finding, vectors

_FIRST = 4  # Times as many passages as documents are wanted, at first.


def find(
    search: Callable[[vectors.QueryLike, int], list[finding.Found]],
    query: vectors.QueryLike,
    depth: int,
    passages: int,
    document_of: Callable[[records.Passage], str],
) -> list[finding.Found]:
  """The best documents for a query, each with its best passage.

  More passages are searched until they are of enough documents. A passage
  without a document stands for itself.

  Args:
    search: (query, depth) -> the best passages, as `Retriever.find`.
    query: what is asked.
    depth: documents wanted.
    passages: of the corpus.
    document_of: as `Dataset.document_of`.

  Returns:
    As `Retriever.find`; fewer, where there are fewer documents.
  """
  count = min(passages, _FIRST * depth)
  while True:
    found = search(query, count)
    best: dict[str, finding.Found] = {}
    for one in found:
      best.setdefault(_key(one.passage, document_of), one)
    if len(best) >= depth or count >= passages or len(found) < count:
      return list(best.values())[:depth]
    count = min(passages, 2 * count)


def _key(
    passage: records.Passage, document_of: Callable[[records.Passage], str]
) -> str:
  document = document_of(passage)
  return f'document {document}' if document else f'passage {passage.id}'
