"""The prefetcher for asyncio, in virtual time."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
from virtual import Counter, FakeConnection, Request, make, run, settle

from idworker_client import (
    BadCountError,
    BadTagError,
    BufferEmptyError,
    CallTimeoutError,
    ClosedError,
    ExhaustedError,
    IdworkerError,
    NoSuchTagError,
    Prefetcher,
)

SUBJECT = "ids.segment.order"


def prefetcher(respond: object = None, **options: int) -> tuple[FakeConnection, Prefetcher]:
    connection = FakeConnection(respond or Counter())  # type: ignore[arg-type]
    return connection, make(connection).prefetch("order", **options)


def in_child(take: Callable[[], int]) -> str:
    """Return what a take in a forked child returns or raises."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = str(take())
        except Exception as e:
            said = repr(e)
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        result = pipe.read()
    os.waitpid(child, 0)
    return result


def test_take_on_an_empty_buffer_starts_a_refill_and_raises() -> None:
    async def main() -> None:
        connection, orders = prefetcher()
        for _ in range(3):
            with pytest.raises(BufferEmptyError, match=rf"^prefetch {SUBJECT}: .*await ready\(n\)") as raised:
                orders.take()
            assert raised.value.retryable
            assert raised.value.subject == SUBJECT
        await settle()
        assert len(connection.requests) == 1
        assert orders.take() == 2
        await orders.ready(10)
        assert len({orders.take() for _ in range(10)}) == 10

    run(main())


def test_ready_requests_what_is_missing_and_refuses_more_than_the_limit() -> None:
    async def main() -> None:
        connection, orders = prefetcher(limit=100)
        for _ in range(2):
            await orders.ready(100)
        assert [request.n for request in connection.requests] == [100]
        for n in (0, 101, True):
            with pytest.raises(BadCountError):
                await orders.ready(n)

    run(main())


def test_ready_waits_for_fresh_ids() -> None:
    async def main() -> None:
        _, orders = prefetcher()
        await orders.ready(50)
        await asyncio.sleep(61)
        assert orders.buffer.buffered == 0, "the timer dropped them"
        await orders.ready(50)
        assert orders.take() > 51

    run(main())


def test_tasks_get_each_id_once() -> None:
    async def main() -> None:
        _, orders = prefetcher()
        taken: list[int] = []

        async def take() -> None:
            for _ in range(400):
                taken.append(await orders.next())

        await asyncio.gather(*(take() for _ in range(50)))
        assert len(set(taken)) == len(taken) == 20_000

    run(main())


def test_each_wait_gets_an_error_of_its_own() -> None:
    async def main() -> None:
        connection, orders = prefetcher(lambda _: None, max_batch=1)
        waits = [asyncio.create_task(orders.next()) for _ in range(50)]
        await settle()
        for request in list(connection.requests):
            request.refuse(404, "no such tag")
        errors = await asyncio.gather(*waits, return_exceptions=True)
        assert [type(e) for e in errors] == [NoSuchTagError] * 50
        assert len({id(e) for e in errors}) == 50, "each has a traceback of its own"
        assert str(errors[0]) == f"request {SUBJECT}: no such tag (404)"

    run(main())


def test_an_error_while_ids_are_buffered_is_not_seen() -> None:
    async def main() -> None:
        connection, orders = prefetcher()
        await orders.ready(1000)
        connection.respond = lambda request: request.refuse(507, "used up")
        for _ in range(orders.buffer.buffered):
            orders.take()
        with pytest.raises(BufferEmptyError):
            orders.take()
        with pytest.raises(ExhaustedError):
            await orders.next()
        with pytest.raises(BufferEmptyError) as raised:
            orders.take()
        assert isinstance(raised.value.__cause__, ExhaustedError)
        await settle()

    run(main())


