"""The client for threads."""

from __future__ import annotations

from typing import Any

from ._batch import IdBatch


class SyncIdworker:
    """A client for any number of threads, and for processes that fork.

    It makes its connection at the first call, in a thread of its own, so that a
    server may make it before it forks. A forked child makes its own connection and
    never uses an ID that its parent buffered. options are those of nats.connect,
    such as user, password, user_credentials, tls, inbox_prefix.
    """

    def __init__(
        self,
        url: str | list[str] = "nats://127.0.0.1:4222",
        *,
        prefix: str = "ids",
        timeout: float = 5.0,
        **options: Any,
    ) -> None:
        raise NotImplementedError

    def next(self, tag: str, *, timeout: float | None = None) -> int:
        """Return a new ID of a tag, from 1 to 2^63−1."""
        raise NotImplementedError

    def next_n(self, tag: str, n: int, *, timeout: float | None = None) -> IdBatch:
        """Return n new IDs of a tag. The worker's limit is 10,000 by default."""
        raise NotImplementedError

    def snowflake(self, *, timeout: float | None = None) -> int:
        """Return a new snowflake ID."""
        raise NotImplementedError

    def snowflake_n(self, n: int, *, timeout: float | None = None) -> IdBatch:
        """Return n new snowflake IDs."""
        raise NotImplementedError

    def prefetch(
        self, tag: str, *, runway: float = 1.0, limit: int = 1_000_000, max_batch: int = 10_000
    ) -> SyncPrefetcher:
        """Make a buffer of a tag's IDs. It requests nothing before its first take."""
        raise NotImplementedError

    def prefetch_snowflake(
        self, *, runway: float = 1.0, limit: int = 1_000_000, max_batch: int = 10_000
    ) -> SyncPrefetcher:
        """Make a buffer of snowflake IDs."""
        raise NotImplementedError

    def close(self) -> None:
        """End all calls with ClosedError, and close the connection."""
        raise NotImplementedError

    def __enter__(self) -> SyncIdworker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SyncPrefetcher:
    """A buffer of IDs in this process for any number of threads."""

    def take(self, timeout: float = 5.0) -> int:
        """Return an ID, which is buffered as a rule; wait for one at most timeout seconds."""
        raise NotImplementedError

    def close(self) -> None:
        """End waits with ClosedError. Buffered IDs are never used."""
        raise NotImplementedError
