"""The driver's operations with clients and prefetchers for asyncio."""

from __future__ import annotations

import asyncio
import contextvars
import socket
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import nats
from driver_results import Operations, Taken, hello, ranges_of
from nats.aio.client import Client

from idworker_client import ConnectFailedError, IdBatch, Idworker, IdworkerError, Prefetcher
from idworker_client._buffer import Buffer

T = TypeVar("T")
Call = Callable[[Idworker, "float | None"], Coroutine[Any, Any, T]]
"""A call of a client, with its timeout in seconds."""

FEATURES = ["cancel", "close", "borrow", "coalescing", "ready", "statuses", "headerless"]


async def log(error: Exception) -> None:
    print(repr(error), file=sys.stderr)


CONNECTION: dict[str, Any] = {"reconnect_time_wait": 0.05, "error_cb": log}
ENDLESS = {"allow_reconnect": True, "max_reconnect_attempts": -1}


def kill(connection: Client) -> None:
    """Close a connection's socket, as a broken link does."""
    writer = connection._transport._io_writer  # type: ignore[union-attr]
    try:
        writer.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
    except OSError as error:  # it is closed
        print(repr(error), file=sys.stderr)


trace_of_task: contextvars.ContextVar[str | None] = contextvars.ContextVar("trace", default=None)
"""The trace of an operation, which is performed in a task."""


def traceparent_of(trace: str | None) -> str | None:
    """What a client's option returns, or raises."""
    if trace == "throw":
        raise ValueError("no trace")
    return trace


