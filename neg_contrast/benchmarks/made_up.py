"""Made-up texts as the data of a benchmark."""

import dataclasses
import pathlib

from neg_contrast.artifacts import artifact
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import random_texts
from neg_contrast.models import given


@dataclasses.dataclass(frozen=True)
class MadeUpData(dataset_lib.Data):
  """Random words as passages and queries, written anew every time.

  Attributes:
    folder: of the texts, which the source of `config` names.
    tokenizer: that their lengths are counted with.
    passages: how many.
    queries: how many.
    passage_tokens: their mean length.
    query_tokens: their mean length.
  """

  folder: pathlib.Path
  tokenizer: given.Tokenizer
  passages: int
  queries: int
  passage_tokens: int
  query_tokens: int

  def describe(self) -> str:
    """Where they lie."""
    return f'made-up texts in {self.folder}'

  def needs(self) -> dict[str, artifact.Artifact]:
    """The tokenizer."""
    return {'tokenizer': self.tokenizer}

  def lacks(self) -> None:
    """Nothing: the source is made."""

  def is_made(self) -> bool:
    """Never: they are written anew."""
    return False

  def build(self) -> None:
    """Writes and prepares them."""
    random_texts.write(
        self.folder, self.tokenizer.load(), self.passages, self.queries,
        self.passage_tokens, self.query_tokens,
    )
    super().build()
