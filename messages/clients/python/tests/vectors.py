"""Checks this client with the sections opaque and numbers of messages/testdata/vectors.json."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from idworker import BadTagError, IdworkerError
from idworker.number import DocumentNumberError, NumberFormat
from idworker.opaque import OpaqueIdError, OpaqueKeys

FILE = Path(__file__).resolve().parents[3] / "testdata" / "vectors.json"

Case = dict[str, Any]


def check(file: Path) -> tuple[dict[str, int], list[str]]:
    """Return the number of cases by section, and a text for each case that failed."""
    sections = json.loads(file.read_text("utf-8"))
    opaque, numbers = sections["opaque"], sections["numbers"]["cases"]
    failed: list[str] = []

    def expect(section: str, case: Case, perform: Callable[[Case], None]) -> None:
        got, shown = None, "no error"
        try:
            perform(case)
        except IdworkerError as error:
            got, shown = _kind_of(error), str(error)
        except Exception as error:
            got, shown = "none of the client's", repr(error)
        # A message fits in a line of a log.
        if got != case.get("error") or len(shown) > 350 or not shown.isprintable():
            failed.append(f"{section}: {case['why']}: {shown}, want {case.get('error')}")

    for case in [*opaque["keys"].values(), *opaque["bad_keys"]]:
        expect("opaque", case, _check_keys)
    for case in opaque["seal"]:
        expect("opaque", case, lambda case: _check_sealing(opaque, case, both=True))
    for case in [*opaque["open"], *opaque["bad"]]:
        expect("opaque", case, lambda case: _check_sealing(opaque, case, both=False))
    for case in numbers:
        expect("numbers", case, _check_document)
    count = sum(len(opaque[list]) for list in ("keys", "bad_keys", "seal", "open", "bad"))
    return {"opaque": count, "numbers": len(numbers)}, failed


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


def _kind_of(error: IdworkerError) -> str:
    """The file's name of an error."""
    if isinstance(error, OpaqueIdError | DocumentNumberError):
        return error.fault.replace("_", " ")
    return "tag" if isinstance(error, BadTagError) else repr(error)


def _same(got: object, want: object) -> None:
    if got != want:
        raise AssertionError(f"{got}, want {want}")