class AsyncClients:
    """Clients, the connections that they borrow, and prefetchers, by their names."""

    def __init__(self) -> None:
        self.clients: dict[str, Idworker] = {}
        self.connections: dict[str, Client] = {}
        self.prefetchers: dict[str, Prefetcher] = {}
        self.draining: list[asyncio.Task[None]] = []

    def operations(self) -> Operations:
        return {
            "hello": lambda: hello(FEATURES),
            "connect": self.connect,
            "close": self.close,
            "close_connection": self.close_connection,
            "drain": self.drain,
            "kill_link": self.kill_link,
            "next": self.next,
            "next_n": self.next_n,
            "snowflake": self.snowflake,
            "snowflake_n": self.snowflake_n,
            "many": self.many,
            "prefetch": self.prefetch,
            "take": self.take,
            "ready": self.ready,
            "buffer": self.buffer,
            "close_prefetch": self.close_prefetch,
        }

    async def connect(
        self,
        *,
        client: str,
        url: str,
        prefix: str = "ids",
        timeout_ms: float = 5000,
        own: bool = False,  # has no effect: the client never makes its connection
        **options: str,
    ) -> None:
        try:
            # With reconnects, nats-py would not report the failure of the first attempt.
            connection = await nats.connect(url, allow_reconnect=False, **CONNECTION, **options)
        except Exception as error:
            raise ConnectFailedError(str(error) or repr(error)) from error
        connection.options.update(ENDLESS)
        self.connections[client] = connection
        self.clients[client] = Idworker(
            connection,
            prefix=prefix,
            timeout=timeout_ms / 1000,
            traceparent=lambda: traceparent_of(trace_of_task.get()),
        )

    async def close(self, *, client: str) -> None:
        await self.clients[client].aclose()
        await self.close_connection(client=client)

    async def close_connection(self, *, client: str) -> None:
        await self.connections[client].close()

    def drain(self, *, client: str) -> None:
        self.draining.append(asyncio.ensure_future(self.connections[client].drain()))

    def kill_link(self, *, client: str) -> None:
        kill(self.connections[client])

    async def next(self, *, tag: str, **fields: Any) -> dict[str, Any]:
        return await self._one(lambda client, timeout: client.next(tag, timeout=timeout), **fields)

    async def next_n(self, *, tag: str, n: Any, **fields: Any) -> dict[str, Any]:
        return await self._n(lambda client, timeout: client.next_n(tag, n, timeout=timeout), **fields)

    async def snowflake(self, **fields: Any) -> dict[str, Any]:
        return await self._one(lambda client, timeout: client.snowflake(timeout=timeout), **fields)

    async def snowflake_n(self, *, n: Any, **fields: Any) -> dict[str, Any]:
        return await self._n(lambda client, timeout: client.snowflake_n(n, timeout=timeout), **fields)

    async def _one(self, call: Call[int], **fields: Any) -> dict[str, Any]:
        id = await self._call(call, **fields)
        return ranges_of([(id, id)])

    async def _n(self, call: Call[IdBatch], **fields: Any) -> dict[str, Any]:
        return ranges_of((await self._call(call, **fields)).ranges)

    async def _call(
        self, call: Call[T], *, client: str, timeout_ms: float | None = None, cancelled: bool = False
    ) -> T:
        task = asyncio.ensure_future(call(self.clients[client], seconds(timeout_ms)))
        if cancelled:
            task.cancel()
        return await task

    async def many(
        self, *, client: str, tag: str, callers: int, calls: int, timeout_ms: float | None = None
    ) -> dict[str, Any]:
        ids, timeout = self.clients[client], seconds(timeout_ms)
        return (await at_once(callers, calls, lambda: ids.next(tag, timeout=timeout))).result()

    def prefetch(
        self,
        *,
        client: str,
        name: str,
        tag: str | None = None,
        runway_ms: float | None = None,
        **options: int,
    ) -> None:
        ids, all_options = self.clients[client], dict[str, Any](options)
        if runway_ms is not None:
            all_options["runway"] = runway_ms / 1000
        if tag is None:
            self.prefetchers[name] = ids.prefetch_snowflake(**all_options)
        else:
            self.prefetchers[name] = ids.prefetch(tag, **all_options)

    async def take(
        self, *, name: str, n: int = 1, callers: int = 1, mode: str = "wait", timeout_ms: float | None = None
    ) -> dict[str, Any]:
        prefetcher, timeout = self.prefetchers[name], seconds(timeout_ms)

        async def take_now() -> int:
            return prefetcher.take()

        modes = {"wait": lambda: prefetcher.next(timeout=timeout), "now": take_now}
        return (await at_once(callers, n, modes[mode])).result_of_take()

    async def ready(self, *, name: str, n: int, timeout_ms: float | None = None) -> None:
        await self.prefetchers[name].ready(n, timeout=seconds(timeout_ms))

    def buffer(self, *, name: str) -> dict[str, int]:
        return figures(self.prefetchers[name].buffer)

    async def close_prefetch(self, *, name: str) -> None:
        await self.prefetchers[name].aclose()


def figures(buffer: Buffer) -> dict[str, int]:
    """The result of buffer."""
    return {
        "buffered": buffer.buffered,
        "in_flight": buffer.in_flight,
        "target": buffer.target,
        "batch": buffer.batch,
    }


def seconds(ms: float | None) -> float | None:
    return None if ms is None else ms / 1000


def prefetch_options(*, runway_ms: float | None = None, **others: int) -> dict[str, Any]:
    return others if runway_ms is None else {"runway": runway_ms / 1000, **others}


async def at_once(callers: int, calls: int, call: Callable[[], Awaitable[int]]) -> Taken:
    """Call from so many tasks, from each so many times or up to its first error.

    If this is cancelled, it cancels all of them, and returns what they got.
    """

    async def caller() -> tuple[list[int], BaseException | None]:
        ids: list[int] = []
        try:
            for _ in range(calls):
                ids.append(await call())
        except (IdworkerError, asyncio.CancelledError) as error:
            return ids, error
        return ids, None

    tasks = [asyncio.ensure_future(caller()) for _ in range(callers)]
    try:
        await asyncio.wait(tasks)
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    taken = Taken()
    for task in tasks:
        # One that was cancelled before it began has no result.
        taken.add(*(([], asyncio.CancelledError()) if task.cancelled() else task.result()))
    return taken
