"""The state of a prefetcher."""

from __future__ import annotations

import operator
import threading
import time
from collections.abc import Iterator
from unittest import mock

import pytest
from installation import PATIENCE

from idworker_client import (
    BadConfigError,
    CallTimeoutError,
    IdBatch,
    MalformedRequestError,
    NoSuchTagError,
    _buffer,
    _clock,
)
from idworker_client._buffer import Buffer, LockedIds, PrefetchConfig


class Clock:
    """Both clocks, in seconds."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.wall = 1_700_000_000.0

    def step(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds
        self.wall += seconds


@pytest.fixture
def clock() -> Iterator[Clock]:
    made = Clock()
    with (
        mock.patch.object(_clock, "monotonic", lambda: made.now),
        mock.patch.object(_clock, "wall", lambda: made.wall),
    ):
        yield made


class Source:
    """Grants ascending IDs to a buffer's requests."""

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer
        self.granted = 0
        self.sizes: list[int] = []

    def serve(self, sizes: list[int]) -> None:
        """Reply to requests, and to those that follow."""
        while sizes:
            n = sizes.pop(0)
            self.sizes.append(n)
            first, self.granted = self.granted + 1, self.granted + n
            self.buffer.arrived(n, IdBatch(((first, self.granted),)))
            sizes += self.buffer.refill()

    def take(self) -> int:
        """Take an ID as a caller does that waits if it must."""
        id = self.buffer.take()
        self.serve(self.buffer.refill())
        if not id:
            self.buffer.waiting += 1
            self.serve(self.buffer.refill())
            self.buffer.waiting -= 1
            id = self.buffer.take()
        return id


def test_a_buffer_grows_with_its_use_and_shrinks_without(clock: Clock) -> None:
    source = Source(Buffer(PrefetchConfig()))
    taken = []
    for _ in range(3000):
        taken.append(source.take())
        clock.step(0.001)
    assert taken == list(range(1, 3001))
    assert 1000 <= source.buffer.target <= 4000  # twice 1000 a second, for a runway of 1 s
    assert len(source.sizes) < 300
    for _ in range(6000):
        source.take()
        clock.step(0.01)
    assert 100 <= source.buffer.target <= 400


def test_a_refused_request_for_one_id_says_nothing_about_batches(clock: Clock) -> None:
    buffer = Buffer(PrefetchConfig(max_batch=2))
    buffer.waiting = 2
    assert buffer.refill() == [2]
    assert not buffer.failed(2, MalformedRequestError("malformed (400)"))
    assert buffer.refill() == [1, 1]
    assert buffer.failed(1, MalformedRequestError("malformed (400)"))
    assert buffer.batch == 2


def test_refused_batches_of_snowflake_ids_begin_again_at_one(clock: Clock) -> None:
    buffer = Buffer(PrefetchConfig(max_batch=8))
    buffer.waiting = 8
    assert buffer.refill() == [8]
    assert not buffer.failed(8, CallTimeoutError("given up", reason="unavailable"))
    sizes = buffer.refill()
    assert sizes == [1] * 8
    for n, batch in ((1, 2), (1, 2), (2, 4), (4, 8), (8, 8)):
        if n > 1:
            buffer.waiting = 1000
            sizes = buffer.refill()
            assert sizes[0] == n
        buffer.arrived(n, IdBatch(((1, n),)))
        assert buffer.batch == batch


def test_one_request_follows_an_error(clock: Clock) -> None:
    buffer = Buffer(PrefetchConfig(max_batch=1))
    buffer.waiting = 50
    assert len(buffer.refill()) == 16
    for _ in range(16):
        assert buffer.failed(1, NoSuchTagError("no such tag (404)"))
    assert buffer.refill() == [1]
    assert buffer.refill() == []
    buffer.arrived(1, IdBatch(((1, 1),)))
    assert len(buffer.refill()) == 16


