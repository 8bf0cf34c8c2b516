"""A training that names a checkpoint which nothing in it reads is refused."""

from collections.abc import Iterable

from neg_contrast.settings import config as config_lib


def check(
    config: config_lib.Config, of_sets: Iterable[config_lib.Config]
) -> None:
  """Refuses a `checkpoint` that nothing reads.

  A config of a generator is left alone: a preset has it for pairs that it may
  write, and no flag takes it away.

  Args:
    config: of the training.
    of_sets: of the training on each of its data sets alone.

  Raises:
    SettingError: there is one; says what to name in its place.
  """
  if config.checkpoint and not config.synthetic.has_generator and not any(
      'model' in one.negatives.strategies for one in of_sets
  ):
    raise config.error('checkpoint', 'is read by nothing here; name what the '
                       'training is to start from as model.init')
