"""Names of places in a list, as the command line gives them."""

from neg_contrast import errors
from neg_contrast.artifacts import places
from neg_contrast.settings import config as config_lib


def check(config: config_lib.Config, *keys: str) -> None:
  """Refuses several names that were written as one, with commas.

  Args:
    config: of the job.
    *keys: such as `ensemble.members`; names of theirs may hold `*`.

  Raises:
    SettingError: shows how they are written.
  """
  for key in keys:
    section, _, name = key.partition('.')
    given: tuple[str, ...] = getattr(getattr(config, section), name)
    if all(map(_is_one, given)):
      continue
    parts = [part.strip() for one in given
             for part in ([one] if _is_one(one) else one.split(','))]
    quoted = [f"'{part}'" for part in filter(None, parts)]
    said = ','.join(quoted) + ',' * (len(quoted) == 1)
    raise config.error(
        key, 'names several places as one, and there is no place of that name; '
        f'write --{errors.key(key)}="({said})"'
    )


def _is_one(name: str) -> bool:
  return (',' not in name or places.path(name).exists()
          or bool(places.matching(name)))