@pytest.mark.parametrize(
    ("code", "reason", "text"), [(503, "unavailable", "the text (503)"), (429, "busy", "the text (429)")]
)
def test_a_timeout_has_the_reason(code: int, reason: str, text: str) -> None:
    async def main() -> None:
        connection, orders = prefetcher(lambda request: request.refuse(code))
        with pytest.raises(CallTimeoutError) as raised:
            await orders.next(timeout=3)
        assert str(raised.value) == f"prefetch {SUBJECT}: {text} (deadline exceeded)"
        assert raised.value.reason == reason
        assert isinstance(raised.value, TimeoutError)
        assert getattr(raised.value.__cause__, "code", None) == code
        connection.respond = Counter()
        assert await orders.next() == 2
        connection.respond = lambda _: None
        with pytest.raises(CallTimeoutError, match=r"no reply \(deadline exceeded\)$") as silent:
            await orders.ready(100_000, timeout=3)
        assert silent.value.reason == "no_reply"

    run(main())


def test_a_cancelled_wait_leaves_nothing_behind() -> None:
    async def main() -> None:
        connection, orders = prefetcher(lambda _: None)
        wait = asyncio.create_task(orders.next())
        await settle()
        wait.cancel()
        with pytest.raises(asyncio.CancelledError):
            await wait
        assert orders.buffer.waiting == 0
        connection.requests[0].serve(b"7")
        assert await orders.next() == 7

    run(main())


def test_closing_ends_waits_and_drops_buffered_ids() -> None:
    async def main() -> None:
        connection, orders = prefetcher()
        async with orders:
            await orders.ready(100)
            orders.take()
            connection.respond = lambda _: None
            wait = asyncio.create_task(orders.ready(10_000))
            await settle()
        with pytest.raises(ClosedError, match=f"^prefetch {SUBJECT}: prefetcher is closed$"):
            await wait
        with pytest.raises(ClosedError):
            orders.take()
        with pytest.raises(ClosedError):
            await orders.next()
        with pytest.raises(ClosedError):
            await orders.ready(1)

    run(main())


def test_refused_batches_of_snowflake_ids_shrink() -> None:
    async def main() -> None:
        counter = Counter()

        def respond(request: Request) -> None:
            if request.n > 5 and counter.granted < 500:
                request.refuse(503, "too far ahead of the clock")
            else:
                counter(request)

        connection = FakeConnection(respond)
        ids = make(connection).prefetch_snowflake()
        taken = []
        for _ in range(10_000):
            taken.append(await ids.next())
            await asyncio.sleep(0.0001)
        assert len(set(taken)) == 10_000
        assert len(connection.requests) < 1000

    run(main())


def test_a_prefetcher_belongs_to_its_loop() -> None:
    async def main() -> None:
        _, orders = prefetcher()
        await orders.next()
        while orders.buffer.buffered:
            orders.take()
        raised: list[BaseException] = []

        def take() -> None:
            try:
                orders.take()
            except RuntimeError as e:
                raised.append(e)

        thread = threading.Thread(target=take)
        thread.start()
        thread.join()
        assert "only its event loop may use it" in str(raised[0])

    run(main())


def test_a_fork_gets_no_id() -> None:
    async def main() -> None:
        _, orders = prefetcher()
        await orders.ready(100)
        for id in (2, 3):  # from the stock, and from the range in use
            said = in_child(orders.take)
            assert said.startswith("ClosedError"), said
            assert "the buffer is that of the parent process" in said
            assert orders.take() == id

    run(main())


def test_bad_arguments_are_refused_at_once() -> None:
    async def main() -> None:
        with pytest.raises(BadTagError):
            make(FakeConnection()).prefetch("a b")

    run(main())


def test_a_reply_in_time_counts_though_the_loop_was_busy() -> None:
    async def main() -> None:
        connection, orders = prefetcher(lambda _: None)
        loop = asyncio.get_running_loop()
        end = loop.time() + 3
        wait = asyncio.create_task(orders.next(timeout=3))
        await settle()
        # The reply is read in the turn after that in which the time is over.
        loop.call_at(end, lambda: loop.call_soon(connection.requests[0].serve, b"7"))
        assert await wait == 7

    run(main())


def test_an_unexpected_error_names_the_subject() -> None:
    async def main() -> None:
        connection, orders = prefetcher()

        async def publish(*_: Any) -> None:
            raise ValueError("odd")

        with (
            mock.patch.object(connection, "publish", publish),
            pytest.raises(IdworkerError, match=rf"^prefetch {SUBJECT}: ValueError\('odd'\)$"),
        ):
            await orders.next()

    run(main())
