"""One ID for each row: what the integrations of ORMs have in common."""

from __future__ import annotations

import logging
import time
from typing import Generic, Protocol, TypeVar

from ._arguments import check_tag, check_timeout
from ._buffer import PrefetchConfig
from ._client import Idworker
from ._errors import BadConfigError, BufferEmptyError, StrictTagError
from ._fork import OfOneProcess
from ._log import log
from ._prefetch import Prefetcher
from ._sync import SyncIdworker, SyncPrefetcher

Buffer = TypeVar("Buffer")
Made = TypeVar("Made", covariant=True)


def check_source(what: str, tag: str | None, snowflake: bool) -> None:
    """Check that exactly one of tag and snowflake is given.

    Raises BadConfigError, or BadTagError for a malformed tag.
    """
    if tag is None and not snowflake:
        raise BadConfigError(f"{what} needs a tag, or snowflake=True")
    if tag is not None and snowflake:
        raise BadConfigError(f"{what} has a tag and snowflake=True, but must have one of them")
    if tag is not None:
        check_tag(tag)


class _Client(Protocol[Made]):
    """What makes buffers."""

    def prefetch(self, tag: str, *, runway: float, limit: int, max_batch: int) -> Made: ...

    def prefetch_snowflake(self, *, runway: float, limit: int, max_batch: int) -> Made: ...


class _Rows(OfOneProcess, Generic[Buffer]):
    """The buffers of all tags."""

    def __init__(
        self,
        client: _Client[Buffer],
        *,
        wait: float = 2.0,
        runway: float = 1.0,
        limit: int = 1_000_000,
        max_batch: int = 10_000,
    ) -> None:
        check_timeout(wait, "wait")
        self._client = client
        self._wait = wait
        self._config = PrefetchConfig(runway, limit, max_batch)
        self._buffers: dict[str | None, Buffer] = {}
        self._strict: dict[str, object] = {}  # the tags that have no buffer, as long as the process lives

    def _buffer(self, tag: str | None) -> Buffer:
        found = self._buffers.get(tag)
        if found is None:
            c = self._config
            if tag is None:
                made = self._client.prefetch_snowflake(runway=c.runway, limit=c.limit, max_batch=c.max_batch)
            else:
                made = self._client.prefetch(tag, runway=c.runway, limit=c.limit, max_batch=c.max_batch)
            # A lock could be held at a fork. A second one is never used, and has fetched nothing.
            found = self._buffers.setdefault(tag, made)
        return found

    def _learn_strict(self, tag: str) -> None:
        mine = object()
        if self._strict.setdefault(tag, mine) is mine:  # only one of several threads logs it
            log(logging.WARNING, "tag is strict, each row a request: tag=%s", tag)
        self._buffers.pop(tag, None)

    def _left(self, begin: float) -> float:
        return max(self._wait - (time.monotonic() - begin), 0.001)


class RowIds(_Rows[SyncPrefetcher]):
    """IDs of all tags for rows, from buffers that are shared by all who ask for a tag.

    A strict tag has no buffer, so each row costs a request; the logger "idworker_client"
    says so once. wait is the longest wait for an ID in seconds, above 0: short by
    default, since a transaction may be open and others wait for its locks. runway,
    limit and max_batch are those of SyncIdworker.prefetch; BadConfigError for those
    out of bounds. Any number of threads may use it, and forked children.
    """

    _client: SyncIdworker

    def next(self, tag: str | None) -> int:
        """Return an ID that no other row has; None stands for snowflake IDs.

        Raises CallTimeoutError, which is retryable, if none came in time, and the
        other errors of SyncIdworker.next.
        """
        begin = time.monotonic()
        if tag not in self._strict:
            try:
                return self._buffer(tag).take(timeout=self._wait)
            except StrictTagError:
                if tag is None:
                    raise
                self._learn_strict(tag)
        return self._client.next(str(tag), timeout=self._left(begin))

    def check(self, tag: str | None) -> None:
        """Raise the error of next, such as NoSuchTagError, before the first row does.

        A buffer requests IDs, but a strict tag uses no number.
        """
        try:
            self._buffer(tag).take(timeout=self._wait)
        except StrictTagError:
            if tag is None:
                raise
            self._learn_strict(tag)


class AsyncRowIds(_Rows[Prefetcher]):
    """IDs of all tags for rows, as RowIds, from a client of asyncio.

    It belongs to the event loop of its client.
    """

    _client: Idworker

    def take(self, tag: str | None) -> int | None:
        """Return a buffered ID, or None if next must wait for one."""
        if tag in self._strict:
            return None
        try:
            return self._buffer(tag).take()
        except (BufferEmptyError, StrictTagError):
            return None

    async def next(self, tag: str | None) -> int:
        """Return an ID that no other row has; None stands for snowflake IDs.

        Raises CallTimeoutError, which is retryable, if none came in time, and the
        other errors of Idworker.next.
        """
        begin = time.monotonic()
        if tag not in self._strict:
            try:
                return await self._buffer(tag).next(timeout=self._wait)
            except StrictTagError:
                if tag is None:
                    raise
                self._learn_strict(tag)
        return await self._client.next(str(tag), timeout=self._left(begin))

    async def check(self, tag: str | None) -> None:
        """Raise the error of next, such as NoSuchTagError, before the first row does. As RowIds.check."""
        try:
            await self._buffer(tag).next(timeout=self._wait)
        except StrictTagError:
            if tag is None:
                raise
            self._learn_strict(tag)
