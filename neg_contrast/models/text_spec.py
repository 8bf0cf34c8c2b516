"""How text becomes the input of an encoder. Pure."""

import dataclasses
from typing import Any

# As BLINK and the code of Zhang and Stratos have them: BERT's vocabularies hold
# these, and no text does.
MENTION_MARKERS = '[unused0]', '[unused1]'


@dataclasses.dataclass(frozen=True)
class TextSpec:
  """How text becomes input; saved with the model.

  Attributes:
    query_length: tokens a query is cut to, [CLS] and [SEP] included.
    passage_length: the same for passages.
    query_prefix: text put before every query.
    passage_prefix: text put before every passage.
    mention_start: token put before a mention in its context.
    mention_end: token put after it.
    title_end: token put between title and text; empty: [SEP].
  """

  query_length: int
  passage_length: int
  query_prefix: str = ''
  passage_prefix: str = ''
  mention_start: str = MENTION_MARKERS[0]
  mention_end: str = MENTION_MARKERS[1]
  title_end: str = ''

  @property
  def markers(self) -> tuple[str, str]:
    """Tokens put before and after a mention."""
    return self.mention_start, self.mention_end

  @property
  def identity(self) -> dict[str, Any]:
    """The values that embeddings depend on, without usual marks."""
    values = dataclasses.asdict(self)
    if self.markers == MENTION_MARKERS:
      del values['mention_start'], values['mention_end']
    if not self.title_end:
      del values['title_end']
    return values

  def length(self, role: str) -> int:
    """The length of `query` or `passage` inputs."""
    return self.query_length if role == 'query' else self.passage_length

  def prefix(self, role: str) -> str:
    """The prefix of `query` or `passage` inputs."""
    return self.query_prefix if role == 'query' else self.passage_prefix
