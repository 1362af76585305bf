"""Forks of a process that uses the client for threads: no ID twice, and no harm to the parent."""

from __future__ import annotations

import asyncio
import gc
import json
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any, cast
from unittest import mock

import pytest
from installation import PATIENCE, Installation, eventually
from scripted import Request, Server
from virtual import FakeConnection

from idworker_client import ClosedError, Idworker, SyncIdworker, SyncPrefetcher, _fork, _sync

IDS = list[int]

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")


class Child:
    """A forked child, which returns IDs and ends."""

    def __init__(self, work: Callable[[], IDS]) -> None:
        read, write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            signal.alarm(int(PATIENCE))  # which kills it
            os.close(read)
            with os.fdopen(write, "w") as pipe:
                try:
                    json.dump(work(), pipe)
                except BaseException as e:
                    json.dump(repr(e), pipe)
            os._exit(0)
        os.close(write)
        self._pipe = os.fdopen(read)

    def ids(self) -> IDS:
        """Wait for its end, and return its IDs."""
        with self._pipe:
            said = self._pipe.read()
        _, status = os.waitpid(self.pid, 0)
        ids = json.loads(said)
        assert isinstance(ids, list), ids
        assert status == 0
        return ids


def client(server: Server) -> SyncIdworker:
    return SyncIdworker(server.url, timeout=PATIENCE)


def flush(ids: SyncIdworker) -> None:
    """Wait until the server has read all that was sent: the last request may have been sent again."""

    async def ping(home: _sync._Home) -> None:
        assert home.connection
        await home.connection.flush(int(PATIENCE))

    ids._run(ping)


def assert_each_once(*taken: IDS) -> None:
    all_ids = [id for ids in taken for id in ids]
    assert len(set(all_ids)) == len(all_ids)


def test_a_child_takes_ids_of_its_own() -> None:
    with Server() as server, client(server) as ids:
        orders = ids.prefetch("order")

        def take(n: int = 500) -> IDS:
            return [orders.take(PATIENCE) for _ in range(n)]

        taken = [take(2000)]
        assert orders._buffer.buffered > 0
        for _ in range(2):
            child = Child(take)
            taken += [take(), child.ids(), take()]
        assert_each_once(*taken)
        assert len({request.reply.rpartition(".")[0] for request in server.requests}) == 3, "inboxes"
        assert not server.connections[0].ended


def test_a_child_begins_with_an_empty_buffer_and_a_target_of_one() -> None:
    with Server() as server, client(server) as ids:
        orders = ids.prefetch("order")
        for _ in range(2000):
            orders.take(PATIENCE)
        eventually("no request is in flight", lambda: orders._buffer.in_flight == 0)
        flush(ids)
        before = len(server.requests)
        granted = server.granted
        assert Child(lambda: [orders.take(PATIENCE)]).ids()[0] > granted
        assert server.requests[before].n == 1


def test_a_child_of_a_child_takes_ids_of_its_own() -> None:
    with Server() as server, client(server) as ids:
        orders = ids.prefetch("order")

        def take(depth: int) -> IDS:
            taken = [orders.take(PATIENCE) for _ in range(300)]
            if depth:
                child = Child(lambda: take(depth - 1))
                taken += [orders.take(PATIENCE) for _ in range(300)]
                taken += child.ids()
            return taken

        assert_each_once(take(3))


def test_calls_work_in_a_child_and_its_parent() -> None:
    with Server() as server, client(server) as ids:
        taken = [ids.next("order")]
        child = Child(lambda: [ids.next("order"), ids.snowflake(), *ids.next_n("order", 10)])
        taken += [ids.next("order"), *child.ids()]
        assert_each_once(taken)
        assert len(taken) == 14


def test_a_parent_may_make_the_client_and_never_use_it() -> None:
    with Server() as server, client(server) as ids:
        orders = ids.prefetch("order")
        children = [Child(lambda: [orders.take(PATIENCE) for _ in range(100)]) for _ in range(3)]
        assert_each_once(*(child.ids() for child in children))
        assert len(server.connections) == 3


