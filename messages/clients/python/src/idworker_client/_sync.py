"""The client for threads, and for processes that fork.

All of its state belongs to a thread of its own, which runs the asyncio client.
Other threads take IDs of the range in use, and wait for that thread otherwise. So
there is nothing that a fork or an interrupt could leave half done.
"""

from __future__ import annotations

import _thread
import asyncio
import atexit
import concurrent.futures
import math
import os
import threading
import types
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from time import monotonic
from typing import Any, TypeVar

from nats import errors
from nats.aio.client import Client

from ._arguments import (
    check_count,
    check_prefix,
    check_tag,
    check_timeout,
    check_traceparent,
    current_trace,
)
from ._batch import IdBatch
from ._buffer import Buffer, PrefetchConfig
from ._call import again
from ._client import Idworker
from ._errors import CallTimeoutError, ClosedError, ConnectFailedError, IdworkerError
from ._fork import OfOneProcess, this_process, when_forked
from ._log import Outages
from ._loop import Loop
from ._prefetch import Prefetcher
from ._server import RECONNECT_PAUSE, Server

T = TypeVar("T")

CLOSE_PATIENCE = 2.0  # s; a connection that ends in order takes much less
FORK_CHECK = 1.0  # s
GRACE = 1.0  # s; how much later than a call itself its caller ends it, if the client's thread does not run


