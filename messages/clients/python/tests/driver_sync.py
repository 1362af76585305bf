"""The driver's operations with clients and prefetchers for threads, which may fork."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

from driver_async import CONNECTION, figures, kill, seconds, traceparent_of
from driver_results import Operations, Taken, hello, ranges_of

from idworker_client import IdworkerError, SyncIdworker, SyncPrefetcher

# Calls of threads reach the loop one by one, so how many share a request is left to chance.
FEATURES = ["threads", "sync", "close", "fork", "statuses", "headerless"]


trace_of_thread = threading.local()
"""The trace of an operation, which is performed in a thread: its value."""


class SyncClients:
    """Clients, which make their connections, and prefetchers, by their names."""

    def __init__(self) -> None:
        self.clients: dict[str, SyncIdworker] = {}
        self.prefetchers: dict[str, SyncPrefetcher] = {}

    def operations(self) -> Operations:
        return {
            "hello": lambda: hello(FEATURES),
            "connect": self.connect,
            "close": self.close,
            "kill_link": self.kill_link,
            "next": self.next,
            "next_n": self.next_n,
            "snowflake": self.snowflake,
            "snowflake_n": self.snowflake_n,
            "many": self.many,
            "prefetch": self.prefetch,
            "take": self.take,
            "buffer": self.buffer,
            "close_prefetch": self.close_prefetch,
            "fork": self.fork,
        }

    def connect(
        self,
        *,
        client: str,
        url: str,
        timeout_ms: float = 5000,
        own: bool = True,  # has no effect: the client always makes its connection
        **options: str,
    ) -> None:
        made = SyncIdworker(
            url,
            timeout=timeout_ms / 1000,
            traceparent=lambda: traceparent_of(getattr(trace_of_thread, "value", None)),
            **options,
            **CONNECTION,
        )
        made.connect()
        self.clients[client] = made

    def close(self, *, client: str) -> None:
        self.clients[client].close()

    def kill_link(self, *, client: str) -> None:
        home = self.clients[client]._home
        assert home and home.connection
        kill(home.connection)

    def next(self, *, client: str, tag: str, timeout_ms: float | None = None) -> dict[str, Any]:
        id = self.clients[client].next(tag, timeout=seconds(timeout_ms))
        return ranges_of([(id, id)])

    def next_n(self, *, client: str, tag: str, n: Any, timeout_ms: float | None = None) -> dict[str, Any]:
        return ranges_of(self.clients[client].next_n(tag, n, timeout=seconds(timeout_ms)).ranges)

    def snowflake(self, *, client: str, timeout_ms: float | None = None) -> dict[str, Any]:
        id = self.clients[client].snowflake(timeout=seconds(timeout_ms))
        return ranges_of([(id, id)])

    def snowflake_n(self, *, client: str, n: Any, timeout_ms: float | None = None) -> dict[str, Any]:
        return ranges_of(self.clients[client].snowflake_n(n, timeout=seconds(timeout_ms)).ranges)

    def many(
        self, *, client: str, tag: str, callers: int, calls: int, timeout_ms: float | None = None
    ) -> dict[str, Any]:
        ids, timeout = self.clients[client], seconds(timeout_ms)
        return at_once(callers, calls, lambda: ids.next(tag, timeout=timeout)).result()

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

    def take(
        self, *, name: str, n: int = 1, callers: int = 1, mode: str = "wait", timeout_ms: float = 5000
    ) -> dict[str, Any]:
        if mode != "wait":
            raise ValueError(f"mode {mode}")
        prefetcher, timeout = self.prefetchers[name], timeout_ms / 1000
        return at_once(callers, n, lambda: prefetcher.take(timeout)).result_of_take()

    def buffer(self, *, name: str) -> dict[str, int]:
        return figures(self.prefetchers[name]._buffer)

    def close_prefetch(self, *, name: str) -> None:
        self.prefetchers[name].close()

    def fork(self, *, name: str, n: int) -> dict[str, Any]:
        """Fork. The child takes n IDs, and sends the result of take by a pipe."""
        prefetcher = self.prefetchers[name]
        source, sink = os.pipe()
        child = os.fork()
        if child == 0:
            signal.alarm(int(2 * PATIENCE))  # it must not outlive the driver
            try:
                taken = at_once(1, n, lambda: prefetcher.take(PATIENCE)).result()
                os.write(sink, json.dumps(taken).encode())
            finally:
                os._exit(0)  # it must not answer operations
        os.close(sink)
        with open(source) as received:
            result: dict[str, Any] = json.load(received)
        os.waitpid(child, 0)
        return result


PATIENCE = 60.0
"""The timeout of takes of a child, in seconds."""


def at_once(callers: int, calls: int, call: Callable[[], int]) -> Taken:
    """Call from so many threads, from each so many times or up to its first error.

    A lone caller is this thread.
    """
    taken = Taken()

    def caller() -> None:
        ids: list[int] = []
        failed = None
        try:
            for _ in range(calls):
                ids.append(call())
        except IdworkerError as error:
            failed = error
        taken.add(ids, failed)

    if callers == 1:
        caller()
        return taken
    threads = [threading.Thread(target=caller) for _ in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return taken
