"""Says, before any training, which hard negatives suit a data set."""

import collections
import dataclasses
import functools
import pathlib
from typing import Any

import numpy as np

from neg_contrast import errors, progress
from neg_contrast.artifacts import folders, plan
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import examples, likeness
from neg_contrast.jobs import checks, reporting, settings_of_rooms
from neg_contrast.mining import analysis, filters
from neg_contrast.mining import false_negatives as audit
from neg_contrast.mining import mined_negatives as negatives_lib
from neg_contrast.mining import texts as texts_lib
from neg_contrast.models import by_name as model_lib
from neg_contrast.retrieval import embedder as embedder_lib
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.retrieval import text_encoder
from neg_contrast.settings import config as config_lib

FILE = 'audit.json'

_QUERIES = 2000  # A share over so many is known to 2 points.
_RANDOM = 50  # Random passages for a query.
_DONORS = 20_000  # Queries whose answers are looked for in others' candidates.
_NEAREST = 50  # Donors to choose from, by likeness of the positive.
_AT_ONCE = 64  # 64 × 600 × 384 float32 are 59 MB.
_FEW = 200  # Queries.
_MOST = 0.9  # Of the positives: their answers are words of the passage.
_MANY = 0.01  # Of the queries, to be told of.
_VAGUE = 0.02  # Of random passages above the positive; 0.003 on SQuAD.
_FORMAT = 1  # Of the file, raised when an estimate changes.


def check(config: config_lib.Config) -> None:
  """Refuses a config that does not suit `job=audit`."""
  checks.check_source(config)


class AuditJob:
  """`job=audit`: candidates of all that needs no training, and a verdict."""

  def __init__(self, config: config_lib.Config, workdir: pathlib.Path):
    """Reads nothing yet.

    Raises:
      UserError: there is no judge.
    """
    if not config.checkpoint:
      raise errors.UserError(
          'config.checkpoint=\'\': is needed: the judge, a trained workdir, a '
          'BERT-family or sentence-transformers folder, or "minilm"'
      )
    self._config, self._workdir = config, workdir

  def steps(self) -> list[plan.Step]:
    """The plan. Which sources there are, the data says."""
    return [
        dataset_lib.preparation_step(self._config.data, lambda: self._dataset),
        plan.Step(
            'candidates', f'top {self._config.negatives.depth} of all sources '
            f'for {_QUERIES:,} queries of {self._config.data.train_split} in '
            f'{self._config.negatives.mined_dir}/candidates',
            lambda: all(step.is_done() for step in self._negatives.steps()),
            missing=lambda: model_lib.missing(self._config.checkpoint),
            share=lambda: plan.run(self._negatives.steps()),
        ),
        plan.Step('audit', f'evidence and verdict in {self._path}',
                  self._is_done, self._audit),
    ]

  def finish(self) -> None:
    """Prints table and verdict, and makes the report of the candidates."""
    reporting.write_report(self._workdir, self._config, self._dataset,
                        negatives=self._negatives)
    print(describe(folders.read_json(self._path)), flush=True)

  @property
  def _path(self) -> pathlib.Path:
    return self._workdir / FILE

  @functools.cached_property
  def _dataset(self) -> dataset_lib.Dataset:
    return dataset_lib.Dataset(self._config.data)

  @functools.cached_property
  def _negatives(self) -> negatives_lib.Negatives:
    """Mines by every source that applies, without filters."""
    judgements = self._dataset.prepared.judgements(
        self._config.data.train_split
    )
    positives = judgements.passage_rows[
        (judgements.grades > 0) & judgements.is_example
    ]
    has_documents = (self._dataset.documents[positives] >= 0).any()
    members = (
        'model', 'bm25', *(['context'] if has_documents else []),
        *(['given'] if (judgements.grades <= 0).any() else []),
    )
    config, settings = self._config, self._config.negatives
    config = dataclasses.replace(
        config,
        model=dataclasses.replace(
            config.model, init=config.model.init or config.checkpoint
        ),
        negatives=config_lib.NegativesConfig(
            strategy='mixed', members=members, depth=settings.depth,
            pool_size=settings.depth, drop_answers=(), drop_duplicates=False,
            mined_dir=settings.mined_dir,
        ),
    )
    return negatives_lib.Negatives(
        config, self._workdir / 'candidates', lambda: self._dataset, _QUERIES
    )

  @functools.cached_property
  def _identity(self) -> dict[str, Any]:
    return folders.as_json({
        'format': _FORMAT, 'scale': self._config.loss.scale,
        'pool_size': self._config.negatives.pool_size,
        'candidates': self._negatives.pool.manifest['identity'],
    })

  def _is_done(self) -> bool:
    return (
        self._path.exists() and self._negatives.is_made()
        and folders.read_json(self._path)['identity'] == self._identity
    )

  def _audit(self) -> None:
    """Writes the file."""
    gathered = _Gatherer(self._config, self._dataset, self._negatives).gather()
    sources, facts = gathered.sources, gathered.facts
    facts['judge_against_answers'] = audit.agreement(sources['model'])
    judging = _choose_judging(sources['model'], facts)
    scale, depth = self._config.loss.scale, self._config.negatives.depth
    found = audit.recommend(sources, gathered.random, judging, scale,
                            self._config.negatives.pool_size)
    lines = {
        name: {
            f'{first}-{min(last, depth)}':
            audit.summary(evidence, first, last, judging, scale)
            for first, last in audit.BUCKETS if first <= depth
        } for name, evidence in sources.items()
    } | {'random': {'any': audit.summary(gathered.random, 1, _RANDOM, judging,
                                         scale)}}
    folders.write_json(self._path, _plain({
        'identity': self._identity,
        'dataset': self._dataset.name,
        'split': self._config.data.train_split,
        'checkpoint': self._config.checkpoint,
        'facts': facts,
        'judging': {'kind': judging.kind, 'sensitivity': judging.sensitivity,
                    'trust': judging.trust},
        'sources': lines,
        'recommendation': {
            'strategy': found.strategy, **dataclasses.asdict(found),
            'mask_known_positives': True,
        },
        'flags': _flags(found, self._config.checkpoint),
        'verdict': _verdict(found, judging, facts),
    }))


