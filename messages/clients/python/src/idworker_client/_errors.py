"""Errors of the client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal

Reason = Literal["busy", "unavailable", "no_reply", "no_responders", "disconnected"]
"""Why a call repeated its requests until its time was over.

busy: code 429, the workers have too many requests. unavailable: code 503, the
worker has no IDs at the moment. no_reply: requests were sent, and nothing
replied. no_responders: the NATS server replied that nothing answers such
requests: no worker runs with this prefix, or, for snowflake IDs, none has a
worker ID. disconnected: the connection was lost, so nothing could be sent.
"""


class IdworkerError(Exception):
    """Why a call got no ID. Its subclasses are the kinds of errors.

    The message names the subject of the request, and the reason.
    """

    retryable: ClassVar[bool] = False
    """Whether the same call may succeed later."""

    code: int | None
    """The code of the error reply that decided the call, 0 to 999."""

    subject: str | None
    """The subject of the requests, such as ids.segment.order."""

    tries: int
    """The number of requests that the call sent. 0 for a wait of a prefetcher."""

    reason: Reason | None
    """Why the call was still waiting when its time was over."""

    def __init__(
        self,
        message: str,
        *,
        code: int | None = None,
        subject: str | None = None,
        tries: int = 0,
        reason: Reason | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.subject = subject
        self.tries = tries
        self.reason = reason

    def __reduce__(self) -> tuple[Callable[..., IdworkerError], tuple[Any, ...]]:
        """Let pickle keep all fields. A pool of processes hangs at an error that it cannot read."""
        return _remake, (type(self), self.args, self.__dict__)


class BadArgumentError(IdworkerError):
    """An argument is malformed. Nothing was sent."""


class BadPrefixError(BadArgumentError):
    """A prefix is malformed."""


class BadTagError(BadArgumentError):
    """A tag is malformed."""


class BadCountError(BadArgumentError):
    """A count is not an int from 1 to 2^63−1."""


class BadConfigError(BadArgumentError):
    """An option is malformed."""


class ErrorReplyError(IdworkerError):
    """A worker's refusal. This class itself is that of codes without a class of their own."""


class MalformedRequestError(ErrorReplyError):
    """Code 400: the request asks for more IDs than the worker's limit, 10,000 by default."""


class NoSuchTagError(ErrorReplyError):
    """Code 404: the tag does not exist."""


class StrictTagError(ErrorReplyError):
    """Code 409: a strict tag cannot be prefetched."""


class ExhaustedError(ErrorReplyError):
    """Code 507: the tag's numbers are used up."""


class BusyError(ErrorReplyError):
    """Code 429: too many requests. It is the cause of a time-out, never raised alone."""

    retryable = True


class UnavailableError(ErrorReplyError):
    """Code 503: no IDs at the moment. It is the cause of a time-out, never raised alone."""

    retryable = True


class BadReplyError(IdworkerError):
    """A reply is not what a worker sends."""


class PermissionDeniedError(IdworkerError):
    """The NATS server refused the request, or the inbox of its reply."""


class ConnectFailedError(IdworkerError):
    """No server at the URLs, or it refused the login."""

    retryable = True


class ConnectionEndedError(IdworkerError):
    """The connection was closed or is being drained."""


class ClosedError(IdworkerError):
    """The client or the prefetcher was closed."""


class CallTimeoutError(IdworkerError, TimeoutError):
    """No ID came in time. reason says why."""

    retryable = True


class BufferEmptyError(IdworkerError):
    """take found no buffered ID. A refill is on its way."""

    retryable = True


def _remake(kind: type[IdworkerError], args: tuple[Any, ...], fields: dict[str, Any]) -> IdworkerError:
    """Make an error again without its __init__, whose arguments differ from class to class."""
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(fields)
    return error
