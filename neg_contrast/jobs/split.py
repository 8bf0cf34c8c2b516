"""Cuts the documents of a source into the passages of a new corpus."""

import pathlib

from neg_contrast.artifacts import arrays, artifact, folders
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import passages
from neg_contrast.jobs.common import checks, next_command
from neg_contrast.models import given
from neg_contrast.retrieval import nearest_text
from neg_contrast.settings import config as config_lib

_METRICS = 'accuracy@1', 'accuracy@5', 'accuracy@20', 'mrr@10'


def check(config: config_lib.Config) -> None:
  """Refuses a config that does not suit `job=split`."""
  checks.check_source(config)
  if config.data.passage_tokens:
    checks.check_checkpoint(config)


class SplitJob:
  """`job=split`: documents in, a BEIR folder of passages out."""

  def __init__(self, config: config_lib.Config, workdir: pathlib.Path):
    """Reads nothing yet."""
    data = self._data = config.data
    k1, b = config.evaluation.bm25_k1, config.evaluation.bm25_b
    self._passages = passages.Passages(
        dataset_lib.data_of(data), workdir, data.passage_words,
        data.passage_tokens,
        given.Tokenizer(config.checkpoint) if data.passage_tokens else None,
        data.passage_judgements, nearest_text.NearestText(k1, b),
        data.train_split, k1, b,
    )

  def targets(self) -> list[artifact.Artifact]:
    """The passages, which say what they need."""
    return [self._passages]

  def finish(self) -> None:
    """Says how much there is and how to use it.

    Raises:
      UserError: a file is damaged.
    """
    folder = self._passages.folder
    arrays.check_folder(folder)
    made = folders.read_json(folder / folders.MANIFEST)['counts']
    print(f'\n{made["documents"]} documents, {made["passages"]} passages, '
          f'{made["blank"]} documents without text')
    if 'judgements' in made:
      print(f'{made["judgements"]} judgements of passages. See what a training '
            'on them takes:\n' + next_command.command(
                'own_data', f'--config.data.source=beir:{folder}',
                *next_command.flags_of(
                    self._data, 'train_split', 'tune_split', 'test_split'),
                *self._metrics(), f'--workdir={_trained(folder.parent)}',
                '--plan'))
    else:
      print(f'--config.data.source=beir:{folder}')

  def _metrics(self) -> list[str]:
    """Flags that measure by documents, where judgements are theirs."""
    if self._passages.judgements != passages.DOCUMENT:
      return []
    names = ','.join(f"'document_{name}'" for name in _METRICS)
    return [f'--config.evaluation.metrics=({names})',
            f'--config.evaluation.criterion=document_{_METRICS[-1]}']


def _trained(workdir: pathlib.Path) -> pathlib.Path:
  """Where to train: `workdirs/own` after `workdirs/own-passages`."""
  own = workdir.name.removesuffix('-passages')
  return workdir.with_name(
      own if own not in ('', workdir.name) else f'{workdir.name}-trained'
  )
