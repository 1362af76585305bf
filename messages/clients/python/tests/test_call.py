"""Calls, in virtual time: docs/protocol.md says what they do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

import pytest
from nats import errors
from virtual import Counter, FakeConnection, Request, make, run, settle

from idworker_client import (
    BadConfigError,
    BadReplyError,
    BusyError,
    CallTimeoutError,
    ClosedError,
    ConnectionEndedError,
    ErrorReplyError,
    ExhaustedError,
    IdworkerError,
    MalformedRequestError,
    NoSuchTagError,
    PermissionDeniedError,
    StrictTagError,
)
from idworker_client._call import BACKLOG, Call, Calls

T = TypeVar("T")
E = TypeVar("E", bound=BaseException)


async def begin(call: Awaitable[T]) -> asyncio.Future[T]:
    """Begin a call, and return when it waits."""
    task = asyncio.ensure_future(call)
    await settle()
    return task


async def failure(call: Awaitable[Any], kind: type[E]) -> E:
    """Return the error of a call."""
    with pytest.raises(kind) as caught:
        await call
    assert type(caught.value) is kind
    return caught.value


def test_deadline() -> None:
    """A time-out has the latest transient failure, its refusal if it was one, and the tries."""

    async def main() -> None:
        connection = FakeConnection()
        error = await failure(make(connection).next_n("order", 2, timeout=1.2), CallTimeoutError)
        assert round(asyncio.get_running_loop().time(), 3) == 1.2
        assert str(error) == "request ids.segment.order: no reply (deadline exceeded after 8 tries)"
        assert (error.reason, error.tries, error.subject) == ("no_reply", 8, "ids.segment.order")
        assert error.retryable and isinstance(error, TimeoutError) and error.__cause__ is None

        connection = FakeConnection(lambda request: request.refuse(429, "too many"))
        error = await failure(make(connection).next_n("order", 1, timeout=5), CallTimeoutError)
        assert str(error) == "request ids.segment.order: too many (429) (deadline exceeded after 10 tries)"
        assert (error.reason, error.code) == ("busy", None)
        assert isinstance(error.__cause__, BusyError) and error.__cause__.code == 429

        connection = FakeConnection(lambda request: request.no_responders())
        error = await failure(make(connection).next("order", timeout=1), CallTimeoutError)
        assert "no worker answered (deadline" in str(error)

    run(main())


def test_retries() -> None:
    """A call tries on, and a reply to any try counts: a parked one comes after later ones were refused."""

    async def main() -> None:
        def respond(request: Request) -> None:
            if len(connection.requests) == 3:
                request.refuse(503)

        connection = FakeConnection(respond)
        call = await begin(make(connection).next_n("order", 3))
        await asyncio.sleep(0.5)
        connection.requests[0].serve(b"7-9")
        assert (await call).ranges == ((7, 9),)
        sent = len(connection.requests)
        await asyncio.sleep(10)
        assert len(connection.requests) == sent

    run(main())


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (400, MalformedRequestError),
        (404, NoSuchTagError),
        (409, StrictTagError),
        (507, ExhaustedError),
        (500, ErrorReplyError),
    ],
)
def test_final_errors(code: int, kind: type[IdworkerError]) -> None:
    """They end a call at once, and name its subject. What comes in the same turn has no effect."""

    async def main() -> None:
        def respond(request: Request) -> None:
            request.refuse(code)
            request.serve(b"7")

        connection = FakeConnection(respond)
        error = await failure(make(connection).next("order"), kind)
        assert str(error) == f"request ids.segment.order: the text ({code})"
        assert (error.code, error.tries, error.subject) == (code, 1, "ids.segment.order")
        assert not error.retryable
        assert len(connection.requests) == 1 and asyncio.get_running_loop().time() < 0.001

    run(main())


def test_malformed_reply() -> None:
    async def main() -> None:
        connection = FakeConnection(lambda request: request.serve(b"7\n"))
        bad = await failure(make(connection).next("order"), BadReplyError)
        assert str(bad) == "request ids.segment.order: malformed reply: '' is not a range of IDs"

    run(main())


def test_reply_that_waits_to_be_read() -> None:
    """A busy loop runs a timer before it reads a reply that has arrived. The reply counts."""

    async def main() -> None:
        connection = FakeConnection()
        client = make(connection)
        call = await begin(client.next_n("order", 1, timeout=0.03))
        loop = asyncio.get_running_loop()
        await begin(client.next("batch"))
        deadline = loop.time() + 0.04
        member = await begin(client.next("batch", timeout=0.04))

        def read(turns: int, k: int, body: bytes) -> None:
            if turns:
                loop.call_soon(read, turns - 1, k, body)
            else:
                connection.requests[k].serve(body)

        loop.call_at(0.03, read, 3, 0, b"7")
        assert (await call).ranges == ((7, 7),)
        loop.call_at(deadline, read, 3, 2, b"8")
        assert await member == 8

    run(main())


def test_one_subscription() -> None:
    """All calls of all clients of a connection share one, and each inbox has a name of its own."""

    async def main() -> set[str]:
        connection = FakeConnection(inbox_prefix="_INBOX.caller")
        clients = [make(connection), make(connection, prefix="other")]
        calls = [
            await begin(client.next_n(tag, 1)) for client in clients for tag in ("a", "b") for _ in range(100)
        ]
        assert len(connection.subscriptions) == 1
        tokens = {request.reply for request in connection.requests}
        assert len(tokens) == 400
        for request in connection.requests:
            request.serve(b"7")
        await asyncio.gather(*calls)
        return {token.rpartition(".")[0] for token in tokens}

    inboxes = run(main()) | run(main())
    assert len(inboxes) == 2
    for inbox in inboxes:
        prefix, _, name = inbox.rpartition(".")
        assert prefix == "_INBOX.caller" and len(name) == 22


def test_stalled_link() -> None:
    """Nothing is sent to a link that is lost, nor to one that stalls: it would be answered too late."""

    async def main() -> None:
        connection = FakeConnection(Counter())
        connection.is_connected = False
        client = make(connection)
        error = await failure(client.next_n("order", 1, timeout=1), CallTimeoutError)
        assert str(error) == "request ids.segment.order: disconnected (deadline exceeded after 0 tries)"
        assert (error.reason, error.tries) == ("disconnected", 0)
        connection.is_connected = True
        connection.pending_data_size = BACKLOG + 1
        call = await begin(client.next("order"))
        assert not connection.requests
        connection.pending_data_size = 0
        assert await call == 2

    run(main())


def test_end_of_the_connection() -> None:
    async def main() -> None:
        connection = FakeConnection()
        client = make(connection)
        calls: list[Awaitable[Any]] = [
            await begin(client.next("order")),
            await begin(client.next_n("order", 2)),
        ]
        before = asyncio.get_running_loop().time()
        await connection.close()
        assert connection.owner_knows_end
        calls += [await begin(client.next("order")), await begin(client.next_n("order", 2))]
        for call in calls:
            error = await failure(call, ConnectionEndedError)
            assert str(error) == "request ids.segment.order: connection closed"
        assert asyncio.get_running_loop().time() - before < 0.01  # at once

        drained = FakeConnection()
        client = make(drained)
        call = await begin(client.next("order"))
        drained.is_draining = True  # nats-py says that it is connected meanwhile
        error = await failure(call, ConnectionEndedError)
        assert str(error) == "request ids.segment.order: connection draining"
        assert asyncio.get_running_loop().time() - before < 0.1

    run(main())


def test_connects_again() -> None:
    """A connection that was closed and connects again has lost its subscriptions."""

    async def main() -> None:
        counter = Counter()
        connection = FakeConnection(counter)
        client = make(connection)
        assert await client.next("order") == 2
        await connection.close()
        again = FakeConnection(counter)  # nats-py's connect resets all of it
        connection.__dict__.update(again.__dict__)
        connection._error_cb = again._error_cb
        assert await client.next("order") == 4

    run(main())


def test_denied() -> None:
    """A refusal ends the calls of its subject at once, and its owner still gets it."""

    async def main() -> None:
        connection = FakeConnection()
        client = make(connection)
        denied, other = await begin(client.next("Order")), await begin(client.next("order.item"))
        await connection.refuse("publish", "ids.segment.Order")
        error = await failure(denied, PermissionDeniedError)
        assert str(error) == (
            'request ids.segment.Order: permissions violation for publish to "ids.segment.order"'
        )
        assert (error.tries, error.retryable) == (1, False)
        assert len(connection.errors) == 1 and not other.done()

    run(main())


def test_bad_inbox_prefix() -> None:
    """nats-py accepts any prefix, and refuses its subscriptions."""

    async def main() -> None:
        connection = FakeConnection(inbox_prefix="_INBOX..x")

        async def subscribe(subject: str, *, future: object) -> Any:
            raise errors.BadSubjectError

        connection.subscribe = subscribe  # type: ignore[method-assign]
        for _ in range(2):
            error = await failure(make(connection).next("order"), BadConfigError)
            assert "bad inbox prefix of the connection: '_INBOX..x'" in str(error)

    run(main())


def test_closed_after_its_connection() -> None:
    """Calls that have not learned of the connection's end say so, not that the client was closed."""

    async def main() -> None:
        connection = FakeConnection()
        client = make(connection)
        waits: list[Awaitable[Any]] = [
            await begin(client.next_n("order", 2)),
            await begin(client.next("order")),
            await begin(client.next("order")),  # it gathers
            await begin(client.prefetch("order").next()),
        ]
        connection.is_closed = True
        await client.aclose()
        for wait in waits:
            assert "connection closed" in str(await failure(wait, ConnectionEndedError))

    run(main())


