"""Clocks and chance.

Callers write ``_clock.wall()``, so that tests may replace a function here.
"""

from __future__ import annotations

import random as _random
import time


def wall() -> float:
    """Return the wall clock's time in seconds. It goes on while the machine is suspended."""
    return time.time()


def monotonic() -> float:
    """Return seconds that no change of the wall clock moves."""
    return time.monotonic()


def random() -> float:
    """Return a number from 0 to below 1, for pauses. It is no secret."""
    return _random.random()