class SyncIdworker(OfOneProcess):
    """A client for any number of threads, and for processes that fork.

    It makes its connection at the first call, in a thread of its own, so that a
    server may make it before it forks. A forked child makes its own connection and
    never uses an ID that its parent buffered. options are those of nats.connect,
    such as user, password, user_credentials, tls, inbox_prefix. If not told
    otherwise, it reconnects without end.

    Calls raise the errors of Idworker, and ConnectFailedError: at once if a server
    refuses the login, else after as many attempts as the call has time for.
    """

    def __init__(
        self,
        url: str | list[str] = "nats://127.0.0.1:4222",
        *,
        prefix: str = "ids",
        timeout: float = 5.0,
        traceparent: Callable[[], str | None] | None = None,
        **options: Any,
    ) -> None:
        """Make a client of the installation with that prefix. Nothing is connected yet.

        timeout is the longest call, in seconds, above 0 and at most 10^9. traceparent is
        as for Idworker; it is called in the thread that makes a call. Raises
        BadPrefixError, BadConfigError.
        """
        check_prefix(prefix)
        check_timeout(timeout)
        check_traceparent(traceparent)
        self._server = Server(url, options)
        self._prefix = prefix
        self._timeout = timeout
        self._traceparent = traceparent
        self._home: _Home | None = None  # that of this process or, after a fork, of its parent
        self._closed = False

    def connect(self) -> None:
        """Connect now instead of at the first call. Raises ConnectFailedError if that fails once.

        A connected client does nothing.
        """

        async def wait(home: _Home) -> None:
            await home.connect()

        self._run(wait)

    def next(self, tag: str, *, timeout: float | None = None) -> int:
        """Return a new ID of a tag, from 1 to 2^63−1."""
        check_tag(tag)
        return self._one(self._segment(tag), timeout)

    def next_n(self, tag: str, n: int, *, timeout: float | None = None) -> IdBatch:
        """Return n new IDs of a tag. The worker's limit is 10,000 by default."""
        check_tag(tag)
        return self._many(self._segment(tag), n, timeout)

    def snowflake(self, *, timeout: float | None = None) -> int:
        """Return a new snowflake ID."""
        return self._one(self._snowflakes(), timeout)

    def snowflake_n(self, n: int, *, timeout: float | None = None) -> IdBatch:
        """Return n new snowflake IDs."""
        return self._many(self._snowflakes(), n, timeout)

    def prefetch(
        self, tag: str, *, runway: float = 1.0, limit: int = 1_000_000, max_batch: int = 10_000
    ) -> SyncPrefetcher:
        """Make a buffer of a tag's IDs. It requests nothing before its first take. As Idworker.prefetch."""
        check_tag(tag)
        config = PrefetchConfig(runway, limit, max_batch)
        return SyncPrefetcher(
            self,
            self._segment(tag),
            config,
            lambda client: client.prefetch(tag, runway=runway, limit=limit, max_batch=max_batch),
        )

    def prefetch_snowflake(
        self, *, runway: float = 1.0, limit: int = 1_000_000, max_batch: int = 10_000
    ) -> SyncPrefetcher:
        """Make a buffer of snowflake IDs. As prefetch."""
        config = PrefetchConfig(runway, limit, max_batch)
        return SyncPrefetcher(
            self,
            self._snowflakes(),
            config,
            lambda client: client.prefetch_snowflake(runway=runway, limit=limit, max_batch=max_batch),
        )

    def close(self) -> None:
        """End all calls with ClosedError, and close the connection. Closing it again does nothing."""
        self._closed = True
        with this_process().lock:
            home = self._home
        if home and home.process.alive[0]:
            home.close()

    def __enter__(self) -> SyncIdworker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _segment(self, tag: str) -> str:
        return f"{self._prefix}.segment.{tag}"

    def _snowflakes(self) -> str:
        return f"{self._prefix}.snowflake"

    def _one(self, subject: str, timeout: float | None) -> int:
        trace = current_trace(self._traceparent)
        return self._call(subject, lambda client, left: client._next(subject, left, trace), timeout)

    def _many(self, subject: str, n: int, timeout: float | None) -> IdBatch:
        check_count(n)
        trace = current_trace(self._traceparent)
        return self._call(subject, lambda client, left: client._request(subject, n, left, trace), timeout)

    def _call(
        self, subject: str, call: Callable[[Idworker, float], Awaitable[T]], timeout: float | None
    ) -> T:
        """Make a call of the asyncio client, which gets the time that is left."""
        if timeout is None:
            timeout = self._timeout
        else:
            check_timeout(timeout)

        async def run(home: _Home) -> T:
            loop = asyncio.get_running_loop()
            end = loop.time() + timeout
            client = await home.client(subject, end)
            return await call(client, max(end - loop.time(), 0.001))

        return self._run(run, subject, timeout + GRACE)

    def _run(
        self,
        make: Callable[[_Home], Coroutine[Any, Any, T]],
        subject: str | None = None,
        patience: float = math.inf,
    ) -> T:
        """Run a coroutine in the client's thread, and wait for it at most so many seconds."""
        while True:
            home = self._at_home()
            end = monotonic() + patience
            future = home.start(make)
            try:
                # A signal's handler may fork during a wait: the result is the parent's then.
                while home.process.alive[0] and not future.done():
                    with suppress(concurrent.futures.TimeoutError, concurrent.futures.CancelledError):
                        future.exception(FORK_CHECK)
                    if monotonic() >= end and not future.done():
                        what = f"request {subject}: " if subject else ""
                        raise CallTimeoutError(
                            f"{what}the client's thread does not run (deadline exceeded)", subject=subject
                        )
                if home.process.alive[0]:
                    return future.result()
            except concurrent.futures.CancelledError:
                raise ClosedError("client is closed") from None
            except BaseException:
                future.cancel()
                raise

    def _run_if_at_home(self, make: Callable[[_Home], Coroutine[Any, Any, None]]) -> None:
        """Run a coroutine in the client's thread, if it runs."""
        home = self._home
        if home and home.process.alive[0]:
            with suppress(ClosedError, CallTimeoutError):
                self._run(make, patience=4 * CLOSE_PATIENCE)

    def _at_home(self) -> _Home:
        process = this_process()
        with process.lock:
            if self._closed:
                raise ClosedError("client is closed")
            if not self._home or self._home.process is not process:
                _check_thread()
                self._home = _Home(self._server, self._prefix, self._timeout)
                try:
                    self._home.begin()
                except ClosedError:
                    self._home = None  # the next call tries again
                    raise
            return self._home