def test_a_child_does_not_read_the_reply_to_its_parent() -> None:
    with Server() as server, client(server) as ids:
        ids.next("order")
        held: list[Request] = []
        server.respond = held.append
        orders = ids.prefetch("held")
        with ThreadPoolExecutor(1) as thread:
            wait = thread.submit(orders.take, PATIENCE)
            eventually("the request", lambda: bool(held))
            inherited, held[:] = held[:], []
            server.respond = lambda r: server.silent(r) if r.reply == inherited[0].reply else server.grant(r)

            def take() -> IDS:
                return [orders.take(PATIENCE) for _ in range(50)]

            child = Child(take)
            childs = child.ids()
            server.grant(inherited[0])
            assert_each_once(childs, [wait.result()])


@pytest.mark.parametrize("does", ["nothing", "take", "collect", "say goodbye", "close"])
def test_a_child_says_nothing_on_its_parents_connection(does: str) -> None:
    with Server() as server, client(server) as ids:
        orders = ids.prefetch("order")
        orders.take(PATIENCE)
        parents = server.connections[0]
        eventually("no request is in flight", lambda: orders._buffer.in_flight == 0)
        ids.next("order")  # nothing is under way
        flush(ids)
        received = parents.received

        def run() -> IDS:
            if does == "take":
                return [orders.take(PATIENCE)]
            if does == "collect":
                _sync._inherited.clear()
                ids._home = None
                gc.collect()
            if does == "say goodbye":  # as StreamWriter does in some versions when it is collected
                assert ids._home
                assert ids._home.connection
                assert ids._home.connection._transport
                ids._home.connection._transport.write(b"PING\r\n")
                ids._home.connection._transport.close()  # type: ignore[no-untyped-call]
            if does == "close":
                orders.close()
                ids.close()
            return []

        Child(run).ids()
        assert parents.received == received
        assert not parents.ended
        assert ids.next("order") > 0, "its epoll still has the socket"
        assert len(server.connections) == (2 if does == "take" else 1)


def test_the_server_learns_of_the_parents_end_while_a_child_lives() -> None:
    with Server() as server:
        ids = client(server)
        ids.next("order")
        read, write = os.pipe()
        child = Child(lambda: [len(os.read(read, 1))])
        ids.close()
        eventually("the connection has ended", lambda: server.connections[0].ended)
        os.write(write, b"x")
        child.ids()
        os.close(read)
        os.close(write)


def test_a_fork_while_other_threads_hold_locks() -> None:
    with Server() as server, client(server) as ids:
        orders = ids.prefetch("order")
        taken: list[IDS] = []
        stop = threading.Event()

        def work() -> None:
            mine = []
            while not stop.is_set():
                mine.append(orders.take(PATIENCE))
                mine.append(ids.next("order"))
            taken.append(mine)

        def hold() -> None:
            assert ids._home
            with _fork.this_process().lock, ids._home._lock:
                holds.set()
                released.wait()

        ids.connect()
        holds, released = threading.Event(), threading.Event()
        holder = threading.Thread(target=hold)
        holder.start()
        holds.wait()
        children = [Child(lambda: [orders.take(PATIENCE)])]
        released.set()
        holder.join()
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(20):
            server.await_requests(len(server.requests) + 5)
            children.append(Child(lambda: [orders.take(PATIENCE), ids.next("order"), orders.take(PATIENCE)]))
        taken += [child.ids() for child in children]
        stop.set()
        for thread in threads:
            thread.join()
        assert_each_once(*taken)


