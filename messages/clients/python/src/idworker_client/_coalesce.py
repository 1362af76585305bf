"""Concurrent calls for one ID of a subject share requests for many."""

from __future__ import annotations

import asyncio

from ._call import FIRST_TRY, Call, Calls, again, read_arrived, wake
from ._decode import Ranges
from ._errors import CallTimeoutError, ExhaustedError, IdworkerError, MalformedRequestError

MOST_JOINED = 256
"""The most calls in a batch. More gain little, and a lost reply would lose more IDs."""

MOST_GATHER = 0.001
"""How long a batch waits for the token: what a lost request or a distant worker
delays the calls after it."""

DISTANT = 0.005
"""The time of a request after which the next batch does not wait: compared with that
time, waiting would cost callers more than it saves."""

MOST_TOGETHER = 0.5
"""How long a batch repeats its request while workers are silent: longer than a store
takes to grant IDs of a strict tag, and shorter than callers wait."""

LIMIT_LASTS = 60.0
"""How long a client remembers that workers refused a batch because of its size."""


class Coalescer:
    """Joins concurrent calls.

    Each subject has a token. A call that finds it free sends its request alone, at
    once. Calls that come before the token is back gather in a batch, which becomes
    the next request. No call joins a request that was sent: a strict tag's ID must
    be higher than all IDs returned before the call began.

    The token comes back after the first try, so no retry delays other calls. A batch
    continues together only while workers are silent; any other trouble sends its
    calls on alone, because IDs may be left for some of them.
    """

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self.limit = MOST_JOINED
        """The most calls in a batch that workers are believed to allow."""
        self.lanes: dict[str, _Lane] = {}
        """By subject, while in use."""
        self._limited = 0.0  # when workers lowered the limit

    async def next(self, subject: str, deadline: float, trace: str | None = None) -> int:
        """Return an ID."""
        if self.limit < MOST_JOINED and asyncio.get_running_loop().time() - self._limited > LIMIT_LASTS:
            self.limit = MOST_JOINED
        if self.limit == 1:
            return (await Call(self.calls, subject, 1, deadline, trace=trace).run())[0][0]
        lane = self.lanes.get(subject)
        if lane is None:
            lane = self.lanes[subject] = _Lane(self, subject)
        if lane.busy:
            return await lane.join(deadline, trace)
        return await lane.send_first(deadline, trace)

    def lower_limit(self, limit: int) -> None:
        """Keep batches within the limit of workers that refused one."""
        self.limit, self._limited = min(self.limit, limit), asyncio.get_running_loop().time()


