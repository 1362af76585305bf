"""Numbers of documents from IDs of tags, such as TCK-20261126-000001, that begin again each
day, month or year.

    tickets = NumberFormat("ticket", "TCK-{yyyyMMdd}-{seq:6}", "Asia/Shanghai")
    number = await tickets.next(ids, datetime.now(timezone.utc))

Each period has a tag of its own, here ticket.20261126. A template creates them at
their first request:

    idworker tag create 'ticket.*' --template --dated yyyyMMdd --order strict

Numbers of a strict tag ascend within a period. There is no order between the numbers
of two periods, because the clocks of callers differ.

Numbers have gaps: each reply that is lost or comes too late loses its numbers, and so
does an application that does not use what it got. So they are for orders, tickets or
shipments. If the law requires invoices without gaps, let the database count them, in
the transaction that inserts the invoice; docs/callers.md shows how.

No two documents have one number. It shows all the digits that its tag ends with,
and the ID; only the ID varies in width, so the length of a number tells where each
field begins. Numbers of two formats may be equal: give each base one format for
life, and each format some text that no other has.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Awaitable
from datetime import date, datetime, timezone, tzinfo
from typing import Literal, NamedTuple, Protocol, overload
from zoneinfo import ZoneInfo

from ._arguments import check_tag
from ._batch import IdBatch
from ._errors import BadArgumentError
from ._quote import is_invisible, number, plain, quote

__all__ = ["MAX_FORMAT_BYTES", "DocumentNumberError", "Fault", "NumberFormat", "ParsedNumber"]

MAX_FORMAT_BYTES = 100
"""The most bytes of a format in UTF-8."""

Fault = Literal["format", "zone", "date", "seq", "number"]
"""What is wrong.

format: the format is malformed, or its numbers could repeat. zone: there is no such
time zone. date: the date is none, or is not of the years 1 to 9999 in the format's
zone. seq: the ID is not an int from 1 to 2^63−1. number: no document of the format
has this text.
"""

_WORDS: dict[Fault, str] = {
    "format": "bad format of numbers",
    "zone": "bad time zone",
    "date": "bad date",
    "seq": "bad sequence number",
    "number": "no number of this format",
}

_MAX_PAD = 19  # digits of 2^63−1
_MAX_ID = 2**63 - 1
_UNSET = datetime(1, 1, 1, tzinfo=timezone.utc)  # a time that a caller of Go's client has not set

_DAY = re.compile("([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIME = re.compile(
    "([0-9]{4}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3])(?::[0-5][0-9]){2})(?:[.]([0-9]{1,9}))?"
    "(Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)
_SEQ_TOKEN = re.compile("seq(?::([1-9][0-9]?))?")


class DocumentNumberError(BadArgumentError):
    """A format, a zone, a date, an ID or a text is not as NumberFormat needs it."""

    fault: Fault

    def __init__(self, fault: Fault, why: str) -> None:
        super().__init__(f"{_WORDS[fault]}: {why}")
        self.fault = fault


class SyncIssuer(Protocol):
    """Issues the IDs of tags, as SyncIdworker does."""

    def next(self, tag: str) -> int: ...

    def next_n(self, tag: str, n: int) -> IdBatch: ...


class AsyncIssuer(Protocol):
    """Issues the IDs of tags, as Idworker does."""

    def next(self, tag: str) -> Awaitable[int]: ...

    def next_n(self, tag: str, n: int) -> Awaitable[IdBatch]: ...


class ParsedNumber(NamedTuple):
    """A number that was read."""

    base: str
    period: str
    """The date's digits in the order year, month, day; empty without a date."""
    seq: int
    """The ID."""

    @property
    def tag(self) -> str:
        """The tag that issued the ID."""
        return _tag(self.base, self.period)


class _Part(NamedTuple):
    """A part of a number."""

    field: Literal["literal", "year", "month", "day", "seq"]
    text: str
    """The literal, or the token."""
    width: int
    """Characters; of an ID, the fewest."""


