"""The driver's operations without a server, and the clocks of all operations."""

from __future__ import annotations

import base64
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import vectors
from driver_results import Operations, ranges_of

from idworker import _clock, check_prefix, check_tag, decode
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
    pace._runway *= 1000  # in ms, whose sums are exact
    pace.restart(0, 0)
    now, taken, targets = 0.0, 0, []
    for passed, more in steps:
        now, taken = now + passed, taken + more
        targets.append(pace.update(now, taken))
    return {"targets": targets}


def _vectors(*, file: str) -> dict[str, Any]:
    cases, failed = vectors.check(Path(file))
    return {"cases": cases, "failed": failed}


def _schedule(*, events: list[str]) -> dict[str, Any]:
    # In a process of its own: virtual time is that of all clients.
    schedule = [sys.executable, str(Path(__file__).with_name("driver_schedule.py")), *events]
    return {"waits": json.loads(subprocess.run(schedule, check=True, stdout=subprocess.PIPE).stdout)}


_wall = _Wall()

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
