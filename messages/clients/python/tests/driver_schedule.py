"""A part of the driver: makes a call in virtual time that meets the events of the arguments, and
prints the waits between them."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any, cast

import virtual
from virtual import FakeConnection, Request

from idworker_client._call import Call, Calls


class Meeting:
    """A call that meets events."""

    def __init__(self, events: list[str]) -> None:
        self._events = events
        self._met: list[float] = []
        self._connection = FakeConnection(self._reply)

    async def run(self) -> list[float]:
        """Return when the call met each event, in ms."""
        self._connection.is_connected = self._events[0] != "disconnected"
        calls = Calls(cast(Any, self._connection))
        await Call(calls, "ids.segment.order", 1, None, on_transient=self._on_transient).run()
        return self._met

    def _on_transient(self, why: object) -> None:
        if why == "disconnected":
            self._meet()

    def _reply(self, request: Request) -> None:
        event = self._events[len(self._met)]
        self._meet()
        if event == "ids":
            request.serve(b"7")
        elif event == "no_responders":
            request.no_responders()
        elif event != "silent":
            request.refuse({"busy": 429, "unavailable": 503}[event])

    def _meet(self) -> None:
        self._met.append(1000 * asyncio.get_running_loop().time())
        self._connection.is_connected = self._events[len(self._met) :][:1] != ["disconnected"]


if __name__ == "__main__":
    least, most = (virtual.run(Meeting(sys.argv[1:]).run(), random=random) for random in (0.0, 1.0))
    waits = [[least[i] - least[i - 1], most[i] - most[i - 1]] for i in range(1, len(least))]
    print(json.dumps(waits))
