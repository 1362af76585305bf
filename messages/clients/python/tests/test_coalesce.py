"""Calls for one ID that share requests, in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from test_call import begin, failure
from virtual import Counter, FakeConnection, Request, make, run, settle, silent

from idworker_client import (
    CallTimeoutError,
    ExhaustedError,
    MalformedRequestError,
    NoSuchTagError,
)
from idworker_client._coalesce import LIMIT_LASTS, MOST_JOINED


def sizes(connection: FakeConnection) -> list[int]:
    return [request.n for request in connection.requests]


async def crowd(client: Any, n: int) -> list[asyncio.Future[int]]:
    """Begin so many calls in one turn."""
    calls = [asyncio.ensure_future(client.next("order")) for _ in range(n)]
    await settle()
    return calls


def test_together() -> None:
    """Those that come before the reply share requests of at most 256 IDs, which wait 1 ms at most."""

    async def main() -> None:
        connection = FakeConnection()
        client = make(connection)
        calls = await crowd(client, 301)
        assert sizes(connection) == [1, MOST_JOINED]
        await asyncio.sleep(0.002)
        assert sizes(connection) == [1, MOST_JOINED, 44]
        assert [request.body for request in connection.requests] == [b"", b"256", b"44"]
        connection.requests[0].serve(b"5")
        connection.requests[1].serve(b"10-137\n200-327")  # two ranges
        connection.requests[2].serve(b"1000-1043")
        assert await asyncio.gather(*calls) == [
            5,
            *range(10, 138),
            *range(200, 328),
            *range(1000, 1044),
        ]

    run(main())


def test_the_token_sends_a_batch() -> None:
    """A batch goes as soon as the reply before it has come, without waiting for its time."""

    async def main() -> None:
        connection = FakeConnection()
        client = make(connection)
        calls = await crowd(client, 4)
        connection.requests[0].serve(b"5")
        await settle()
        assert sizes(connection) == [1, 3] and connection.requests[1].at < 0.001
        connection.requests[1].serve(b"7-9")
        assert await asyncio.gather(*calls) == [5, 7, 8, 9]
        await settle()
        connection.respond = Counter()
        began = asyncio.get_running_loop().time()
        assert await client.next("order") == 2  # the token is back
        assert connection.requests[2].at == began

    run(main())


def test_trace() -> None:
    """A batch has the trace of the call that began it. Calls that go on alone have their own."""

    async def main() -> None:
        connection = FakeConnection()
        traces = iter("abcd")
        client = make(connection, traceparent=lambda: next(traces))
        calls = await crowd(client, 4)
        await asyncio.sleep(0.002)
        connection.requests[1].refuse(503)
        await settle()
        headers = [request.headers or {} for request in connection.requests]
        assert [each["traceparent"] for each in headers] == ["a", "b", "b", "c", "d"]
        for call in calls:
            call.cancel()

    run(main())


def test_callers_stay_together() -> None:
    """Callers that call again as soon as they have an ID share the next request, too."""

    async def main() -> None:
        def later(request: Request) -> None:
            asyncio.get_running_loop().call_later(0.0003, counter, request)

        counter = Counter()
        connection = FakeConnection(later)
        client = make(connection)

        async def caller() -> list[int]:
            return [await client.next("order") for _ in range(50)]

        ids = [ids for ids in await asyncio.gather(*(caller() for _ in range(64)))]
        assert len({id for some in ids for id in some}) == 64 * 50
        assert all(some == sorted(some) for some in ids)
        # The first call is alone, and its caller joins the others.
        assert len(connection.requests) <= 53, sizes(connection)
        assert asyncio.get_running_loop().time() < 0.02  # none waits 1 ms for the token

    run(main())


def test_subjects_are_apart() -> None:
    async def main() -> None:
        connection = FakeConnection()
        client = make(connection)
        await begin(asyncio.gather(*(client.next(tag) for tag in ("a", "b", "c")), client.snowflake()))
        assert sizes(connection) == [1, 1, 1, 1]

    run(main())


def test_refused_for_its_size() -> None:
    """Members call alone, and batches stay within the limit for a minute."""

    async def main() -> None:
        def limit(request: Request) -> None:
            if request.n > limited:
                request.refuse(400)
            else:
                counter(request)

        counter = Counter()
        connection = FakeConnection(silent)
        client = make(connection)
        limited = 3
        calls = await crowd(client, 11)
        connection.respond = limit
        connection.requests[0].serve(b"1")
        ids = await asyncio.gather(*calls)
        assert len(set(ids)) == 11 and sizes(connection) == [1, 10] + [1] * 10
        connection.requests.clear()
        calls = await crowd(client, 11)
        assert len(set(await asyncio.gather(*calls))) == 11
        assert max(sizes(connection)) <= 5
        connection.requests.clear()
        assert len(set(await asyncio.gather(*await crowd(client, 11)))) == 11
        assert max(sizes(connection)) <= 2  # half of 5
        limited = 100
        await asyncio.sleep(LIMIT_LASTS + 1)
        connection.requests.clear()
        await asyncio.gather(*await crowd(client, 11))
        assert max(sizes(connection)) == 10
        # A single call that is refused for its size has no batch to leave.
        limited = 0
        await failure(client.next("order"), MalformedRequestError)

    run(main())


@pytest.mark.parametrize("code", [429, 503, 507])
def test_members_of_a_refused_batch_call_alone(code: int) -> None:
    """There may be IDs for some of them."""

    async def main() -> None:
        def few(request: Request) -> None:
            if request.n > 1:
                request.refuse(code)
            elif counter.granted < 10:
                counter(request)
            else:
                request.refuse(507)

        counter = Counter()
        connection = FakeConnection()
        client = make(connection)
        calls = await crowd(client, 9)
        connection.respond = few
        connection.requests[0].serve(b"1")
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert sorted(id for id in results if isinstance(id, int)) == [1, 2, 4, 6, 8, 10]
        assert [type(e) for e in results if not isinstance(e, int)] == [ExhaustedError] * 3

    run(main())


def test_a_final_error_is_for_all() -> None:
    """Each member gets an error of its own, with its own traceback."""

    async def main() -> None:
        connection = FakeConnection()
        client = make(connection)
        calls = await crowd(client, 4)
        connection.requests[0].refuse(404)
        await settle()
        connection.requests[1].refuse(404)
        errors = [await failure(call, NoSuchTagError) for call in calls]
        assert len({id(error) for error in errors}) == 4
        assert {str(error) for error in errors} == {"request ids.segment.order: the text (404)"}
        assert {(error.code, error.subject) for error in errors} == {(404, "ids.segment.order")}

    run(main())


def test_silent_batch() -> None:
    """A batch repeats its request together for half a second; then its calls go on alone."""

    async def main() -> None:
        connection = FakeConnection()
        client = make(connection)
        calls = await crowd(client, 4)
        await asyncio.sleep(0.4)
        assert set(sizes(connection)) == {1, 3} and sizes(connection).count(3) >= 4
        await asyncio.sleep(0.3)
        replies = {request.reply for request in connection.requests}
        assert len(replies) == 5  # one alone, three together, then three alone
        # A parked request of the batch counts no more, a later one of each does.
        connection.respond = Counter()
        assert len(set(await asyncio.gather(*calls))) == 4

    run(main())


def test_a_retry_delays_no_other_call() -> None:
    """The token comes back after the first try."""

    async def main() -> None:
        connection = FakeConnection()
        client = make(connection)
        slow = await begin(client.next("order"))
        await asyncio.sleep(0.06)
        connection.respond = lambda request: request.serve(b"7")
        sent = len(connection.requests)
        began = asyncio.get_running_loop().time()
        assert await client.next("order") == 7
        assert connection.requests[sent].at == began
        connection.requests[0].serve(b"5")
        assert await slow == 5

        connection.respond = silent
        first, *batch = await crowd(client, 3)
        connection.requests[-1].serve(b"8")  # the batch gets the token
        await asyncio.sleep(0.06)
        connection.respond = lambda request: request.serve(b"9")
        sent = len(connection.requests)
        began = asyncio.get_running_loop().time()
        assert await client.next("order") == 9
        assert connection.requests[sent].at == began
        assert await first == 8 and not any(call.done() for call in batch)
        for call in batch:
            call.cancel()

    run(main())


def test_a_distant_worker_delays_no_batch() -> None:
    """Compared with its latency, waiting for the token would cost more than it saves."""

    async def main() -> None:
        def later(request: Request) -> None:
            asyncio.get_running_loop().call_later(0.02, counter, request)

        counter = Counter()
        connection = FakeConnection(later)
        client = make(connection)

        async def caller() -> None:
            for _ in range(20):
                await client.next("order")

        await asyncio.gather(*(caller() for _ in range(10)))
        assert asyncio.get_running_loop().time() < 20 * 0.02 + 0.005  # each wait is 1 ms

    run(main())


def test_one_slow_request_makes_no_worker_distant() -> None:
    async def main() -> None:
        connection = FakeConnection()
        client = make(connection)
        await begin(client.next("order"))
        await asyncio.sleep(0.0497)
        gathers = await begin(client.next("order"))
        await asyncio.sleep(0.0005)  # it has the token, which was out for 50 ms
        sent = len(connection.requests)
        assert sizes(connection) == [1, 1, 1] and not gathers.done()
        await begin(client.next("order"))
        assert len(connection.requests) == sent
        await asyncio.sleep(0.001)
        assert len(connection.requests) == sent + 1

    run(main())


def test_a_batch_of_one_is_a_call() -> None:
    """Its error is that of its call, which does not repeat its request."""

    async def main() -> None:
        connection = FakeConnection()
        client = make(connection)
        calls = await crowd(client, 2)
        connection.respond = lambda request: request.refuse(507)
        connection.requests[0].serve(b"5")
        await failure(calls[1], ExhaustedError)
        assert sizes(connection) == [1, 1]

    run(main())


def test_members_leave() -> None:
    """A member that leaves loses its ID. The last one ends the request."""

    async def main() -> None:
        connection = FakeConnection()
        client = make(connection)
        for gathers in (True, False):
            connection.requests.clear()
            first, *calls = await crowd(client, 6)
            if not gathers:
                await asyncio.sleep(0.01)
            for call in calls[:2]:
                call.cancel()
            await settle()
            if gathers:
                connection.requests[0].serve(b"5")
                assert await first == 5
                await settle()
            connection.requests[1].serve(b"10-14")
            assert await asyncio.gather(*calls[2:]) == [12, 13, 14]
            if not gathers:
                connection.requests[0].serve(b"5")
                assert await first == 5

        for wait in (0.0, 0.01, 0.2):
            connection.requests.clear()
            first, *calls = await crowd(client, 4)
            await asyncio.sleep(wait)
            for call in calls:
                call.cancel()
            await settle()
            sent = len(connection.requests)
            connection.requests[0].serve(b"5")
            assert await first == 5
            await asyncio.sleep(5)
            assert len(connection.requests) == sent
            assert not client._coalescer.lanes

    run(main())


def test_a_batch_that_ends_before_it_begins() -> None:
    """Its members leave in the turn in which it gets the token, which comes back."""

    async def main() -> None:
        connection = FakeConnection()
        client = make(connection)
        first, *calls = await crowd(client, 3)
        first.add_done_callback(lambda _: [call.cancel() for call in calls])
        connection.requests[0].serve(b"5")
        await asyncio.wait(calls)
        connection.respond = Counter()
        began = asyncio.get_running_loop().time()
        assert await client.next("order") == 2
        assert asyncio.get_running_loop().time() == began
        assert not client._coalescer.lanes

    run(main())


def test_a_members_deadline() -> None:
    async def main() -> None:
        connection = FakeConnection()
        client = make(connection)
        first = await begin(client.next("order"))
        early = await begin(client.next("order", timeout=0.0005))
        late = await begin(client.next("order", timeout=0.2))
        error = await failure(early, CallTimeoutError)
        assert str(error) == "request ids.segment.order: no reply (deadline exceeded after 0 tries)"
        error = await failure(late, CallTimeoutError)
        assert (error.reason, error.subject, error.tries) == ("no_reply", "ids.segment.order", 3)
        connection.requests[0].serve(b"5")
        assert await first == 5

    run(main())


def test_a_member_that_goes_on_alone_counts_all_tries() -> None:
    async def main() -> None:
        def refuse(request: Request) -> None:
            if request.n > 1 or len(connection.requests) > 4:
                request.refuse(429, "too many")

        connection = FakeConnection()
        client = make(connection)
        calls = [await begin(client.next("order", timeout=0.1)) for _ in range(3)]
        connection.respond = refuse
        connection.requests[0].serve(b"5")
        error = await failure(calls[1], CallTimeoutError)
        assert error.reason == "busy" and error.tries > 2, error

    run(main())