@dataclasses.dataclass(frozen=True)
class _Gathered:
  """Evidence by source, that of random passages, and other numbers."""

  sources: dict[str, audit.Evidence]
  random: audit.Evidence
  facts: dict[str, Any]


class _Gatherer:
  """Looks at every candidate; memory holds 20 bytes of each."""

  def __init__(self, config, dataset, negatives):
    self._config, self._dataset = config, dataset
    self._negatives, self._pool = negatives, negatives.pool
    self._prepared = dataset.prepared
    self._known = examples.known_positives(dataset.prepared)
    embedder = embedder_lib.Embedder(
        dataset, text_encoder.TextEncoder(
            model_lib.check_one_vector(
                model_lib.load_as_it_comes(config.checkpoint, config.seed),
                'the judge of an audit has',
            ), settings_of_rooms.encoding(config),
        ),
        pathlib.Path(config.negatives.mined_dir) / retriever_lib.FOLDER,
    )
    self._passage_vecs = embedder.passage_vecs
    self._query_vecs = embedder.query_vecs(self._pool.query_rows)
    self._queries = [self._prepared.queries[int(row)]
                     for row in self._pool.query_rows]
    self._twins = self._find_twins()
    self._others = self._find_others()

  def gather(self) -> _Gathered:
    """All evidence."""
    pool, sources, facts = self._pool, {}, self._facts()
    passages = len(self._prepared.passages)
    for number, name in enumerate(pool.sources):
      columns = np.flatnonzero(pool.source[0] == number)
      rows = np.asarray(pool.rows[:, columns])
      is_positive = pool.dropped_by[:, columns] == filters.code('positive')
      if name in config_lib.RETRIEVED:
        facts['accuracy'][name] = {
            f'@{k}': float(is_positive[:, :k].any(axis=1).mean())
            for k in (1, 5, 20)
        }
      if name == 'context':
        facts['context'] = _context_facts(rows, is_positive, passages)
      own = np.asarray(pool.positive_scores[:, number])[:, None]
      with np.errstate(invalid='ignore', divide='ignore'):
        relative = (pool.score[:, columns] - own) / np.abs(own)
      sources[name] = self._look(
          name, np.where(rows < passages, rows, -1), ~is_positive, relative
      )
    rng = np.random.default_rng(0)
    rows = rng.integers(passages, size=(len(pool), _RANDOM), dtype=np.int32)
    groups = self._prepared.passage_groups[rows]
    is_positive = (
        groups[:, :, None] == self._known[pool.query_rows][:, None, :]
    ).any(axis=2)
    random = self._look('random', rows, ~is_positive,
                        np.full(rows.shape, np.nan))
    facts['random_above'] = audit.mean(random.difference > 0, random.exists)
    return _Gathered(sources, random, facts)

  def _look(self, name, rows, usable, relative) -> audit.Evidence:
    """The evidence of `[queries, depth]` passage rows; -1 pads."""
    groups = self._prepared.passage_groups[np.maximum(rows, 0)]
    exists = (rows >= 0) & usable
    exists &= ~filters.repeated(groups, exists)
    says = progress.Ticker(f'looking at {name}', len(rows))
    parts = []
    for begin in range(0, len(rows), _AT_ONCE):
      lines = slice(begin, min(begin + _AT_ONCE, len(rows)))
      parts.append(self._look_at(lines, rows[lines], exists[lines],
                                 relative[lines]))
      says(lines.stop)
    return audit.Evidence(exists, *(
        np.concatenate(values) for values in zip(*parts, strict=True)
    ))

  def _look_at(self, lines, rows, exists, relative):
    """The fields of `Evidence` after `exists`, of some queries."""
    others = self._others[lines]
    has_other = (others >= 0)[:, None]
    groups = self._prepared.passage_groups[np.maximum(rows, 0)]
    theirs = np.where(has_other, self._known[np.maximum(others, 0)], -1)
    compared = exists & has_other & ~(
        groups[:, :, None] == theirs[:, None, :]
    ).any(axis=2)
    answer = self._holds([query.answers for query in self._queries[lines]],
                         rows, exists)
    chance = self._holds([
        self._prepared.queries[int(row)].answers if row >= 0 else ()
        for row in others
    ], rows, compared)
    known = self._known[self._pool.query_rows[lines]]
    copy = analysis.near_copies(self._passage, known, rows, exists)
    twin = exists & np.array([
        np.isin(of_query, twins)
        for of_query, twins in zip(groups, self._twins[lines], strict=True)
    ])
    query_vecs = self._query_vecs[lines]
    scores, own = (
        np.einsum('qd,qsd->qs', query_vecs,
                  self._passage_vecs[np.maximum(these, 0)])
        for these in (rows, known)
    )
    own = np.where(known >= 0, own, -np.inf).max(axis=1, keepdims=True)
    difference = np.where(exists, scores - own, 0).astype(np.float32)
    return (answer, chance, compared, copy, twin, difference,
            relative.astype(np.float32))

  def _holds(self, answers, rows, where):
    return texts_lib.find_answers(
        self._passage, answers, rows, where, self._config.evaluation.answer_rule
    )

  @functools.lru_cache(maxsize=32768)  # noqa: B019
  def _passage(self, row: int):
    return self._prepared.passages[row]

  @functools.cached_property
  def _judgements(self):
    judgements = self._prepared.judgements(self._config.data.train_split)
    return judgements.select(judgements.grades > 0)

  def _find_twins(self) -> list[list[int]]:
    """Of each query, the groups of positives of queries with its words."""
    wanted = {likeness.words(query.text) for query in self._queries}
    groups = collections.defaultdict(set)
    for row in np.unique(self._judgements.query_rows):
      words = likeness.words(self._prepared.queries[int(row)].text)
      if words in wanted:
        ours = self._known[row]
        groups[words].update(ours[ours >= 0].tolist())
    return [
        sorted(groups[likeness.words(query.text)].difference(self._known[row]))
        for row, query in zip(self._pool.query_rows, self._queries, strict=True)
    ]

  def _find_others(self):
    """`[queries] int32` rows of queries with other answers on like passages.

    Of the queries whose positive is most like ours to the judge, the first that
    shares neither positive nor answer with us; -1 where there is none, or we
    have no answer. One about our own passage would match the topic better, but
    a passage that repeats ours holds its answer too, and would seem harmless.
    """
    rows, first = np.unique(self._judgements.query_rows, return_index=True)
    if len(rows) > _DONORS:
      chosen = np.random.default_rng(0).choice(len(rows), _DONORS, False)
      rows, first = rows[chosen], first[chosen]
    fold = lambda answers: {' '.join(a.casefold().split()) for a in answers}
    answers = [fold(self._prepared.queries[int(row)].answers) for row in rows]
    positives = self._judgements.passage_rows[first]
    groups = self._prepared.passage_groups[positives]
    vecs = self._passage_vecs[positives]
    others = np.full(len(self._queries), -1, np.int32)
    for line, query in enumerate(self._queries):
      ours = fold(query.answers)
      if not ours:
        continue
      known = self._known[self._pool.query_rows[line]]
      scores = vecs @ self._passage_vecs[known[0]]
      scores[np.isin(groups, known)] = -np.inf
      likely = np.argsort(-scores, kind='stable')[:_NEAREST]
      others[line] = next((
          rows[i] for i in likely
          if scores[i] > -np.inf and answers[i] and not answers[i] & ours
      ), -1)
    return others

  def _facts(self) -> dict[str, Any]:
    """What else to know of the data."""
    pool, prepared, rule = (self._pool, self._prepared,
                            self._config.evaluation.answer_rule)
    known = self._known[pool.query_rows]
    counts = (known >= 0).sum(axis=1)
    holds = lambda rows: self._holds([query.answers for query in self._queries],
                                     rows, rows >= 0).any(axis=1)
    answered = np.array([bool(query.answers) for query in self._queries])
    twinned = np.array([bool(twins) for twins in self._twins])
    twins = np.full((len(pool), 10), -1, np.int32)
    for line, some in enumerate(self._twins):
      twins[line, :len(some[:10])] = some[:10]
    both = answered & twinned
    on_twins = self._holds([query.answers for query in self._queries], twins,
                           twins >= 0)
    users = np.bincount(self._judgements.passage_rows,
                        minlength=len(prepared.passages))
    groups = prepared.passage_groups
    return {
        'queries': len(pool), 'passages': len(prepared.passages),
        'answer_rule': rule,
        'positives_per_query': float(counts.mean()),
        'most_positives': int(counts.max()),
        'queries_per_used_passage': float(users[users > 0].mean()),
        'copied_passages': float(np.mean(
            np.bincount(groups, minlength=len(groups))[groups] > 1
        )),
        'queries_with_answers': float(answered.mean()),
        'answer_in_positive': float(holds(known)[answered].mean())
                              if answered.any() else None,
        'queries_with_twins': float(twinned.mean()),
        'answer_in_twins': audit.mean(on_twins[both], twins[both] >= 0),
        'twin_queries_with_answers': int(both.sum()),
        'accuracy': {},
    }


