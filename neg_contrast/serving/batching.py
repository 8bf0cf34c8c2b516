"""Requests of many clients, answered together by one thread."""

import asyncio
import collections
import contextlib
from collections.abc import Callable, Sequence
from concurrent import futures
from typing import Any, Protocol

from neg_contrast.serving import client_requests


class Sized(Protocol):
  """What is answered."""

  @property
  def size(self) -> int:
    """Texts of it, which batches are measured in."""


class Batcher:
  """Collects what is asked within a short time, and answers all at once.

  One thread answers, so what answers need not be safe for several. A request
  that nobody waits for any more is not answered.
  """

  def __init__(
      self,
      answer: Callable[[Sequence[Any]], Sequence[Any]],
      wait_seconds: float,
      most: int,
      most_waiting: int,
      on_batch: Callable[[int], None] = lambda size: None,
  ):
    """Starts no thread yet; see `running`.

    Args:
      answer: requests -> an answer for each; called in the thread.
      wait_seconds: after the first request of a batch.
      most: texts of a batch; a request with more is a batch by itself.
      most_waiting: texts that may wait.
      on_batch: called with the texts of each batch.
    """
    self._answer, self._on_batch = answer, on_batch
    self._wait_seconds = wait_seconds
    self._most, self._most_waiting = most, most_waiting
    self._waiting: collections.deque[tuple[Any, asyncio.Future]] = (
        collections.deque()
    )
    self._has_more = asyncio.Event()

  def count_waiting(self) -> int:
    """Texts that wait for a batch, and that somebody waits for."""
    return sum(request.size for request, future in self._waiting
               if not future.done())

  @contextlib.asynccontextmanager
  async def running(self):
    """Answers while the context is open."""
    with futures.ThreadPoolExecutor(1, 'answers') as thread:
      loop = asyncio.create_task(self._run(thread))
      try:
        yield self
      finally:
        loop.cancel()
        await asyncio.gather(loop, return_exceptions=True)
        for _, future in self._waiting:
          future.cancel()

  async def submit(self, request: Sized) -> Any:
    """The answer to a request; cancelled, it is taken back.

    Raises:
      Refused: too many texts wait already.
      Exception: what `answer` raised.
    """
    waiting = self.count_waiting()
    if waiting + request.size > self._most_waiting:
      raise client_requests.Refused(
          503, f'{waiting} texts wait already; try again later'
      )
    future = asyncio.get_running_loop().create_future()
    self._waiting.append((request, future))
    self._has_more.set()
    return await future

  async def _run(self, thread: futures.Executor) -> None:
    loop = asyncio.get_running_loop()
    while True:
      batch = await self._next_batch()
      if not batch:
        continue
      self._on_batch(sum(request.size for request, _ in batch))
      try:
        answers = await loop.run_in_executor(
            thread, self._answer, [request for request, _ in batch]
        )
        if len(answers) != len(batch):
          raise ValueError(f'{len(answers)} answers to {len(batch)} requests')
      except Exception as e:
        for _, future in batch:
          if not future.done():
            future.set_exception(e)
        continue
      for (_, future), answer in zip(batch, answers, strict=True):
        if not future.done():
          future.set_result(answer)

  async def _next_batch(self) -> list[tuple[Any, asyncio.Future]]:
    """The next requests that somebody waits for; perhaps none."""
    self._has_more.clear()
    if not self._waiting:
      await self._has_more.wait()
    with contextlib.suppress(TimeoutError):
      async with asyncio.timeout(self._wait_seconds):
        while self.count_waiting() < self._most:
          self._has_more.clear()
          await self._has_more.wait()
    batch: list[tuple[Any, asyncio.Future]] = []
    size = 0
    while self._waiting:
      request, future = self._waiting[0]
      if batch and size + request.size > self._most:
        break
      self._waiting.popleft()
      if not future.done():
        batch.append((request, future))
        size += request.size
    return batch