# yyyy precedes yy, which it begins with.
_DATE_TOKENS = (
    _Part("year", "yyyy", 4),
    _Part("year", "yy", 2),
    _Part("month", "MM", 2),
    _Part("day", "dd", 2),
)


class NumberFormat:
    """Makes the numbers of one kind of document, and reads them. It never changes."""

    def __init__(self, base: str, format: str, zone: str | tzinfo) -> None:
        """Make the format of a base, the part of the tags before the date.

        A format is text with tokens in braces, 1 to 100 bytes:

            {yyyy} or {yy}  year, of four digits or the last two
            {MM} {dd}       month and day, of two digits
            {seq:6}         the ID, with zeros up to 6 (1 to 19) digits, and never cut
            {seq}           the same without zeros

        Tokens of dates may share braces, as in {yyyyMMdd}, and come in any order. dd
        needs MM, and MM a year. Without a date, the tag is the base, and numbers never
        begin again. {seq} is required. No token may come twice. Text must not have
        braces, nor characters that are invisible or change the direction: Unicode's
        categories Cc, Cf, Zl and Zp.

        zone decides to which day a time belongs. It is the name of a zone, such as
        Asia/Shanghai, or a tzinfo that is the same on each machine. Names need the
        database of zones of the machine, or the package tzdata.

        Raises DocumentNumberError (format, zone), and BadTagError for a base that is no
        tag, or if the tag is longer than 128 bytes.
        """
        check_tag(base)
        self._base = base
        self._zone = _find_zone(zone) if isinstance(zone, str) else zone
        self._format = format
        size = len(format.encode("utf-8", "surrogatepass"))
        if not 1 <= size <= MAX_FORMAT_BYTES:
            raise self._bad_format(f"{size} bytes, allowed is 1 to {MAX_FORMAT_BYTES}")
        self._parts: list[_Part] = []
        self._read_parts()
        self.dated = self._checked_date()
        """The date at the end of tags as templates name it: yyyyMMdd, yyyyMM, yyyy, yyMMdd,
        yyMM or yy; or empty if numbers never begin again."""
        self._fixed = sum(p.width for p in self._parts if p.field != "seq")
        check_tag(_tag(base, self.dated))

    @overload
    def next(self, client: SyncIssuer, at: datetime) -> str: ...

    @overload
    def next(self, client: AsyncIssuer, at: datetime) -> Awaitable[str]: ...

    def next(self, client: SyncIssuer | AsyncIssuer, at: datetime) -> str | Awaitable[str]:
        """Return the next number of a document of that time; with Idworker, await it.

        Raises DocumentNumberError (date) before anything is sent, and what the client raises.
        """
        id = client.next(self.tag(at))
        if isinstance(id, int):
            return self.number(at, id)

        async def number(id: Awaitable[int]) -> str:
            return self.number(at, await id)

        return number(id)

    @overload
    def next_n(self, client: SyncIssuer, at: datetime, n: int) -> list[str]: ...

    @overload
    def next_n(self, client: AsyncIssuer, at: datetime, n: int) -> Awaitable[list[str]]: ...

    def next_n(
        self, client: SyncIssuer | AsyncIssuer, at: datetime, n: int
    ) -> list[str] | Awaitable[list[str]]:
        """Return the next n numbers of documents of that time, in ascending order of IDs.

        n is at least 1, at most the batch limit of the workers. Raises as next does.
        """
        ids = client.next_n(self.tag(at), n)
        if isinstance(ids, IdBatch):
            return [self.number(at, id) for id in ids]

        async def numbers(ids: Awaitable[IdBatch]) -> list[str]:
            return [self.number(at, id) for id in await ids]

        return numbers(ids)

    def tag(self, at: datetime) -> str:
        """Return the tag of documents of that time.

        It is the base, and if the format has a date, a dot and all its digits that
        numbers show, in the order year, month, day. A format without a date takes any
        time. Raises DocumentNumberError (date), also for a time without a zone.
        """
        return _tag(self._base, _join(self._digits(at)))

    def number(self, at: datetime, id: int) -> str:
        """Return the number of a document of that time, with an ID of its tag, 1 to 2^63−1.

        Raises DocumentNumberError (date, seq).
        """
        digits = self._digits(at)
        if not isinstance(id, int) or isinstance(id, bool) or not 1 <= id <= _MAX_ID:
            raise DocumentNumberError("seq", f"an ID {number(id)}, allowed is 1 to 2^63-1")
        shown = {"seq": str(id), **digits}
        return "".join(
            p.text if p.field == "literal" else shown[p.field].rjust(p.width, "0") for p in self._parts
        )

    def noon(self, day: date) -> datetime:
        """Return the noon of a document's day in the format's zone.

        Midnight would be wrong: some zones skip it when daylight saving begins. Raises
        DocumentNumberError (date) if the zone skipped the day.
        """
        noon = self._local(datetime(day.year, day.month, day.day, 12, tzinfo=self._zone))
        if noon.date() != date(day.year, day.month, day.day):
            raise DocumentNumberError("date", f"there was no {day} in {self._zone}")
        return noon

    def parse_date(self, text: str) -> datetime:
        """Read a document's date.

        It is a time as of RFC 3339, or a day of the format's zone, such as 2026-11-26,
        for which this returns the noon. Raises DocumentNumberError (date).
        """
        try:
            if time := _TIME.fullmatch(text):
                micros = (time[2] or "").ljust(6, "0")[:6]
                offset = "+00:00" if time[3] == "Z" else time[3]
                return datetime.fromisoformat(f"{time[1]}.{micros}{offset}")
            if day := _DAY.fullmatch(text):
                return self.noon(date(int(day[1]), int(day[2]), int(day[3])))
        except ValueError:
            pass  # no such date, as for a text of another form
        raise DocumentNumberError(
            "date", f"{quote(text)}, allowed is a day such as 2026-11-26, or a time of RFC 3339"
        )

    def parse(self, number: str) -> ParsedNumber:
        """Read a number. It accepts exactly what number returns.

        Raises DocumentNumberError (number) for any other text.
        """
        digits: dict[str, str] = {}
        rest = number
        for part in self._parts:
            width = part.width if part.field != "seq" else len(number) - self._fixed
            text, rest = rest[:width], rest[width:]
            if width < part.width or len(text) < width:
                raise self._not_of_format(number, "is too short")
            if part.field == "literal":
                if text != part.text:
                    raise self._not_of_format(number, "has other text")
                continue
            if text.strip("0123456789"):  # int would take an underscore, a sign, other digits
                raise self._not_of_format(number, "has other characters than digits")
            if part.field == "seq" and len(text) > part.width and text[0] == "0":
                raise self._not_of_format(number, "has too many zeros")
            digits[part.field] = text
        seq = digits.pop("seq")
        if len(seq) > _MAX_PAD or not 1 <= int(seq) <= _MAX_ID:
            raise self._not_of_format(number, "has no sequence number from 1 to 2^63-1")
        if not _is_date(digits):
            raise self._not_of_format(number, "has no date of the calendar")
        return ParsedNumber(self._base, _join(digits), int(seq))

    def __repr__(self) -> str:
        return f"<numbers of {self._base}: {self._format}>"

    def _read_parts(self) -> None:
        rest = self._format
        while rest:
            literal, opened, rest = rest.partition("{")
            self._check_literal(literal)
            if literal:
                self._parts.append(_Part("literal", literal, len(literal)))
            if opened:
                inside, closed, rest = rest.partition("}")
                if not closed:
                    raise self._bad_format("{ without }")
                self._read_tokens(inside)

    def _read_tokens(self, inside: str) -> None:
        """Read what is between braces."""
        if inside == "seq" or inside.startswith("seq:"):
            seq = _SEQ_TOKEN.fullmatch(inside)
            width = int(seq[1] or 1) if seq else 0
            if not 1 <= width <= _MAX_PAD:
                raise self._bad_tokens(inside, f"allowed is {{seq}} or {{seq:N}}, N from 1 to {_MAX_PAD}")
            self._parts.append(_Part("seq", inside, width))
            return
        rest = inside
        while True:
            token = next((t for t in _DATE_TOKENS if rest.startswith(t.text)), None)
            if token is None:
                raise self._bad_tokens(inside, "allowed are yyyy or yy, MM, dd, or one {seq} or {seq:N}")
            self._parts.append(token)
            rest = rest[token.width :]
            if not rest:
                return

    def _check_literal(self, text: str) -> None:
        """Refuse text that could be a mistaken token, or with which different numbers could
        look the same."""
        for c in text:
            if c == "}":
                raise self._bad_format("} without {")
            if is_invisible(c):
                raise self._bad_format(f"{quote(c)} is not allowed, only visible characters and spaces")

    def _checked_date(self) -> str:
        """Return the date's tokens. It refuses a format whose numbers could repeat: the ID is
        missing, or a date begins again within a century."""
        fields = [p.field for p in self._parts if p.field != "literal"]
        if (count := fields.count("seq")) != 1:
            raise self._bad_format(f"{{seq}} comes {count} times, allowed is once")
        if len(set(fields)) < len(fields):
            raise self._bad_format("a part of the date comes twice")
        if "day" in fields and "month" not in fields:
            raise self._bad_format("dd needs MM")
        if "month" in fields and "year" not in fields:
            raise self._bad_format("MM needs yyyy or yy")
        return _join({p.field: p.text for p in self._parts})

    def _digits(self, at: datetime) -> dict[str, str]:
        """The digits that numbers of that time show."""
        if not self.dated:
            return {}
        day = self._local(at)
        if at == _UNSET:
            raise DocumentNumberError("date", f"{at} is no time that was set")
        values = {"year": f"{day.year:04}", "month": f"{day.month:02}", "day": f"{day.day:02}"}
        return {p.field: values[p.field][-p.width :] for p in self._parts if p.field in values}

    def _local(self, at: datetime) -> datetime:
        """That time in the format's zone, by way of UTC: a clock's time may not exist there."""
        if at.utcoffset() is None:
            raise DocumentNumberError("date", f"{at} has no time zone")
        try:
            return at.astimezone(timezone.utc).astimezone(self._zone)
        except OverflowError:
            raise DocumentNumberError(
                "date", f"{at} in {self._zone}, allowed are the years 1 to 9999"
            ) from None

    def _bad_format(self, why: str) -> DocumentNumberError:
        return DocumentNumberError("format", f"{quote(self._format, MAX_FORMAT_BYTES)}: {why}")

    def _bad_tokens(self, inside: str, allowed: str) -> DocumentNumberError:
        return self._bad_format(f"{{{plain(inside, MAX_FORMAT_BYTES)}}}: {allowed}")

    def _not_of_format(self, number: str, why: str) -> DocumentNumberError:
        return DocumentNumberError(
            "number", f"{quote(self._format, MAX_FORMAT_BYTES)}: {quote(number, 200)} {why}"
        )


def _find_zone(name: str) -> tzinfo:
    try:
        if name not in ("", "localtime"):  # the latter differs between machines
            return ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        pass  # no such zone, a path, a folder
    raise DocumentNumberError(
        "zone", f"{quote(name)} is not in the database of time zones; if no name is, pip install tzdata"
    )


def _is_date(digits: dict[str, str]) -> bool:
    """Whether there is such a date. A year of two digits may be of any century: in 2000,
    29 February existed."""
    year_digits = digits.get("year", "2000")
    year = int(year_digits) if len(year_digits) == 4 else 2000 + int(year_digits)
    month, day = int(digits.get("month", "1")), int(digits.get("day", "1"))
    return year > 0 and 1 <= month <= 12 and 1 <= day <= calendar.monthrange(year, month)[1]


def _join(texts: dict[str, str]) -> str:
    return "".join(texts.get(field, "") for field in ("year", "month", "day"))


def _tag(base: str, period: str) -> str:
    return f"{base}.{period}" if period else base
