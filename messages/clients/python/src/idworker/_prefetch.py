"""The prefetcher for asyncio."""

from __future__ import annotations


class Prefetcher:
    """A buffer of IDs in this process, which refills itself ahead of its use.

    It belongs to the event loop of its client.
    """

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
