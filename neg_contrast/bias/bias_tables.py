"""Tables of what was measured of losses and gradients, as text."""

import math
from typing import Any

PAPER = {
    ('random', 'cross_entropy'): 16.33, ('random', 'random'): 166.38,
    ('hard', 'cross_entropy'): 0.68, ('hard', 'random'): 0.09,
    ('mixed-50', 'cross_entropy'): 1.20, ('mixed-50', 'random'): 0.90,
}
"""‖b(θ)‖ of Zhang and Stratos, Appendix C, by negatives and parameters."""


def model_table(made: dict[str, dict[str, Any]]) -> str:
  """Biases at parameters of a model, beside the paper's.

  Args:
    made: parameters -> what `BiasMeter.measure` returns.
  """
  lines = [f'{"parameters":15}{"accuracy":>9}{"loss":>9}{"gradient":>10}'
           f'{"p(gold)":>9}{"p(known positives)":>20}{"p(answer)":>11}']
  for point, one in made.items():
    model = one['model']
    lines.append(
        f'{point:15}{model["accuracy"]:9.4f}{model["loss"]:9.4f}'
        f'{model["gradient"]:10.4f}{model["gold_mass"]:9.4f}'
        f'{model["known_positive_mass"]:20.4f}{model["answer_mass"]:11.4f}'
    )
  lines += ['', f'{"negatives":11}{"parameters":15}{"bias":>9}{"error":>8}'
            f'{"gradient":>10}{"cosine":>8}{"loss":>9}{"missed":>9}'
            f'{"effective":>11}{"paper":>9}']
  for name in next(iter(made.values()))['kinds']:
    for point, one in made.items():
      values = one['kinds'][name]
      paper = PAPER.get((name, point))
      lines.append(
          f'{name:11}{point:15}{values["bias"]:9.4f}'
          f'{values["score_error"]:8.1%}'
          f'{values["gradient"]:10.4f}{values["cosine"]:8.4f}'
          f'{values["loss"]:9.4f}{values["missed_mass"]:9.4f}'
          f'{values["effective_negatives"]:11.2f}'
          + (f'{paper:9.2f}' if paper is not None else f'{"-":>9}')
      )
  return '\n'.join(lines)


def synthetic_table(made: dict[str, Any]) -> str:
  """Losses and gradients after the last update.

  Args:
    made: `points` of `synthetic.measure`, `entropy` and `identity`.
  """
  last = made['points'][-1]
  optim = made['identity']['settings']['optim']
  lines = [
      f'{last["step"]} updates at a learning rate of '
      f'{optim["learning_rate"]:g}; entropy of the population '
      f'{made["entropy"]:.4f} nats',
      f'{"":14}{"loss":>9}{"gradient":>10}{"bias":>9}{"unbiased":>10}'
      f'{"missed mass":>13}{"effective negatives":>21}',
  ]
  for name, values in last.items():
    if name == 'step':
      continue
    line = f'{name:14}{values["loss"]:9.4f}{values["gradient"]:10.4f}'
    if 'bias' in values:
      line += (f'{values["bias"]:9.4f}'
               f'{signed_root(values["bias_square"]):10.4f}'
               f'{values["missed_mass"]:13.4f}'
               f'{values["effective_negatives"]:21.2f}')
    lines.append(line)
  return '\n'.join(lines)


def signed_root(square: float) -> float:
  """A norm from an estimate of its square, negative where that is."""
  return math.copysign(math.sqrt(abs(square)), square)
