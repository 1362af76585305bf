"""What the client logs, by the logger idworker_client."""

from __future__ import annotations

import asyncio
import logging
from contextlib import nullcontext
from time import monotonic

from ._errors import CallTimeoutError, ConnectFailedError, ConnectionEndedError, IdworkerError
from ._loop import Loop

MAX_FAILING = 16

_logger = logging.getLogger("idworker_client")


def log(level: int, text: str, *values: object) -> None:
    """Log a line. A handler may switch greenlets, which must not see the client's loop."""
    loop = asyncio._get_running_loop()
    with loop.unseen() if isinstance(loop, Loop) else nullcontext():
        _logger.log(level, text, *values, stacklevel=2)


class Outages:
    """The subjects whose requests fail because no worker is there, or none has IDs.

    The first call that fails and the first reply after it are logged, nothing in
    between. Of more than 16 subjects at once the others are not logged.
    """

    def __init__(self) -> None:
        self.failing: dict[str, tuple[int, float]] = {}
        """The number of failed calls, and when the first one failed, by subject."""

    def failed(self, subject: str, error: IdworkerError) -> None:
        """Note a call that failed. A mistake of the caller is no outage."""
        if not isinstance(error, CallTimeoutError | ConnectFailedError | ConnectionEndedError):
            return
        calls, since = self.failing.get(subject, (0, monotonic()))
        if calls or len(self.failing) < MAX_FAILING:
            self.failing[subject] = calls + 1, since
            if not calls:
                log(logging.WARNING, "ID requests fail: subject=%s, error=%s", subject, error)

    def succeeded(self, subject: str) -> None:
        """Note IDs that a worker sent."""
        found = self.failing.pop(subject, None)
        if found:
            calls, since = found
            log(
                logging.INFO,
                "ID requests succeed again: subject=%s, failed=%d, seconds=%.1f",
                subject,
                calls,
                monotonic() - since,
            )
