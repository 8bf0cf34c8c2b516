"""What a training step costs: floating-point operations and communication.

Pure: reads traced and compiled programs.
"""

import dataclasses
import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from neg_contrast.models import dual_encoder, t5_config

_BYTES = {'pred': 1, 's8': 1, 'u8': 1, 'bf16': 2, 'f16': 2, 's16': 2, 'u16': 2,
          's32': 4, 'u32': 4, 'f32': 4, 's64': 8, 'u64': 8, 'f64': 8}
_KINDS = ('all-gather', 'all-reduce', 'all-to-all', 'collective-permute',
          'reduce-scatter', 'collective-broadcast')

_COMPUTATION = re.compile(r'(?:ENTRY )?%?([\w.-]+) \(.*\{$')
_COLLECTIVE = re.compile(
    r' = (.+?) (' + '|'.join(_KINDS) + r')(-start)?\('
)
_SHAPE = re.compile(r'\b([a-z]+[0-9]*)\[([0-9,]*)\]')
_WHILE = re.compile(r' while\(.*condition=%?([\w.-]+), body=%?([\w.-]+)')
_CALLED = re.compile(r'(?:calls|to_apply|body|condition|branch_computations|'
                     r'called_computations)=(\{[^}]*\}|%?[\w.-]+)')
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
_BOUND = re.compile(r' = [su]32\[\][^ ]* constant\((\d+)\)')


def product_flops(program: Any, cheaper_share: float = 0.0) -> float:
  """Operations of all matrix products of a traced program.

  A multiplication and an addition are two. Products inside loops count as often
  as the loop runs, which the compiler's own analysis does not do; those that
  are computed again in a backward pass count again. Element-wise operations do
  not count, nor do products that nobody takes, such as gradients of what is
  frozen. Kernels count as they say, those of cuDNN not at all.

  Args:
    program: `jax.make_jaxpr(f)(...)`, or `jax.jit(f).trace(...).jaxpr`.
    cheaper_share: part of the times, 0 to 1, that a choice takes the branch
      with the fewest operations, and not the one with the most: the part of a
      transformer's layers that attend within a window.
  """
  total = 0.0
  jaxpr = getattr(program, 'jaxpr', program)
  for equation in _used(jaxpr):
    name, params = equation.primitive.name, equation.params
    if name == 'dot_general':
      (contracted, _), _ = params['dimension_numbers']
      lengths = [equation.invars[0].aval.shape[axis] for axis in contracted]
      total += 2.0 * math.prod(lengths) * math.prod(
          equation.outvars[0].aval.shape
      )
      continue
    if name == 'pallas_call':
      total += params['cost_estimate'].flops
      continue
    inner = [product_flops(part, cheaper_share)
             for part in _jaxprs(params.values())]
    if name == 'cond':
      total += cheaper_share * min(inner) + (1 - cheaper_share) * max(inner)
    elif name == 'shard_map':  # What one device does.
      total += sum(inner) * params['mesh'].size
    else:
      total += sum(inner) * (params['length'] if name == 'scan' else 1)
  return total


def _used(jaxpr: Any) -> Iterator[Any]:
  """Equations whose results are taken by others, or come out; the last first.

  Compilers leave out the others.
  """
  taken = {id(variable) for variable in jaxpr.outvars}
  for equation in reversed(jaxpr.eqns):
    if equation.effects or any(id(out) in taken for out in equation.outvars):
      taken.update(id(variable) for variable in equation.invars)
      yield equation


def _jaxprs(values: Iterable[Any]) -> Iterator[Any]:
  for value in values:
    if isinstance(value, (tuple, list)):
      yield from _jaxprs(value)
    elif hasattr(value, 'eqns') or hasattr(value, 'jaxpr'):
      yield value


def encoder_flops(
    spec: dual_encoder.EncoderSpec, lengths: Sequence[int] | np.ndarray
) -> float:
  """Operations that encoding sequences needs, without any padding.

  Tokens attend to their own sequence only. Of [CLS] pooling; a backward pass
  needs twice as many again.

  Args:
    spec: of the tower.
    lengths: `[sequences] int`, tokens of each.
  """
  shape = spec.transformer
  flops = shape.flops(np.asarray(lengths, np.float64))
  features = [shape.hidden_size, *(one.features for one in spec.projections)]
  projections = sum(2 * a * b for a, b in itertools.pairwise(features))
  return float(flops.sum() + projections * len(lengths))


