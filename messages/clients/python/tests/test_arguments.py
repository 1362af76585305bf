"""What vectors.json cannot say: values that only Python has."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any, cast

import pytest
from virtual import FakeConnection, make, run

from idworker_client import (
    BadConfigError,
    BadCountError,
    BadPrefixError,
    BadTagError,
    IdworkerError,
    check_prefix,
    check_tag,
)
from idworker_client._arguments import check_count, check_timeout, check_traceparent, current_trace


class _Sizes(enum.IntEnum):
    FEW = 3


def test_good() -> None:
    check_tag("order.item")
    check_prefix("eu-west_1")
    for n in (1, 10_000, 2**63 - 1, _Sizes.FEW):
        check_count(n)
    for timeout in (5, 0.001, 1e9, math.nextafter(0, 1)):
        check_timeout(timeout)


BAD_TAGS = (None, 7, b"order", ["order"], "a\ud800", "order\n", "a..b", "a.", ".a", "²", "x" * 10**6)
BAD_PREFIXES = (None, 7, b"ids", "Ids", "a.b", "ids\n", "\ud800")
BAD_COUNTS = (True, False, 1.0, Decimal(1), "1", None, 0, -1, 2**63, 10**5000, -(10**5000))
BAD_TRACEPARENTS = ("00-1-2-01", 7, ("00-1-2-01",))
BAD_TRACES = (
    None,
    "",
    "a b",
    "a\n",
    "a\r\nIds-Prefetch: 1",
    "\x7f",
    "é",
    "\ud800",
    "x" * 257,
    b"00-1-2-01",
    7,
)
BAD_TIMEOUTS = (0, -1, -0.0, math.nan, math.inf, -math.inf, 1.1e9, 10**5000, True, None, "5", Decimal(5))


def test_bad() -> None:
    """An error is a line that says what is wrong, and what is allowed."""
    for check, kind, values in (
        (check_tag, BadTagError, BAD_TAGS),
        (check_prefix, BadPrefixError, BAD_PREFIXES),
        (check_count, BadCountError, BAD_COUNTS),
        (check_timeout, BadConfigError, BAD_TIMEOUTS),
        (check_traceparent, BadConfigError, BAD_TRACEPARENTS),
    ):
        for value in values:
            with pytest.raises(kind, match=r", allowed (is|are) ") as caught:
                cast("Callable[[Any], None]", check)(value)
            text = str(caught.value)
            assert len(text) < 200 and text.isprintable(), text


def test_trace() -> None:
    """A trace is what may be sent. What the option returns or raises otherwise is none."""
    given: list[Any] = [None]
    for given[0] in ("00-1-2-01", "!~", "x" * 256):
        assert current_trace(lambda: given[0]) == given[0]
    for given[0] in BAD_TRACES:
        assert current_trace(lambda: given[0]) is None
    assert current_trace(None) is None
    assert current_trace(lambda: str(1 / 0)) is None


def test_nothing_is_sent() -> None:
    """A bad argument of each method is refused before anything is sent."""

    async def main() -> None:
        connection = FakeConnection()
        client = make(connection)
        bad: Any = True
        for call in (
            client.next("a b"),
            client.next("a", timeout=0),
            client.next_n("a b", 1),
            client.next_n("a", bad),
            client.next_n("a", 1, timeout=math.nan),
            client.snowflake(timeout=-1),
            client.snowflake_n(0),
            client.snowflake_n(1, timeout=bad),
        ):
            with pytest.raises(IdworkerError, match="allowed"):
                await call
        with pytest.raises(BadTagError):
            client.prefetch("a b")
        for field in ("runway", "limit", "max_batch"):
            with pytest.raises(BadConfigError):
                client.prefetch("a", **{field: 0})
            with pytest.raises(BadConfigError):
                client.prefetch_snowflake(**{field: 0})
        for options in ({"prefix": "Ids"}, {"timeout": 0}):
            with pytest.raises(IdworkerError, match="allowed"):
                make(connection, **options)
        assert not connection.requests and not connection.subscriptions

    run(main())
