"""Clients without a server, for tests of what an ORM asks of them."""

from __future__ import annotations

import itertools
import threading

from idworker_client import (
    BufferEmptyError,
    IdBatch,
    Idworker,
    IdworkerError,
    Prefetcher,
    StrictTagError,
    SyncIdworker,
    SyncPrefetcher,
)


class Source:
    """All IDs that the clients of a test have given, and what they were asked for."""

    def __init__(self, *, strict: tuple[str, ...] = ()) -> None:
        self.given: list[int] = []
        self.requests: list[str] = []
        """The tags of requests that no buffer made."""
        self.waits: list[float | None] = []
        self.strict = strict
        self.error: IdworkerError | None = None
        self.meeting: threading.Barrier | None = None
        """Where threads meet before they hear that a tag is strict."""
        self._numbers = itertools.count(2**53 + 1)  # a float would lose it

    def give(self) -> int:
        if self.error is not None:
            raise self.error
        number = next(self._numbers)
        self.given.append(number)
        return number

    def refuse_strict(self, tag: str) -> None:
        if tag in self.strict:
            if self.meeting:
                self.meeting.wait(120)
            raise StrictTagError("request ids.segment.order: strict (409)", code=409)


class FakeClient(SyncIdworker):
    def __init__(self, source: Source) -> None:
        self.source = source

    def next(self, tag: str, *, timeout: float | None = None) -> int:
        self.source.requests.append(tag)
        self.source.waits.append(timeout)
        return self.source.give()

    def prefetch(
        self, tag: str, *, runway: float = 1.0, limit: int = 1_000_000, max_batch: int = 10_000
    ) -> SyncPrefetcher:
        return FakeBuffer(self.source, tag)

    def prefetch_snowflake(
        self, *, runway: float = 1.0, limit: int = 1_000_000, max_batch: int = 10_000
    ) -> SyncPrefetcher:
        return FakeBuffer(self.source, "")

    def close(self) -> None: ...


class FakeBuffer(SyncPrefetcher):
    def __init__(self, source: Source, tag: str) -> None:
        self.source = source
        self.tag = tag

    def take(self, timeout: float = 5.0) -> int:
        assert isinstance(timeout, float), "an ORM passed its context as the timeout"
        self.source.waits.append(timeout)
        self.source.refuse_strict(self.tag)
        return self.source.give()


class FakeAsyncClient(Idworker):
    """Its buffers hold three IDs after each wait."""

    def __init__(self, source: Source) -> None:
        self.source = source

    async def next(self, tag: str, *, timeout: float | None = None) -> int:
        self.source.requests.append(tag)
        return self.source.give()

    async def next_n(self, tag: str, n: int, *, timeout: float | None = None) -> IdBatch:
        raise NotImplementedError

    def prefetch(
        self, tag: str, *, runway: float = 1.0, limit: int = 1_000_000, max_batch: int = 10_000
    ) -> Prefetcher:
        return FakeAsyncBuffer(self.source, tag)

    def prefetch_snowflake(
        self, *, runway: float = 1.0, limit: int = 1_000_000, max_batch: int = 10_000
    ) -> Prefetcher:
        return FakeAsyncBuffer(self.source, "")


class FakeAsyncBuffer(Prefetcher):
    def __init__(self, source: Source, tag: str) -> None:
        self.source = source
        self.tag = tag
        self.buffered = 0

    def take(self) -> int:
        if self.buffered == 0:
            raise BufferEmptyError("nothing is buffered")
        self.buffered -= 1
        return self.source.give()

    async def next(self, *, timeout: float | None = None) -> int:
        self.source.waits.append(timeout)
        self.source.refuse_strict(self.tag)
        self.buffered += 3
        return self.source.give()
