"""The client for asyncio."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._batch import IdBatch

if TYPE_CHECKING:
    from nats.aio.client import Client

    from ._prefetch import Prefetcher


class Idworker:
    """A client of idworker on a NATS connection, which it never closes.

    All of it belongs to the event loop of the connection. timeout is the longest
    call, in seconds, above 0.
    """

    def __init__(self, connection: Client, *, prefix: str = "ids", timeout: float = 5.0) -> None:
        raise NotImplementedError

    async def next(self, tag: str, *, timeout: float | None = None) -> int:
        """Return a new ID of a tag, from 1 to 2^63−1."""
        raise NotImplementedError

    async def next_n(self, tag: str, n: int, *, timeout: float | None = None) -> IdBatch:
        """Return n new IDs of a tag. The worker's limit is 10,000 by default."""
        raise NotImplementedError

    async def snowflake(self, *, timeout: float | None = None) -> int:
        """Return a new snowflake ID."""
        raise NotImplementedError

    async def snowflake_n(self, n: int, *, timeout: float | None = None) -> IdBatch:
        """Return n new snowflake IDs."""
        raise NotImplementedError

    def prefetch(
        self, tag: str, *, runway: float = 1.0, limit: int = 1_000_000, max_batch: int = 10_000
    ) -> Prefetcher:
        """Make a buffer of a tag's IDs. It requests nothing before its first use."""
        raise NotImplementedError

    def prefetch_snowflake(
        self, *, runway: float = 1.0, limit: int = 1_000_000, max_batch: int = 10_000
    ) -> Prefetcher:
        """Make a buffer of snowflake IDs."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """End all calls and prefetchers with ClosedError. The connection stays."""
        raise NotImplementedError
