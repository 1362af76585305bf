"""What both kinds of the driver answer."""

from __future__ import annotations

import asyncio
import itertools
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import idworker_client
from idworker_client import IdworkerError

Operations = Mapping[str, Callable[..., Any]]
"""Functions by the names of operations. Their keyword parameters are the fields; they
return the fields of ok, or None, and raise the error."""

# The kinds of errors. A class comes after its subclasses.
_KINDS: dict[type[BaseException], str] = {
    idworker_client.BadPrefixError: "prefix",
    idworker_client.BadTagError: "tag",
    idworker_client.BadCountError: "count",
    idworker_client.BadConfigError: "config",
    idworker_client.MalformedRequestError: "malformed",
    idworker_client.NoSuchTagError: "no_tag",
    idworker_client.StrictTagError: "strict",
    idworker_client.ExhaustedError: "exhausted",
    idworker_client.BusyError: "busy",
    idworker_client.UnavailableError: "unavailable",
    idworker_client.ErrorReplyError: "code",
    idworker_client.BadReplyError: "bad_reply",
    idworker_client.PermissionDeniedError: "denied",
    idworker_client.ConnectFailedError: "connection",
    idworker_client.ConnectionEndedError: "connection",
    idworker_client.ClosedError: "closed",
    idworker_client.CallTimeoutError: "timeout",
    idworker_client.BufferEmptyError: "empty",
    asyncio.CancelledError: "cancelled",
}


def hello(features: list[str]) -> dict[str, Any]:
    """The result of hello."""
    version = f"{idworker_client.__version__} on {platform.python_version()}"
    return {"language": "Python", "version": version, "features": features}


def kind_of(error: BaseException) -> str:
    """The kind of an error; one that is none of the client's is the driver's."""
    return next((kind for type, kind in _KINDS.items() if isinstance(error, type)), "driver")


def describe(error: BaseException) -> dict[str, Any]:
    """How an error is answered."""
    described: dict[str, Any] = {
        "kind": kind_of(error),
        "text": str(error) or repr(error),
        "retryable": False,
    }
    if isinstance(error, IdworkerError):
        described["retryable"] = error.retryable
        optional = {"code": error.code, "reason": error.reason, "tries": error.tries or None}
        described.update({k: v for k, v in optional.items() if v is not None})
    return described


def ranges_of(ranges: Iterable[tuple[int, int]]) -> dict[str, Any]:
    """The result of a call."""
    return {"ranges": [str(a) if a == b else f"{a}-{b}" for a, b in ranges]}


class Taken:
    """What callers got. Any number of threads may add to it."""

    def __init__(self) -> None:
        self._ids: list[list[int]] = []
        self._errors: list[BaseException] = []

    def add(self, ids: list[int], error: BaseException | None) -> None:
        """Add a caller's IDs, and the error that ended it."""
        self._ids.append(ids)
        if error is not None:
            self._errors.append(error)

    def result(self) -> dict[str, Any]:
        """The result of many and take."""
        kinds = [kind_of(error) for error in self._errors]
        descents = sum(b <= a for ids in self._ids for a, b in itertools.pairwise(ids))
        joined = _join(sorted(id for ids in self._ids for id in ids))
        return {**ranges_of(joined), "errors": {k: kinds.count(k) for k in kinds}, "descents": descents}

    def result_of_take(self) -> dict[str, Any]:
        """The result of take. The error of a lone caller is the operation's."""
        if len(self._ids) == 1 and self._errors:
            raise self._errors[0]
        return self.result()


def _join(ids: list[int]) -> Iterator[tuple[int, int]]:
    """Join neighbours to ranges. Two equal IDs are in two ranges."""
    begin = 0
    for end in range(1, len(ids) + 1):
        if end == len(ids) or ids[end] != ids[end - 1] + 1:
            yield ids[begin], ids[end - 1]
            begin = end
