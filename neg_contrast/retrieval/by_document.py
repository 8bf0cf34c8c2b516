"""Search that shows each document once, with its best passage."""

from collections.abc import Callable

from neg_contrast.retrieval import finding, vectors

_FIRST = 4  # Times as many passages as documents are wanted, at first.


def find(
    search: Callable[[vectors.QueryLike, int], list[finding.Found]],
    query: vectors.QueryLike,
    depth: int,
    passages: int,
) -> list[finding.Found]:
  """The best documents for a query, each with its best passage.

  More passages are searched until they are of enough documents. A passage
  without a document stands for itself.

  Args:
    search: (query, depth) -> the best passages, as `Retriever.find`.
    query: what is asked.
    depth: documents wanted.
    passages: of the corpus.

  Returns:
    As `Retriever.find`; fewer, where there are fewer documents.
  """
  count = min(passages, _FIRST * depth)
  while True:
    found = search(query, count)
    best: dict[str, finding.Found] = {}
    for one in found:
      best.setdefault(_document(one), one)
    if len(best) >= depth or count >= passages or len(found) < count:
      return list(best.values())[:depth]
    count = min(passages, 2 * count)


def _document(found: finding.Found) -> str:
  passage = found.passage
  return (f'document {passage.document_id}' if passage.document_id
          else f'passage {passage.id}')