class SyncPrefetcher(OfOneProcess):
    """A buffer of IDs in this process for any number of threads.

    A fork has none of its parent's IDs: its first take requests IDs of its own.
    """

    def __init__(
        self,
        client: SyncIdworker,
        subject: str,
        config: PrefetchConfig,
        make: Callable[[Idworker], Prefetcher],
    ) -> None:
        """Make an empty one. Clients call this; see SyncIdworker.prefetch."""
        self._buffer = Buffer(config)  # empty before the first take
        self._client = client
        self._subject = subject
        self._make = make
        self._made: tuple[Idworker, Prefetcher] | None = None
        self._closed = False

    def take(self, timeout: float = 5.0) -> int:
        """Return an ID, which is buffered as a rule; wait for one at most timeout seconds.

        Raises CallTimeoutError, whose reason says why no ID came; ClosedError; and the
        errors of SyncIdworker.next that come at once.
        """
        buffer = self._buffer
        # In one step: the iterator of a range is C code, which keeps the GIL. Without a
        # GIL there is a lock in it.
        id = next(buffer.current, 0)
        if id and buffer.alive[0]:
            return id
        if self._closed:
            raise self._closed_error()
        return self._client._call(self._subject, self._take, timeout)

    def close(self) -> None:
        """End waits with ClosedError. Buffered IDs are never used. Closing it again does nothing."""
        self._closed = True
        self._client._run_if_at_home(self._close)

    def _closed_error(self) -> ClosedError:
        return ClosedError(f"prefetch {self._subject}: prefetcher is closed", subject=self._subject)

    async def _take(self, client: Idworker, left: float) -> int:
        if self._closed:
            raise self._closed_error()
        if not self._made or self._made[0] is not client:
            self._made = client, self._make(client)
            self._buffer = self._made[1].buffer
        return await self._made[1].next(timeout=left)

    async def _close(self, _: _Home) -> None:
        if self._made:
            await self._made[1].aclose()


