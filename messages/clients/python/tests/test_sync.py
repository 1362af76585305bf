"""The client for threads."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest
from installation import PATIENCE, eventually
from nats.aio.client import Client
from scripted import Server

from idworker_client import (
    BadConfigError,
    BadCountError,
    BadPrefixError,
    BadTagError,
    CallTimeoutError,
    ClosedError,
    ConnectFailedError,
    Idworker,
    IdworkerError,
    SyncIdworker,
)


def client(server: Server, **options: Any) -> SyncIdworker:
    """A client whose calls only a hang ends."""
    return SyncIdworker(server.url, **{"timeout": PATIENCE, **options})


def in_threads(n: int, work: Callable[[], Any]) -> list[Any]:
    """Return what work returns or raises in each of n threads."""
    results: list[Any] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as e:
            results.append(e)

    threads = [threading.Thread(target=run) for _ in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def own_threads() -> int:
    return sum(thread.name == "idworker" for thread in threading.enumerate())


def test_nothing_is_connected_before_the_first_call() -> None:
    with Server() as server, client(server) as ids:
        orders = ids.prefetch("order")
        assert own_threads() == 0
        assert not server.connections
        assert orders.take(PATIENCE) == 1
        assert own_threads() == len(server.connections) == 1


def test_threads_take_each_id_once() -> None:
    with Server() as server, client(server) as ids:
        orders = ids.prefetch("order")
        taken = in_threads(8, lambda: [orders.take(PATIENCE) for _ in range(125_000)])
        assert len({id for mine in taken for id in mine}) == 1_000_000
        assert len(server.requests) < 10_000


def test_snowflake_ids_are_prefetched() -> None:
    with Server() as server, client(server) as ids:
        flakes = ids.prefetch_snowflake()
        assert len({flakes.take(PATIENCE) for _ in range(1000)}) == 1000
        assert {request.subject for request in server.requests} == {"ids.snowflake"}


def test_a_wrong_password_fails_at_once() -> None:
    with Server() as server:
        for _ in range(2):
            ids = client(server, user="app", password="wrong")
            with pytest.raises(ConnectFailedError) as raised:
                ids.prefetch("order").take(PATIENCE)
            address = server.url.removeprefix("nats://")
            assert (
                str(raised.value)
                == f"request ids.segment.order: connect to {address}: Authorization Violation"
            )
            assert raised.value.retryable
            with pytest.raises(ConnectFailedError):
                ids.connect()
            ids.close()


def test_no_server_fails_when_the_time_is_over() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"127.0.0.1:{closed.getsockname()[1]}"
    with SyncIdworker(f"nats://app:secret@{address}") as ids:
        with pytest.raises(
            ConnectFailedError, match=rf"^connect to {address}: .*refused|Connect call failed"
        ) as raised:
            ids.connect()
        assert "secret" not in str(raised.value)
        with pytest.raises(ConnectFailedError, match=rf"^request ids.segment.order: connect to {address}: "):
            ids.next("order", timeout=2)


def test_a_call_waits_for_a_server_that_starts() -> None:
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    ids = SyncIdworker(f"nats://127.0.0.1:{port}", timeout=PATIENCE)
    started: list[Server] = []
    timer = threading.Timer(0.5, lambda: started.append(Server(port)))
    timer.start()
    assert ids.next("order") == 1
    ids.close()
    started[0].close()


def test_a_prefetcher_closed_before_its_client_is_connected_takes_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    with SyncIdworker(f"nats://127.0.0.1:{port}", timeout=PATIENCE) as ids, ThreadPoolExecutor(1) as thread:
        orders = ids.prefetch("order")
        take = thread.submit(orders.take, PATIENCE)
        eventually("it connects", lambda: ids._home is not None)
        ids._run_if_at_home(orders._close)  # after the take has begun
        orders.close()
        with Server(port):
            assert ids.next("order") == 1
            with pytest.raises(ClosedError):
                take.result()


def test_one_of_two_servers_is_enough() -> None:
    with Server() as server, socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"nats://127.0.0.1:{closed.getsockname()[1]}"
        closed.close()
        with SyncIdworker([address, server.url], timeout=PATIENCE, dont_randomize=True) as ids:
            assert ids.next("order") == 1


def test_bad_arguments_are_refused_before_anything_is_connected() -> None:
    with Server() as server, client(server) as ids:
        for call, kind in (
            (lambda: SyncIdworker(prefix="A"), BadPrefixError),
            (lambda: SyncIdworker(timeout=0), BadConfigError),
            (lambda: SyncIdworker(traceparent=cast("Any", "00-1-2-01")), BadConfigError),
            (lambda: SyncIdworker([]), BadConfigError),
            (lambda: SyncIdworker(""), BadConfigError),
            (lambda: SyncIdworker(cast("Any", None)), BadConfigError),
            (lambda: SyncIdworker("http://127.0.0.1:4222"), BadConfigError),
            (lambda: Idworker(cast("Any", "nats://127.0.0.1:4222")), BadConfigError),
            (lambda: SyncIdworker(urls="nats://127.0.0.1"), BadConfigError),
            (lambda: SyncIdworker(servers="nats://127.0.0.1"), BadConfigError),
            (lambda: ids.next("a b"), BadTagError),
            (lambda: ids.next_n("order", 0), BadCountError),
            (lambda: ids.snowflake_n(2**63), BadCountError),
            (lambda: ids.next("order", timeout=-1), BadConfigError),
            (lambda: ids.prefetch("a b"), BadTagError),
            (lambda: ids.prefetch("order", limit=0), BadConfigError),
            (lambda: ids.prefetch("order").take(0), BadConfigError),
        ):
            with pytest.raises(kind, match="allowed"):
                call()
        assert not server.connections


def test_a_bad_option_is_named() -> None:
    with pytest.raises(BadConfigError, match=r"^bad option: 'usr', allowed are those of nats\.connect$"):
        SyncIdworker(usr="app")


def test_an_option_of_a_wrong_type_is_not_tried_again() -> None:
    with (
        Server() as server,
        client(server, max_reconnect_attempts="many") as ids,
        pytest.raises(BadConfigError, match=r"^bad option of nats\.connect: "),
    ):
        ids.next("order")


def test_options_reach_the_connection() -> None:
    with (
        Server() as server,
        client(server, user="app", password="right", name="shop", inbox_prefix="_IN.app") as ids,
    ):
        ids.next("order")
        assert server.connections[0].login["user"] == "app"
        assert server.connections[0].login["name"] == "shop"
        assert server.requests[0].reply.startswith("_IN.app.")


def test_a_trace_is_that_of_the_calling_thread() -> None:
    with Server() as server, client(server, traceparent=lambda: threading.current_thread().name) as ids:
        calls: list[Callable[[], object]] = [
            lambda: ids.next("order"),
            lambda: ids.next_n("order", 2),
            ids.snowflake,
            lambda: ids.snowflake_n(2),
        ]
        for i, call in enumerate(calls):
            thread = threading.Thread(target=call, name=f"thread-{i}")
            thread.start()
            thread.join()
        ids.prefetch("order").take()
        sent = re.findall(rb"NATS/1\.0\r\n(.*?)\r\n\r\n", server.connections[0].received, re.DOTALL)
        # A set, since a request may be sent again.
        assert set(sent) == {b"traceparent: thread-%d" % i for i in range(4)} | {b"Ids-Prefetch: 1"}


def test_an_interrupt_ends_a_wait() -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with Server() as server, client(server) as ids:
        orders = ids.prefetch("order")
        server.respond = server.silent
        before = signal.signal(signal.SIGUSR1, interrupt)
        main = threading.get_ident()

        def send() -> None:
            server.await_requests(1)
            signal.pthread_kill(main, signal.SIGUSR1)

        try:
            thread = threading.Thread(target=send)
            thread.start()
            with pytest.raises(KeyboardInterrupt):
                orders.take(100 * PATIENCE)
            thread.join()
        finally:
            signal.signal(signal.SIGUSR1, before)
        eventually("no wait is left", lambda: orders._buffer.waiting == 0)
        server.respond = server.grant
        assert orders.take(PATIENCE) > 0


def test_closing_a_prefetcher_ends_takes() -> None:
    with Server() as server, client(server) as ids:
        orders = ids.prefetch("order")
        orders.close()
        assert not server.connections, "it was not in use"
        orders = ids.prefetch("order")
        orders.take(PATIENCE)
        server.respond = server.silent
        ended: list[Any] = []
        takes = threading.Thread(
            target=lambda: ended.extend(in_threads(5, lambda: [orders.take(PATIENCE) for _ in range(10**6)]))
        )
        takes.start()
        eventually("all threads wait", lambda: orders._buffer.waiting == 5)
        orders.close()
        takes.join()
        assert [str(e) for e in ended] == ["prefetch ids.segment.order: prefetcher is closed"] * 5
        with pytest.raises(ClosedError):
            orders.take()
        orders.close()
        server.respond = server.grant
        assert ids.next("order") > 0, "the client goes on"


def test_closing_a_client_ends_all() -> None:
    with Server() as server:
        ids = client(server)
        orders = ids.prefetch("order")
        while orders._buffer.buffered < 10:
            orders.take(PATIENCE)
        server.respond = server.silent
        before = len(server.requests)
        ended: list[Any] = []
        calls = threading.Thread(target=lambda: ended.extend(in_threads(5, lambda: ids.next_n("order", 2))))
        calls.start()
        server.await_requests(before + 5)
        ids.close()
        calls.join()
        assert [type(e) for e in ended] == [ClosedError] * 5
        for call in (orders.take, lambda: ids.next("order"), ids.connect):
            with pytest.raises(ClosedError):
                call()
        eventually("the connection is closed", lambda: server.connections[0].ended)
        ids.close()
        assert own_threads() == 0


def test_connecting_again_disturbs_nothing() -> None:
    with Server() as server, client(server) as ids:
        ids.connect()
        server.respond = server.silent
        results: list[Any] = []
        thread = threading.Thread(target=lambda: results.extend(in_threads(1, lambda: ids.next("order"))))
        thread.start()
        server.await_requests(1)
        ids.connect()
        server.respond = server.grant
        thread.join()
        assert results == [1]
        assert len(server.connections) == 1


def test_a_connection_that_nats_gives_up_is_made_again() -> None:
    with Server() as server, client(server) as ids:
        orders = ids.prefetch("order")
        taken = [orders.take(PATIENCE)]
        server.connections[0].send(b"-ERR 'Maximum Subscriptions Exceeded'\r\n")
        eventually("nats-py has closed it", lambda: server.connections[0].ended)
        taken += [ids.next("order"), *(orders.take(PATIENCE) for _ in range(100))]
        assert len(set(taken)) == 102
        assert len(server.connections) == 2


def test_the_own_thread_does_not_wait_for_itself() -> None:
    raised: list[BaseException] = []

    with Server() as server:

        async def lost() -> None:
            try:
                ids.next("order")
            except IdworkerError as e:
                raised.append(e)

        ids = client(server, disconnected_cb=lost)
        ids.next("order")
        server.connections[0].cut()
        ids.next("order")
        eventually("the callback ran", lambda: bool(raised))
        assert "the client's own thread would wait for itself" in str(raised[0])
        ids.close()


SCRIPTS = {
    "used": "orders.take()",
    "closed": "orders.take(); ids.close()",
    "waiting": """
        import threading
        def take():
            try:
                orders.take(100)
            except ClosedError:
                print("closed")
        takers += [threading.Thread(target=take, daemon=True) for _ in range(3)]
        for taker in takers:
            taker.start()
        while not ids._home or orders._buffer.waiting < 3:
            pass
        """,
    "forked": """
        orders.take()
        if os.fork() == 0:
            orders.take()
            sys.exit()
        os.wait()
        """,
    "forked and idle": """
        orders.take()
        if os.fork() == 0:
            sys.exit()
        os.wait()
        """,
    "taken at exit": """
        import atexit
        orders.take()
        atexit.register(lambda: print(orders.take()))
        """,
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_process_ends_without_a_word(script: str) -> None:
    with Server() as server:
        if script == "waiting":
            server.respond = server.silent
        head = f"""
