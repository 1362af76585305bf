"""Replies. Anything but what docs/protocol.md describes is rejected as a whole."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ._arguments import LARGEST, check_count
from ._batch import IdBatch
from ._errors import (
    BadReplyError,
    BusyError,
    ErrorReplyError,
    ExhaustedError,
    IdworkerError,
    MalformedRequestError,
    NoSuchTagError,
    StrictTagError,
    UnavailableError,
)

Ranges = tuple[tuple[int, int], ...]
"""Pairs of first and last ID, both inclusive; ascending, without overlap."""

_CODE_HEADER = "Nats-Service-Error-Code"
_TEXT_HEADER = "Nats-Service-Error"
_STATUS_HEADER = "Status"  # nats-py's name for the status of the line NATS/1.0
_NO_RESPONDERS = "503"

_MOST_QUOTED = 40

# With fullmatch, on bytes: `$` would pass a line break, and int() signs, spaces,
# underscores and digits of other scripts.
_LINE = re.compile(rb"([1-9][0-9]{0,18})(?:-([1-9][0-9]{0,18}))?")
_CODE = re.compile(r"[0-9]{3}")

_REFUSALS: dict[int, type[ErrorReplyError]] = {
    400: MalformedRequestError,
    404: NoSuchTagError,
    409: StrictTagError,
    429: BusyError,
    503: UnavailableError,
    507: ExhaustedError,
}


class NoRespondersError(IdworkerError):
    """The NATS server replied that no worker subscribes to the subject."""

    retryable = True


def decode(body: bytes, n: int) -> IdBatch:
    """Decode the body of a reply to a request for n IDs, as docs/protocol.md says.

    Raises BadReplyError unless the body has exactly n ascending IDs, as lines such
    as 7 or 1-3; it quotes at most 40 characters. Raises BadCountError for a bad n.
    """
    check_count(n)
    return IdBatch(read_body(body, n))


def decode_reply(headers: Mapping[str, str] | None, body: bytes, n: int) -> IdBatch:
    """Decode a whole reply to a request for n IDs. headers are as nats-py has them.

    Raises ErrorReplyError for a refusal, BadReplyError for a malformed reply, and
    BadCountError for a bad n.
    """
    check_count(n)
    return IdBatch(read_reply(headers, body, n))


def read_reply(headers: Mapping[str, str] | None, body: bytes, n: int) -> Ranges:
    """Return the ranges of a reply to a request for n IDs.

    Raises NoRespondersError if the server itself replied; otherwise as decode_reply.
    """
    if headers:
        if not body and headers.get(_STATUS_HEADER) == _NO_RESPONDERS:
            raise NoRespondersError("no responders", reason="no_responders")
        code = headers.get(_CODE_HEADER)
        if code is not None:
            raise _refusal(code, headers.get(_TEXT_HEADER) or "refused")
    return read_body(body, n)


def _refusal(code: str, text: str) -> IdworkerError:
    if not _CODE.fullmatch(code):
        return BadReplyError(f"malformed reply: error code {code[:_MOST_QUOTED]!r}, allowed is three digits")
    kind = _REFUSALS.get(int(code), ErrorReplyError)
    return kind(f"{text} ({code})", code=int(code))


def read_body(body: bytes, n: int) -> Ranges:
    """Return the ranges of the body of a reply to a request for n IDs. As decode."""
    ranges = []
    previous = total = 0
    for line in body.split(b"\n", n):  # n + 1 lines are too many
        match = _LINE.fullmatch(line)
        if not match:
            raise _malformed(f"{_quote(line)} is not a range of IDs")
        first = last = int(match[1])
        if match[2]:
            last = int(match[2])
            if last <= first:
                raise _malformed(f"{_quote(line)} does not ascend")
        if last > LARGEST:
            raise _malformed(f"{_quote(line)} is above 2^63-1")
        if first <= previous:
            raise _malformed(f"{_quote(line)} is not above the previous range")
        total += last - first + 1
        previous = last
        ranges.append((first, last))
    if total != n:
        raise _malformed(f"{total} IDs, requested {n}")
    return tuple(ranges)


def _malformed(why: str) -> BadReplyError:
    return BadReplyError(f"malformed reply: {why}")


def _quote(line: bytes) -> str:
    return repr(line[:_MOST_QUOTED].decode("utf-8", "replace"))
