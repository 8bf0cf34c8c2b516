"""The table of pretexts, and what settings and errors make of it."""

from neg_contrast.settings import config as config_lib
from neg_contrast.stage1 import pretexts


def test_settings_name_the_same_pretexts():
  """Until settings need no list of their own."""
  assert tuple(pretexts.PRETEXTS) == config_lib.PRETEXTS


def test_they_tell_what_they_need():
  needing = {name for name, pretext in pretexts.PRETEXTS.items()
             if pretext.needs_documents}
  assert needing == {'recurring_spans', 'neighbours'}
  assert all(pretext.needs for pretext in pretexts.PRETEXTS.values())
