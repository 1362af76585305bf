"""Clients without NATS, for tests of an application.

    ids = InMemorySyncIdworker()  # or InMemoryIdworker() for asyncio
    assert ids.next("order") == 1

The IDs of each tag begin at 1 and ascend, and so do snowflake IDs. Arguments are
checked as the real clients do. Every well-formed tag exists, and none is strict. A
client starts again at 1 in each process, so it must never serve real data.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ._arguments import check_count, check_timeout
from ._batch import IdBatch
from ._buffer import PrefetchConfig, Why
from ._client import Idworker
from ._errors import ClosedError, MalformedRequestError
from ._prefetch import Prefetcher
from ._rows import RowIds
from ._sync import SyncIdworker, SyncPrefetcher

__all__ = ["InMemoryIdworker", "InMemorySyncIdworker", "in_memory_django"]

MAX_BATCH = 10_000
"""The default limit of workers."""


class _Counters:
    """The last ID of each subject."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        self._lock = threading.Lock()

    def take(self, subject: str, n: int, timeout: float | None, is_closed: bool) -> IdBatch:
        """Return the next n IDs, or raise what a real client would."""
        check_count(n)
        if timeout is not None:
            check_timeout(timeout)
        if is_closed:
            raise ClosedError(f"request {subject}: client is closed", subject=subject)
        if n > MAX_BATCH:
            text = f"request {subject}: {n} IDs, allowed are {MAX_BATCH} (400)"
            raise MalformedRequestError(text, code=400, subject=subject)
        with self._lock:
            first = self._last.get(subject, 0) + 1
            self._last[subject] = first + n - 1
        return IdBatch(((first, first + n - 1),))


class InMemorySyncIdworker(SyncIdworker):
    """A SyncIdworker that counts. Its prefetchers take from the same counters as its calls."""

    def __init__(self, *, prefix: str = "ids") -> None:
        super().__init__(prefix=prefix)
        self._counters = _Counters()

    def connect(self) -> None:
        """Do nothing, or raise ClosedError."""
        if self._closed:
            raise ClosedError("client is closed")

    def prefetch(self, tag: str, **bounds: Any) -> SyncPrefetcher:
        """Make a buffer that asks the counter of its tag at each take."""
        return self._buffer(super().prefetch(tag, **bounds))

    def prefetch_snowflake(self, **bounds: Any) -> SyncPrefetcher:
        """Make a buffer of snowflake IDs. As prefetch."""
        return self._buffer(super().prefetch_snowflake(**bounds))

    def _one(self, subject: str, timeout: float | None) -> int:
        return self._many(subject, 1, timeout).ranges[0][0]

    def _many(self, subject: str, n: int, timeout: float | None) -> IdBatch:
        return self._counters.take(subject, n, timeout, self._closed)

    def _buffer(self, real: SyncPrefetcher) -> SyncPrefetcher:
        return _InMemoryPrefetcher(self, real._subject, PrefetchConfig(), real._make)


class _InMemoryPrefetcher(SyncPrefetcher):
    def take(self, timeout: float = 5.0) -> int:
        if self._closed:
            raise self._closed_error()
        return self._client._one(self._subject, timeout)


class InMemoryIdworker(Idworker):
    """An Idworker that counts. Its prefetchers are real ones, whose requests are answered at once."""

    def __init__(self, *, prefix: str = "ids") -> None:
        connection: Any = _NoConnection()
        super().__init__(connection, prefix=prefix)
        self._counters = _Counters()

    async def _next(self, subject: str, timeout: float | None, trace: str | None) -> int:
        return (await self._request(subject, 1, timeout, trace)).ranges[0][0]

    async def _request(self, subject: str, n: int, timeout: float | None, trace: str | None) -> IdBatch:
        ids = self._counters.take(subject, n, timeout, self._calls.end is not None)
        await asyncio.sleep(0)  # other tasks run, as they do during a real request
        return ids

    def _prefetch(self, subject: str, config: PrefetchConfig, *, impatient: bool) -> Prefetcher:
        async def fetch(n: int, on_transient: Callable[[Why], None]) -> IdBatch:
            return await self._request(subject, n, None, None)

        prefetcher = Prefetcher(subject, fetch, config, self._timeout, self._outages)
        self._prefetchers.add(prefetcher)
        return prefetcher


class _NoConnection:
    """What a client that sends nothing needs of a connection."""

    is_closed = False
    _error_cb = None

    def publish(self) -> None: ...


@contextmanager
def in_memory_django() -> Iterator[InMemorySyncIdworker]:
    """Let rows of Django and ``idworker_client.django.client()`` use a client in memory.

    A context manager, and a decorator of test functions. It gives the client.
    """
    from . import django

    ids = InMemorySyncIdworker()
    before = django._made.get("")
    django._made[""] = ids, RowIds(ids)
    try:
        yield ids
    finally:
        django._made.pop("", None)
        if before:
            django._made[""] = before
