"""The verdict of an audit: what it rests on, flags, and the text."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from neg_contrast.mining import audit_evidence, strategies
from neg_contrast.mining import false_negatives as audit
from neg_contrast.mining import recommendation as rules

_FEW = 200  # Queries.
_MOST = 0.9  # Of the positives: their answers are words of the passage.
_MANY = 0.01  # Of the queries, to be told of.
_FIRST = 20  # Ranks that two kinds of evidence are compared on.
_SURE, _FAIR = 0.8, 0.3  # Of the candidates that a judge believes most.
_VAGUE = 0.02  # Of random passages above the positive; 0.003 on SQuAD.


def judge(
    gathered: audit_evidence.Gathered,
    scale: float,
    depth: int,
    pool_size: int,
    checkpoint: str,
) -> dict[str, Any]:
  """Estimates, recommends, and says why.

  Args:
    gathered: the evidence.
    scale: factor on scores in the loss.
    depth: candidates of each source.
    pool_size: negatives of a source that are drawn from.
    checkpoint: of the judge.

  Returns:
    `facts`, `judging`, `sources` (lines of the table), `recommendation`,
    `flags` and `verdict`; json values.
  """
  sources = gathered.sources
  facts = {**gathered.facts,
           'judge_against_answers': audit.agreement(sources['model']),
           'verdicts_against_answers': _against_answers(
               sources, gathered.facts)}
  judging = choose_judging(sources, facts)
  found = rules.recommend(sources, gathered.random, judging, scale, pool_size)
  lines = {
      name: {
          f'{first}-{min(last, depth)}':
          audit.summary(evidence, first, last, judging, scale)
          for first, last in audit.BUCKETS if first <= depth
      } for name, evidence in sources.items()
  }
  any_rank = audit.summary(gathered.random, 1, audit_evidence.RANDOM, judging,
                           scale)
  return plain({
      'facts': facts,
      'judging': {'kind': judging.kind, 'sensitivity': judging.sensitivity,
                  'trust': judging.trust},
      'sources': {**lines, 'random': {'any': any_rank}},
      'recommendation': {
          'sources': found.sources, **dataclasses.asdict(found),
          'mask_known_positives': True,
      },
      'flags': flags_of(found, checkpoint),
      'verdict': sentences_of(found, judging, facts),
  })


def choose_judging(
    sources: Mapping[str, audit.Evidence], facts: Mapping[str, Any]
) -> audit.Judging:
  """By a cross-encoder if there is one, else by answers, else by the judge."""
  if facts['labelled'] is not None:
    return audit.Judging('verdicts')
  return _by_answers(facts) or audit.by_judge(
      sources['model'], facts['accuracy']['model']['@1']
  )


def _by_answers(facts: Mapping[str, Any]) -> audit.Judging | None:
  """Where they are known, and other passages would hold them too."""
  sensitivity = facts['answer_in_positive'] or 0.0
  if facts['twin_queries_with_answers'] >= audit.LEAST_QUERIES:
    sensitivity = min(sensitivity, facts['answer_in_twins'])
  if (facts['queries_with_answers'] >= 0.5
      and sensitivity >= audit.LEAST_SENSITIVITY):
    return audit.Judging('answers', sensitivity)
  return None


def _against_answers(
    sources: Mapping[str, audit.Evidence], facts: Mapping[str, Any]
) -> dict[str, dict[str, float]]:
  """False shares of the first ranks, by verdicts and by answers.

  Of the same candidates, so that one can be held against the other; empty
  where one of the two is not known.
  """
  by_answers = _by_answers(facts)
  if by_answers is None or facts['labelled'] is None:
    return {}
  share = lambda evidence, judging: audit.false_share(
      evidence, evidence.within(1, _FIRST) & evidence.compared, judging
  ).mean
  return {
      name: {'verdicts': share(evidence, audit.Judging('verdicts')),
             'answers': share(evidence, by_answers)}
      for name, evidence in sources.items()
  }


def flags_of(found: rules.Recommendation, checkpoint: str) -> list[str]:
  """The flags that set a recommendation."""
  negatives = '--config.negatives.'
  quoted = lambda names: '"(' + ''.join(f"'{name}'," for name in names) + ')"'
  flags = [f'{negatives}sources={quoted(found.sources)}']
  if not found.members:
    return flags
  if 'model' in found.members:
    flags.append(f'{negatives}checkpoint={checkpoint}')
  if any(map(strategies.is_ranked, found.members)):
    flags += [f'{negatives}first_rank={found.first_rank}',
              f'{negatives}last_rank={found.last_rank}']
    if found.relative_margin is not None:
      flags.append(f'{negatives}relative_margin={found.relative_margin}')
  flags.append(f'{negatives}drop_answers={quoted(found.drop_answers)}')
  return [*flags, '--config.loss.mask_known_positives=True']


def sentences_of(
    found: rules.Recommendation,
    judging: audit.Judging,
    facts: Mapping[str, Any],
) -> list[str]:
  """The verdict in words, a line each."""
  if not found.members:
    lines = ['No hard negatives: the other rows of the batch are better.']
  else:
    margin = found.relative_margin
    lines = [
        f'Use {" + ".join(found.members)}, '
        + (f'ranks {found.first_rank} to {found.last_rank}' if found.last_rank
           else f'from rank {found.first_rank} on') + ', '
        + ('no margin' if margin is None else f'relative margin {margin}')
        + '; ' + (f'drop answers of {" + ".join(found.drop_answers)}.'
                  if found.drop_answers else 'drop no answers.')
    ]
  lines += [
      f'{name}: {one.mean:.1%} false ({one.low:.1%} to {one.high:.1%}) where '
      f'they are most' for name, one in found.false.items() if one.queries
  ]
  lines += [f'Not {name}: {why}.' for name, why in found.refused.items()]
  return lines + [_sureness(judging, facts), *_remarks(facts)]


def _sureness(judging, facts) -> str:
  """What the verdict rests on."""
  few = (f' Only {facts["queries"]} queries: intervals are wide.'
         if facts['queries'] < _FEW else '')
  known = facts['answer_in_positive']
  if judging.kind == 'verdicts':
    return (f'Rests on the verdicts of {facts["cross_encoder"]}: of the '
            'candidates that it believes most, at least '
            f'{facts["labelled"]:.0%} are known positives, which is taken for '
            'the part of the positives that is known. Sure: '
            f'{_of_labelled(facts["labelled"])}{few}')
  if judging.kind == 'answers':
    if facts['twin_queries_with_answers'] >= audit.LEAST_QUERIES:
      return (f'Rests on answers; other passages that answer hold them in '
              f'{judging.sensitivity:.0%} (twins). Sure: good.{few}')
    return (f'Rests on answers, which {known:.0%} of the positives hold; that '
            'other passages that answer would hold them too is assumed. Sure: '
            f'{"fair" if known >= _MOST else "weak"}.{few}')
  why = 'no answers are known' if known is None else (
      f'{known:.0%} of the positives hold their answers, and '
      f'{_part(facts["answer_in_twins"], 0)} of the twins'
  )
  return (f'Rests on the judge alone ({why}), whose accuracy@1 is '
          f'{judging.trust:.0%}: what it prefers to the positive counts as '
          'false with that probability, which is a convention; intervals do '
          'not cover its mistakes. Sure: '
          f'{"weak" if judging.trust >= 0.5 else "very weak"}. A better '
          f'--config.checkpoint tells more.{few}')


def _of_labelled(labelled) -> str:
  """How sure the verdicts of a cross-encoder make."""
  if labelled < _FAIR:
    return ('weak: so few are known where most positives are not judged, or '
            'where it can\'t tell them from others in this data, which '
            'configs/rerank.py measures.')
  return (f'{"good" if labelled >= _SURE else "fair"}, and rather too many are '
          'called false than too few.')


def _part(value, digits) -> str:
  """A part in percent; of nothing there is none."""
  is_known = value is not None and math.isfinite(value)
  return f'{value:.{digits}%}' if is_known else 'none'


def _remarks(facts) -> list[str]:
  """What else the user should know."""
  lines = ['A positive comes first for ' + ', '.join(
      f'{values["@1"]:.0%} ({name})'
      for name, values in facts['accuracy'].items()
  ) + ' of the queries.']
  sides = facts['judge_against_answers']
  if facts['answer_in_positive'] is not None:
    lines.append('Of its top 20, what the judge prefers to the positive holds '
                 'an answer in {} (chance {}), the rest in {} ({}).'.format(
                     *(_part(sides[side][key], 1) for side in
                       ('above', 'below') for key in ('answer', 'chance'))))
  both = facts['verdicts_against_answers']
  if both:
    lines.append('False among the top 20, by verdicts and by answers: '
                 + ', '.join(f'{name} {one["verdicts"]:.1%} and '
                             f'{one["answers"]:.1%}'
                             for name, one in both.items()) + '.')
  if facts['random_above'] > _VAGUE:
    lines.append(
        f'To the judge even {facts["random_above"]:.0%} of random passages fit '
        'better than the positive: many queries do not single out a passage, '
        'or it knows nothing of such texts.'
    )
  if facts['queries_with_twins'] > _MANY:
    lines.append(
        f'{facts["queries_with_twins"]:.1%} of the queries are asked in the '
        'same words elsewhere, with another positive: each is false for the '
        'other, in the batch too. Merge their judgements.'
    )
  if facts['copied_passages'] > _MANY:
    lines.append(f'{facts["copied_passages"]:.1%} of the passages are copies; '
                 'copies of a positive are never its negatives.')
  context = facts.get('context')
  if context and context['halves'] + context['none'] > _MANY:
    lines.append(f'Context: {context["halves"]:.0%} of the queries would get '
                 f'half of their positive, {context["none"]:.0%} nothing.')
  return lines


def describe(made: dict[str, Any]) -> str:
  """Table and verdict as text."""
  keys = ('answer', 'chance', 'copy', 'twin', 'above')
  lines = [f'{made["dataset"]}/{made["split"]}, judge {made["checkpoint"]}, '
           f'{made["facts"]["queries"]:,} queries; shares in %', '',
           f'{"source":8} {"ranks":>7} {"candidates":>10}' + ''.join(
               f'{key:>8}' for key in keys
           ) + f'{"score":>8}{"push":>7}  false']
  show = lambda value: '-' if value is None else f'{100 * value:.1f}'
  for source, buckets in made['sources'].items():
    for ranks, line in buckets.items():
      if not line['candidates']:
        continue
      score = line['difference']
      lines.append(
          f'{source:8} {ranks:>7} {line["candidates"]:10,}'
          + ''.join(f'{show(line[key]):>8}' for key in keys)
          + f'{score:8.2f}{line["push"]:7.3f}  {show(line["false"])} '
          f'({show(line["false_low"])} to {show(line["false_high"])})'
      )
  flags = ' \\\n  '.join(made['flags'])
  return '\n'.join([*lines, '', *made['verdict'], '', '  ' + flags])


def plain(value: Any) -> Any:
  """Json values: four digits, null for what is unknown."""
  if isinstance(value, dict):
    return {key: plain(some) for key, some in value.items()}
  if isinstance(value, list | tuple):
    return [plain(some) for some in value]
  if isinstance(value, float | np.floating):
    return float(f'{value:.4g}') if np.isfinite(value) else None
  return value
