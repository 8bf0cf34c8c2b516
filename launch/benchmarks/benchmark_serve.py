"""The HTTP server under load, beside the index alone.

    .venv/bin/python launch/benchmarks/benchmark_serve.py \\
        --checkpoint=minilm --source=python_docs --workdir=workdirs/serve

Starts `job=serve` at a free port of the loopback, and lets 1, 8 and 64 clients
ask for passages, each its next query when it has the answer, over a connection
that it keeps. Each number of clients has --requests requests or --seconds,
whichever ends first; some requests before them are not counted. Then the same
queries go to the retriever in this process, in batches of as many, one after
another: what server and clients add is the difference. Clients are threads of
this process and take their share of the cores. Queries are those of the source.
"""

import argparse
import contextlib
import dataclasses
import http.client
import itertools
import pathlib
import re
import subprocess
import sys
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator, Sequence

import numpy as np

_START_SECONDS = 1800  # The first run encodes the corpus.


@dataclasses.dataclass(frozen=True)
class Measured:
  """What so many clients saw.

  Attributes:
    clients: or, of the index alone, queries of a call.
    seconds: of each request, or call.
    rate: queries answered in a second.
    batch: queries that were answered together, in the mean.
  """

  clients: int
  seconds: Sequence[float]
  rate: float
  batch: float

  def cells(self) -> list[str]:
    """Requests, batch, median and 99th percentile in ms, queries a second."""
    p50, p99 = np.percentile(self.seconds, [50, 99]) * 1000
    return [f'{len(self.seconds)}', f'{self.batch:.1f}', f'{p50:.1f}',
            f'{p99:.1f}', f'{self.rate:.1f}']


def measure_server(
    port: int,
    clients: int,
    queries: Sequence[str],
    requests: int,
    seconds: float,
    depth: int,
) -> Measured:
  """Asks from so many threads at once.

  Raises:
    RuntimeError: an answer was refused.
  """
  numbers = itertools.count()
  took: list[float] = []
  failures: list[Exception] = []
  end = time.monotonic() + seconds

  def run() -> None:
    connection = http.client.HTTPConnection('127.0.0.1', port, timeout=120)
    try:
      while (number := next(numbers)) < requests and time.monotonic() < end:
        began = time.monotonic()
        _ask(connection, queries[number % len(queries)], depth)
        took.append(time.monotonic() - began)
    except Exception as e:
      failures.append(e)
    finally:
      connection.close()

  before = _batches(port)
  threads = [threading.Thread(target=run) for _ in range(clients)]
  began = time.monotonic()
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join()
  if failures:
    raise RuntimeError(f'{len(failures)} clients failed') from failures[0]
  whole = time.monotonic() - began
  count, texts = (after - sofar for after, sofar in zip(
      _batches(port), before, strict=True
  ))
  return Measured(clients, took, len(took) / whole, texts / count)


def measure_index(
    search: Callable[[list[str]], object],
    size: int,
    queries: Sequence[str],
    requests: int,
    seconds: float,
) -> Measured:
  """Calls a search with so many queries at a time."""
  took: list[float] = []
  began = time.monotonic()
  while len(took) * size < requests and time.monotonic() - began < seconds:
    some = [queries[n % len(queries)] for n in range(
        len(took) * size, (len(took) + 1) * size)]
    call_began = time.monotonic()
    search(some)
    took.append(time.monotonic() - call_began)
  return Measured(size, took, size * len(took) / sum(took), size)


def _ask(
    connection: http.client.HTTPConnection, query: str, depth: int
) -> None:
  values = urllib.parse.urlencode({'query': query, 'depth': depth})
  connection.request('GET', f'/search?{values}')
  response = connection.getresponse()
  body = response.read()
  if response.status != 200:
    raise RuntimeError(f'{response.status}: {body[:200]!r}')


def _batches(port: int) -> tuple[float, float]:
  """Batches so far, and their texts, by /metrics."""
  connection = http.client.HTTPConnection('127.0.0.1', port, timeout=60)
  connection.request('GET', '/metrics')
  text = connection.getresponse().read().decode()
  connection.close()
  count, texts = (
      float(re.findall(rf'neg_contrast_batch_texts_{name} (\S+)', text)[0])
      for name in ('count', 'sum')
  )
  return count, texts


@contextlib.contextmanager
def _server(args: argparse.Namespace) -> Iterator[int]:
  """A server in a process of its own; yields its port."""
  process = subprocess.Popen(
      [sys.executable, '-m', 'neg_contrast.main', '--config=configs/serve.py',
       f'--config.checkpoint={args.checkpoint}', f'--workdir={args.workdir}',
       f'--config.data.source={args.source}', '--config.serve.port=0',
       f'--config.data.prepared_dir={args.prepared_dir}'],
      stdout=subprocess.PIPE, text=True,
  )
  timer = threading.Timer(_START_SECONDS, process.kill)
  timer.start()
  try:
    assert process.stdout is not None
    for line in process.stdout:
      if found := re.match(r'serving at http://[^:]+:(\d+);', line):
        yield int(found[1])
        return
    raise RuntimeError(f'the server ended: {process.wait()}')
  finally:
    timer.cancel()
    process.terminate()
    process.wait()


def main() -> None:
  """Prints a row for each number of clients, and for the index alone."""
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawTextHelpFormatter
  )
  parser.add_argument('--checkpoint', default='minilm')
  parser.add_argument('--source', default='python_docs')
  parser.add_argument('--workdir', type=pathlib.Path,
                      default=pathlib.Path('workdirs/serve'))
  parser.add_argument('--prepared_dir', default='workdirs/prepared')
  parser.add_argument('--clients', type=int, nargs='+', default=[1, 8, 64])
  parser.add_argument('--requests', type=int, default=1000)
  parser.add_argument('--seconds', type=float, default=30)
  parser.add_argument('--depth', type=int, default=5)
  args = parser.parse_args()

  sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))
  from neg_contrast import api

  settings = {'data__prepared_dir': args.prepared_dir}
  corpus = api.load_corpus(args.source, **settings)
  queries = [query.text for query in itertools.islice(corpus.queries, 2000)]
  print('| | clients, or queries of a call | requests | queries of a batch | '
        'p50 ms | p99 ms | queries/s |')
  print('|---|---:|---:|---:|---:|---:|---:|', flush=True)

  def show(what: str, row: Measured) -> None:
    print('| ' + ' | '.join([what, str(row.clients), *row.cells()]) + ' |',
          flush=True)

  with _server(args) as port:
    for clients in args.clients:
      measure_server(port, clients, queries, 2 * clients, 60, args.depth)
      show('server', measure_server(
          port, clients, queries, args.requests, args.seconds, args.depth
      ))
  retriever = api.load_retriever(
      args.checkpoint, args.source, str(args.workdir), **settings
  )
  for size in args.clients:
    search = lambda some: retriever.search(some, args.depth)
    measure_index(search, size, queries, 2 * size, 60)
    show('index alone', measure_index(
        search, size, queries, args.requests, args.seconds
    ))
  print(f'{len(corpus.passages)} passages', file=sys.stderr)


if __name__ == '__main__':
  main()
