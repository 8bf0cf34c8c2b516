"""The table of pretexts, and what settings and errors make of it."""

from neg_contrast.stage1 import pretexts


def test_they_tell_what_they_need():
  needing = {name for name, pretext in pretexts.PRETEXTS.items()
             if pretext.needs_documents}
  assert needing == {'recurring_spans', 'neighbours'}
  assert all(pretext.needs for pretext in pretexts.PRETEXTS.values())
