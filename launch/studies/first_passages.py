"""What stands first in rankings, where it is no positive.

    python launch/studies/first_passages.py FOLDER SPLIT workdirs/study/rows/*

`FOLDER` is the BEIR folder that the runs were evaluated on, by the judgements
of `SPLIT`. One line a run, in parts of its queries: a positive is first; a
passage that is a positive of an equal question (but for case and punctuation),
so that nobody judged it for this one; another passage of the positive's
document or title; any other.
"""

import argparse
import collections
import pathlib
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

from neg_contrast import errors
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.evaluation import trec
from neg_contrast.settings import config as config_lib

KINDS = 'positive', 'of an equal question', 'of its document or title', 'other'


class Judged:
  """What the passages of a data set are to the queries of a split."""

  def __init__(self, prepared: prepared_lib.Prepared, split: str):
    """Reads texts and judgements.

    Args:
      prepared: the data set.
      split: whose queries are looked at.

    Raises:
      UserError: there is no such split.
    """
    self._questions = {
        name.decode(): _words(query.text) for name, query
        in zip(prepared.query_ids, prepared.queries, strict=True)
    }
    passages = [name.decode() for name in prepared.passage_ids]
    self._subjects = {
        name: {('title', _words(passage.title)), ('document', document)}
        - {('title', ()), ('document', -1)}
        for name, passage, document in zip(
            passages, prepared.passages, prepared.passage_documents.tolist(),
            strict=True)
    }
    queries = list(self._questions)
    positives = lambda judged: [
        (queries[query], passages[passage])
        for query, passage, grade in zip(
            judged.query_rows, judged.passage_rows, judged.grades, strict=True)
        if grade > 0]
    self._positives: dict[str, set[str]] = collections.defaultdict(set)
    for query, passage in positives(prepared.judgements(split)):
      self._positives[query].add(passage)
    self._answered: dict[str, set[tuple[str, ...]]] = (
        collections.defaultdict(set))
    for name in prepared.splits:
      for query, passage in positives(prepared.judgements(name)):
        self._answered[passage].add(self._questions[query])

  def kind(self, query: str, passage: str) -> str:
    """One of `KINDS`.

    Raises:
      KeyError: of a query without positives in the split, or of a passage that
        is not there.
    """
    if query not in self._positives or passage not in self._subjects:
      raise KeyError(query, passage)
    if passage in self._positives[query]:
      return KINDS[0]
    if self._questions[query] in self._answered[passage]:
      return KINDS[1]
    subjects = set().union(
        *(self._subjects[name] for name in self._positives[query]))
    return KINDS[2] if subjects & self._subjects[passage] else KINDS[3]


def main() -> None:
  """Prints a Markdown table."""
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawTextHelpFormatter
  )
  parser.add_argument('folder', type=pathlib.Path)
  parser.add_argument('split')
  parser.add_argument('workdirs', nargs='+', type=pathlib.Path)
  parser.add_argument('--system', default='trained')
  args = parser.parse_args()
  try:
    with tempfile.TemporaryDirectory() as scratch:
      judged = Judged(dataset_lib.Dataset(config_lib.DataConfig(
          source=f'beir:{args.folder}', prepared_dir=scratch
      )).prepared, args.split)
    print(f'| first | {" | ".join(KINDS)} |\n|---{"|---:" * len(KINDS)}|')
    for workdir in args.workdirs:
      pattern = f'evaluation/*-{args.split}-{args.system}/run.trec'
      found = sorted(workdir.glob(pattern))
      if not found:
        raise errors.UserError(
            f'{workdir}: has no {pattern}; name a run that was evaluated on '
            'the split')
      for path in found:
        print(f'| {workdir.name} | {" | ".join(_parts(path, judged))} |')
  except errors.UserError as e:
    print(f'error: {e}', file=sys.stderr)
    sys.exit(2)


def _parts(path: pathlib.Path, judged: Judged) -> list[str]:
  firsts = {query: ranking[0][0]
            for query, ranking in trec.read_run(path).items()}
  try:
    kinds = collections.Counter(
        judged.kind(query, first) for query, first in firsts.items())
  except KeyError as e:
    query, passage = e.args
    raise errors.UserError(
        f'{path}: query {query} has no positive in the split, or there is no '
        f'passage {passage}; name the folder that it was evaluated on') from e
  return [f'{kinds[kind] / len(firsts):.3f}' for kind in KINDS]


def _words(text: str) -> tuple[str, ...]:
  return tuple(re.findall(r'\w+', text.casefold()))


if __name__ == '__main__':
  main()
