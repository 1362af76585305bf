"""The contract as data: messages/testdata/vectors.json, whose cases all languages share."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from virtual import FakeConnection, make, run, settle

import idworker_client
from idworker_client import (
    BadTagError,
    ErrorReplyError,
    IdBatch,
    IdworkerError,
    check_prefix,
    check_tag,
    decode,
)
from idworker_client._arguments import current_trace
from idworker_client._decode import NoRespondersError, decode_reply
from idworker_client.number import DocumentNumberError, NumberFormat
from idworker_client.opaque import OpaqueIdError, OpaqueKeys

Case = dict[str, Any]

SECTIONS = json.loads((Path(__file__).resolve().parents[3] / "testdata" / "vectors.json").read_text("utf-8"))

# The file's names of errors.
KINDS: dict[str, type[IdworkerError]] = {
    "tag": idworker_client.BadTagError,
    "prefix": idworker_client.BadPrefixError,
    "count": idworker_client.BadCountError,
    "bad_reply": idworker_client.BadReplyError,
    "no_responders": NoRespondersError,
    "malformed": idworker_client.MalformedRequestError,
    "no_tag": idworker_client.NoSuchTagError,
    "strict": idworker_client.StrictTagError,
    "exhausted": idworker_client.ExhaustedError,
    "busy": idworker_client.BusyError,
    "unavailable": idworker_client.UnavailableError,
    "code": idworker_client.ErrorReplyError,
}


def _cases(section: str) -> list[Case]:
    cases: list[Case] = SECTIONS[section]["cases"]
    assert cases
    return cases


def _bytes(field: Any) -> bytes:
    """Read a text, which may be bytes that are not UTF-8, or long."""
    if isinstance(field, str):
        return field.encode()
    if isinstance(field, list):
        return b"".join(_bytes(part) for part in field)
    if "base64" in field:
        return base64.b64decode(field["base64"])
    return _bytes(field["repeat"]) * int(field["times"])


def _expect(case: Case, read: Callable[[Case], object]) -> IdworkerError | None:
    """Check that a case has a result, or an error of its kind alone, which fits in a line of a log."""
    if "error" not in case:
        read(case)
        return None
    with pytest.raises(KINDS[case["error"]]) as caught:
        read(case)
    text = str(caught.value)
    assert type(caught.value) is KINDS[case["error"]], case["why"]
    assert 0 < len(text) <= 300 and not set(text) & set("\r\n\0"), case["why"]
    return caught.value


def _expect_ranges(case: Case, read: Callable[[Case], IdBatch]) -> IdworkerError | None:
    def compare(case: Case) -> None:
        got = read(case).ranges
        ranges = (line.partition("-") for line in case["ranges"])
        assert got == tuple((int(first), int(last or first)) for first, _, last in ranges), case["why"]

    return _expect(case, compare)


def test_tags() -> None:
    for case in _cases("tags"):
        if "base64" not in case["tag"]:  # no text
            _expect(case, lambda case: check_tag(_bytes(case["tag"]).decode()))


def test_prefixes() -> None:
    for case in _cases("prefixes"):
        if "base64" not in case["prefix"]:  # no text
            _expect(case, lambda case: check_prefix(_bytes(case["prefix"]).decode()))


def test_counts() -> None:
    """A count is the body of the request, or is refused before anything is sent."""

    async def body(n: float) -> bytes:
        connection = FakeConnection()
        call = asyncio.ensure_future(make(connection).snowflake_n(n))  # type: ignore[arg-type]
        await settle()
        if call.done():
            assert not connection.requests
            call.result()
        call.cancel()
        return connection.requests[0].body

    def check(case: Case) -> None:
        try:
            n: float = int(case["n"])
        except ValueError:
            n = float(case["n"])
        sent = run(body(n))
        assert "error" not in case and sent == _bytes(case["body"]), case["why"]

    for case in _cases("counts"):
        _expect(case, check)


def test_traceparents() -> None:
    for case in _cases("traceparents"):
        value = _bytes(case["value"]).decode()
        assert current_trace(value.__str__) == (value if case["sent"] else None), case["why"]


def test_bodies() -> None:
    for case in _cases("bodies"):
        _expect_ranges(case, lambda case: decode(_bytes(case["body"]), int(case["n"])))


def test_replies() -> None:
    def read(case: Case) -> IdBatch:
        # nats-py keeps one value of a header, and the status among them.
        headers = {name: _bytes(values[0]).decode() for name, values in case.get("headers", {}).items()}
        if "status" in case:
            headers["Status"] = case["status"]
        return decode_reply(headers or None, _bytes(case["body"]), int(case["n"]))

    for case in _cases("replies"):
        error = _expect_ranges(case, read)
        if error:
            assert error.code == case.get("code") and case.get("text", "") in str(error), case["why"]


def test_codes() -> None:
    for case in _cases("codes"):
        error = _expect(case, lambda case: decode_reply({"Nats-Service-Error-Code": case["value"]}, b"1", 1))
        assert isinstance(error, ErrorReplyError)
        assert (error.code, error.retryable) == (int(case["value"]), case["retryable"]), case["why"]


def _expect_fault(case: Case, check: Callable[[Case], None]) -> None:
    """Check that a case passes, or has an error that says its fault in a line of a log."""
    got, shown = None, "no error"
    try:
        check(case)
    except IdworkerError as error:
        got, shown = _fault_of(error), str(error)
    assert got == case.get("error"), f"{case['why']}: {shown}"
    assert len(shown) <= 350 and shown.isprintable(), case["why"]


def test_opaque_ids() -> None:
    opaque = SECTIONS["opaque"]
    assert all(opaque[list] for list in ("keys", "bad_keys", "seal", "open", "bad"))
    for case in [*opaque["keys"].values(), *opaque["bad_keys"]]:
        _expect_fault(case, _check_keys)
    for case in opaque["seal"]:
        _expect_fault(case, lambda case: _check_sealing(opaque, case, both=True))
    for case in [*opaque["open"], *opaque["bad"]]:
        _expect_fault(case, lambda case: _check_sealing(opaque, case, both=False))


def test_numbers_of_documents() -> None:
    for case in _cases("numbers"):
        _expect_fault(case, _check_document)


def _check_keys(case: Case) -> None:
    _same(OpaqueKeys(case["file"]).fingerprint(), case.get("fingerprint"))


def _check_sealing(opaque: Case, case: Case, *, both: bool) -> None:
    seal, open = _codec(OpaqueKeys(opaque["keys"][case["keys"]]["file"]), case)
    if "error" in case:
        open(case["sealed"]) if "sealed" in case else seal(case["id"])
        return
    _same(open(case["sealed"]), case["id"])
    if both:
        _same(seal(case["id"]), case["sealed"])


def _codec(keys: OpaqueKeys, case: Case) -> tuple[Callable[[str], str], Callable[[str], str]]:
    """Return how a codec seals and opens, with decimals for numbers."""
    if case["form"] == "text":
        texts = keys.texts(case["tag"], case["prefix"])
        return lambda id: texts.seal(int(id)), lambda sealed: str(texts.open(sealed))
    numbers = keys.numbers(case["tag"], bits=case["bits"])
    return lambda id: str(numbers.seal(int(id))), lambda sealed: str(numbers.open(int(sealed)))


def _check_document(case: Case) -> None:
    format = NumberFormat(case["base"], case["format"], case["zone"])
    if "parse" in case:
        format.parse(case["parse"])
    elif "at" in case:
        at, seq = format.parse_date(case["at"]), int(case["seq"])
        number = format.number(at, seq)
        _same(number, case["number"])
        _same(format.tag(at), case["tag"])
        read = format.parse(number)
        _same((read.base, read.tag, read.seq), (case["base"], case["tag"], seq))


def _fault_of(error: IdworkerError) -> str:
    """The file's name of an error."""
    if isinstance(error, OpaqueIdError | DocumentNumberError):
        return error.fault.replace("_", " ")
    return "tag" if isinstance(error, BadTagError) else repr(error)


def _same(got: object, want: object) -> None:
    if got != want:
        raise AssertionError(f"{got}, want {want}")
