"""Calls: a request, repeated until a reply decides it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from nats import errors

from . import _clock
from ._decode import NoRespondersError, Ranges, read_reply
from ._errors import (
    BusyError,
    CallTimeoutError,
    ClosedError,
    ConnectionEndedError,
    IdworkerError,
    Reason,
    UnavailableError,
)
from ._fork import this_process
from ._link import Link

if TYPE_CHECKING:
    from nats.aio.client import Client

FIRST_TRY = 0.05
"""Many times the latency of a reply from a buffer, and little for a caller."""

SHORTEST_PAUSE = 0.05
LONGEST_PAUSE = 1.0

LONGEST_SILENCE = 0.25
"""The longest pause after silence: a frozen worker gets its share of the tries."""

BACKLOG = 1 << 20
"""The bytes that wait for the socket when a connection counts as lost: half of
what nats-py keeps by default before it makes publishers wait without end."""

TURNS = 10
"""The turns of the loop in which the replies that have arrived are read."""

OF_PARENT = "the connection is that of the parent process, make a client after the fork, or use SyncIdworker"

_PREFETCHED = {"Ids-Prefetch": "1"}

TEXTS: dict[Reason, str] = {
    "busy": "busy",
    "unavailable": "unavailable",
    "no_reply": "no reply",
    "no_responders": "no worker answered",
    "disconnected": "disconnected",
}

OnTransient = Callable[[Reason | IdworkerError], None]


class Calls:
    """The calls of a client."""

    def __init__(self, connection: Client) -> None:
        self.connection = connection
        self.alive = this_process().alive
        """alive[0] is 0 in a fork."""
        self.end: tuple[type[IdworkerError], str] | None = None
        """Why calls end; None until close."""
        self.under_way: set[Call] = set()

    def close(self) -> None:
        """End all calls, present and future, for the end of the connection if that came first."""
        if not self.end:
            lost = self.connection.is_closed
            self.end = (
                (ConnectionEndedError, "connection closed") if lost else (ClosedError, "client is closed")
            )
        for call in list(self.under_way):
            call.fail(*self.end)


class Call:
    """A request for n IDs of a subject, repeated until a reply decides it.

    Replies to all tries count for as long as the call lasts, so a retry gives up no
    request that a worker has parked. A second reply is dropped: its IDs are a gap.
    """

    def __init__(
        self,
        calls: Calls,
        subject: str,
        n: int,
        deadline: float | None,
        *,
        prefetched: bool = False,
        hasty: bool = False,
        trace: str | None = None,
        on_transient: OnTransient | None = None,
    ) -> None:
        """Make a call, which sends nothing yet.

        deadline is a time of the loop. prefetched: the IDs are for later. hasty: a
        transient failure ends the call, silence does not. trace is the caller's, which
        a prefetched request has not. on_transient gets each failure after which the
        call goes on.
        """
        self.subject = subject
        self.n = n
        self.body = b"" if n == 1 else b"%d" % n
        self.headers = _PREFETCHED if prefetched else None
        self.trace = trace
        self.token = secrets.token_hex(16)
        """The last token of the subject of its replies. It is random, because whoever guesses it
        can have a worker send this call the IDs of another request."""
        self.tries = 0
        self.reason: Reason | None = None
        """The latest transient failure."""
        self.cause: IdworkerError | None = None
        """The refusal that was the latest transient failure."""
        self.outcome: Ranges | IdworkerError | None = None
        self._calls = calls
        self._deadline = deadline
        self._hasty = hasty
        self._on_transient = on_transient
        self._link: Link | None = None  # None before the first request
        self._loop = asyncio.get_running_loop()
        self._first = True  # the first try's wait
        self._silent = True  # no transient reply in this wait
        self._next = 0.0  # the wait before the second try
        self._waiter: asyncio.Future[None] | None = None

    async def run(self) -> Ranges:
        """Return the IDs, or raise why there are none."""
        try:
            await self.try_first()
            await self.try_on()
        finally:
            self.end()
        return self.result()

    async def try_first(self) -> None:
        """Make the first try, which ends nearly every call."""
        self._calls.under_way.add(self)
        if self._calls.end:
            self.fail(*self._calls.end)
        elif not self._is_past():
            self._next = _jitter(SHORTEST_PAUSE)
            if await self._send():
                await self._wait(FIRST_TRY)
                if self._silent and self.outcome is None:
                    self._next = 0
                    self._note("no_reply")
        self._first = False

    async def try_on(self) -> None:
        """Make all further tries."""
        pause = SHORTEST_PAUSE
        wait = self._next
        while self.outcome is None:
            if wait:
                await self._wait(wait)
                if self.outcome is not None:
                    return
            wait = _jitter(min(pause, LONGEST_SILENCE) if self._silent else pause)
            if await self._send():
                pause = min(2 * pause, LONGEST_PAUSE)

    def result(self) -> Ranges:
        """Return the IDs of a call that is over, or raise its error."""
        if isinstance(self.outcome, IdworkerError):
            raise self.outcome
        assert self.outcome is not None
        return self.outcome

    def end(self) -> None:
        """Drop the replies that are still to come."""
        self._calls.under_way.discard(self)
        if self._link:
            self._link.calls.pop(self.token, None)

    def accept(self, headers: Mapping[str, str] | None, body: bytes) -> None:
        """Read a reply to any of the tries."""
        try:
            self._settle(read_reply(headers, body, self.n))
        except NoRespondersError:
            self._note("no_responders")
        except BusyError as e:
            self._note("busy", e)
        except UnavailableError as e:
            self._note("unavailable", e)
        except IdworkerError as e:
            self.fail(type(e), str(e), e.code)
        else:
            return
        self._silent = False
        if self._first and self._waiter:
            wake(self._waiter)

    def fail(self, kind: type[IdworkerError], why: str, code: int | None = None) -> None:
        """End the call with an error."""
        if self.outcome is None:
            text = f"request {self.subject}: {why}"
            self._settle(kind(text, code=code, subject=self.subject, tries=self.tries))

    async def _send(self) -> bool:
        """Send the request once more, or note why it cannot be sent now."""
        connection = self._calls.connection
        if not self._calls.alive[0]:
            self.fail(ClosedError, OF_PARENT)
        elif connection.is_closed:
            self.fail(ConnectionEndedError, "connection closed")
        elif connection.is_draining:
            self.fail(ConnectionEndedError, "connection draining")
        elif not connection.is_connected or connection.pending_data_size > BACKLOG:
            self._note("disconnected")  # what is sent now would be answered too late
        else:
            self._link = Link.of(connection)
            try:
                await self._link.send(self)
                self.tries += 1
                return True
            except IdworkerError as e:
                self.fail(type(e), str(e))
            except (errors.Error, OSError):
                self._note("disconnected")  # it was lost just now
        return False

    async def _wait(self, seconds: float) -> None:
        """Wait for replies until it is time for the next try."""
        self._silent = True
        self._waiter = self._loop.create_future()
        end = self._loop.time() + seconds
        if self._deadline is not None and self._deadline < end:
            end = self._deadline
        timer = self._loop.call_at(end, wake, self._waiter)
        try:
            await self._waiter
        finally:
            timer.cancel()
        if self.outcome is None:
            await read_arrived()
            self._is_past()

    def _is_past(self) -> bool:
        """Whether the deadline is. It ends the call."""
        past = self._deadline is not None and self._loop.time() >= self._deadline
        if past and self.outcome is None:
            self._settle(self.timeout_error("deadline exceeded"))
        return past

    def timeout_error(self, how: str) -> CallTimeoutError:
        """Return the error of a call that gets no IDs in time. The reason comes first in its text."""
        reason = self.reason or "no_reply"
        tries = f"{self.tries} {'try' if self.tries == 1 else 'tries'}"
        error = CallTimeoutError(
            f"request {self.subject}: {self.cause or TEXTS[reason]} ({how} after {tries})",
            subject=self.subject,
            tries=self.tries,
            reason=reason,
        )
        error.__cause__ = self.cause
        return error

    def _note(self, reason: Reason, cause: IdworkerError | None = None) -> None:
        """Note a transient failure."""
        self.reason, self.cause = reason, cause
        if self._on_transient:
            self._on_transient(cause or reason)
        if self._hasty and reason != "no_reply":
            self._settle(self.timeout_error("given up"))

    def _settle(self, outcome: Ranges | IdworkerError) -> None:
        self.outcome = outcome
        self.end()
        if self._waiter:
            wake(self._waiter)


def wake(waiter: asyncio.Future[None]) -> None:
    """End a wait."""
    if not waiter.done():
        waiter.set_result(None)


async def read_arrived() -> None:
    """Let the loop read what has arrived: after a busy moment it runs timers before."""
    for _ in range(TURNS):
        await asyncio.sleep(0)


def again(error: IdworkerError) -> IdworkerError:
    """Return another of the same errors, since each caller needs a traceback of its own."""
    copy = type(error)(
        str(error), code=error.code, subject=error.subject, tries=error.tries, reason=error.reason
    )
    copy.__cause__ = error.__cause__
    return copy


def _jitter(pause: float) -> float:
    """Return a random half to all of a pause: calls that failed together do not retry together."""
    return pause * (1 + _clock.random()) / 2
