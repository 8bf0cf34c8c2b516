"""What the server counts, in the text format of Prometheus."""

import prometheus_client as prometheus

CONTENT_TYPE = prometheus.CONTENT_TYPE_LATEST
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_SECONDS = (.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30)
_PREFIX = 'neg_contrast_'


class ServerMetrics:
  """Counters of one server, apart from those of other libraries.

  Attributes:
    registry: of all of them.
  """

  def __init__(self, passages: int):
    """Nothing has been counted.

    Args:
      passages: of the corpus.
    """
    self.registry = prometheus.CollectorRegistry()
    self._requests = prometheus.Counter(
        f'{_PREFIX}requests', 'Requests answered, by path and status.',
        ('path', 'status'), registry=self.registry,
    )
    self._seconds = prometheus.Histogram(
        f'{_PREFIX}request_seconds', 'Time of a request, by path.', ('path',),
        buckets=_SECONDS, registry=self.registry,
    )
    self._batches = prometheus.Histogram(
        f'{_PREFIX}batch_texts', 'Texts answered together.', buckets=_SIZES,
        registry=self.registry,
    )
    self._stages = prometheus.Histogram(
        f'{_PREFIX}stage_seconds', 'Time of a batch, by stage.', ('stage',),
        buckets=_SECONDS, registry=self.registry,
    )
    self._gone = prometheus.Counter(
        f'{_PREFIX}disconnected', 'Clients that left before their answer.',
        registry=self.registry,
    )
    self.waiting = prometheus.Gauge(
        f'{_PREFIX}waiting_texts', 'Texts that wait for a batch.',
        registry=self.registry,
    )
    prometheus.Gauge(
        f'{_PREFIX}passages', 'Passages of the corpus.', registry=self.registry
    ).set(passages)

  def on_request(self, path: str, status: int, seconds: float) -> None:
    """Counts a request that was answered."""
    self._requests.labels(path, str(status)).inc()
    self._seconds.labels(path).observe(seconds)

  def on_batch(self, texts: int) -> None:
    """Counts a batch."""
    self._batches.observe(texts)

  def on_stage(self, stage: str, seconds: float) -> None:
    """Adds the time of a stage of a batch."""
    self._stages.labels(stage).observe(seconds)

  def on_disconnect(self) -> None:
    """Counts a client that left before its answer."""
    self._gone.inc()

  def text(self) -> bytes:
    """All of it, as Prometheus reads it."""
    return prometheus.generate_latest(self.registry)
