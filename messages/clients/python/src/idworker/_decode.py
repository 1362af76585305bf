"""Replies."""

from __future__ import annotations

from collections.abc import Mapping

from ._batch import IdBatch


def decode(body: bytes, n: int) -> IdBatch:
    """Decode the body of a reply to a request for n IDs, as docs/protocol.md says.

    Raises BadReplyError unless the body has exactly n ascending IDs.
    """
    raise NotImplementedError


def decode_reply(headers: Mapping[str, str] | None, body: bytes, n: int) -> IdBatch:
    """Decode a whole reply to a request for n IDs.

    Raises ErrorReplyError for a refusal, BadReplyError for a malformed reply.
    """
    raise NotImplementedError
