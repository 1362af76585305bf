"""What arguments may be. Nothing is sent if one is refused."""

from __future__ import annotations

import re
from collections.abc import Callable

from ._errors import BadConfigError, BadCountError, BadPrefixError, BadTagError

LARGEST = 2**63 - 1
"""The largest ID, and the largest count."""

_MOST_TAG_BYTES = 128
_MOST_PREFIX_BYTES = 32
_LONGEST_TIMEOUT = 10**9  # seconds; no event loop counts further

# With fullmatch, since `$` would pass a line break at the end.
_TAG = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*")
_TOKEN = re.compile(r"[A-Za-z0-9_-]*")
_PREFIX = re.compile(r"[a-z0-9_-]+")
_PREFIX_BEGIN = re.compile(r"[a-z0-9_-]*")
_TRACEPARENT = re.compile(r"[!-~]{1,256}")


def check_tag(tag: str) -> None:
    """Check a tag: tokens of ``A-Z a-z 0-9 _ -`` joined by single dots, 1 to 128 bytes in all.

    Raises BadTagError with what is wrong and what is allowed.
    """
    if not isinstance(tag, str):
        raise BadTagError(f"malformed tag: {_type(tag)}, allowed is a str")
    if not 1 <= _bytes(tag) <= _MOST_TAG_BYTES:
        raise BadTagError(f"malformed tag: {_bytes(tag)} bytes, allowed is 1 to {_MOST_TAG_BYTES}")
    if not _TAG.fullmatch(tag):
        raise BadTagError(f"malformed tag: {_fault(tag)}")


def check_prefix(prefix: str) -> None:
    """Check the prefix of an installation's subjects: ``a-z 0-9 _ -``, 1 to 32 bytes.

    Raises BadPrefixError with what is wrong and what is allowed.
    """
    if not isinstance(prefix, str):
        raise BadPrefixError(f"bad prefix: {_type(prefix)}, allowed is a str")
    if not 1 <= _bytes(prefix) <= _MOST_PREFIX_BYTES:
        raise BadPrefixError(f"bad prefix: {_bytes(prefix)} bytes, allowed is 1 to {_MOST_PREFIX_BYTES}")
    if not _PREFIX.fullmatch(prefix):
        at = _end(_PREFIX_BEGIN, prefix, 0)
        raise BadPrefixError(
            f"bad prefix: {prefix!r} has {prefix[at]!r} at index {at}, allowed are a-z 0-9 _ -"
        )


def check_count(n: int) -> None:
    """Check the number of IDs of a request, 1 to 2^63−1; the worker has a limit of its own.

    Raises BadCountError.
    """
    if not isinstance(n, int) or isinstance(n, bool):
        raise BadCountError(f"bad count: {_type(n)}, allowed is an int")
    if not 1 <= n <= LARGEST:
        raise BadCountError(f"bad count: {_short(n)}, allowed is 1 to 2^63-1")


def check_timeout(timeout: float, name: str = "timeout") -> None:
    """Check an argument that says how long a wait may last: seconds, above 0 and at most 10^9.

    Raises BadConfigError.
    """
    if not isinstance(timeout, (int, float)) or isinstance(timeout, bool):
        raise BadConfigError(f"bad {name}: {_type(timeout)}, allowed is a number of seconds")
    if not 0 < timeout <= _LONGEST_TIMEOUT:  # false for NaN
        raise BadConfigError(f"bad {name}: {_short(timeout)}, allowed is above 0 and at most 10^9 seconds")


def check_traceparent(traceparent: Callable[[], str | None] | None) -> None:
    """Check the option that gives the current traceparent. Raises BadConfigError."""
    if traceparent is not None and not callable(traceparent):
        raise BadConfigError(f"bad traceparent: {_type(traceparent)}, allowed is a function")


def current_trace(traceparent: Callable[[], str | None] | None) -> str | None:
    """Return the value of the caller's context, if it may be sent.

    A trace must not cost an ID, so anything else is left out.
    """
    try:
        value = traceparent() if traceparent else None
    except Exception:
        return None
    return value if isinstance(value, str) and _TRACEPARENT.fullmatch(value) else None


def _fault(tag: str) -> str:
    """Say what is wrong with a tag."""
    at = 0
    while True:
        begin, at = at, _end(_TOKEN, tag, at)
        if at < len(tag) and tag[at] != ".":
            return f"{tag[at]!r} at index {at}, allowed are A-Z a-z 0-9 _ - and dots between tokens"
        if at == begin or at + 1 == len(tag):
            return f"empty token at index {at}, allowed are tokens joined by single dots"
        at += 1


def _end(pattern: re.Pattern[str], text: str, begin: int) -> int:
    """Return where the longest match that begins there ends."""
    match = pattern.match(text, begin)
    return match.end() if match else begin


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _type(value: object) -> str:
    return type(value).__name__


def _short(number: float) -> str:
    """Show a number; only its size if it has very many digits, which str may refuse."""
    if isinstance(number, int) and number.bit_length() > 256:
        return f"an int of {number.bit_length()} bits"
    return str(number)