def _context_facts(rows, is_positive, passages) -> dict[str, float]:
  whole = ((rows >= 0) & (rows < passages) & ~is_positive).sum(axis=1)
  halves = (rows >= passages).any(axis=1)
  return {
      **{f'at_least_{n}': float((whole >= n).mean()) for n in (1, 2, 10)},
      'halves': float(halves.mean()),
      'none': float(((whole == 0) & ~halves).mean()),
  }


def _choose_judging(ranked: audit.Evidence, facts) -> audit.Judging:
  """By answers where they are known and other passages would hold them too."""
  sensitivity = facts['answer_in_positive'] or 0.0
  if facts['twin_queries_with_answers'] >= audit.LEAST_QUERIES:
    sensitivity = min(sensitivity, facts['answer_in_twins'])
  if (facts['queries_with_answers'] >= 0.5
      and sensitivity >= audit.LEAST_SENSITIVITY):
    return audit.Judging('answers', sensitivity)
  return audit.by_judge(ranked, facts['accuracy']['model']['@1'])


def _flags(found: audit.Recommendation, checkpoint: str) -> list[str]:
  """What sets the recommendation."""
  negatives = '--config.negatives.'
  flags = [f'{negatives}strategy={found.strategy}']
  if not found.members:
    return [*flags, f'{negatives}per_query=0']
  quoted = lambda names: '"(' + ''.join(f"'{name}'," for name in names) + ')"'
  if found.strategy == 'mixed':
    flags.append(f'{negatives}members={quoted(found.members)}')
  flags.append(f'{negatives}per_query=2')
  if 'model' in found.members:
    flags.append(f'{negatives}checkpoint={checkpoint}')
  if set(found.members) & set(config_lib.RETRIEVED):
    flags += [f'{negatives}first_rank={found.first_rank}',
              f'{negatives}last_rank={found.last_rank}']
    if found.relative_margin is not None:
      flags.append(f'{negatives}relative_margin={found.relative_margin}')
  flags.append(f'{negatives}drop_answers={quoted(found.drop_answers)}')
  return [*flags, '--config.loss.mask_known_positives=True']


