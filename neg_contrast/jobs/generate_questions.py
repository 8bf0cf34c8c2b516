"""Writes questions for every passage of a corpus, as data for any trainer."""

import functools
import json
import pathlib
from typing import Any

from absl import logging

from neg_contrast.artifacts import folders, plan
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import synthetic_pairs
from neg_contrast.jobs import assembly, checks, prerequisites
from neg_contrast.settings import config as config_lib
from neg_contrast.stage1 import gold_comparison

FOLDER = 'beir'  # Of a workdir.


def check(config: config_lib.Config) -> None:
  """Refuses a config that does not suit `job=generate_questions`."""
  checks.check_source(config)
  checks.check_question_writer(config)
  checks.check_no_answers(config)


class GenerateQuestionsJob:
  """`job=generate_questions`: a corpus in, synthetic questions out."""

  def __init__(self, config: config_lib.Config, workdir: pathlib.Path):
    """Reads nothing yet."""
    self._config, self._workdir = config, workdir
    self._folder = workdir / FOLDER
    dataset = lambda: self._dataset
    self._prepare, make = prerequisites.generator(config)
    self._questions = assembly.questions(config, dataset, make)

  def steps(self) -> list[plan.Step]:
    """The plan."""
    return [
        dataset_lib.preparation_step(self._config.data, lambda: self._dataset),
        *self._prepare,
        *self._questions.steps(),
        plan.Step('files', f'gen-queries.jsonl and gen-qrels in {self._folder}',
                  self._is_written, self._write),
    ]

  def finish(self) -> None:
    """Says what came out, how fast, and how it compares with gold."""
    counts = self._questions.counts()
    compared = gold_comparison.compare_with_gold(
        self._dataset.prepared, self._config.data.train_split,
        synthetic_pairs.read_pairs(self._questions.files()),
    )
    folders.write_sealed(self._workdir / folders.MANIFEST, {
        'config': config_lib.to_dict(self._config),
        'environment': folders.environment(),
        'identity': self._questions.identity,
        'counts': counts,
        'statistics': compared,
    })
    kept = counts.get('round_trip', counts['kept'])
    print(f'\n{counts["passages"]:.0f} passages, {counts["written"]:.0f} '
          f'questions; dropped {counts["empty"]:.0f} empty and '
          f'{counts["repeated"]:.0f} repeated ones'
          + (f' and {counts["kept"] - kept:.0f} that did not find their passage'
             if 'round_trip' in counts else '')
          + f'; kept {kept:.0f}\n'
          f'{counts["passages"] / counts["seconds"]:.1f} passages/s, '
          f'{100 * counts["padding"]:.1f}% padding')
    for name, values in compared.items():
      print(f'{name}: ' + ', '.join(f'{key} {_show(value)}'
                                    for key, value in values.items()))

  @functools.cached_property
  def _dataset(self) -> dataset_lib.Dataset:
    return dataset_lib.Dataset(self._config.data)

  def _is_written(self) -> bool:
    manifest = folders.read_manifest(self._folder)
    return (
        manifest is not None and self._questions.is_made()
        and manifest['identity'] == folders.as_json(self._questions.identity)
    )

  def _write(self) -> None:
    """The layout of BEIR's generated queries, to lie beside a corpus.jsonl."""
    manifest: dict[str, Any] = {'identity': self._questions.identity}
    with folders.writing(self._folder, manifest) as scratch:
      (scratch / 'gen-qrels').mkdir()
      with (
          open(scratch / 'gen-queries.jsonl', 'w', encoding='utf-8') as queries,
          open(scratch / 'gen-qrels' / 'train.tsv', 'w',
               encoding='utf-8') as qrels,
      ):
        qrels.write('query-id\tcorpus-id\tscore\n')
        count = -1
        for count, pair in enumerate(
            synthetic_pairs.read_pairs(self._questions.files())
        ):
          name = f'gen-{count}'
          queries.write(json.dumps({'_id': name, 'text': pair['query']},
                                   ensure_ascii=False) + '\n')
          qrels.write(f'{name}\t{pair["passage_id"]}\t1\n')
      manifest['questions'] = count + 1
    logging.info('%s: %d questions', self._folder, count + 1)


def _show(value: Any) -> str:
  if isinstance(value, float):
    return f'{value:.3f}'
  if isinstance(value, tuple):
    return ' '.join(f'{word} {share:.2f}' for word, share in value)
  return str(value)
