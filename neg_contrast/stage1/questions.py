"""Questions for every passage of a corpus, written shard by shard.

A shard is a folder with a manifest, so that an interruption loses at most one.
What is written for a passage depends on the seed and on its id, and a shard's
batches on the passages of the shard: a run that was interrupted ends with the
same questions. Any number of processes divide the shards. Another number of
devices, or other batches, change the last bits of scores, and so now and then a
question.
"""

import functools
import hashlib
import pathlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from absl import logging

from neg_contrast import errors, progress
from neg_contrast.artifacts import folders, parts, plan
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import records, synthetic_pairs, tokenized
from neg_contrast.models import by_name as model_lib
from neg_contrast.models import generator as generator_lib
from neg_contrast.models import question_writer
from neg_contrast.retrieval import (
  bm25_search,
  encoding,
  search_settings,
  text_encoder,
)
from neg_contrast.retrieval import embedder as embedder_lib
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.settings import config as config_lib

_FORMAT = 1  # Of the folder.
_PAIRS = 'pairs.jsonl'


class Questions:
  """Generated questions of a corpus."""

  def __init__(
      self,
      config: config_lib.Config,
      dataset: Callable[[], dataset_lib.Dataset],
      generator: Callable[[], generator_lib.Generator],
  ):
    """Reads nothing yet.

    Args:
      config: of the job.
      dataset: makes the data whose passages are asked about.
      generator: makes the generator; not called before a step runs or is looked
        at.
    """
    self._config, self._settings = config, config.synthetic
    self._dataset, self._make_generator = dataset, generator

  def steps(self) -> list[plan.Step]:
    """What has to be done; the filter only where config asks for it."""
    settings = self._settings
    steps = [plan.Step(
        'questions', f'{settings.per_passage} of every passage in '
        f'{settings.dir}/questions', self._are_written,
        missing=self._missing, share=self._write,
    )]
    if settings.round_trip_rank:
      by = settings.round_trip_checkpoint or 'BM25'
      steps.append(plan.Step(
          'round trip', f'questions that {by} finds the passage of in the top '
          f'{settings.round_trip_rank}', self.is_made, share=self._filter,
          missing=lambda: model_lib.missing(settings.round_trip_checkpoint)
          if settings.round_trip_checkpoint else None,
      ))
    return steps

  @property
  def identity(self) -> dict[str, Any]:
    """What the questions depend on."""
    return {**self._identity, **(
        {'round_trip': self._round_trip} if self._settings.round_trip_rank
        else {}
    )}

  def is_made(self) -> bool:
    """Whether all are there, filtered where they should be."""
    return self._are_written() and (
        not self._settings.round_trip_rank or self._are_in(self._kept)
    )

  def files(self) -> list[pathlib.Path]:
    """Files of pairs, see `data/synthetic_pairs.py`."""
    folder = self._kept if self._settings.round_trip_rank else self.folder
    return [self._shard(folder, number) / _PAIRS
            for number in range(self._shards)]

  def counts(self) -> dict[str, float]:
    """Of passages, questions written, dropped and kept; seconds, padding."""
    totals: dict[str, float] = {}
    for number in range(self._shards):
      made = folders.read_json(
          self._shard(self.folder, number) / folders.MANIFEST
      )['counts']
      for key, value in made.items():
        totals[key] = totals.get(key, 0) + value
    totals['padding'] = 1 - totals.pop('tokens') / totals.pop('all_tokens')
    if self._settings.round_trip_rank:
      totals['round_trip'] = sum(
          folders.read_json(self._shard(self._kept, number)
                              / folders.MANIFEST)['kept']
          for number in range(self._shards)
      )
    return totals

  @functools.cached_property
  def folder(self) -> pathlib.Path:
    """Of all shards."""
    code = folders.sha256_json(self._identity)[:12]
    name = f'{self._dataset().name}-{code}'
    return pathlib.Path(self._settings.dir) / 'questions' / name

  @functools.cached_property
  def _generator(self) -> generator_lib.Generator:
    made = self._make_generator()
    if made.text.with_answer:
      raise errors.UserError(
          f'{made.name}: was trained to read an answer, and the passages of a '
          'corpus come without. Train one with '
          '--config.synthetic.with_answer=False'
      )
    return made

  @functools.cached_property
  def _identity(self) -> dict[str, Any]:
    settings = self._settings
    decoding = {'method': settings.method, 'per_passage': settings.per_passage}
    decoding |= {key: getattr(settings, key) for key in {
        'sample': ('temperature', 'top_k', 'top_p'),
        'beam': ('beams', 'length_penalty'),
    }.get(settings.method, ())}
    return {
        'format': _FORMAT,
        'corpus': self._dataset().prepared.manifest['corpus_fingerprint'],
        'generator': self._generator.fingerprint,
        'decoding': decoding,
        'seed': self._config.seed,
        'dtype': str(np.dtype(
            model_lib.compute_dtype(self._config.model)
        )),
        'shard_passages': settings.shard_passages,
    }

  def _missing(self) -> str | None:
    if self._config.generator is not None:
      return None
    return model_lib.missing_generator(self._config.checkpoint)

  @property
  def _shards(self) -> int:
    passages = len(self._dataset().prepared.passages)
    return -(-passages // self._settings.shard_passages)

  def _shard(self, folder: pathlib.Path, number: int) -> pathlib.Path:
    return folder / f'{number:05d}-of-{self._shards:05d}'

  def _are_in(self, folder: pathlib.Path) -> bool:
    return all(self._is_in(folder, shard) for shard in range(self._shards))

  def _is_in(self, folder: pathlib.Path, shard: int) -> bool:
    return (self._shard(folder, shard) / folders.MANIFEST).exists()

  def _are_written(self) -> bool:
    return self._are_in(self.folder)

  def _make_in(
      self, folder: pathlib.Path, make: Callable[[int], None]
  ) -> None:
    """Makes the shards that a folder lacks, with all who do the same."""
    parts.make_all(
        [self._shard(folder, number) for number in range(self._shards)],
        functools.partial(self._is_in, folder), make,
    )

  def _rows(self, shard: int) -> range:
    size = self._settings.shard_passages
    return range(shard * size, min(
        (shard + 1) * size, len(self._dataset().prepared.passages)
    ))

  def _write(self) -> None:
    model, prepared = self._generator, self._dataset().prepared
    texts = tokenized.store_of(prepared, 'passage', model.tokenizer)
    writer = question_writer.QuestionWriter(
        model, self._config.model, question_writer.settings_of(
            self._settings, model.text.question_length
        ), self._config.synthetic.batch_passages, self._config.seed,
    )
    params = writer.put(model.params)
    there = lambda: sum(
        len(self._rows(shard)) for shard in range(self._shards)
        if self._is_in(self.folder, shard)
    )
    say = progress.Ticker(
        'writing questions', len(prepared.passages), before=there()
    )

    def make(shard: int) -> None:
      done = there()
      began, rows = time.monotonic(), np.array(self._rows(shard))
      passages = [prepared.passages[row] for row in rows]
      found: list[list[str]] = [[] for _ in rows]
      tokens = all_tokens = 0
      for written in writer(
          params,
          model.sources(texts.titles.take(rows), texts.texts.take(rows)),
          [_seed_of(passage.id) for passage in passages],
      ):
        for place, questions in zip(written.numbers, written.questions,
                                    strict=True):
          found[place] = questions
        tokens += written.useful_tokens
        all_tokens += written.processed_tokens
        done += len(written.numbers)
        say(done)
      self._write_shard(shard, passages, found, {
          'seconds': time.monotonic() - began, 'tokens': tokens,
          'all_tokens': all_tokens,
      })

    self._make_in(self.folder, make)

  def _write_shard(
      self,
      shard: int,
      passages: Sequence[records.Passage],
      found: Sequence[Sequence[str]],
      counts: dict[str, float],
  ) -> None:
    """Keeps what is neither empty nor said of the passage before."""
    counts |= {'passages': len(passages), 'written': sum(map(len, found)),
               'empty': 0, 'repeated': 0, 'kept': 0}
    manifest = {'identity': self._identity, 'counts': counts}
    folder = self._shard(self.folder, shard)
    with (
        folders.writing(folder, manifest) as scratch,
        open(scratch / _PAIRS, 'w', encoding='utf-8') as f,
    ):
      for passage, questions in zip(passages, found, strict=True):
        before = set()
        for question in questions:
          question = ' '.join(question.split())
          kind = ('empty' if not any(map(str.isalnum, question)) else
                  'repeated' if question.casefold() in before else 'kept')
          counts[kind] += 1
          before.add(question.casefold())
          if kind == 'kept':
            synthetic_pairs.write_pair(f, question, passage.id)

  @functools.cached_property
  def _kept(self) -> pathlib.Path:
    code = folders.sha256_json(self._round_trip)[:12]
    return self.folder.with_name(f'{self.folder.name}-round-trip-{code}')

  @functools.cached_property
  def _round_trip(self) -> dict[str, Any]:
    settings, evaluation = self._settings, self._config.evaluation
    if settings.round_trip_checkpoint:
      dataset = self._dataset()
      by = {
          **embedder_lib.identity(
              self._encoding_settings, dataset, self._retriever_model
          ),
          'index': self._search_settings.index_identity(dataset.prepared),
      }
    else:
      by = {'k1': evaluation.bm25_k1, 'b': evaluation.bm25_b}
    return {'rank': settings.round_trip_rank, 'by': by}

  @property
  def _encoding_settings(self) -> encoding.EncodingSettings:
    config = self._config
    return encoding.EncodingSettings(
        config.model, config.index, config.mesh, config.data.row_length
    )

  @property
  def _search_settings(self) -> search_settings.SearchSettings:
    """With the depth of the filter, which an index is tuned for."""
    return search_settings.SearchSettings(
        self._config.index, self._config.mesh, self._settings.round_trip_rank
    )

  @functools.cached_property
  def _retriever_model(self):
    return model_lib.load_as_it_comes(
        self._settings.round_trip_checkpoint, self._config.seed
    )

  def _filter(self) -> None:
    """Keeps the questions that a retriever finds the passage of."""
    dataset, rank = self._dataset(), self._settings.round_trip_rank
    if self._settings.round_trip_checkpoint:
      folder = (pathlib.Path(self._config.negatives.mined_dir)
                / retriever_lib.FOLDER)
      encoder = text_encoder.TextEncoder(
          self._retriever_model, self._encoding_settings
      )
      searcher: Any = retriever_lib.Retriever(
          self._search_settings, dataset,
          embedder_lib.Embedder(dataset, encoder, folder), folder,
      )
    else:
      searcher = bm25_search.index_bm25(self._config.evaluation, dataset)
    groups, ids = dataset.prepared.passage_groups, dataset.prepared.passage_ids
    there = lambda: sum(
        self._is_in(self._kept, shard) for shard in range(self._shards)
    )
    say = progress.Ticker(
        'filtering shards of questions', self._shards, before=there()
    )

    def make(shard: int) -> None:
      folder = self._shard(self._kept, shard)
      pairs = list(synthetic_pairs.read_pairs(
          [self._shard(self.folder, shard) / _PAIRS]
      ))
      found = searcher.search(
          [pair['query'] for pair in pairs], rank
      ).rows if pairs else np.zeros((0, rank), int)
      own = np.array([ids.row_of(pair['passage_id']) for pair in pairs], int)
      hit = (found >= 0) & (groups[found] == groups[own][:, None])
      count = int(hit.any(axis=1).sum())
      manifest = {'identity': {**self._identity, 'filter': self._round_trip},
                  'kept': count}
      with (
          folders.writing(folder, manifest) as scratch,
          open(scratch / _PAIRS, 'w', encoding='utf-8') as f,
      ):
        for pair, is_found in zip(pairs, hit.any(axis=1), strict=True):
          if is_found:
            synthetic_pairs.write_pair(f, pair['query'], pair['passage_id'])
      logging.info('round trip: kept %d of %d questions of shard %d', count,
                   len(pairs), shard)
      say(there())

    self._make_in(self._kept, make)


def _seed_of(passage_id: str) -> int:
  """32 bits of a passage's id."""
  digest = hashlib.blake2b(passage_id.encode(), digest_size=4).digest()
  return int.from_bytes(digest, 'little')