def test_closed() -> None:
    """Closing a client ends its calls, present and future, and no call of another client."""

    async def main() -> None:
        connection = FakeConnection()
        client, other = make(connection), make(connection)
        survives = await begin(other.next_n("order", 1))
        calls = [await begin(client.next("order")) for _ in range(3)]  # one alone, two gathering
        calls += [await begin(client.snowflake()) for _ in range(2)]
        await asyncio.sleep(0.01)
        calls += [await begin(client.next("order")), await begin(client.next("new"))]
        many = await begin(client.next_n("order", 2))
        before = asyncio.get_running_loop().time()
        await client.aclose()
        await client.aclose()
        await asyncio.sleep(0.002)
        calls.append(await begin(client.next("order")))
        for call in calls:
            error = await failure(call, ClosedError)
            assert "client is closed" in str(error) and "request ids." in str(error)
        await failure(many, ClosedError)
        assert asyncio.get_running_loop().time() - before < 0.01
        assert not survives.done() and not connection.is_closed
        connection.requests[0].serve(b"7")
        assert (await survives).ranges == ((7, 7),)
        sent = len(connection.requests)
        await asyncio.sleep(10)
        assert len(connection.requests) == sent
        await other.aclose()
        assert not connection.subscriptions
        await make(FakeConnection()).aclose()  # it never sent anything

    run(main())