def _verdict(found, judging, facts) -> list[str]:
  """Lines to read."""
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
  if judging.kind == 'answers':
    if facts['twin_queries_with_answers'] >= audit.LEAST_QUERIES:
      return (f'Rests on answers; other passages that answer hold them in '
              f'{judging.sensitivity:.0%} (twins). Sure: good.{few}')
    return (f'Rests on answers, which {known:.0%} of the positives hold; that '
            'other passages that answer would hold them too is assumed. Sure: '
            f'{"fair" if known >= _MOST else "weak"}.{few}')
  why = 'no answers are known' if known is None else (
      f'{known:.0%} of the positives hold their answers, and '
      f'{facts["answer_in_twins"] or 0:.0%} of the twins'
  )
  return (f'Rests on the judge alone ({why}), whose accuracy@1 is '
          f'{judging.trust:.0%}: what it prefers to the positive counts as '
          'false with that probability, which is a convention; intervals do '
          'not cover its mistakes. Sure: '
          f'{"weak" if judging.trust >= 0.5 else "very weak"}. A better '
          f'--config.checkpoint tells more.{few}')


def _remarks(facts) -> list[str]:
  """What else the user should know."""
  lines = ['A positive comes first for ' + ', '.join(
      f'{values["@1"]:.0%} ({name})'
      for name, values in facts['accuracy'].items()
  ) + ' of the queries.']
  sides = facts['judge_against_answers']
  if facts['answer_in_positive'] is not None:
    lines.append('Of its top 20, what the judge prefers to the positive holds '
                 'an answer in {:.1%} (chance {:.1%}), the rest in {:.1%} '
                 '({:.1%}).'.format(*(sides[side][key] or 0 for side in
                                      ('above', 'below') for key in
                                      ('answer', 'chance'))))
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


def _plain(value: Any) -> Any:
  """Json values: four digits, null for what is unknown."""
  if isinstance(value, dict):
    return {key: _plain(some) for key, some in value.items()}
  if isinstance(value, list | tuple):
    return [_plain(some) for some in value]
  if isinstance(value, float | np.floating):
    return float(f'{value:.4g}') if np.isfinite(value) else None
  return value
