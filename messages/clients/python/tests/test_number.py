"""Numbers of documents. vectors.json has the cases that all languages share."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from datetime import date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from idworker_client import BadArgumentError, IdBatch
from idworker_client.number import DocumentNumberError, NumberFormat

FORMAT = NumberFormat("invoice", "INV-{yyyyMMdd}-{seq:6}", "Asia/Shanghai")
MIDNIGHT = datetime(2026, 11, 26, 16, tzinfo=timezone.utc)  # in Shanghai


class SyncIds:
    """Issues IDs as SyncIdworker does."""

    def __init__(self) -> None:
        self.tags: list[str] = []

    def next(self, tag: str) -> int:
        self.tags.append(tag)
        return 42

    def next_n(self, tag: str, n: int) -> IdBatch:
        self.tags.append(tag)
        return IdBatch(((7, 7), (9, 7 + n)))


class AsyncIds:
    """Issues IDs as Idworker does."""

    def __init__(self) -> None:
        self.tags: list[str] = []

    async def next(self, tag: str) -> int:
        self.tags.append(tag)
        return 42

    async def next_n(self, tag: str, n: int) -> IdBatch:
        self.tags.append(tag)
        return IdBatch(((7, 7), (9, 7 + n)))


def test_a_number_has_the_date_of_the_tag_that_issued_its_id() -> None:
    ids = SyncIds()
    assert FORMAT.next(ids, MIDNIGHT) == "INV-20261127-000042"
    assert FORMAT.next(ids, MIDNIGHT - timedelta(microseconds=1)) == "INV-20261126-000042"
    assert FORMAT.next_n(ids, MIDNIGHT, 2) == ["INV-20261127-000007", "INV-20261127-000009"]
    assert ids.tags == ["invoice.20261127", "invoice.20261126", "invoice.20261127"]


def test_the_asyncio_client_is_awaited() -> None:
    ids = AsyncIds()

    async def number() -> tuple[str, list[str]]:
        return await FORMAT.next(ids, MIDNIGHT), await FORMAT.next_n(ids, MIDNIGHT, 2)

    assert asyncio.run(number()) == ("INV-20261127-000042", ["INV-20261127-000007", "INV-20261127-000009"])
    assert ids.tags == ["invoice.20261127"] * 2


def test_a_bad_time_sends_nothing() -> None:
    ids = SyncIds()
    for at, why in {
        datetime(2026, 11, 26): "has no time zone",
        datetime(1, 1, 1, tzinfo=timezone.utc): "no time that was set",
        datetime(9999, 12, 31, 16, tzinfo=timezone.utc): "allowed are the years 1 to 9999",
    }.items():
        with pytest.raises(DocumentNumberError, match=f"^bad date: .*{why}") as raised:
            FORMAT.next(ids, at)
        assert raised.value.fault == "date"
        assert isinstance(raised.value, BadArgumentError)
    assert ids.tags == []


def test_a_format_without_a_date_takes_any_time() -> None:
    assert NumberFormat("order", "O{seq}", timezone.utc).tag(datetime(2026, 11, 26)) == "order"


@pytest.mark.parametrize("id", [0, -1, 2**63, True, 1.0, "1", None, pytest.param(10**5000, id="huge")])
def test_what_is_no_id_is_refused_with_the_bounds(id: int) -> None:
    with pytest.raises(
        DocumentNumberError, match=r"^bad sequence number: an ID .{1,40}, allowed is 1 to 2\^63-1$"
    ):
        FORMAT.number(MIDNIGHT, id)


@pytest.mark.parametrize(
    "text",
    [
        "INV-20261126-00_001",
        "INV-20261126-00000²",
        "INV-20261126-00000१",
        "INV-20261126-00001 ",
        "INV-２0261126-000001",
    ],
)
def test_what_int_would_read_is_no_number(text: str) -> None:
    with pytest.raises(DocumentNumberError, match="has other characters than digits"):
        FORMAT.parse(f"INV-{text}")


def test_a_very_long_number_is_refused_at_once() -> None:
    with pytest.raises(DocumentNumberError, match=r"^no number of this format: .{1,300}$"):
        FORMAT.parse("INV-20261126-" + "1" * 1_000_000)


def test_a_time_that_the_zone_skips_belongs_to_the_day_that_it_stands_for() -> None:
    apia = ZoneInfo("Pacific/Apia")
    format = NumberFormat("invoice", "{yyyyMMdd}-{seq}", apia)
    assert format.tag(datetime(2011, 12, 30, 12, tzinfo=apia)) == "invoice.20111231"
    with pytest.raises(DocumentNumberError, match="there was no 2011-12-30 in Pacific/Apia"):
        format.noon(date(2011, 12, 30))


@pytest.mark.parametrize(
    "zone", ["", "Nowhere", "localtime", "Asia", "../zone", "/etc/passwd", "A\0B", "é" * 1000]
)
def test_what_is_no_zone_is_refused(zone: str) -> None:
    with pytest.raises(DocumentNumberError, match=r'^bad time zone: ".{0,50}" is not in ') as raised:
        NumberFormat("invoice", "{yyyy}-{seq}", zone)
    assert raised.value.fault == "zone"


def test_a_machine_without_zones_is_told_of_tzdata() -> None:
    program = (
        "import sys; sys.modules['tzdata'] = None; from idworker_client.number import NumberFormat;"
        "NumberFormat('invoice', '{yyyy}-{seq}', 'Asia/Shanghai')"
    )
    environment = {**os.environ, "PYTHONTZPATH": ""}
    command = [sys.executable, "-c", program]
    failed = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True)
    assert failed.stderr.splitlines()[-1] == (
        "idworker_client.number.DocumentNumberError: bad time zone: "
        '"Asia/Shanghai" is not in the database of time zones; if no name is, pip install tzdata'
    )
