"""URLs and logins of the client for threads: no error and no log shows a password."""

from __future__ import annotations

import logging
import socket

import pytest
from scripted import Server
from sqlalchemy import BigInteger, Column, MetaData, Table, create_engine

from idworker_client import BadConfigError, ConnectFailedError, SyncIdworker
from idworker_client.sqlalchemy import IdworkerDefault

ENCODE = "bad url: its user or password has {!r}, allowed is {}, or the options user and password"
EXAMPLE = "allowed are URLs such as nats://127.0.0.1:4222"
NO_HOST = f"bad url: no valid host and port, {EXAMPLE}"
SCHEME = "bad url: unknown scheme, allowed are nats, tls, ws, wss"
BAD_URLS: list[tuple[str | list[str], str]] = [
    ("nats://ids:S3cr#et@host", ENCODE.format("#", "%23")),
    ("nats://ids:S3cr/et@host", ENCODE.format("/", "%2F")),
    ("nats://ids:S3cr?et@host", ENCODE.format("?", "%3F")),
    ("nats://ids:S3cr[et@host", ENCODE.format("[", "%5B")),
    ("nats://ids:S3cr]et@host", ENCODE.format("]", "%5D")),
    ("nats://ids:S3cr et@host", ENCODE.format(" ", "%20")),
    ("nats://ids:S3cret\n@host", ENCODE.format("\n", "%0A")),
    ("nats://S3cr#et@host", ENCODE.format("#", "%23")),
    (["nats://127.0.0.1", "ids:S3cr#et@host"], ENCODE.format("#", "%23")),
    ("nats://ids:S3cret", NO_HOST),
    ("nats://ids:S3cr#et", NO_HOST),
    ("nats://ids:S3cr\N{ACCOUNT OF}et", NO_HOST),
    ("ids:S3cret", NO_HOST),
    ("nats://[S3cret", NO_HOST),
    ("[", NO_HOST),
    ("nats://ids:S3cret@", NO_HOST),
    ("nats://ids:S3cret@host:port", NO_HOST),
    ("nats://ids:S3cret@host:0", NO_HOST),
    ("nats://ids:S3cret@host:99999", NO_HOST),
    ("nats://ids:S3cret@[::1", NO_HOST),
    ("nats://ids:S3cret@host:4222/path", NO_HOST),
    ("http://ids:S3cret@host", SCHEME),
    ("ids:S3cret://host", SCHEME),
    (
        ["nats://a:S3cret@host", "nats://b:S3cret@host"],
        "bad url: users or passwords differ, allowed is one login for all servers",
    ),
]


def chain(error: BaseException | None) -> str:
    """The texts of an error, its causes, and so on."""
    found: list[BaseException] = []
    while error and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return repr(found)


@pytest.mark.parametrize(("url", "message"), BAD_URLS, ids=str)
def test_a_bad_url_is_refused_without_its_password(url: str | list[str], message: str) -> None:
    with pytest.raises(BadConfigError) as e:
        SyncIdworker(url)
    assert str(e.value) == message
    assert "S3cr" not in chain(e.value)


@pytest.mark.parametrize(
    ("login", "user", "password", "token"),
    [
        ("ids:S3cr%23et@", "ids", "S3cr#et", None),
        ("ids:a%2Fb%3Ac%40d%25@", "ids", "a/b:c@d%", None),
        ("ids:a@b@", "ids", "a@b", None),
        ("S3cr%23et@", None, None, "S3cr#et"),
        ("", None, None, None),
    ],
)
def test_the_login_of_a_url_is_decoded(
    login: str, user: str | None, password: str | None, token: str | None
) -> None:
    with Server() as server, SyncIdworker(server.url.replace("//", f"//{login}")) as ids:
        assert ids.next("order") == 1
        sent = server.connections[0].login
        assert (sent.get("user"), sent.get("pass"), sent.get("auth_token")) == (user, password, token)


def test_options_are_stronger_than_the_url() -> None:
    with Server() as server:
        url = server.url.replace("//", "//ids:wrong@")
        with SyncIdworker(url, user="app", password="right") as ids:
            assert ids.next("order") == 1
            assert server.connections[0].login["user"] == "app"


def test_no_failure_shows_a_password(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"127.0.0.1:{closed.getsockname()[1]}"
    with caplog.at_level(logging.DEBUG), Server() as server:
        for url in (f"nats://ids:S3cret@{address}", server.url.replace("//", "//ids:wrong@")):
            with SyncIdworker(url) as ids:
                with pytest.raises(ConnectFailedError) as e:
                    ids.next("order", timeout=2)
                shown = [chain(e.value), repr(ids), repr(ids._server), caplog.text]
                assert not [text for text in shown if "S3cret" in text or "wrong" in text]


def test_a_name_without_an_address_is_named() -> None:
    host = "a" * 64  # too long for a name, so no server is asked for it
    with SyncIdworker(f"nats://ids:S3cret@{host}") as ids, pytest.raises(ConnectFailedError) as e:
        ids.connect()
    assert str(e.value).startswith(f"connect to {host}: ")
    assert "S3cret" not in chain(e.value)


def test_a_url_in_the_place_of_the_ids_of_rows_is_not_shown() -> None:
    table = Table(
        "t", MetaData(), Column("id", BigInteger, primary_key=True, default=IdworkerDefault("order"))
    )
    engine = create_engine("sqlite://", execution_options={"idworker": "nats://ids:S3cret@host"})
    with engine.connect() as connection, pytest.raises(Exception, match="is str, but must be RowIds") as e:
        connection.execute(table.insert(), {})
    assert "S3cret" not in chain(e.value)
