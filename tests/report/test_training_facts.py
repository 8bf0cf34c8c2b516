"""The step that a report calls best is the one that training chose."""

import json

import pytest

from neg_contrast.artifacts import folders
from neg_contrast.report import training_facts


def test_refreshes_and_solved_negatives_are_read(tmp_path):
  (tmp_path / 'log.jsonl').write_text('\n'.join(map(json.dumps, [
      {'step': 1, 'refresh': {
          'passages': 9000, 'seconds': {'drawing': 2.0},
          'hubness': {'most_drawn': 0.25}}},
      {'step': 1, 'loss': 1.0}, {'step': 2, 'loss': 1.0},
      {'step': 2, 'solved': {'text': 'solved. Do this'}},
      {'step': 3, 'refresh': {'replaced': ['model'], 'passages': 9000,
                              'new': 0.5, 'seconds': {'encoding': 1.25},
                              'counts': {'negatives': 5}}},
  ])) + '\n')
  read = training_facts.read(tmp_path)
  assert read.solved == ((2, 'solved. Do this'),)
  assert read.refreshes.columns == (
      'passages encoded', 'encoding', 'drawing', 'new negatives',
      'draws of the most drawn passage')
  assert read.refreshes.rows == (
      (1, ('9,000', '–', '2.0 s', '–', '25.0%')),
      (3, ('9,000', '1.2 s', '–', '50%', '–')))
  assert len(read.columns['loss'][0]) == 2


@pytest.mark.parametrize(('criterion', 'metrics', 'best'), [
    (None, {'accuracy@1': (0.1, 0.3, 0.3), 'mrr@10': (0.9, 0.1, 0.2)}, 4),
    ('mrr@10', {'accuracy@1': (0.1, 0.3, 0.3), 'mrr@10': (0.9, 0.1, 0.2)}, 2),
    # A question generator is tuned by its loss, whatever the key says.
    ('accuracy@1', {'token_accuracy': (1, 2, 3), 'loss': (3, 1, 2)}, 4),
])
def test_best_step(tmp_path, criterion, metrics, best):
  records = [{'step': step, 'loss': 1.0} for step in range(1, 7)]
  records += [
      {'step': step, 'evaluation': {name: values[place]
                                    for name, values in metrics.items()}}
      for place, step in enumerate((2, 4, 6))]
  (tmp_path / 'log.jsonl').write_text(
      '\n'.join(map(json.dumps, records)) + '\n')
  if criterion:
    folders.write_json(tmp_path / 'run.json', {
        'total_steps': 6, 'config': {'evaluation': {'criterion': criterion}}})
  assert training_facts.read(tmp_path).best_step == best
