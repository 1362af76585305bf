"""What a client needs of a NATS connection: one inbox for all replies, refusals, its end."""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
from typing import TYPE_CHECKING

from nats import errors
from nats.aio.msg import Msg

from ._errors import BadConfigError, ConnectionEndedError, PermissionDeniedError

if TYPE_CHECKING:
    from nats.aio.client import Callback, Client, ErrorCallback
    from nats.aio.subscription import Subscription

    from ._call import Call

# nats-py passes the server's texts on in lower case.
_REFUSAL = re.compile(r'permissions violation for (publish|subscription) to "([^"]*)"')


class Link:
    """A connection's inbox, which all clients of the connection share.

    Servers limit the subscriptions of a connection, and nats-py closes a connection
    that goes beyond the limit. So all calls have one subscription, and a token each.
    """

    def __init__(self, connection: Client) -> None:
        self.calls: dict[str, Call] = {}
        """Calls that have sent a request, by token."""
        self._connection = connection
        self._inbox: _Inbox | None = None
        # nats-py reports refusals and the end to these alone. Both go on to their owner.
        self._error_cb: ErrorCallback = connection._error_cb
        self._closed_cb: Callback | None = connection._closed_cb
        connection._error_cb = self._on_error
        connection._closed_cb = self._on_closed

    @classmethod
    def find(cls, connection: Client) -> Link | None:
        """Return the link of a connection, None before its first request. Connecting again ends it."""
        link = getattr(connection._error_cb, "__self__", None)
        return link if isinstance(link, Link) else None

    @classmethod
    def of(cls, connection: Client) -> Link:
        """Return the link of a connection."""
        return cls.find(connection) or cls(connection)

    async def send(self, call: Call) -> None:
        """Send a request of a call. Raises errors of nats-py."""
        inbox = self._inbox or await self._subscribe()
        self.calls[call.token] = call
        headers = call.headers
        # A server without headers would close the connection, but a trace must not cost an ID.
        if call.trace and self._connection._server_info.get("headers"):
            headers = {"traceparent": call.trace}
        await self._connection.publish(call.subject, call.body, inbox.base + call.token, headers)

    async def _subscribe(self) -> _Inbox:
        prefix = self._connection.new_inbox().rpartition(".")[0]
        inbox = self._inbox = _Inbox(prefix, self.calls)  # at once, so that no other call makes one
        try:
            # nats-py gives each message to a subscription's future as it reads it; a
            # callback would get it through a queue and a task.
            inbox.subscription = await self._connection.subscribe(inbox.pattern, future=inbox)
        except BaseException as e:
            self._inbox = None
            if isinstance(e, errors.BadSubjectError):
                raise BadConfigError(f"bad inbox prefix of the connection: {prefix!r}") from e
            raise
        return inbox

    async def leave(self) -> None:
        """Drop the inbox if no call uses it. The next call makes another."""
        if not self.calls:
            await self._unsubscribe()

    async def _unsubscribe(self) -> None:
        inbox, self._inbox = self._inbox, None
        if inbox and inbox.subscription:
            with contextlib.suppress(errors.Error):  # the connection ends, and the subscription with it
                await inbox.subscription.unsubscribe()

    async def _on_error(self, error: Exception) -> None:
        """End the calls that the server refused. It sends them no reply."""
        refusal = _REFUSAL.search(str(error))
        if refusal:
            what, subject = refusal.groups()
            why = refusal[0]
            inbox = self._inbox
            refused = [call for call in self.calls.values() if call.subject.lower() == subject]
            if what == "subscription":
                refused = []
                if inbox and inbox.pattern.lower() == subject:
                    refused = list(self.calls.values())
                    await self._unsubscribe()  # the next call asks again: rights change
                why += "; set the option inbox_prefix to the inbox to which this user may subscribe"
            for call in refused:
                call.fail(PermissionDeniedError, why)
        await self._error_cb(error)

    async def _on_closed(self) -> None:
        for call in list(self.calls.values()):
            call.fail(ConnectionEndedError, "connection closed")
        if self._closed_cb:
            await self._closed_cb()


class _Inbox(asyncio.Future[Msg]):
    """The future of the subscription, which is never done: its result is every message."""

    subscription: Subscription | None = None

    def __init__(self, prefix: str, calls: dict[str, Call]) -> None:
        super().__init__()
        # Not nats-py's NUID: copies of a process could have equal ones, and would read
        # each other's replies.
        self.base = f"{prefix}.{secrets.token_urlsafe(16)}."
        self.pattern = self.base + "*"
        self._calls = calls

    def set_result(self, message: Msg) -> None:
        """Give a message to its call. Those of calls that ended are dropped."""
        call = self._calls.get(message.subject[len(self.base) :])
        if call:
            call.accept(message.headers, message.data)