class _Home:
    """The thread, event loop and connection of a client in one process."""

    def __init__(self, server: Server, prefix: str, timeout: float) -> None:
        self.process = this_process()
        self.connection: Client | None = None
        self._server = server
        self._prefix = prefix
        self._timeout = timeout
        self._client: Idworker | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._outages = Outages()
        self._lock = threading.RLock()  # nothing is started once the end was asked for
        self._ends = False
        self._loop: Loop | None = None  # made by its thread, to which gevent binds it
        self._begun = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="idworker", daemon=True)

    def begin(self) -> None:
        """Start the thread."""
        _homes.add(self)
        try:
            self._thread.start()
        except RuntimeError as e:
            _homes.discard(self)
            self._ends = True
            self._begun.set()
            raise ClosedError(f"client has no thread: {e}") from e

    def start(self, make: Callable[[_Home], Coroutine[Any, Any, T]]) -> concurrent.futures.Future[T]:
        """Start a coroutine in this thread."""
        if threading.get_ident() == self._thread.ident:
            raise IdworkerError("the client's own thread would wait for itself")
        # A greenlet's event would refuse another thread that waits for it.
        while not (self._begun.is_set() or self._begun.wait(FORK_CHECK)) and self.process.alive[0]:
            pass
        with self._lock:
            if self._ends or not self._loop:
                raise ClosedError("client is closed")
            return asyncio.run_coroutine_threadsafe(make(self), self._loop)

    def close(self, patience: float = 4 * CLOSE_PATIENCE) -> None:
        """End all calls and the connection, and wait for that, at most so many seconds."""
        if not self._begun.is_set():
            self._begun.wait(patience)
        with self._lock:
            if not self._ends and self._loop:
                self._loop.call_soon_threadsafe(self._end.set)
            self._ends = True
        if threading.get_ident() != self._thread.ident:
            self._thread.join(patience)

    def _serve(self) -> None:
        self._end = asyncio.Event()
        self._loop = Loop()
        self._begun.set()
        try:
            self._loop.run(self._live())
        finally:
            self._loop.close()
            _homes.discard(self)

    async def _live(self) -> None:
        await self._end.wait()
        if self._connecting:
            self._connecting.cancel()
        if self._client:
            await self._client.aclose()
        if self.connection:
            with suppress(Exception, asyncio.CancelledError):  # as in Server.connect
                await asyncio.wait_for(self._server.close(self.connection), CLOSE_PATIENCE)
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        if rest:
            await asyncio.wait(rest, timeout=CLOSE_PATIENCE)
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    async def client(self, subject: str, end: float) -> Idworker:
        """Return the client, when it is connected. end is a time of the loop."""
        try:
            return await self._await_client(subject, end)
        except IdworkerError as e:
            self._outages.failed(subject, e)
            raise

    async def _await_client(self, subject: str, end: float) -> Idworker:
        loop = asyncio.get_running_loop()
        failed: ConnectFailedError | None = None
        while True:
            if self._client and self._is_connected():
                return self._client
            try:
                await asyncio.wait_for(self.connect(), end - loop.time())
            except asyncio.TimeoutError:
                if failed:  # says why there is no connection
                    raise failed from failed.__cause__
                raise CallTimeoutError(
                    f"request {subject}: disconnected (deadline exceeded after 0 tries)",
                    subject=subject,
                    reason="disconnected",
                ) from None
            except ConnectFailedError as e:
                failed = ConnectFailedError(f"request {subject}: {e}", subject=subject)
                failed.__cause__ = e.__cause__
                refused = isinstance(e.__cause__, errors.Error)
                if refused or loop.time() + RECONNECT_PAUSE >= end:
                    raise failed from e.__cause__
                await asyncio.sleep(RECONNECT_PAUSE)

    async def connect(self) -> None:
        """Connect, once for all callers, unless a connection is there."""
        if self._ends:
            raise ClosedError("client is closed")
        if self._is_connected():
            return
        if not self._connecting:
            self._connecting = asyncio.create_task(self._connect())
        connecting = self._connecting
        await asyncio.wait({connecting})
        if connecting.cancelled():
            raise ClosedError("client is closed")
        error = connecting.exception()
        if error:
            raise again(error) if isinstance(error, IdworkerError) else error

    def _is_connected(self) -> bool:
        """Whether a connection is there. nats-py connects it again when it is lost."""
        return self.connection is not None and not self.connection.is_closed

    async def _connect(self) -> None:
        try:
            if self._client:  # nats-py closed its connection for good
                await self._client.aclose()
            self.connection = await self._server.connect()
            self._client = Idworker(self.connection, prefix=self._prefix, timeout=self._timeout)
            self._client._outages = self._outages
        finally:
            self._connecting = None

    def abandon(self) -> None:
        """Leave all of it to the parent process."""
        if self._loop:
            self._loop.abandon()


def _check_thread() -> None:
    """Refuse a native thread where threads are greenlets.

    The client's thread would be a greenlet of that thread, which others can not wait
    for, and which stands still whenever that thread does not run greenlets.
    """
    if isinstance(_thread.start_new_thread, types.BuiltinFunctionType):
        return
    # Linux gives the main thread the number of its process. Python's main thread has its parent's in forks.
    if threading.get_native_id() not in (os.getpid(), this_process().thread):
        raise IdworkerError(
            "threads are greenlets here, but the first call comes from a native thread:"
            " make the first call, or connect(), in the main thread"
        )


_homes: set[_Home] = set()
_inherited: list[_Home] = []  # kept as they are: their tasks would run on to their end


def _abandon_all() -> None:
    inherited = list(_homes)
    _homes.clear()
    _inherited.extend(inherited)
    for home in inherited:
        home.abandon()


def _close_all() -> None:
    for home in list(_homes):
        home.close(2 * CLOSE_PATIENCE)


when_forked.append(_abandon_all)
atexit.register(_close_all)
