"""Keys of the pairs that stage 1 trains on without judgements."""

import dataclasses

from neg_contrast.settings import keys

PRETEXTS = keys.Table('stage1.pretexts', 'PRETEXTS')
"""Ways to make pairs from passages alone."""


@dataclasses.dataclass(frozen=True)
class SyntheticConfig(keys.Section):
  """Questions made from passages, for stage 1 (Lu et al., section 4.1).

  Attributes:
    pairs: what to train on instead of the judgements of `data.train_split`:
      `generated` questions; or, without a generator, `inverse_cloze` (a
      sentence and the passage around it), `crops` (two parts of a passage),
      `recurring_spans` (words that two passages of a document share),
      `neighbours` (a sentence and the passage beside its own), `title`,
      `masked_salient_spans` (a sentence without a name or date, and its
      passage), `salient_spans` (the most telling words of a passage) or `spar`
      (a sentence, and what BM25 finds with it); or, by a cross-encoder,
      `judged` (queries that nobody judged, and what it believes of the passages
      that BM25 finds). Empty: those judgements.
    per_passage: questions, or pairs, made from a passage.
    teacher_depth: `spar` draws positives from this many first results of BM25,
      and `judged` judges them.
    queries: file of the queries of `judged`, one a line, or `.jsonl` with
      `query` in each object; empty: generated questions.
    judge: the cross-encoder of `judged`: a workdir, a folder or a hub name.
    judge_above: probability above which it makes a pair a positive (RocketQA:
      0.9).
    judge_below: probability below which it makes one a known negative, which
      the source `given` draws.
    spar_given: `spar` asks the questions of `data.train_split`, whose
      judgements are not read, instead of sentences; `per_passage` then counts
      the positives of a question.
    salience: what tells which words of `salient_spans` are telling: `bm25`,
      `dual_encoder`, or the passage's `title`.
    salience_checkpoint: the encoder of `dual_encoder`.
    with_answer: the generator reads an answer before the passage.
    method: how questions are decoded: `sample`, `beam` or `greedy`.
    temperature: divides the logits in `sample`.
    top_k: `sample` draws from this many likeliest tokens; 0: from all.
    top_p: `sample` draws from the fewest tokens whose probabilities add up to
      this.
    beams: hypotheses kept in `beam`, at least `per_passage`.
    length_penalty: `beam` divides scores by the length to this power.
    batch_passages: passages that are decoded at once, over all devices of a
      process; 0: as many as they hold, and 64 on a CPU.
    shard_passages: passages whose questions are written at once: an
      interruption loses this many at most.
    round_trip_rank: keep a question only if its passage is among this many
      first results of a search for it; 0: keep all.
    round_trip_checkpoint: the retriever of that search; empty: BM25.
    shown: questions that an evaluation in a generator's training shows.
    dir: folder of questions and pairs, kept for reuse.
  """

  section = 'synthetic'

  pairs: str = keys.key(
      '', keys.one_of('', 'generated', 'judged', PRETEXTS), counts=False
  )
  per_passage: int = keys.key(3, keys.at_least(1), counts=False)
  teacher_depth: int = keys.key(10, keys.at_least(1), counts=False)
  queries: str = keys.key('', counts=False)
  judge: str = keys.key('', counts=False)
  judge_above: float = keys.key(0.9, keys.above_at_most(0, 1), counts=False)
  judge_below: float = keys.key(0.1, keys.above_at_most(0, 1), counts=False)
  spar_given: bool = keys.key(False, counts=False)
  salience: str = keys.key(
      'bm25', keys.one_of('bm25', 'dual_encoder', 'title'), counts=False
  )
  salience_checkpoint: str = keys.key('', counts=False)
  with_answer: bool = keys.key(False)
  method: str = keys.key(
      'sample', keys.one_of('sample', 'beam', 'greedy'), counts=False
  )
  temperature: float = keys.key(1.0, keys.above(0), counts=False)
  top_k: int = keys.key(0, keys.at_least(0), counts=False)
  top_p: float = keys.key(0.95, keys.above_at_most(0, 1), counts=False)
  beams: int = keys.key(4, keys.at_least(1), counts=False)
  length_penalty: float = keys.key(1.0, counts=False)
  batch_passages: int = keys.key(0, keys.at_least(0), counts=False)
  shard_passages: int = keys.key(2048, keys.at_least(1), counts=False)
  round_trip_rank: int = keys.key(0, keys.at_least(0), counts=False)
  round_trip_checkpoint: str = keys.key('', counts=False)
  shown: int = keys.key(3, keys.at_least(0), counts=False)
  dir: str = keys.key('workdirs/synthetic', counts=False)

  def __post_init__(self):
    """Checks ranges and that the keys agree."""
    super().__post_init__()
    if self.method == 'beam' and self.beams < self.per_passage:
      raise self.error('beams', 'must be at least '
                       f'synthetic.per_passage={self.per_passage}')
    if self.method == 'greedy' and self.per_passage > 1:
      raise self.error('per_passage', 'must be 1 for synthetic.method=greedy, '
                       'which has one result')
    if self.round_trip_checkpoint and not self.round_trip_rank:
      raise self.error('round_trip_checkpoint', 'needs '
                       'synthetic.round_trip_rank, such as 1 or 20')
    if self.round_trip_rank and self.pairs in PRETEXTS.names:
      raise self.error('round_trip_rank', 'is of generated questions, and '
                       f'synthetic.pairs={self.pairs} writes none; leave it '
                       'out')
    self._check_teacher()

  @property
  def has_generator(self) -> bool:
    """Whether a generator writes the questions that are trained on."""
    return self.pairs == 'generated' or (
        self.pairs == 'judged' and not self.queries)

  def _check_teacher(self) -> None:
    """Refuses keys of pretexts that are not trained on."""
    if self.judge_below > self.judge_above:
      raise self.error('judge_below', 'must be at most '
                       f'synthetic.judge_above={self.judge_above:g}')
    if self.round_trip_rank and self.pairs == 'judged' and self.queries:
      raise self.error('round_trip_rank', 'is of generated questions, and '
                       'synthetic.queries are given; leave it out')
    for name in ('queries', 'judge'):
      if getattr(self, name) and self.pairs != 'judged':
        raise self.error(name, 'is for synthetic.pairs=judged')
    if self.spar_given and self.pairs != 'spar':
      raise self.error('spar_given', 'is for synthetic.pairs=spar')
    if self.salience != 'bm25' and self.pairs != 'salient_spans':
      raise self.error('salience', 'is for synthetic.pairs=salient_spans')
    if self.salience_checkpoint and self.salience != 'dual_encoder':
      raise self.error('salience_checkpoint', 'is for '
                       'synthetic.salience=dual_encoder')
    if self.salience == 'dual_encoder' and not self.salience_checkpoint:
      raise self.error('salience_checkpoint', 'is needed for '
                       'synthetic.salience=dual_encoder: a folder or a workdir')
