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

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

from neg_contrast import errors
from neg_contrast.data import records
from neg_contrast.data.formats import beir
from neg_contrast.evaluation import trec

KINDS = 'positive', 'of an equal question', 'of its document or title', 'other'


class Judged:
  """A BEIR folder: what its passages are to the queries of a split.

  Attributes:
    positives: of each query of the split.
  """

  def __init__(self, folder: pathlib.Path, split: str):
    """Reads it.

    Args:
      folder: with `corpus.jsonl`, `queries.jsonl` and `qrels/`.
      split: one of `qrels/`.

    Raises:
      UserError: a file is missing or damaged.
    """
    source = beir.Beir(str(folder), records.InvalidRecords(skip=False))
    self._questions = {q.id: _plain(q.text) for q in source.queries()}
    self._subjects = {
        p.id: {('title', _plain(p.title))} | (
            {('document', p.document_id)} if p.document_id else set())
        for p in source.passages()
    }
    self._answered = collections.defaultdict(set)  # Questions of a passage.
    for path in sorted((folder / 'qrels').glob('*.tsv')):
      for query, passages in _positives(source, path.stem).items():
        for passage in passages:
          self._answered[passage].add(self._questions[query])
    self.positives = _positives(source, split)

  def kind(self, query: str, passage: str) -> str:
    """One of `KINDS`."""
    positives = self.positives[query]
    if passage in positives:
      return KINDS[0]
    if self._questions[query] in self._answered[passage]:
      return KINDS[1]
    subjects = set().union(*(self._subjects[name] for name in positives))
    subjects.discard(('title', ''))
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
    judged = Judged(args.folder, args.split)
    print(f'| first | {" | ".join(KINDS)} |\n|---{"|---:" * len(KINDS)}|')
    for workdir in args.workdirs:
      for path in sorted(workdir.glob(
          f'evaluation/*-{args.split}-{args.system}/run.trec'
      )):
        print(f'| {workdir.name} | {" | ".join(_parts(path, judged))} |')
  except errors.UserError as e:
    print(f'error: {e}', file=sys.stderr)
    sys.exit(2)


def _parts(path: pathlib.Path, judged: Judged) -> list[str]:
  run = trec.read_run(path)
  unknown = run.keys() - judged.positives.keys()
  if unknown:
    raise errors.UserError(
        f'{path}: has query {min(unknown)}, of which the split has no '
        'judgement; name the folder and split that it was evaluated on')
  kinds = collections.Counter(
      judged.kind(query, ranking[0][0]) for query, ranking in run.items()
      if ranking)
  return [f'{kinds[kind] / len(run):.3f}' for kind in KINDS]


def _positives(source: beir.Beir, split: str) -> dict[str, set[str]]:
  found = collections.defaultdict(set)
  for judgement in source.judgements(split):
    if judgement.grade > 0:
      found[judgement.query_id].add(judgement.passage_id)
  return found


def _plain(text: str) -> str:
  return ' '.join(re.findall(r'\w+', text.casefold()))


if __name__ == '__main__':
  main()
