"""A server whose answers are larger than the buffers of the system.

    python -m tests.serving.large_answers READ_SECONDS BUFFER_BYTES

prints its port, and serves until it is killed.
"""

import socket
import sys

from neg_contrast.data import records
from neg_contrast.retrieval import finding
from neg_contrast.serving import search_page, server, server_metrics, web_app
from neg_contrast.settings import serve_settings

_CHARACTERS = 200_000


def main() -> None:
  """Serves one long passage for every query."""
  read_seconds, buffer_bytes = sys.argv[1:]
  limits = serve_settings.ServeConfig(port=0, read_seconds=float(read_seconds))
  bound = server.bind(limits)
  # What a connection may not have sent yet; connections take it from here.
  bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, int(buffer_bytes))
  hit = finding.Found(records.Passage('p', '', 'a' * _CHARACTERS), 1.0)
  app = web_app.WebApp(
      lambda batch: [[[hit]] for _ in batch],
      search_page.About('model', 'corpus', 1, 5, 9, 40), limits,
      server_metrics.ServerMetrics(1),
  ).app
  server.serve(app, bound, limits,
               lambda: print(bound.getsockname()[1], flush=True))


if __name__ == '__main__':
  main()
