"""Virtual time, and a NATS connection that exists only in it."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar, cast
from unittest import mock

from nats.aio.msg import Msg

from idworker_client import Idworker, _clock

T = TypeVar("T")

EPOCH = 1_700_000_000.0
"""The wall clock when virtual time begins, in seconds since 1970."""


class _Selector(selectors.SelectSelector):
    """A selector that lets time pass instead of waiting."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise AssertionError("the test waits for what never happens")
        self.now += max(timeout, 0)
        return []


def run(main: Coroutine[Any, Any, T], *, random: float = 1.0) -> T:
    """Run a coroutine in virtual time, which passes only while all tasks wait.

    The clocks of idworker are virtual, too. random is its random number: 1 makes
    pauses full, 0 half as long. Tasks that main leaves behind are cancelled.
    """
    selector = _Selector()
    loop = asyncio.SelectorEventLoop(selector)
    loop.time = lambda: selector.now  # type: ignore[method-assign]
    with _clocks(loop, random):
        try:
            return loop.run_until_complete(main)
        finally:
            left = asyncio.all_tasks(loop)
            for task in left:
                task.cancel()
            if left:
                loop.run_until_complete(asyncio.wait(left))
            loop.close()


@contextmanager
def _clocks(loop: asyncio.AbstractEventLoop, random: float) -> Iterator[None]:
    with (
        mock.patch.object(_clock, "monotonic", loop.time),
        mock.patch.object(_clock, "wall", lambda: EPOCH + loop.time()),
        mock.patch.object(_clock, "random", lambda: random),
    ):
        yield


async def settle() -> None:
    """Return when all tasks wait for time to pass."""
    await asyncio.sleep(1e-6)


@dataclass
class Request:
    """A request that a client sent."""

    connection: FakeConnection
    at: float
    """The time, in seconds since virtual time began."""
    subject: str
    body: bytes
    reply: str
    headers: dict[str, str] | None

    @property
    def n(self) -> int:
        """The number of IDs that it asks for."""
        return int(self.body or b"1")

    def serve(self, body: bytes, headers: dict[str, str] | None = None) -> None:
        """Reply."""
        self.connection.deliver(self.reply, body, headers)

    def refuse(self, code: int, text: str = "the text") -> None:
        """Reply with an error."""
        self.serve(b"", {"Nats-Service-Error-Code": str(code), "Nats-Service-Error": text})

    def no_responders(self) -> None:
        """Reply as the server does if no worker runs."""
        self.serve(b"", {"Status": "503"})


Responder = Callable[[Request], None]


def silent(_: Request) -> None:
    """Do not reply."""


class FakeConnection:
    """What idworker uses of nats-py's Client. Pass it as Any.

    Each request goes to respond, in the turn after it was sent.
    """

    def __init__(self, respond: Responder = silent, inbox_prefix: str = "_INBOX") -> None:
        self.respond = respond
        self.requests: list[Request] = []
        self.subscriptions: list[FakeSubscription] = []
        """Those that have not been unsubscribed."""
        self.errors: list[Exception] = []
        """What the owner's error_cb got."""
        self.is_connected, self.is_draining, self.is_closed = True, False, False
        self.pending_data_size = 0
        self._server_info = {"headers": True}
        self._inbox_prefix = inbox_prefix
        self._error_cb = self._owners_error_cb
        self._closed_cb: Callable[[], Coroutine[Any, Any, None]] | None = self._owners_closed_cb
        self.owner_knows_end = False

    async def _owners_error_cb(self, error: Exception) -> None:
        self.errors.append(error)

    async def _owners_closed_cb(self) -> None:
        self.owner_knows_end = True

    def new_inbox(self) -> str:
        return f"{self._inbox_prefix}.NUID"

    async def subscribe(self, subject: str, *, future: asyncio.Future[Msg]) -> FakeSubscription:
        subscription = FakeSubscription(self, subject, future)
        self.subscriptions.append(subscription)
        return subscription

    async def publish(self, subject: str, payload: bytes, reply: str, headers: dict[str, str] | None) -> None:
        loop = asyncio.get_running_loop()
        request = Request(self, loop.time(), subject, payload, reply, headers)
        self.requests.append(request)
        loop.call_soon(lambda: self.respond(request))

    def deliver(self, subject: str, body: bytes, headers: dict[str, str] | None = None) -> None:
        """Deliver a message as nats-py does."""
        for subscription in self.subscriptions:
            if subject.startswith(subscription.subject.removesuffix("*")):
                subscription.future.set_result(Msg(self, subject, "", body, headers))  # type: ignore[arg-type]

    async def refuse(self, what: str, subject: str) -> None:
        """Report a refusal by the server: what is publish or subscription."""
        await self._error_cb(Exception(f'nats: permissions violation for {what} to "{subject.lower()}"'))

    async def close(self) -> None:
        """Close the connection."""
        self.is_connected, self.is_closed = False, True
        self.subscriptions.clear()
        if self._closed_cb:
            await self._closed_cb()


@dataclass
class FakeSubscription:
    connection: FakeConnection
    subject: str
    future: asyncio.Future[Msg]

    async def unsubscribe(self) -> None:
        self.connection.subscriptions.remove(self)


class Counter:
    """A responder that grants fresh IDs, each range apart from the previous."""

    def __init__(self) -> None:
        self.granted = 0
        """The last ID granted."""

    def __call__(self, request: Request) -> None:
        first = self.granted + 2
        self.granted = first + request.n - 1
        request.serve(b"%d" % first if request.n == 1 else b"%d-%d" % (first, self.granted))


def make(connection: FakeConnection, **options: Any) -> Idworker:
    """Make a client on a connection. Its calls last an hour if not told otherwise."""
    return Idworker(cast("Any", connection), **{"timeout": 3600, **options})
