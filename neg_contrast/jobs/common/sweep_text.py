"""Reads the text of `--sweep`: products of axes.

    negatives=bm25,fine seed=0,1,2; negatives=random optim.steps=10,20

A product of axes is written with spaces; several are joined with `;`. Values
are separated by commas; one that holds commas stands in brackets.
"""

import itertools
from collections.abc import Iterator, Mapping

from neg_contrast import errors


def choices(text: str) -> Iterator[dict[str, str]]:
  """The values of each cell, by axis.

  Args:
    text: of the sweep.

  Raises:
    UserError: it is empty, brackets do not match, or an axis or a value is
      empty or stands there twice.
  """
  _check_brackets(text)
  products = _split(text, ';')
  if not products:
    raise errors.UserError('--sweep: is empty; write it as in '
                           '--sweep="negatives=bm25,fine seed=0,1,2"')
  for product in products:
    axes = _axes(product)
    for values in itertools.product(*axes.values()):
      yield dict(zip(axes, values, strict=True))


def name_of(chosen: Mapping[str, str]) -> str:
  """The name of a cell."""
  return ','.join(f'{key}={value}' for key, value in chosen.items())


def _axes(product: str) -> dict[str, list[str]]:
  """Key -> its values as texts."""
  axes: dict[str, list[str]] = {}
  for word in _split(product, ' '):
    key, is_axis, text = word.partition('=')
    values = _split(text, ',', keep_empty=True)
    if not is_axis or not key:
      raise errors.UserError(f'--sweep: {word!r} is no KEY=VALUE,VALUE')
    if key in axes:
      raise errors.UserError(f'--sweep: {key}: stands there twice; join its '
                             'values with commas')
    for value in values:
      if not value:
        raise errors.UserError(f'--sweep: {key}: has an empty value')
      if values.count(value) > 1:
        raise errors.UserError(f'--sweep: {key}={value}: stands there twice')
    axes[key] = values
  return axes


def _check_brackets(text: str) -> None:
  """Refuses brackets without their other half, between which all is a value."""
  depth = 0
  for place, letter in enumerate(text):
    depth += (letter in '([') - (letter in ')]')
    if depth < 0 or depth and place + 1 == len(text):
      raise errors.UserError(
          f'--sweep: brackets in {text!r:.80} don\'t match; a value that holds '
          'one alone can be a row of a config\'s `cells`')


def _split(text: str, mark: str, keep_empty: bool = False) -> list[str]:
  """Parts of a text between marks that stand in no brackets."""
  parts, depth = [''], 0
  for letter in text:
    depth += (letter in '([') - (letter in ')]')
    if depth == 0 and (letter == mark or mark == ' ' and letter.isspace()):
      parts.append('')
    else:
      parts[-1] += letter
  parts = [part.strip() for part in parts]
  return parts if keep_empty else [part for part in parts if part]
