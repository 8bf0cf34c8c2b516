"""Tables whose rows can't be compared are refused before anything runs."""

from neg_contrast.artifacts import places
from neg_contrast.report import paper
from neg_contrast.settings import config as config_lib

_OF_ALL = ('source', 'name', 'test_split', 'document', 'answer_words',
           'drop_own_passage')  # Keys of `data`.


def check_columns(settings: config_lib.TableConfig) -> None:
  """Refuses numbers of a paper that can't be printed beside ours.

  Raises:
    UserError: the paper has no such data set, there are more of them than
      splits, or its file can't be read.
  """
  if len(settings.datasets) > 1 + len(settings.more_splits):
    raise settings.error('datasets', 'are more than there are splits: '
                         'data.test_split, and table.more_splits')
  unknown = [name for name in settings.datasets if name not in paper.SIZES]
  if unknown:
    raise settings.error('datasets', f'has "{unknown[0]}", and the paper has '
                         + ', '.join(paper.SIZES))
  if settings.paper:
    paper.read(places.path(settings.paper))


def check_cell(config: config_lib.Config, cell: config_lib.Config) -> None:
  """Refuses a run that is none of the table's.

  Args:
    config: of the table.
    cell: of the run.

  Raises:
    UserError: it trains no dual encoder, or is evaluated on other data.
  """
  if cell.job != 'train':
    raise cell.error('job', 'is no training of a dual encoder; leave it out')
  for key in _OF_ALL:
    wanted = getattr(config.data, key)
    if getattr(cell.data, key) != wanted:
      raise cell.error(f'data.{key}', 'is not that of the table, which is '
                       f'{wanted!r}: its rows are compared; leave it out')