def score_flops(queries: int, candidates: int, features: int) -> float:
  """Operations of the scores of queries with candidates."""
  return 2.0 * queries * candidates * features


def question_flops(
    shape: t5_config.T5Config, sources: Sequence[int] | np.ndarray,
    targets: Sequence[int] | np.ndarray,
) -> float:
  """The same of a question generator, with teacher forcing.

  Every target attends to all of its own tokens, though it must not look ahead.

  Args:
    shape: of the T5.
    sources: `[pairs] int`, tokens of each.
    targets: the same of the questions.
  """
  s, t = (np.asarray(x, np.float64) for x in (sources, targets))
  inner = shape.num_heads * shape.d_kv
  dense = 4 * shape.d_model * inner
  feed = (3 if shape.gated else 2) * shape.d_model * shape.d_ff
  encoder = 2 * (dense + feed) * s + 4 * inner * s**2
  decoder = 2 * (dense + feed) * t + 4 * inner * t**2
  crossed = shape.d_model * inner * (4 * t + 4 * s) + 4 * inner * s * t
  head = 2 * shape.d_model * shape.vocab_size * t
  return float((shape.num_layers * encoder
                + shape.num_decoder_layers * (decoder + crossed) + head).sum())


Array = tuple[str, tuple[int, ...]]
"""What HLO calls the dtype, and the shape."""


def array_bytes(array: Array) -> int:
  """Bytes of an array."""
  dtype, shape = array
  return _BYTES[dtype] * math.prod(shape)


@dataclasses.dataclass(frozen=True)
class Collective:
  """A communication of a compiled program.

  Attributes:
    kind: such as `all-reduce`.
    arrays: (dtype, shape) of what a device has afterwards.
    times: how often a step does it: more than once in a loop.
    name: the operation it comes from, as JAX names it; may be empty.
  """

  kind: str
  arrays: tuple[Array, ...]
  times: int
  name: str

  @property
  def bytes(self) -> int:
    """What a device has afterwards, over all times."""
    return self.times * sum(map(array_bytes, self.arrays))


def collectives(hlo: str) -> list[Collective]:
  """The communication of a compiled program, in the order of its text.

  Args:
    hlo: `compiled.as_text()`.

  Raises:
    ValueError: a loop has no bound that can be read.
  """
  bodies = _computations(hlo)
  times = _times(bodies)
  found = []
  for name, lines in bodies.items():
    for line in lines:
      match = _COLLECTIVE.search(line)
      if match is None or not times[name]:
        continue
      shapes = [
          (dtype, tuple(map(int, filter(None, dims.split(',')))))
          for dtype, dims in _SHAPE.findall(match[1]) if dtype in _BYTES
      ]
      if match[3]:  # Started ones yield operands, then results.
        shapes = shapes[len(shapes) // 2:]
      source = re.search(r'op_name="([^"]*)"', line)
      found.append(Collective(
          match[2], tuple(shapes), times[name], source[1] if source else ''
      ))
  return found


def _computations(hlo: str) -> dict[str, list[str]]:
  """Name -> lines; the one that is entered first is called ''."""
  bodies: dict[str, list[str]] = {}
  lines: list[str] = []
  for line in hlo.splitlines():
    start = _COMPUTATION.match(line)
    if start:
      lines = []
      bodies['' if line.startswith('ENTRY') else start[1]] = lines
    else:
      lines.append(line)
  return bodies


def _times(bodies: Mapping[str, Sequence[str]]) -> dict[str, int]:
  """How often each computation runs."""
  times = dict.fromkeys(bodies, 0)

  def enter(name: str, count: int) -> None:
    times[name] += count
    for line in bodies[name]:
      loop = _WHILE.search(line)
      trips = _trips(line, bodies[loop[1]]) if loop else 1
      for names in _CALLED.findall(line):
        for called in re.findall(r'[\w.-]+', names):
          if called in bodies:
            enter(called, count * trips)

  enter('', 1)
  return times


def _trips(line: str, condition: Sequence[str]) -> int:
  """How often a loop runs: as it says, or as its condition compares."""
  known = _TRIPS.search(line)
  bounds = [known[1]] if known else [
      bound[1] for bound in map(_BOUND.search, condition) if bound
  ]
  if len(bounds) != 1:
    raise ValueError(f'a loop without a constant bound: {line.strip():.200}')
  return int(bounds[0])
