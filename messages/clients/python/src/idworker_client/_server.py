"""Where and how the client for threads connects."""

from __future__ import annotations

import asyncio
import inspect
import logging
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from nats import errors
from nats.aio.client import Client

from ._errors import BadConfigError, ConnectFailedError
from ._log import log

RECONNECT_PAUSE = 0.25  # s; short compared with a call, which then outlives a restart of the server
CONNECT_TIMEOUT = 5  # s

_EXAMPLE = "allowed are URLs such as nats://127.0.0.1:4222"
_SCHEMES = ("nats", "tls", "ws", "wss")  # nats-py would look for a host of any other name
_NOT_IN_LOGIN = re.compile(r"[/?#\[\]\s\x00-\x1f\x7f]")

_LOSSES = (errors.UnexpectedEOF, errors.StaleConnectionError, OSError)

_Callback = Callable[..., Awaitable[None]]


class Server:
    """The servers that are tried, the options of their connection, and what is logged about it."""

    def __init__(self, url: str | list[str], options: dict[str, Any]) -> None:
        urls = [_parse(each) for each in (url if isinstance(url, (list, tuple)) else [url])]
        if not urls:
            raise BadConfigError(f"bad url: there is none, {_EXAMPLE}")
        known = set(inspect.signature(Client.connect).parameters) - {"self", "servers"}
        for name in options:
            if name not in known:
                raise BadConfigError(f"bad option: {name!r}, allowed are those of nats.connect")
        self._addresses = [url.address for url in urls]
        self._hosts = ", ".join(url.host for url in urls)
        self._options = {
            "max_reconnect_attempts": -1,
            "reconnect_time_wait": RECONNECT_PAUSE,
            "connect_timeout": CONNECT_TIMEOUT,
            **_login({url.login for url in urls if url.login}, options),
            **options,
        }
        self._connection: Client | None = None  # the one in use
        self._is_lost = False
        self._loss: Exception | None = None  # the latest error, which may be why it is lost

    async def connect(self) -> Client:
        """Connect to one of the servers, after one attempt at each. Raises ConnectFailedError."""
        connection = Client()
        failures: list[BaseException] | None = []  # None when connected, or given up

        async def report(error: Exception) -> None:
            if failures is None:
                # The error of a loss is logged with it, and attempts after it fail again and again.
                is_other = connection.is_connected and not isinstance(error, _LOSSES)
                log(logging.WARNING if is_other else logging.DEBUG, "NATS connection: %s", _text(error))
                self._loss = error
                return
            failures.append(error)
            if len(failures) >= len(self._addresses):
                raise _AllFailedError  # nats-py would go on without end

        async def lost() -> None:
            if connection is self._connection and not self._is_lost:
                self._is_lost = True
                why = connection.last_error or self._loss
                log(logging.WARNING, "NATS connection lost%s", f": {_text(why)}" if why else "")

        async def restored() -> None:
            self._restored(connection)

        application = self._options.get("error_cb")

        async def report_or_pass_on(error: Exception) -> None:
            await (application if application and failures is None else report)(error)

        callbacks = {
            "error_cb": report_or_pass_on,
            "disconnected_cb": _both(lost, self._options.get("disconnected_cb")),
            "reconnected_cb": _both(restored, self._options.get("reconnected_cb")),
        }
        try:
            await connection.connect(self._addresses, **{**self._options, **callbacks})
            if not connection.is_connected:
                raise errors.UnexpectedEOF
        except BaseException as e:
            reasons, failures = failures or [e], None
            # nats-py cancels its reader, and the future on which both wait for the socket.
            with suppress(Exception, asyncio.CancelledError):
                await connection.close()
            if not isinstance(e, Exception):
                raise
            if isinstance(reasons[-1], TypeError):
                raise BadConfigError(f"bad option of nats.connect: {reasons[-1]}") from reasons[-1]
            # A refusal says more than a server that is away.
            reason = next((r for r in reasons if isinstance(r, errors.Error)), reasons[-1])
            raise ConnectFailedError(f"connect to {self._hosts}: {_text(reason)}") from reason
        failures = None
        self._connection = connection
        self._restored(connection)
        return connection

    async def close(self, connection: Client) -> None:
        """Close a connection, which then doesn't count as lost."""
        self._connection = None
        await connection.close()

    def _restored(self, connection: Client) -> None:
        if self._is_lost:
            self._is_lost = False
            url = connection.connected_url
            log(logging.INFO, "NATS connection restored: server=%s", url.netloc if url else self._hosts)


class _AllFailedError(Exception):
    """Each server was tried once."""


def _both(mine: _Callback, application: _Callback | None) -> _Callback:
    """Return a callback that calls that of the application, too."""

    async def both() -> None:
        await mine()
        if application:
            await application()

    return both


class _Url(NamedTuple):
    address: str
    """The URL without user and password, so that nothing can show them."""

    host: str
    login: tuple[str, str | None] | None
    """User and password, or a token and None."""


def _parse(url: object) -> _Url:
    """Parse a URL of a NATS server. An error shows no part of it that could be a password."""
    if not isinstance(url, str):
        raise BadConfigError(f"bad url: {type(url).__name__}, {_EXAMPLE}")
    scheme, colon, rest = url.strip().partition("://")
    if not colon:
        scheme, rest = "nats", scheme
    if scheme not in _SCHEMES:
        raise BadConfigError(f"bad url: unknown scheme, allowed are {', '.join(_SCHEMES)}")
    login, at, host = rest.rpartition("@")
    wrong = _NOT_IN_LOGIN.search(login)
    if wrong:
        raise BadConfigError(
            f"bad url: its user or password has {wrong[0]!r}, allowed is %{ord(wrong[0]):02X},"
            " or the options user and password"
        )
    try:
        parts = urlsplit(f"{scheme}://{host}")
        is_valid = parts.hostname and parts.port != 0 and not re.search(r"\s", host)
        if scheme not in ("ws", "wss"):
            is_valid = is_valid and not (parts.path.strip("/") or parts.query or parts.fragment)
    except ValueError:  # its text quotes the host, which is a password if the rest was forgotten
        is_valid = False
    if not is_valid:
        raise BadConfigError(f"bad url: no valid host and port, {_EXAMPLE}")
    user, colon, password = login.partition(":")
    return _Url(
        f"{scheme}://{host}",
        parts.netloc,
        (unquote(user), unquote(password) if colon else None) if at else None,
    )


def _login(logins: set[tuple[str, str | None]], options: dict[str, Any]) -> dict[str, Any]:
    """Return the options for the login in the URLs, which nats-py would not decode."""
    if len(logins) > 1:
        raise BadConfigError("bad url: users or passwords differ, allowed is one login for all servers")
    names = ("user", "password", "token")
    if not logins or any(options.get(name) is not None for name in names):
        return {}
    user, password = logins.pop()
    return {"token": user} if password is None else {"user": user, "password": password}


def _text(error: BaseException) -> str:
    return str(error).removeprefix("nats: ").strip("'") or type(error).__name__
