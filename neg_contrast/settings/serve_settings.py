"""Keys of the HTTP server."""

import dataclasses

from neg_contrast.settings import keys


@dataclasses.dataclass(frozen=True)
class ServeConfig(keys.Section):
  """The HTTP server of `job=serve`: its place, its batches and its limits.

  Attributes:
    host: address that it listens at. The default is this machine alone; there
      is no password, so put a proxy before it where others can reach it.
    port: of the address; 0: any that is free.
    wait_seconds: how long a request waits for others to join its batch.
    batch_texts: texts of a batch, queries or passages, that the encoder and the
      index get at once.
    waiting_texts: texts that may wait for a batch; beyond, requests are refused
      with status 503.
    most_texts: texts of one request.
    most_depth: passages for a query that a request may ask for. The index is
      always searched so deep, so that the passages found do not depend on the
      other requests of a batch.
    most_characters: of a query.
    body_bytes: of a request.
    read_seconds: how long a client may take to send a request, or to read the
      answer.
    answer_seconds: how long a request may take from there to its answer.
    stop_seconds: how long requests may go on after SIGTERM or Ctrl-C.
    connections: clients that are connected at once; others get status 503.
  """

  section = 'serve'

  host: str = keys.key('127.0.0.1', keys.matching(r'[\w.:%-]+', 'a host name '
                                                  'or an address'))
  port: int = keys.key(8000, keys.from_to(0, 65535))
  wait_seconds: float = keys.key(0.005, keys.from_to(0, 10))
  batch_texts: int = keys.key(64, keys.at_least(1))
  waiting_texts: int = keys.key(1024, keys.at_least(1))
  most_texts: int = keys.key(64, keys.at_least(1))
  most_depth: int = keys.key(100, keys.at_least(1))
  most_characters: int = keys.key(2000, keys.at_least(1))
  body_bytes: int = keys.key(2**20, keys.at_least(1))
  read_seconds: float = keys.key(10.0, keys.above(0))
  answer_seconds: float = keys.key(30.0, keys.above(0))
  stop_seconds: float = keys.key(10.0, keys.above(0))
  connections: int = keys.key(512, keys.at_least(1))

  def __post_init__(self):
    """Checks ranges, then what two keys say together.

    Raises:
      SettingError: a value is out of its range, or does not fit another.
    """
    super().__post_init__()
    if self.most_texts > self.waiting_texts:
      raise self.error('most_texts', f'must be at most {self.waiting_texts}, '
                       'the texts that may wait (serve.waiting_texts)')
