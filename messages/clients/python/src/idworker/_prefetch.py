"""The prefetcher for asyncio."""

from __future__ import annotations

from ._buffer import Fetch, PrefetchConfig


class Prefetcher:
    """A buffer of IDs in this process, which refills itself ahead of its use.

    It belongs to the event loop of its client.
    """

    def __init__(self, subject: str, fetch: Fetch, config: PrefetchConfig, timeout: float) -> None:
        """Make an empty one. The timeout is that of waits without one of their own, in seconds.

        Clients call this; see Idworker.prefetch.
        """
        raise NotImplementedError

    def take(self) -> int:
        """Return a buffered ID at once.

        Raises BufferEmptyError if none is buffered. A refill has begun then, but no
        reply is read before the caller returns to the event loop: await ready
        before a loop of takes.
        """
        raise NotImplementedError

    async def next(self, *, timeout: float | None = None) -> int:
        """Return an ID, buffered or not."""
        raise NotImplementedError

    async def ready(self, n: int, *, timeout: float | None = None) -> None:
        """Wait until n IDs are buffered, at most the limit. It reserves none of them."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """End waits with ClosedError. Buffered IDs are never used."""
        raise NotImplementedError