def test_a_fork_in_the_middle_of_a_take() -> None:
    """The handler of a signal forks while the take waits, and each process goes on with it."""
    with Server() as server, client(server) as ids:
        orders = ids.prefetch("order")
        ids.next("order")
        held: list[Request] = []
        server.respond = held.append
        main = threading.get_ident()
        read, write = os.pipe()
        forked: list[int] = []

        def fork(*_: object) -> None:
            forked.append(os.fork())
            if forked == [0]:
                signal.alarm(int(PATIENCE))  # which kills it

        def signal_and_serve() -> None:
            eventually("the request", lambda: bool(held))
            signal.pthread_kill(main, signal.SIGUSR1)
            eventually("the fork", lambda: bool(forked))
            server.respond = server.grant
            for request in held:
                server.grant(request)

        before = signal.signal(signal.SIGUSR1, fork)
        thread = threading.Thread(target=signal_and_serve)
        thread.start()
        try:
            id = orders.take(PATIENCE)
        finally:
            if forked == [0]:
                os.write(write, str(id).encode())
                os._exit(0)
            signal.signal(signal.SIGUSR1, before)
        thread.join()
        os.close(write)
        with os.fdopen(read) as pipe:
            childs = int(pipe.read())
        os.waitpid(forked[0], 0)
        assert id != childs


def test_a_fork_that_runs_no_hooks() -> None:
    """As in servers that call fork of the C library, such as uWSGI."""
    if isinstance(_fork.this_process().alive, bytearray):
        pytest.skip("the kernel does not wipe a page at a fork")
    with Server() as server, client(server) as ids, mock.patch.object(_fork, "_on_fork"):
        orders = ids.prefetch("order")
        taken = [orders.take(PATIENCE) for _ in range(2000)]
        child = Child(lambda: [orders.take(PATIENCE) for _ in range(500)])
        assert_each_once(taken, child.ids(), [orders.take(PATIENCE) for _ in range(500)])
        assert not server.connections[0].ended


def test_where_the_kernel_wipes_nothing_the_hook_does() -> None:
    process = _fork.Process()
    process.alive = bytearray(b"\x01")
    with mock.patch.object(_fork, "_process", process), Server() as server, client(server) as ids:
        orders = ids.prefetch("order")
        taken = [orders.take(PATIENCE) for _ in range(2000)]
        child = Child(lambda: [orders.take(PATIENCE) for _ in range(500)])
        assert_each_once(taken, child.ids(), [orders.take(PATIENCE) for _ in range(500)])


TAKES = 25_000


def take_all(orders: SyncPrefetcher, results: Connection) -> None:
    results.send([orders.take(PATIENCE) for _ in range(TAKES)])


def test_four_children_of_multiprocessing_take_100_000_ids() -> None:
    context = multiprocessing.get_context("fork")
    with Installation() as installation, SyncIdworker(installation.url, timeout=PATIENCE) as ids:
        installation.create_tag("order")
        orders = ids.prefetch("order")
        taken = [[orders.take(PATIENCE) for _ in range(5000)]]
        pipes = [context.Pipe(duplex=False) for _ in range(4)]
        children = [context.Process(target=take_all, args=(orders, write)) for _, write in pipes]
        for child in children:
            child.start()
        taken.append([orders.take(PATIENCE) for _ in range(5000)])
        taken += [read.recv() for read, _ in pipes]
        for child in children:
            child.join()
            assert child.exitcode == 0
        taken.append([orders.take(PATIENCE), ids.next("order")])
        assert_each_once(*taken)
        assert sum(map(len, taken)) == 4 * TAKES + 10_002


def test_a_child_gets_no_id_of_its_parents_asyncio_client() -> None:
    loop = asyncio.new_event_loop()
    connection = FakeConnection()
    client = Idworker(cast("Any", connection), timeout=PATIENCE)
    calls = [loop.create_task(client.next("order")), loop.create_task(client.snowflake())]
    loop.run_until_complete(asyncio.sleep(0))
    for request, id in zip(connection.requests, (b"7", b"8"), strict=True):
        request.serve(id)  # what the loop has read before the fork

    def refused() -> IDS:
        new = [client.next("order"), client.next_n("order", 2)]
        for call in (*calls, *(loop.create_task(call) for call in new)):
            with pytest.raises(ClosedError, match="that of the parent process, make a client after the fork"):
                loop.run_until_complete(call)
        return [len(connection.requests)]

    assert Child(refused).ids() == [2], "the child sends nothing"
    assert [loop.run_until_complete(call) for call in calls] == [7, 8]
    loop.close()
