"""The step that a report calls best is the one that training chose."""

import json

import pytest

from neg_contrast.artifacts import folders
from neg_contrast.report import training_facts


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