def filled(clock: Clock) -> Source:
    """A buffer with IDs in current and in stock."""
    source = Source(Buffer(PrefetchConfig(max_batch=10)))
    for _ in range(500):
        source.take()
        clock.step(0.001)
    while operator.length_hint(source.buffer.current) == 0:
        source.take()
    assert source.buffer.buffered > 10
    return source


def test_ids_below_a_minute_are_used(clock: Clock) -> None:
    source = filled(clock)
    granted, buffered = source.granted, source.buffer.buffered
    clock.step(59)
    assert source.buffer.discard_if_old()
    assert [source.buffer.take() for _ in range(buffered)] == list(range(granted - buffered + 1, granted + 1))


@pytest.mark.parametrize("step", [61.0, -2.0, 3600.0])
def test_old_ids_are_dropped_by_the_timer(clock: Clock, step: float) -> None:
    source = filled(clock)
    granted = source.granted
    clock.wall += step
    assert not source.buffer.discard_if_old()
    assert source.buffer.buffered == 0
    assert source.buffer.target == 1
    assert source.take() > granted
    assert source.granted <= granted + 3


@pytest.mark.parametrize("step", [61.0, -2.0])
def test_the_age_is_looked_at_when_a_range_begins(clock: Clock, step: float) -> None:
    source = filled(clock)
    granted = source.granted
    clock.wall += step
    for _ in range(operator.length_hint(source.buffer.current)):
        assert source.take() <= granted
    assert source.take() > granted


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("runway", v) for v in (0, 0.0009, 3601, float("nan"), float("inf"), True, "1", None)),
        *((name, v) for name in ("limit", "max_batch") for v in (0, -1, 10**9 + 1, 1.0, True, "1", None)),
    ],
)
def test_options_out_of_bounds_are_refused(option: str, value: object) -> None:
    with pytest.raises(BadConfigError, match=rf"^bad {option}: .*, allowed (is|are) "):
        PrefetchConfig(**{option: value})  # type: ignore[arg-type]


def test_options_at_their_bounds_are_good() -> None:
    PrefetchConfig(0.001, 1, 1)
    PrefetchConfig(3600, 10**9, 10**9)


class Racy:
    """An iterator that threads must not share, as that of a range is without a GIL."""

    def __init__(self) -> None:
        self.last = 0

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        id = self.last + 1
        time.sleep(1e-6)
        if id > 2000:
            raise StopIteration
        self.last = id
        return id


def test_threads_without_a_gil_get_each_id_once() -> None:
    ids = LockedIds(Racy(), bytearray(b"\x01"))
    taken: list[int] = []
    threads = [threading.Thread(target=lambda: taken.extend(ids)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == list(range(1, 2001))


def test_a_buffer_without_a_gil_locks_its_ids(clock: Clock) -> None:
    with mock.patch.object(_buffer, "WITHOUT_GIL", True):
        source = Source(Buffer(PrefetchConfig()))
        assert [source.take() for _ in range(100)] == list(range(1, 101))
        assert source.buffer.taken() == 100
        assert isinstance(source.buffer.current, LockedIds)


def test_a_fork_gets_no_id_of_a_lock_that_may_be_locked() -> None:
    mark = bytearray(b"\x01")
    ids = LockedIds(iter(range(1, 10)), mark)
    ids._lock.acquire()
    mark[0] = 0
    assert next(ids, 0) == 0


def test_without_a_gil_a_take_may_interrupt_a_take() -> None:
    """The handler of a signal, or a finalizer, takes in the middle of its thread's own take."""

    class Interrupted(Iterator[int]):
        def __init__(self) -> None:
            self.inner: list[int] = []
            self._numbers = iter(range(1, 10))

        def __next__(self) -> int:
            id = next(self._numbers)
            if id == 1:
                self.inner.append(next(ids))
            return id

    source = Interrupted()
    ids = LockedIds(source, bytearray(b"\x01"))
    taken: list[int] = []
    thread = threading.Thread(target=lambda: taken.append(next(ids)), daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert (taken, source.inner) == ([1], [2])
