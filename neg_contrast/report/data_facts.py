"""Describes corpus and splits of a job's data, for a report."""

from collections.abc import Iterable

from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.data import statistics
from neg_contrast.models import loading
from neg_contrast.report import contents
from neg_contrast.settings import config as config_lib


def describe(
    data: config_lib.DataConfig | None,
    dataset: dataset_lib.Dataset,
    split: str,
    use: str,
    model: loading.Model | None,
) -> contents.Data:
  """All that the page says of the data.

  Args:
    data: names the splits to train, tune and test on; None: there are none.
    dataset: corpus and queries.
    split: that the job reports on.
    use: what that is for.
    model: gives the tokenizer; without one lengths are not known.
  """
  prepared = dataset.prepared
  counts = prepared.manifest['counts']
  lengths = {}
  if model is not None:
    for role, texts in (('query', prepared.queries),
                        ('passage', prepared.passages)):
      if len(texts):
        lengths[role] = statistics.measure_lengths(
            dataset.tokenize(model, role)
        )
  return contents.Data(
      statistics.describe_corpus(prepared),
      tuple(_describe_splits(data, dataset, split, use)),
      lengths, counts['skipped'], counts['repeated'],
  )


def judgements(
    prepared: prepared_lib.Prepared, split: str
) -> prepared_lib.Judgements | None:
  """Those of a split, None where it is unknown or empty."""
  counts = prepared.manifest['counts']
  sizes = (counts[kind].get(split, 0) for kind in ('judgements', 'unjudged'))
  return prepared.judgements(split) if any(sizes) else None


def _describe_splits(
    data: config_lib.DataConfig | None,
    dataset: dataset_lib.Dataset,
    split: str,
    use: str,
) -> Iterable[tuple[str, statistics.Split]]:
  """What each split is used for, and its numbers."""
  used = {}
  if data is not None:
    splits = dataset.splits
    used = {
        data.train_split: ('training', splits.train),
        data.tune_split or f'{data.train_split}, set apart':
            ('tuning', splits.tune),
        data.test_split: ('evaluation', splits.test),
    }
  for name in dataset.prepared.splits:
    judged = judgements(dataset.prepared, name)
    if judged is not None and name not in used:
      used[name] = (use if name == split else '–', judged)
  for name, (use_of, judged) in used.items():
    yield use_of, statistics.describe_split(name, judged)
