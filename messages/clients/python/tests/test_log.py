"""What the client logs about outages: their beginning and their end, nothing in between."""

from __future__ import annotations

import asyncio
import logging
import re
import socket

import pytest
from installation import eventually
from scripted import Request, Server
from virtual import FakeConnection, make, run

from idworker_client import (
    BufferEmptyError,
    CallTimeoutError,
    ConnectFailedError,
    NoSuchTagError,
    PermissionDeniedError,
    SyncIdworker,
    _log,
)
from idworker_client._log import FORGOTTEN, MAX_FAILING, QUIET, Outages


@pytest.fixture(autouse=True)
def records(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "idworker_client")
    return caplog


class Clock:
    """A clock that stands still."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(_log, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def lines(records: pytest.LogCaptureFixture) -> list[str]:
    """All lines, without the times that calls took."""
    times = re.compile(r"seconds=[0-9.]+|[0-9]+ (try|tries)")
    return [f"{r.levelname} {times.sub('T', r.getMessage())}" for r in records.records]


FAIL = "WARNING ID requests fail: subject=ids.segment.order, error="


def test_the_first_failed_call_and_the_first_success_are_logged(
    records: pytest.LogCaptureFixture, clock: Clock
) -> None:
    def unavailable(request: Request) -> None:
        request.refuse(503, "no IDs")

    with Server() as server, SyncIdworker(server.url) as ids:
        ids.next("order")
        assert lines(records) == []
        server.respond = unavailable
        for n, timeout in ((1, 2), (2, 0.1), (3, 0.1)):  # the first has the time for a reply, and is logged
            with pytest.raises(CallTimeoutError):
                ids.next_n("order", n, timeout=timeout)
        clock.now += QUIET
        server.respond = server.grant
        for _ in range(3):
            ids.next("order")
    assert lines(records) == [
        f"{FAIL}request ids.segment.order: no IDs (503) (deadline exceeded after T)",
        "INFO ID requests succeed again: subject=ids.segment.order, failed=3, T",
    ]


def test_a_buffer_that_is_filled_again_ends_an_outage(
    records: pytest.LogCaptureFixture, clock: Clock
) -> None:
    with Server() as server, SyncIdworker(server.url) as ids:
        ids.connect()
        orders = ids.prefetch("order")
        server.respond = server.silent
        for _ in range(2):
            with pytest.raises(CallTimeoutError):
                orders.take(0.1)
        clock.now += QUIET
        server.respond = server.grant
        eventually("the outage ends although nobody takes", lambda: len(records.records) == 2)
    assert lines(records) == [
        f"{FAIL}prefetch ids.segment.order: no reply (deadline exceeded)",
        "INFO ID requests succeed again: subject=ids.segment.order, failed=2, T",
    ]


def test_a_server_that_is_away_is_an_outage(records: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"nats://127.0.0.1:{closed.getsockname()[1]}"
    with SyncIdworker(url) as ids, pytest.raises(ConnectFailedError):
        ids.next("order", timeout=2)
    (line,) = lines(records)
    assert line.startswith(f"{FAIL}request ids.segment.order: connect to 127.0.0.1:")


def test_mistakes_of_the_caller_are_not_logged(records: pytest.LogCaptureFixture) -> None:
    with Server() as server, SyncIdworker(server.url) as ids:

        def refuse(request: Request) -> None:
            request.refuse(404, "no such tag")

        server.respond = refuse
        with pytest.raises(NoSuchTagError):
            ids.next("order")
        with pytest.raises(NoSuchTagError):
            ids.prefetch("order").take()
    assert lines(records) == []


def test_a_take_of_asyncio_that_finds_nothing_in_an_outage(
    records: pytest.LogCaptureFixture, clock: Clock
) -> None:
    async def main() -> None:
        connection = FakeConnection(lambda request: request.no_responders())
        orders = make(connection).prefetch("order")
        for _ in range(2):
            with pytest.raises(BufferEmptyError):
                orders.take()
            await asyncio.sleep(0.01)
        with pytest.raises(BufferEmptyError):
            orders.take()
        clock.now += QUIET
        connection.respond = lambda request: request.serve(b"7")
        assert await orders.next() == 7

    run(main())
    assert lines(records) == [
        f"{FAIL}prefetch ids.segment.order: no worker answered (deadline exceeded)",
        "INFO ID requests succeed again: subject=ids.segment.order, failed=2, T",
    ]


def test_failures_and_successes_in_turns_are_one_outage(
    records: pytest.LogCaptureFixture, clock: Clock
) -> None:
    outages = Outages()
    for _ in range(100):
        outages.failed("ids.segment.order", CallTimeoutError("no ID"))
        clock.now += QUIET / 2
        outages.succeeded("ids.segment.order")
    assert lines(records) == [f"{FAIL}no ID"]
    clock.now += QUIET / 2
    outages.succeeded("ids.segment.order")
    assert lines(records)[1:] == ["INFO ID requests succeed again: subject=ids.segment.order, failed=100, T"]


def test_subjects_without_a_recent_failure_make_room(records: pytest.LogCaptureFixture, clock: Clock) -> None:
    outages = Outages()
    for i in range(MAX_FAILING):
        outages.failed(f"ids.segment.{i}", CallTimeoutError("no ID"))
    clock.now += FORGOTTEN
    outages.failed("ids.segment.0", CallTimeoutError("no ID"))
    outages.failed("ids.segment.order", CallTimeoutError("no ID"))
    assert len(lines(records)) == MAX_FAILING, "a minute has not passed"
    clock.now += 1
    outages.failed("ids.segment.order", CallTimeoutError("no ID"))
    assert lines(records)[MAX_FAILING:] == [f"{FAIL}no ID"]
    assert list(outages.failing) == ["ids.segment.0", "ids.segment.order"]


@pytest.mark.parametrize("does", ["raises", "takes an ID"])
def test_a_handler_that_fails_does_not_change_the_error_of_a_call(does: str) -> None:
    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            called.append(record)
            if does == "raises":
                raise RuntimeError("the log is away")
            ids.next("ticket")

    called: list[logging.LogRecord] = []
    handler = Handler()
    logging.getLogger("idworker_client").addHandler(handler)
    try:
        with Server() as server, SyncIdworker(server.url) as ids:
            server.respond = server.silent
            orders = ids.prefetch("tickets")
            with pytest.raises(CallTimeoutError):
                ids.next("order", timeout=0.1)
            with pytest.raises(CallTimeoutError):
                orders.take(0.1)
    finally:
        logging.getLogger("idworker_client").removeHandler(handler)
    assert len(called) == 2


def test_at_most_16_subjects_are_remembered(records: pytest.LogCaptureFixture, clock: Clock) -> None:
    outages = Outages()
    for i in range(2 * MAX_FAILING):
        outages.failed(f"ids.segment.{i}", CallTimeoutError("no ID"))
    assert len(outages.failing) == len(lines(records)) == MAX_FAILING
    clock.now += QUIET
    outages.succeeded("ids.segment.0")
    outages.failed("ids.segment.99", CallTimeoutError("no ID"))
    assert len(lines(records)) == MAX_FAILING + 2


def test_a_lost_connection_and_its_return_are_logged(records: pytest.LogCaptureFixture) -> None:
    called: list[str] = []

    async def disconnected() -> None:
        called.append("disconnected")

    async def reconnected() -> None:
        called.append("reconnected")

    with Server() as server:
        ids = SyncIdworker(server.url, timeout=120, disconnected_cb=disconnected, reconnected_cb=reconnected)
        ids.next("order")
        server.connections[0].cut()
        eventually("it is back", lambda: called == ["disconnected", "reconnected"])
        # One that nats-py gives up is made again by the next call.
        server.connections[1].send(b"-ERR 'Maximum Subscriptions Exceeded'\r\n")
        eventually("nats-py has closed it", lambda: server.connections[1].ended)
        eventually("the loss is logged", lambda: len(records.records) == 3)
        ids.next("order")
        ids.close()
    back = f"INFO NATS connection restored: server={server.url.removeprefix('nats://')}"
    assert lines(records) == [
        "WARNING NATS connection lost: unexpected EOF",
        back,
        "WARNING NATS connection lost: maximum subscriptions exceeded",
        back,
    ]


def test_a_refused_inbox_names_the_option() -> None:
    async def main() -> None:
        connection = FakeConnection()
        call = asyncio.create_task(make(connection).next("order"))
        await asyncio.sleep(0.01)
        await connection.refuse("subscription", connection.subscriptions[0].subject)
        with pytest.raises(
            PermissionDeniedError, match="; set the option inbox_prefix to the inbox to which"
        ):
            await call

    run(main())
