"""The driver's operations without a server."""

from __future__ import annotations

import base64
import contextlib
from pathlib import Path
from typing import Any

import vectors
from driver_results import Operations, ranges_of

from idworker import check_prefix, check_tag, decode
from idworker._arguments import check_count
from idworker._decode import decode_reply


def number(n: str) -> Any:
    """Read a count, good or bad."""
    with contextlib.suppress(ValueError):
        return int(n)
    return float(n)


def count(n: str) -> int:
    checked = number(n)
    check_count(checked)
    return int(checked)


def decode_body(*, body: str, n: str) -> dict[str, Any]:
    return ranges_of(decode(base64.b64decode(body), count(n)).ranges)


def decode_whole(
    *, body: str, n: str, status: str = "", headers: dict[str, list[str]] | None = None
) -> dict[str, Any]:
    # The library keeps one value of a header, and the status among them.
    received = {name: values[0] for name, values in (headers or {}).items()}
    if status:
        received["Status"] = status
    return ranges_of(decode_reply(received or None, base64.b64decode(body), count(n)).ranges)


def check_vectors(*, file: str) -> dict[str, Any]:
    cases, failed = vectors.check(Path(file))
    return {"cases": cases, "failed": failed}


OPERATIONS: Operations = {
    "decode": decode_body,
    "decode_reply": decode_whole,
    "tag": lambda *, tag: check_tag(tag),
    "prefix": lambda *, prefix: check_prefix(prefix),
    "vectors": check_vectors,
}
