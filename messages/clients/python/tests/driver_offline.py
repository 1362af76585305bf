"""The driver's operations without a server, and the clocks of all operations."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from driver_results import Operations

from idworker_client import _clock
from idworker_client._buffer import Buffer, PrefetchConfig


class _Wall:
    """The wall clock that prefetchers read."""

    def __init__(self) -> None:
        self._ahead = 0.0
        _clock.wall = lambda: time.time() + self._ahead

    def move(self, *, ms: float) -> None:
        self._ahead += ms / 1000


def _pace(*, runway_ms: float, limit: int, steps: list[tuple[float, int]]) -> dict[str, Any]:
    pace = Buffer(PrefetchConfig(runway_ms / 1000, limit, 1))._pace
    pace._runway *= 1000  # in ms, whose sums are exact
    pace.restart(0, 0)
    now, taken, targets = 0.0, 0, []
    for passed, more in steps:
        now, taken = now + passed, taken + more
        targets.append(pace.update(now, taken))
    return {"targets": targets}


def _schedule(*, events: list[str]) -> dict[str, Any]:
    # In a process of its own: virtual time is that of all clients.
    schedule = [sys.executable, str(Path(__file__).with_name("driver_schedule.py")), *events]
    return {"waits": json.loads(subprocess.run(schedule, check=True, stdout=subprocess.PIPE).stdout)}


_wall = _Wall()

OPERATIONS: Operations = {
    "pace": _pace,
    "schedule": _schedule,
    "wall": _wall.move,
}
