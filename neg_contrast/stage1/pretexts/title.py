"""`title`: a title finds the text of its passage."""

from neg_contrast.stage1.pretexts import pretext, words


def _title(
    document: pretext.Document, offsets: pretext.Offsets
) -> pretext.Draw:
  """A title that is the whole text finds nothing new, and is left out."""
  del offsets

  def draw(place, rng):
    del rng
    row, passage = document[place]
    title, text = words.fold(passage.title), words.fold(passage.text)
    if title and text and title != text:
      yield pretext.Pair(words.fold_space(passage.title), row, title=False)

  return draw


TITLE = pretext.Pretext(
    'title', 'passages with a title and a text', _title, is_single=True
)