class _Lane:
    """The requests for a subject."""

    def __init__(self, coalescer: Coalescer, subject: str) -> None:
        self.subject = subject
        self.busy = False
        """Whether a request has the token."""
        self._coalescer = coalescer
        self._calls = coalescer.calls
        self._loop = asyncio.get_running_loop()
        self._users = 0  # requests under way and the batch that gathers; with the last one the lane ends
        self._taken = 0.0  # when the token was taken
        self._took = 0.0  # how long it is out, as _release estimates
        self._gathering: _Batch | None = None

    async def send_first(self, deadline: float, trace: str | None) -> int:
        """Make the call that has the token."""
        call = Call(self._calls, self.subject, 1, deadline, trace=trace)
        self._users += 1
        self._take()
        try:
            try:
                await call.try_first()
            finally:
                self._release()
                self._leave()
            await call.try_on()
        finally:
            call.end()
        return call.result()[0][0]

    async def join(self, deadline: float, trace: str | None) -> int:
        """Make a call in the batch that gathers."""
        batch = self._gathering or self._gather(trace)
        i, waiter = batch.joined, batch.join()
        if batch.joined >= self._coalescer.limit:
            self._seal(batch, has_token=False)
        try:
            await batch.wait(waiter, deadline)
        finally:
            batch.left += 1
            if batch.outcome is None and batch.left == batch.joined:
                self._abandon(batch)
        call = batch.call
        outcome = batch.outcome
        if outcome is None:
            raise (call or Call(self._calls, self.subject, 1, None)).timeout_error("deadline exceeded")
        if not isinstance(outcome, IdworkerError):
            return _id_at(outcome, i)
        if call is None or not batch.is_split():
            raise again(outcome)
        alone = Call(self._calls, self.subject, 1, deadline, trace=trace)
        alone.tries, alone.reason, alone.cause = call.tries, call.reason, call.cause
        return (await alone.run())[0][0]

    def _gather(self, trace: str | None) -> _Batch:
        batch = self._gathering = _Batch(self._loop, trace)
        self._users += 1
        if self._took > DISTANT:
            batch.timer = self._loop.call_soon(self._seal, batch, False)  # calls that begin in this turn join
        else:
            batch.timer = self._loop.call_later(MOST_GATHER, self._seal, batch, False)
        return batch

    def _seal(self, batch: _Batch, has_token: bool) -> None:
        """Send the batch that gathers. No call can join it any more."""
        self._gathering = None
        batch.timer.cancel()
        batch.has_token = has_token
        if has_token:
            self._take()
        batch.task = self._loop.create_task(self._send(batch))
        # In the turn after the calls have returned, so that those that their callers make
        # next share a batch. Otherwise batches of one and of all others alternate.
        batch.task.add_done_callback(lambda _: self._end(batch))

    async def _send(self, batch: _Batch) -> None:
        deadline = self._loop.time() + FIRST_TRY + MOST_TOGETHER
        call = batch.call = Call(
            self._calls, self.subject, batch.joined, deadline, hasty=True, trace=batch.trace
        )
        try:
            await call.try_first()
            if call.outcome is None:
                self._give_back(batch)
            await call.try_on()
        finally:
            call.end()
        if isinstance(call.outcome, MalformedRequestError) and call.n > 1:
            self._coalescer.lower_limit(call.n // 2)
        batch.settle(call.outcome)

    def _abandon(self, batch: _Batch) -> None:
        """Drop a batch that all calls have left. The IDs of its reply are a gap."""
        if self._gathering is batch:
            self._gathering = None
            batch.timer.cancel()
            self._leave()
        elif batch.task:
            batch.task.cancel()

    def _end(self, batch: _Batch) -> None:
        self._give_back(batch)
        self._leave()

    def _give_back(self, batch: _Batch) -> None:
        if batch.has_token:
            batch.has_token = False
            self._release()

    def _take(self) -> None:
        self.busy = True
        self._taken = self._loop.time()

    def _release(self) -> None:
        """Take the token back, and give it to the batch that gathers."""
        self.busy = False
        # One slow request does not make a worker distant.
        self._took = min(self._loop.time() - self._taken, max(2 * self._took, MOST_GATHER))
        if self._gathering:
            self._seal(self._gathering, has_token=True)

    def _leave(self) -> None:
        self._users -= 1
        if not self._users:
            del self._coalescer.lanes[self.subject]


class _Batch:
    """Calls that travel as one request."""

    timer: asyncio.Handle
    """Ends the gathering."""

    def __init__(self, loop: asyncio.AbstractEventLoop, trace: str | None) -> None:
        self.trace = trace
        """That of the call that began it: one request has room for one."""
        self.joined = 0
        self.left = 0
        self.has_token = False
        self.call: Call | None = None
        """The request; None until it is sent."""
        self.task: asyncio.Task[None] | None = None
        self.outcome: Ranges | IdworkerError | None = None
        self._loop = loop
        self._waiters: list[asyncio.Future[None]] = []

    def join(self) -> asyncio.Future[None]:
        """Add a call, and return what it waits for."""
        waiter = self._loop.create_future()
        self._waiters.append(waiter)
        self.joined += 1
        return waiter

    async def wait(self, waiter: asyncio.Future[None], deadline: float) -> None:
        """Wait for the outcome until the deadline, which is a time of the loop."""
        timer = self._loop.call_at(deadline, wake, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
        if self.outcome is None:
            await read_arrived()

    def settle(self, outcome: Ranges | IdworkerError | None) -> None:
        """Wake all calls."""
        self.outcome = outcome
        for waiter in self._waiters:
            wake(waiter)

    def is_split(self) -> bool:
        """Whether each call goes on alone: there may be IDs for some of them."""
        if isinstance(self.outcome, CallTimeoutError):
            return True
        return self.joined > 1 and isinstance(self.outcome, MalformedRequestError | ExhaustedError)


def _id_at(ranges: Ranges, i: int) -> int:
    """Return ID i, from 0, of ranges that hold it."""
    for first, last in ranges:
        if i <= last - first:
            return first + i
        i -= last - first + 1
    raise IndexError(i)
