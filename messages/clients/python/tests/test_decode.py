"""What vectors.json cannot say: how Python and nats-py differ from other languages."""

from __future__ import annotations

import asyncio
import tracemalloc

import pytest
from nats.aio.client import Client

from idworker_client import (
    BadCountError,
    BadReplyError,
    BusyError,
    ErrorReplyError,
    IdBatch,
    NoSuchTagError,
    UnavailableError,
    decode,
)
from idworker_client._decode import NoRespondersError, decode_reply


def test_bodies_that_python_would_read() -> None:
    """Each passes one of int(), str.isdigit, splitlines, strip or `$`."""
    for text in (
        "1_0",
        " 1",
        "1 ",
        "+1",
        "1\n",
        "1\r",
        "1\x0b",
        "1\x1c",
        "1\u2028",
        "٣",
        "²",
        "\ufeff1",
        "1\x00",
    ):
        with pytest.raises(BadReplyError):
            decode(text.encode(), 1)
    for separator in ("\r\n", "\x0b", "\x0c", "\x1c", "\x85", "\u2028"):
        with pytest.raises(BadReplyError):
            decode(f"1{separator}2".encode(), 2)


def test_a_large_body_costs_little() -> None:
    tracemalloc.start()
    try:
        for body in (b"\n" * 10**6, b"1" * 10**6, b"1\n" * 10**6):
            with pytest.raises(BadReplyError) as caught:
                decode(body, 3)
            assert len(str(caught.value)) < 120 and str(caught.value).isprintable()
        assert tracemalloc.get_traced_memory()[1] < 10**7
    finally:
        tracemalloc.stop()


def test_bad_n() -> None:
    for n in (0, -1, 2**63, True):
        with pytest.raises(BadCountError):
            decode(b"1", n)
        with pytest.raises(BadCountError):
            decode_reply(None, b"1", n)


def _reply(header: str, body: bytes, n: int = 1) -> IdBatch:
    """Decode a reply as nats-py delivers it."""
    headers = asyncio.run(Client()._process_headers(f"NATS/1.0{header}\r\n\r\n".encode()))
    return decode_reply(headers, body, n)


def test_replies_through_nats_py() -> None:
    """What nats-py makes of a header, and of the status in its first line."""
    with pytest.raises(NoRespondersError):
        _reply(" 503", b"")
    with pytest.raises(NoRespondersError):
        _reply(" 503 No Responders", b"")
    assert _reply(" 503", b"7-9", 3).ranges == ((7, 9),)
    assert _reply(" 200 OK", b"7").ranges == ((7, 7),)
    with pytest.raises(BadReplyError):
        _reply(" 408 Request Timeout", b"")
    with pytest.raises(NoSuchTagError, match=r"no such tag \(404\)") as caught:
        _reply("\r\nNats-Service-Error-Code: 404\r\nNats-Service-Error: no such tag", b"7")
    assert caught.value.code == 404
    with pytest.raises(BusyError):
        _reply(" 503\r\nNats-Service-Error-Code: 429", b"7")
    with pytest.raises(UnavailableError):
        _reply("\r\nNats-Service-Error-Code: 503\r\nTrace: a", b"")
    for code in ("", "4x4", "+404", "4_4", "٤٠٤", "0404"):
        with pytest.raises(BadReplyError):
            _reply(f"\r\nNats-Service-Error-Code: {code}", b"7")
    with pytest.raises(ErrorReplyError):  # nats-py keeps one of them
        _reply("\r\nNats-Service-Error-Code: 500\r\nNats-Service-Error-Code: 500", b"7")
    assert _reply("\r\nnats-service-error-code: 404", b"7").ranges == ((7, 7),)
