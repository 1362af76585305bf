"""The state of a prefetcher: what it has, and what it should request.

There is no I/O here. All but ``next(buffer.current, 0)`` belongs to one thread.
"""

from __future__ import annotations

import operator
import sysconfig
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from . import _clock
from ._batch import IdBatch
from ._errors import (
    BadConfigError,
    CallTimeoutError,
    IdworkerError,
    MalformedRequestError,
    Reason,
)
from ._fork import Mark, this_process

MOST_REQUESTS = 16  # enough to hide the round trip, and few compared with what a worker parks
MOST_AGE = 60.0  # s; an older buffer may be that of a copied process
LONGEST_RUNWAY = 10.0  # s; an ID waits four runways at most, the rest of its age is for rates that fall
MOST_PREFETCHED = 1_000_000_000

WITHOUT_GIL = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))  # at times, even if there is one now

Why = Reason | IdworkerError
"""Why a request is repeated. An error is a BusyError or UnavailableError, whose text lacks the subject."""


class Fetch(Protocol):
    """A call for n IDs without a deadline, with the header Ids-Prefetch. Cancelling its task ends it.

    A call for more than one snowflake ID raises CallTimeoutError at the first transient
    reply; silence does not end it.
    """

    async def __call__(self, n: int, on_transient: Callable[[Why], None]) -> IdBatch: ...


@dataclass(frozen=True)
class PrefetchConfig:
    """Bounds of a prefetcher's buffer. BadConfigError for those that are out of bounds."""

    runway: float = 1.0
    """Seconds for which IDs buffered at a refill should still last, 0.001 to 3600. Above 10 acts as 10."""

    limit: int = 1_000_000
    """The most IDs buffered or in flight, apart from the range in use, 1 to 1,000,000,000."""

    max_batch: int = 10_000
    """The most IDs in a request, 1 to 1,000,000,000. Requests shrink if the workers allow fewer."""

    def __post_init__(self) -> None:
        number = isinstance(self.runway, int | float) and not isinstance(self.runway, bool)
        if not number or not 0.001 <= self.runway <= 3600:
            raise BadConfigError(f"bad runway: {self.runway!r}, allowed are 0.001 to 3600 seconds")
        for name, value in (("limit", self.limit), ("max_batch", self.max_batch)):
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST_PREFETCHED:
                raise BadConfigError(
                    f"bad {name}: {value!r}, allowed is an int from 1 to {MOST_PREFETCHED:,}"
                )


class Pace:
    """How many IDs to buffer: twice the use in a runway, since more are requested at half.

    The target grows at once, since callers feel a lack, but at most by a factor of
    two, since the first microseconds of a burst prove little. It shrinks once a
    runway at most, since a moment without callers proves nothing.

    A runway and times have one unit, whichever.
    """

    def __init__(self, runway: float, limit: int, now: float) -> None:
        self._runway = runway
        self._limit = limit
        self.restart(now, 0)

    def restart(self, now: float, taken: int) -> None:
        """Begin again, after so many IDs taken in all."""
        self.target = 1
        self._since = now
        self._taken_then = taken

    def update(self, now: float, taken: int) -> int:
        """Return the target, given the number of IDs taken in all."""
        elapsed = now - self._since
        if elapsed <= 0:
            return self.target
        want = 2.0 * (taken - self._taken_then) * self._runway / elapsed
        if want <= self.target and elapsed < self._runway:
            return self.target  # too early to shrink
        self.target = max(int(min(want, 2 * self.target, self._limit)), half(self.target))
        self._since = now
        self._taken_then = taken
        return self.target


def half(n: int) -> int:
    """Return half of n, rounded up."""
    return n - n // 2


@dataclass(frozen=True)
class Range:
    """IDs that a reply brought."""

    first: int
    last: int
    arrived: float  # by the wall clock

    def __len__(self) -> int:
        return self.last - self.first + 1

    def is_fresh(self) -> bool:
        """Whether the wall clock permits the use of these IDs."""
        return 0 <= _clock.wall() - self.arrived <= MOST_AGE


class LockedIds:
    """The IDs of a range without a GIL, where two threads may get one ID of the range's own iterator."""

    def __init__(self, ids: Iterator[int], alive: Mark) -> None:
        self._ids = ids
        self._alive = alive
        self._lock = threading.RLock()  # a signal's handler or a finalizer may take, too

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        if not self._alive[0]:
            raise StopIteration  # a fork's lock may be locked for ever
        with self._lock:
            return next(self._ids)

    def __length_hint__(self) -> int:
        with self._lock:
            return operator.length_hint(self._ids)


