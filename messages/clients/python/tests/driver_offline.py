"""The driver's operations without a server, and the clocks of all operations."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import selectors
import time
from collections.abc import Mapping
from contextvars import ContextVar
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import vectors
from driver_results import Operations, ranges_of
from nats.aio.client import Client

from idworker import Idworker, _clock, check_prefix, check_tag, decode
from idworker._arguments import check_count
from idworker._buffer import Buffer, PrefetchConfig
from idworker._decode import decode_reply


class _Wall:
    """The wall clock that prefetchers read."""

    def __init__(self) -> None:
        self._ahead = 0.0
        _clock.wall = lambda: time.time() + self._ahead

    def move(self, *, ms: float) -> None:
        self._ahead += ms / 1000


def _number(n: str) -> Any:
    """Read a count, good or bad."""
    with contextlib.suppress(ValueError):
        return int(n)
    return float(n)


def _decode(*, body: str, n: str) -> dict[str, Any]:
    return ranges_of(decode(base64.b64decode(body), _number(n)).ranges)


def _decode_reply(
    *, body: str, n: str, status: str = "", headers: Mapping[str, list[str]] | None = None
) -> dict[str, Any]:
    # nats-py keeps one value of a header, and the status among them.
    received = {name: values[0] for name, values in (headers or {}).items()}
    if status:
        received["Status"] = status
    return ranges_of(decode_reply(received or None, base64.b64decode(body), _number(n)).ranges)


def _count(*, n: str) -> dict[str, Any]:
    check_count(_number(n))
    return {"body": base64.b64encode(b"" if n == "1" else n.encode()).decode()}


def _pace(*, runway_ms: float, limit: int, steps: list[tuple[float, int]]) -> dict[str, Any]:
    pace = Buffer(PrefetchConfig(runway_ms / 1000, limit, 1))._pace
    pace.restart(0, 0)
    now, taken = 0.0, 0
    targets = []
    for passed, more in steps:
        now, taken = now + passed, taken + more
        targets.append(pace.update(now / 1000, taken))
    return {"targets": targets}


def _vectors(*, file: str) -> dict[str, Any]:
    cases, failed = vectors.check(Path(file))
    return {"cases": cases, "failed": failed}


# The random value of calls of schedule.
_chance: ContextVar[float | None] = ContextVar("chance", default=None)


def _schedule(*, events: list[str]) -> dict[str, Any]:
    least, most = (_met(events, random) for random in (0.0, 1.0))
    waits = [[least[i] - least[i - 1], most[i] - most[i - 1]] for i in range(1, len(events))]
    return {"waits": waits}


def _met(events: list[str], random: float) -> list[float]:
    """Make a call in virtual time, and return when it met each event, in ms."""

    async def call(connection: _Scheduled) -> list[float]:
        _chance.set(random)
        await Idworker(cast(Client, connection), timeout=1e9).next_n("order", 1)
        return connection.met

    loop = VirtualLoop()
    try:
        return loop.run_until_complete(call(_Scheduled(loop, events)))
    finally:
        loop.close()


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time passes only while nothing is to be done, and then at once."""

    def __init__(self) -> None:
        super().__init__(_Skipping(self))
        self.now = 0.0

    def time(self) -> float:
        return self.now


class _Skipping(selectors.SelectSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            raise AssertionError("nothing will ever happen in this loop")
        self._loop.now += timeout
        return super().select(0)


class _Scheduled:
    """A connection on which a call meets events, as far as a client needs one."""

    is_closed = is_draining = False
    pending_data_size = 0
    _error_cb = _closed_cb = None

    def __init__(self, loop: VirtualLoop, events: list[str]) -> None:
        self.met: list[float] = []
        self._loop = loop
        self._events = iter(events)
        self._event = ""

    @property
    def is_connected(self) -> bool:
        """Called where a call would send a try."""
        self.met.append(1000 * self._loop.now)
        self._event = next(self._events)
        return self._event != "disconnected"

    def new_inbox(self) -> str:
        return "_INBOX.x"

    async def subscribe(self, subject: str, *, future: asyncio.Future[Any]) -> None:
        self._inbox = future

    async def publish(self, subject: str, body: bytes, reply: str, headers: object) -> None:
        replies = {
            "silent": None,
            "busy": ({"Nats-Service-Error-Code": "429"}, b""),
            "unavailable": ({"Nats-Service-Error-Code": "503"}, b""),
            "no_responders": ({"Status": "503"}, b""),
            "ids": (None, b"7"),
        }
        if sent := replies[self._event]:
            message = SimpleNamespace(subject=reply, headers=sent[0], data=sent[1])
            self._loop.call_soon(self._inbox.set_result, message)


_wall = _Wall()
_random = _clock.random
_clock.random = lambda: _random() if (chance := _chance.get()) is None else chance

OPERATIONS: Operations = {
    "decode": _decode,
    "decode_reply": _decode_reply,
    "count": _count,
    "tag": lambda *, tag: check_tag(tag),
    "prefix": lambda *, prefix: check_prefix(prefix),
    "pace": _pace,
    "schedule": _schedule,
    "vectors": _vectors,
    "wall": _wall.move,
}