import atexit, os, sys
takers = []
# Python stops threads as they are. This runs after the client's end, which was registered later.
atexit.register(lambda: [taker.join() for taker in takers])
from idworker_client import ClosedError, SyncIdworker
ids = SyncIdworker("{server.url}", timeout={PATIENCE})
orders = ids.prefetch("order")
"""
        ended = subprocess.run(
            [
                sys.executable,
                "-W",
                "always::ResourceWarning",
                "-W",
                "ignore::DeprecationWarning",
                "-c",
                head + textwrap.dedent(SCRIPTS[script]),
            ],
            capture_output=True,
            timeout=PATIENCE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert ended.stderr.decode() == ""
        assert ended.stdout.count(b"closed") == (3 if script == "waiting" else 0)
        assert ended.returncode == 0


def test_a_call_ends_although_the_own_thread_does_not_run() -> None:
    runs = threading.Event()
    with Server() as server, client(server) as ids:
        ids.connect()
        assert ids._home and ids._home._loop
        ids._home._loop.call_soon_threadsafe(runs.wait, PATIENCE)
        try:
            with pytest.raises(CallTimeoutError, match="the client's thread does not run"):
                ids.next("order", timeout=0.1)
            with pytest.raises(CallTimeoutError, match="does not run"):
                ids.prefetch("order").take(0.1)
        finally:
            runs.set()
        assert ids.next("order") > 0


def test_a_close_that_nats_py_cancels_ends_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its reader may be cancelled while it waits for the socket, and with it what close waits for."""
    ended: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", ended.append)

    async def close(_: Client) -> None:
        raise asyncio.CancelledError

    with Server() as server:
        ids = SyncIdworker(server.url, timeout=PATIENCE)
        ids.next("order")
        monkeypatch.setattr(Client, "close", close)
        ids.close()
    assert ended == []
