"""Batches: who is answered together, with what, and who is not."""

import asyncio
import dataclasses
import threading

import pytest

from neg_contrast.serving import batching, client_requests


@dataclasses.dataclass(frozen=True)
class Ask:
  """A number that is to be doubled."""

  value: int
  size: int = 1


class Doubler:
  """Keeps the batches that it answered; may be held up."""

  def __init__(self):
    self.batches, self.threads = [], set()
    self.may_go = threading.Event()
    self.may_go.set()
    self.has_begun = threading.Event()

  def __call__(self, batch):
    self.has_begun.set()
    assert self.may_go.wait(20)
    self.batches.append([ask.value for ask in batch])
    self.threads.add(threading.current_thread())
    if -1 in self.batches[-1]:
      raise ValueError('a negative number')
    return [2 * ask.value for ask in batch]


def run(body, doubler=None, **settings):
  doubler = doubler or Doubler()
  batcher = batching.Batcher(doubler, **{
      'wait_seconds': 0.2, 'most': 4, 'most_waiting': 8, **settings})

  async def main():
    async with batcher.running():
      await asyncio.wait_for(body(batcher, doubler), 20)

  asyncio.run(main())
  return doubler.batches


async def held_up(batcher, doubler):
  """A request that is being answered, until `may_go` is set."""
  doubler.may_go.clear()
  first = asyncio.create_task(batcher.submit(Ask(0)))
  await asyncio.to_thread(doubler.has_begun.wait)
  return first


def test_requests_that_come_together_are_answered_together():
  async def body(batcher, doubler):
    answers = await asyncio.gather(
        *(batcher.submit(Ask(value)) for value in range(6)))
    assert answers == [0, 2, 4, 6, 8, 10]
    assert len(doubler.threads) == 1
    assert doubler.threads.isdisjoint({threading.current_thread()})

  assert run(body) == [[0, 1, 2, 3], [4, 5]]


def test_a_full_batch_does_not_wait():
  async def body(batcher, doubler):
    del doubler
    await asyncio.gather(*(batcher.submit(Ask(value)) for value in range(4)))

  assert run(body, wait_seconds=100) == [[0, 1, 2, 3]]


def test_sizes_count():
  async def body(batcher, doubler):
    del doubler
    await asyncio.gather(*map(batcher.submit, (
        Ask(0, 3), Ask(1, 2), Ask(2, 2), Ask(3))))

  assert run(body, wait_seconds=0.05) == [[0], [1, 2], [3]]
  assert run(body, most=1, wait_seconds=0.05) == [[0], [1], [2], [3]]


def test_too_many_are_refused():
  async def body(batcher, doubler):
    first = await held_up(batcher, doubler)
    others = [asyncio.create_task(batcher.submit(Ask(n))) for n in range(8)]
    await asyncio.sleep(0)
    with pytest.raises(client_requests.Refused, match='8 texts wait') as error:
      await batcher.submit(Ask(9))
    assert error.value.status == 503
    doubler.may_go.set()
    assert await asyncio.gather(first, *others) == [0, *range(0, 16, 2)]

  run(body, wait_seconds=0)


def test_who_left_takes_no_place():
  async def body(batcher, doubler):
    first = await held_up(batcher, doubler)
    left = [asyncio.create_task(batcher.submit(Ask(n))) for n in range(8)]
    await asyncio.sleep(0)
    for one in left:
      one.cancel()
    await asyncio.sleep(0)
    assert batcher.count_waiting() == 0
    stays = asyncio.create_task(batcher.submit(Ask(9)))
    await asyncio.sleep(0)
    doubler.may_go.set()
    assert await asyncio.gather(first, stays) == [0, 18]

  assert run(body, wait_seconds=0) == [[0], [9]]


def test_who_left_is_not_answered():
  async def body(batcher, doubler):
    first = await held_up(batcher, doubler)
    left = asyncio.create_task(batcher.submit(Ask(1)))
    stays = asyncio.create_task(batcher.submit(Ask(2)))
    await asyncio.sleep(0)
    left.cancel()
    doubler.may_go.set()
    assert await asyncio.gather(first, stays) == [0, 4]

  assert run(body, wait_seconds=0) == [[0], [2]]


def test_a_failure_is_told_to_all_of_its_batch_alone():
  async def body(batcher, doubler):
    del doubler
    failed = await asyncio.gather(
        batcher.submit(Ask(-1)), batcher.submit(Ask(1)), return_exceptions=True)
    assert [str(one) for one in failed] == ['a negative number'] * 2
    assert await batcher.submit(Ask(3)) == 6

  run(body)