class Buffer:
    """Buffered IDs, requests in flight, and callers that wait.

    Its owner starts the requests that refill returns, reports the end of each by
    arrived or failed, wakes the waiting callers then, and refills again. Invariant:
    while a caller waits, a request is in flight.
    """

    current: Iterator[int]
    """The IDs of the range in use. Its next is atomic, so any thread may take one."""

    waiting: int
    """The number of IDs that callers wait for."""

    reason: Why | None
    """Why requests are unanswered, if they are."""

    def __init__(self, config: PrefetchConfig) -> None:
        self.alive = this_process().alive
        """alive[0] is 0 in a fork. Who took an ID looks afterwards."""
        self._config = config
        self._range: Range | None = None  # that of current
        self._stock: deque[Range] = deque()  # the ranges after it
        self._stock_ids = 0
        self._used = 0  # IDs taken from the ranges before it
        self._pace = Pace(min(config.runway, LONGEST_RUNWAY), config.limit, _clock.monotonic())
        self._requests = 0  # in flight
        self._requested_ids = 0
        self._max_batch = config.max_batch  # the largest that the workers are believed to allow
        self._batch = (
            config.max_batch
        )  # 1 after a refused batch of snowflake IDs, then twice that after each success
        self._failing = False  # the last request failed for good
        self.current = iter(())
        self.waiting = 0
        self.reason = None

    def take(self) -> int:
        """Return a buffered ID, or 0, which is none. IDs that are too old are dropped."""
        id = next(self.current, 0)
        if id or not self._stock:
            return id
        following = self._stock.popleft()
        self._stock_ids -= len(following)
        if not following.is_fresh():
            self.discard()
            return 0
        self._used = self.taken()
        ids: Iterator[int] = iter(range(following.first, following.last + 1))
        if WITHOUT_GIL:
            ids = LockedIds(ids, self.alive)
        id = next(ids)  # before other threads can take it
        self._range, self.current = following, ids
        return id

    def refill(self) -> list[int]:
        """Return the sizes of requests to start now, which count as in flight."""
        have = self._stock_ids + self._requested_ids
        awaited = min(self.waiting, self._config.limit)
        if have >= half(self._pace.target) and have >= awaited:
            return []
        missing = max(self._pace.update(_clock.monotonic(), self.taken()), awaited) - have
        most = 1 if self._failing else MOST_REQUESTS
        sizes: list[int] = []
        while missing > 0 and self._requests < most:
            n = min(missing, self._max_batch, self._batch)
            missing -= n
            self._requests += 1
            self._requested_ids += n
            sizes.append(n)
        return sizes

    def arrived(self, n: int, ids: IdBatch) -> None:
        """Add the IDs of a request for n."""
        self._end(n)
        now = _clock.wall()
        self._stock.extend(Range(first, last, now) for first, last in ids.ranges)
        self._stock_ids += n
        if n == self._batch:
            self._batch = min(2 * n, self._config.max_batch)
        self._failing = False
        self.reason = None

    def failed(self, n: int, error: Exception) -> bool:
        """Report the failure of a request for n, and whether the waiting callers get the error.

        If they do, no refill follows before the next caller waits.
        """
        self._end(n)
        if n > 1 and isinstance(error, MalformedRequestError):
            self._max_batch = min(self._max_batch, n // 2)  # the workers allow smaller ones
            return False
        if n > 1 and isinstance(error, CallTimeoutError):
            self._batch = 1  # it may have more snowflake IDs than a worker makes ahead of its clock
            return False
        self._failing = True
        if isinstance(error, MalformedRequestError):
            self._max_batch = self._config.max_batch  # for one ID: the batches were not too large
        return True

    def _end(self, n: int) -> None:
        self._requests -= 1
        self._requested_ids -= n

    def discard_if_old(self) -> bool:
        """Drop all buffered IDs if the oldest are too old. Return whether any are buffered now."""
        if operator.length_hint(self.current):
            oldest = self._range
        else:
            oldest = self._stock[0] if self._stock else None
        if oldest is None:
            return False
        if oldest.is_fresh():
            return True
        self.discard()
        return False

    def discard(self) -> None:
        """Drop all buffered IDs, which were more than were used: the target starts again at 1."""
        self._used = self.taken()
        self._range, self.current = None, iter(())
        self._stock.clear()
        self._stock_ids = 0
        self._pace.restart(_clock.monotonic(), self._used)

    def taken(self) -> int:
        """Return the number of IDs taken so far."""
        return self._used + (len(self._range) if self._range else 0) - operator.length_hint(self.current)

    @property
    def buffered(self) -> int:
        """The number of IDs that callers could take now."""
        return operator.length_hint(self.current) + self._stock_ids

    @property
    def in_flight(self) -> int:
        """The number of IDs requested."""
        return self._requested_ids

    @property
    def target(self) -> int:
        """The number of IDs to have in stock or in flight."""
        return self._pace.target

    @property
    def batch(self) -> int:
        """The largest request at present."""
        return min(self._max_batch, self._batch)
