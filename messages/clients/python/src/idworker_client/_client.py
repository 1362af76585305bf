"""The client for asyncio."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

from ._arguments import (
    check_count,
    check_prefix,
    check_tag,
    check_timeout,
    check_traceparent,
    current_trace,
)
from ._batch import IdBatch
from ._buffer import PrefetchConfig, Why
from ._call import OF_PARENT, Call, Calls, read_arrived
from ._coalesce import Coalescer
from ._errors import BadConfigError, ClosedError, IdworkerError
from ._fork import OfOneProcess
from ._link import Link
from ._log import Outages
from ._prefetch import Prefetcher

if TYPE_CHECKING:
    from nats.aio.client import Client


class Idworker(OfOneProcess):
    """A client of idworker on a NATS connection, which it never closes.

    All of it belongs to the event loop of the connection. A call repeats its request
    while no worker replies, until its timeout. Concurrent calls of next share
    requests. IDs whose reply comes too late are a gap, never a duplicate.

    Calls raise BadTagError, BadCountError and BadConfigError before anything is sent.
    CallTimeoutError has the reason why no ID came in time. All other errors of
    ErrorReplyError, and BadReplyError, PermissionDeniedError, ConnectionEndedError and
    ClosedError, come at once: a retry cures none of them. A cancelled call raises
    asyncio.CancelledError. There is never an ID beside an error.
    """

    def __init__(
        self,
        connection: Client,
        *,
        prefix: str = "ids",
        timeout: float = 5.0,
        traceparent: Callable[[], str | None] | None = None,
    ) -> None:
        """Make a client of the installation with that prefix.

        timeout is the longest call, in seconds, above 0 and at most 10^9. traceparent
        gives the W3C value of the current span, which requests carry into the workers'
        logs. Each call asks once, as it begins. A value is 1 to 256 visible ASCII
        characters; any other is not sent, nor is one if the function raises an
        exception. Joined calls carry the first one's, and prefetchers none. Raises
        BadPrefixError, BadConfigError.
        """
        check_prefix(prefix)
        check_timeout(timeout)
        check_traceparent(traceparent)
        if not callable(getattr(connection, "publish", None)):  # a URL, as a rule
            raise BadConfigError(
                f"bad connection: {type(connection).__name__}, allowed is one of nats.connect"
            )
        self._connection = connection
        self._prefix = prefix
        self._timeout = timeout
        self._traceparent = traceparent
        self._calls = Calls(connection)
        self._coalescer = Coalescer(self._calls)
        self._outages = Outages()
        self._prefetchers: weakref.WeakSet[Prefetcher] = weakref.WeakSet()

    async def next(self, tag: str, *, timeout: float | None = None) -> int:
        """Return a new ID of a tag, from 1 to 2^63−1."""
        return await self._next(self._segment(tag), timeout, current_trace(self._traceparent))

    async def next_n(self, tag: str, n: int, *, timeout: float | None = None) -> IdBatch:
        """Return n new IDs of a tag. The worker's limit is 10,000 by default."""
        return await self._request(self._segment(tag), n, timeout, current_trace(self._traceparent))

    async def snowflake(self, *, timeout: float | None = None) -> int:
        """Return a new snowflake ID."""
        return await self._next(self._snowflakes(), timeout, current_trace(self._traceparent))

    async def snowflake_n(self, n: int, *, timeout: float | None = None) -> IdBatch:
        """Return n new snowflake IDs. The worker's limit is 10,000 by default."""
        return await self._request(self._snowflakes(), n, timeout, current_trace(self._traceparent))

    def prefetch(
        self, tag: str, *, runway: float = 1.0, limit: int = 1_000_000, max_batch: int = 10_000
    ) -> Prefetcher:
        """Make a buffer of a tag's IDs. It requests nothing before its first use.

        runway is how long, in seconds, buffered IDs should last when more are requested:
        0.001 to 3600; above 10 acts as 10. limit is the most IDs buffered or in flight,
        max_batch the most in one request: each 1 to 1,000,000,000. Raises BadTagError,
        BadConfigError.
        """
        return self._prefetch(self._segment(tag), PrefetchConfig(runway, limit, max_batch), impatient=False)

    def prefetch_snowflake(
        self, *, runway: float = 1.0, limit: int = 1_000_000, max_batch: int = 10_000
    ) -> Prefetcher:
        """Make a buffer of snowflake IDs. As prefetch."""
        # A worker refuses a batch that reaches too far ahead of its clock for as long as
        # the batch is that large.
        return self._prefetch(self._snowflakes(), PrefetchConfig(runway, limit, max_batch), impatient=True)

    async def aclose(self) -> None:
        """End all calls and prefetchers with ClosedError. The connection stays.

        Closing it again does nothing.
        """
        self._calls.close()
        if self._connection.is_closed:
            await read_arrived()  # those who wait for a prefetcher get that error, too
        await asyncio.gather(*(prefetcher.aclose() for prefetcher in list(self._prefetchers)))
        link = Link.find(self._connection)
        if link:
            await link.leave()

    def _prefetch(self, subject: str, config: PrefetchConfig, *, impatient: bool) -> Prefetcher:
        async def fetch(n: int, on_transient: Callable[[Why], None]) -> IdBatch:
            hasty = impatient and n > 1
            call = Call(
                self._calls, subject, n, None, prefetched=True, hasty=hasty, on_transient=on_transient
            )
            return IdBatch(await call.run())

        prefetcher = Prefetcher(subject, fetch, config, self._timeout, self._outages)
        self._prefetchers.add(prefetcher)
        return prefetcher

    def _segment(self, tag: str) -> str:
        check_tag(tag)
        return f"{self._prefix}.segment.{tag}"

    def _snowflakes(self) -> str:
        return f"{self._prefix}.snowflake"

    def _deadline(self, timeout: float | None) -> float:
        """Return when a call ends that begins now, as a time of the loop."""
        if timeout is None:
            timeout = self._timeout
        else:
            check_timeout(timeout)
        return asyncio.get_running_loop().time() + timeout

    async def _next(self, subject: str, timeout: float | None, trace: str | None) -> int:
        try:
            id = await self._coalescer.next(subject, self._deadline(timeout), trace)
        except IdworkerError as e:
            self._outages.failed(subject, e)
            raise
        self._succeeded(subject)
        return id

    async def _request(self, subject: str, n: int, timeout: float | None, trace: str | None) -> IdBatch:
        check_count(n)
        call = Call(self._calls, subject, n, self._deadline(timeout), trace=trace)
        try:
            ids = IdBatch(await call.run())
        except IdworkerError as e:
            self._outages.failed(subject, e)
            raise
        self._succeeded(subject)
        return ids

    def _succeeded(self, subject: str) -> None:
        """End the outage, if there was one. Raise ClosedError in a fork: its parent has the same IDs."""
        if self._outages.failing:
            self._outages.succeeded(subject)
        if not self._calls.alive[0]:
            raise ClosedError(f"request {subject}: {OF_PARENT}", subject=subject)
