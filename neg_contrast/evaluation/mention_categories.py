"""How far an entity's title tells a mention of it: four categories.

Logeswaran et al., "Zero-Shot Entity Linking by Reading Entity Descriptions",
2019, section 4, by the texts alone; what hard negatives improve most are low
overlap and multiple categories (Zhang and Stratos, section 6.7).
"""

import re

import numpy as np

from neg_contrast.data import prepared as prepared_lib

HIGH_OVERLAP = 'high overlap'
MULTIPLE_CATEGORIES = 'multiple categories'
AMBIGUOUS_SUBSTRING = 'ambiguous substring'
LOW_OVERLAP = 'low overlap'


def category_of(mention: str, title: str) -> str:
  """The category of a mention, without regard to case and spaces.

  `high overlap`: the title is the mention; `multiple categories`: it is the
  mention and a phrase in brackets that tells it from others, as in "Batman
  (Lego)"; `ambiguous substring`: it holds the mention otherwise; `low overlap`:
  all else.

  Args:
    mention: its own words.
    title: of its entity.
  """
  mention, title = (' '.join(text.casefold().split())
                    for text in (mention, title))
  if title == mention:
    return HIGH_OVERLAP
  if re.fullmatch(re.escape(mention) + r' ?\(.*\)', title):
    return MULTIPLE_CATEGORIES
  return AMBIGUOUS_SUBSTRING if mention in title else LOW_OVERLAP


def of_split(prepared: prepared_lib.Prepared, split: str) -> dict[str, str]:
  """Query id -> category, of the mentions of a split; in their order.

  A mention of several entities has the category of the first that is judged.

  Args:
    prepared: a corpus whose queries are mentions.
    split: its judgements.
  """
  judged = prepared.judgements(split)
  is_right = judged.grades > 0
  queries, first = np.unique(judged.query_rows[is_right], return_index=True)
  entities = judged.passage_rows[is_right][first]
  return {
      bytes(prepared.query_ids[query]).decode(): category_of(
          prepared.queries[int(query)].text,
          prepared.passages[int(entity)].title,
      ) for query, entity in zip(queries, entities, strict=True)
  }