def test_prefetched() -> None:
    """A prefetcher's request has a header and no deadline. A hasty one ends at the first refusal."""

    async def main() -> None:
        reasons: list[object] = []

        def call(n: int, hasty: bool) -> Call:
            return Call(
                calls, "ids.snowflake", n, None, prefetched=True, hasty=hasty, on_transient=reasons.append
            )

        connection = FakeConnection()
        calls = Calls(connection)  # type: ignore[arg-type]
        patient = await begin(call(5, False).run())
        await asyncio.sleep(100)
        assert connection.requests[-1].headers == {"Ids-Prefetch": "1"}
        connection.requests[-1].refuse(429)
        connection.requests[-1].no_responders()
        assert set(map(str, reasons)) == {"no_reply", "the text (429)", "no_responders"}
        connection.requests[0].serve(b"1-5")
        assert await patient == ((1, 5),)

        hasty = await begin(call(5, True).run())
        await asyncio.sleep(1)
        assert not hasty.done()
        connection.requests[-1].refuse(503)
        error = await failure(hasty, CallTimeoutError)
        assert (error.reason, error.retryable) == ("unavailable", True)

    run(main())


def test_trace() -> None:
    """A call asks for its trace once, as it begins, and sends it with each try; a prefetcher has none."""

    async def main() -> None:
        connection = FakeConnection()
        asked: list[str] = []

        def ask() -> str:
            asked.append(f"trace-{len(asked)}")
            return asked[-1]

        async def headers(call: Awaitable[object]) -> list[dict[str, str] | None]:
            """Return those of the requests of a call that nothing replies to."""
            connection.requests.clear()
            task = await begin(call)
            await asyncio.sleep(0.15)
            task.cancel()
            await settle()
            return [request.headers for request in connection.requests]

        client = make(connection, traceparent=ask)
        for call in (client.next("a"), client.next_n("a", 5), client.snowflake(), client.snowflake_n(5)):
            sent = await headers(call)
            assert sent == [{"traceparent": asked[-1]}] * 3
        assert len(asked) == 4
        connection._server_info = {}  # of a server that knows no headers
        assert await headers(client.next("a")) == [None] * 3
        connection._server_info = {"headers": True}
        assert (await headers(client.prefetch("a").next()))[0] == {"Ids-Prefetch": "1"}
        assert len(asked) == 5
        await client.aclose()

    run(main())
