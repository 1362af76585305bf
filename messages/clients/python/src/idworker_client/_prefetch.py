"""The prefetcher for asyncio."""

from __future__ import annotations

import asyncio
from types import TracebackType

from ._arguments import check_count, check_timeout
from ._buffer import Buffer, Fetch, PrefetchConfig, Why
from ._call import TEXTS, again, read_arrived
from ._errors import (
    BadCountError,
    BufferEmptyError,
    BusyError,
    CallTimeoutError,
    ClosedError,
    IdworkerError,
    Reason,
    UnavailableError,
)
from ._fork import OfOneProcess
from ._log import Outages

AGE_CHECK = 1.0  # s

_REASONS: dict[type[IdworkerError], Reason] = {BusyError: "busy", UnavailableError: "unavailable"}


class Prefetcher(OfOneProcess):
    """A buffer of IDs in this process, which refills itself ahead of its use.

    It belongs to the event loop of its client, and to the process that made it: a
    fork gets ClosedError, never an ID of its parent. IDs only tend to rise, and those
    that are buffered when the process ends are never used. All IDs are dropped when
    some are older than a minute: a copy of the process would use them, too.
    """

    def __init__(
        self, subject: str, fetch: Fetch, config: PrefetchConfig, timeout: float, outages: Outages
    ) -> None:
        """Make an empty one. The timeout is that of waits without one of their own, in seconds.

        Clients call this; see Idworker.prefetch.
        """
        self.buffer = Buffer(config)
        self._subject = subject
        self._fetch = fetch
        self._limit = config.limit
        self._timeout = timeout
        self._outages = outages
        self._loop: asyncio.AbstractEventLoop | None = None  # None before the first use
        self._requests: set[asyncio.Task[None]] = set()
        self._waits: set[asyncio.Future[IdworkerError | None]] = set()
        self._ageing: asyncio.TimerHandle | None = None
        self._failure: IdworkerError | None = None  # of the last request
        self._closed = False

    def take(self) -> int:
        """Return a buffered ID at once.

        Raises BufferEmptyError if none is buffered; its cause is the error of the last
        request, if it failed. A refill has begun then, but no reply is read before the
        caller returns to the event loop: await ready before a loop of takes. Raises
        ClosedError after aclose, and in a fork of the process.
        """
        id = next(self.buffer.current, 0)
        if id and self.buffer.alive[0]:
            return id
        id = self._take()
        if id:
            return id
        self.buffer.waiting += 1
        self._refill()
        self.buffer.waiting -= 1
        if self.buffer.reason:
            self._outages.failed(self._subject, self._timeout_error())
        raise BufferEmptyError(
            f"prefetch {self._subject}: no ID is buffered, await ready(n) before n takes",
            subject=self._subject,
        ) from self._failure

    async def next(self, *, timeout: float | None = None) -> int:
        """Return an ID, buffered or not. It waits at most timeout seconds, by default as long as a call.

        Raises CallTimeoutError, whose reason says why no ID came; ClosedError; and the
        errors of Idworker.next that a retry does not cure.
        """
        id = next(self.buffer.current, 0)
        if id and self.buffer.alive[0]:
            return id
        end = self._end(timeout)
        while True:
            id = self._take()
            if id:
                return id
            await self._wait(1, end)

    async def ready(self, n: int, *, timeout: float | None = None) -> None:
        """Wait until n IDs are buffered, at most the limit. It reserves none of them.

        Raises BadCountError if n is above the limit, and the errors of next.
        """
        check_count(n)
        if n > self._limit:
            raise BadCountError(f"prefetch {self._subject}: bad count: {n}, the limit is {self._limit}")
        end = self._end(timeout)
        self._check()
        self.buffer.discard_if_old()
        while self.buffer.buffered < n:
            await self._wait(n, end)
            self._check()

    async def aclose(self) -> None:
        """End waits with ClosedError. Buffered IDs are never used. Closing again does nothing."""
        if not self.buffer.alive[0]:
            return  # requests and waits are the parent's
        if not self._closed:
            self._closed = True
            self.buffer.discard()
            if self._ageing:
                self._ageing.cancel()
            self._wake(self._closed_error())
        for request in self._requests:
            request.cancel()
        await asyncio.gather(*self._requests, return_exceptions=True)

    async def __aenter__(self) -> Prefetcher:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _take(self) -> int:
        """Return a buffered ID, or 0 if there is none."""
        self._check()
        id = self.buffer.take()
        if id:
            self._refill()
            self._check()  # a signal's handler may have forked
        return id

    def _check(self) -> None:
        """Raise an error unless the prefetcher may be used here."""
        if not self.buffer.alive[0]:
            raise ClosedError(
                f"prefetch {self._subject}: the buffer is that of the parent process, "
                "make a client after the fork, or use SyncIdworker",
                subject=self._subject,
            )
        if self._closed:
            raise self._closed_error()
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        self._loop = self._loop or running
        if not running or running is not self._loop:
            raise RuntimeError(
                f"prefetch {self._subject}: only its event loop may use it, threads have SyncIdworker"
            )

    def _closed_error(self) -> ClosedError:
        return ClosedError(f"prefetch {self._subject}: prefetcher is closed", subject=self._subject)

    def _end(self, timeout: float | None) -> float:
        if timeout is None:
            timeout = self._timeout
        else:
            check_timeout(timeout)
        return asyncio.get_running_loop().time() + timeout

    async def _wait(self, n: int, end: float) -> None:
        """Wait for a reply, while requests for n IDs are in flight. Raise the error that ends the wait."""
        loop = asyncio.get_running_loop()
        if loop.time() >= end:
            late = self._timeout_error()
            self._outages.failed(self._subject, late)
            raise late
        wait: asyncio.Future[IdworkerError | None] = loop.create_future()
        timer = loop.call_at(end, _wake, wait, None)
        self._waits.add(wait)
        self.buffer.waiting += n
        try:
            self._refill()
            error = await wait
            if loop.time() >= end:
                await read_arrived()
        finally:
            timer.cancel()
            self._waits.discard(wait)
            self.buffer.waiting -= n
        if error:
            self._outages.failed(self._subject, error)
            raise error

    def _timeout_error(self) -> CallTimeoutError:
        why = self.buffer.reason or "no_reply"
        if isinstance(why, IdworkerError):
            text, reason = str(why), _REASONS.get(type(why))
        else:
            text, reason = TEXTS[why], why
        error = CallTimeoutError(
            f"prefetch {self._subject}: {text} (deadline exceeded)", subject=self._subject, reason=reason
        )
        error.__cause__ = why if isinstance(why, IdworkerError) else None
        return error

    def _refill(self) -> None:
        for n in self.buffer.refill():
            request = asyncio.create_task(self._request(n))
            self._requests.add(request)
            request.add_done_callback(self._requests.discard)

    async def _request(self, n: int) -> None:
        """Request n IDs, and wake all that wait."""
        try:
            ids = await self._fetch(n, self._note)
        except Exception as e:
            if self._closed:
                return
            if self.buffer.failed(n, e):
                self._failure = e if isinstance(e, IdworkerError) else _unexpected(self._subject, e)
                self._wake(self._failure)
                return
        else:
            if self._closed:
                return
            self.buffer.arrived(n, ids)
            self._failure = None
            if self._outages.failing:
                self._outages.succeeded(self._subject)
            self._age()
            self._wake(None)
        self._refill()

    def _note(self, why: Why) -> None:
        self.buffer.reason = why

    def _wake(self, error: IdworkerError | None) -> None:
        """End all waits."""
        for wait in self._waits:
            _wake(wait, again(error) if error else None)

    def _age(self) -> None:
        """Look at the age of the buffer each second while it holds anything."""
        if not self._ageing:
            self._ageing = asyncio.get_running_loop().call_later(AGE_CHECK, self._drop_old)

    def _drop_old(self) -> None:
        self._ageing = None
        if self.buffer.discard_if_old():
            self._age()


def _wake(wait: asyncio.Future[IdworkerError | None], error: IdworkerError | None) -> None:
    if not wait.done():
        wait.set_result(error)


def _unexpected(subject: str, error: Exception) -> IdworkerError:
    made = IdworkerError(f"prefetch {subject}: {error!r}", subject=subject)
    made.__cause__ = error
    return made
