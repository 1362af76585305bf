"""Which process this is. A fork has a copy of every ID that its parent buffered."""

from __future__ import annotations

import contextlib
import mmap
import os
import sys
import threading
from collections.abc import Callable
from typing import NoReturn

Mark = mmap.mmap | bytearray
"""A byte of a process: 1 where it was made, 0 in forks. Who takes what may be a copy looks at it afterwards,
since the handler of a signal may fork between two lines."""

_WIPE_ON_FORK = 18  # of madvise, since Linux 4.14; Python has no name for it


class Process:
    """This process, apart from its forks."""

    def __init__(self) -> None:
        self.alive = _make_mark()
        self.thread = threading.get_native_id()  # a fork has only this one at first
        self.lock = threading.RLock()  # an inherited one may be locked for ever


def _make_mark() -> Mark:
    """Return a mark that forks see as 0.

    Linux wipes it. So it holds in servers that fork without Python's hooks, too, as
    uWSGI does. Reading it costs a fifth of asking for the process ID.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, ValueError):
            page = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            page.madvise(_WIPE_ON_FORK)
            page[0] = 1
            return page
    return bytearray(b"\x01")


class OfOneProcess:
    """What is never sent to another process or copied: a copy could have the same IDs."""

    def __reduce__(self) -> NoReturn:
        """Refuse pickle and copy."""
        raise TypeError(f"{type(self).__name__} cannot be pickled or copied, make one in each process")


when_forked: list[Callable[[], None]] = []
"""What a fork does before it makes anything of its own."""

_process = Process()


def this_process() -> Process:
    """Return the present process."""
    if not _process.alive[0]:
        _begin()
    return _process


def _begin() -> None:
    """Become a process of its own."""
    global _process
    _process = Process()
    for action in when_forked:
        action()


def _on_fork() -> None:
    """Begin at once: now the fork has one thread, and no code of the application has run in it."""
    _process.alive[0] = 0
    _begin()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _on_fork())  # by name, so that a test can leave it out
