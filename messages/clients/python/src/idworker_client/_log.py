"""What the client logs, by the logger idworker_client."""

from __future__ import annotations

import asyncio
import logging
from contextlib import nullcontext, suppress
from time import monotonic

from ._errors import CallTimeoutError, ConnectFailedError, ConnectionEndedError, IdworkerError
from ._loop import Loop

MAX_FAILING = 16
QUIET = 1.0
"""How long ago, in seconds, the latest failure must be before a success ends an outage.
Where calls succeed and fail in turns, as with workers that are overloaded, each would be logged otherwise."""
FORGOTTEN = 60.0  # s after its latest failure, a subject makes room for another

_logger = logging.getLogger("idworker_client")


def log(level: int, text: str, *values: object) -> None:
    """Log a line. No handler can harm a call: an exception of one is dropped.

    A handler may switch greenlets, which must not see the client's loop.
    """
    loop = asyncio._get_running_loop()
    with suppress(Exception), loop.unseen() if isinstance(loop, Loop) else nullcontext():
        _logger.log(level, text, *values, stacklevel=2)


class Outages:
    """The subjects whose requests fail because no worker is there, or none has IDs.

    The first call that fails and the first reply after it are logged, nothing in
    between. A success soon after a failure ends nothing. Of more than 16 subjects at
    once the others are not logged.
    """

    def __init__(self) -> None:
        self.failing: dict[str, tuple[int, float, float]] = {}
        """The number of failed calls, and when the first and the latest one failed, by subject."""

    def failed(self, subject: str, error: IdworkerError) -> None:
        """Note a call that failed. A mistake of the caller is no outage."""
        if not isinstance(error, CallTimeoutError | ConnectFailedError | ConnectionEndedError):
            return
        now = monotonic()
        calls, since, _ = self.failing.get(subject, (0, now, now))
        if not calls and len(self.failing) >= MAX_FAILING:
            self.failing = {s: f for s, f in self.failing.items() if now - f[2] <= FORGOTTEN}
        if calls or len(self.failing) < MAX_FAILING:
            self.failing[subject] = calls + 1, since, now
            if not calls:
                log(logging.WARNING, "ID requests fail: subject=%s, error=%s", subject, error)

    def succeeded(self, subject: str) -> None:
        """Note IDs that a worker sent."""
        found = self.failing.get(subject)
        now = monotonic()
        if found and now - found[2] >= QUIET:
            calls, since, _ = self.failing.pop(subject)
            log(
                logging.INFO,
                "ID requests succeed again: subject=%s, failed=%d, seconds=%.1f",
                subject,
                calls,
                now - since,
            )
