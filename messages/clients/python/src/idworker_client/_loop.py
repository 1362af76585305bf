"""The event loop of the client for threads."""

from __future__ import annotations

import asyncio
import os
import selectors
import socket
import sys
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any


class Loop(asyncio.SelectorEventLoop):
    """An event loop that greenlets do not see and that forks do not use.

    gevent and eventlet turn the client's thread into a greenlet, which shares a thread
    of the operating system with the application. asyncio keeps the running loop per
    such thread, so while greenlets of the application run, this loop would seem to be
    theirs, and Django refuses queries where a loop runs. Therefore the loop hides
    itself wherever greenlets may be switched: when it waits for events, when it starts
    a thread, and when it logs. In a thread of its own this has no effect.
    """

    def __init__(self) -> None:
        selector = selectors.DefaultSelector()
        wait = selector.select

        def select(timeout: float | None = None) -> Any:
            with self.unseen():
                return wait(timeout)

        selector.select = select  # type: ignore[method-assign]
        super().__init__(selector)
        self._events = selector
        self._never = threading.Event()  # kept, or else the greenlet that waits for it would be collected
        self._outside: _Running = (None, None, sys.get_asyncgen_hooks())
        self._is_abandoned = False
        self._own: dict[int, tuple[int, int]] = {}  # descriptors and their files, also closed ones
        for file in (selector, getattr(self, "_ssock", None), getattr(self, "_csock", None)):
            if file and hasattr(file, "fileno"):
                self._add(file.fileno())

    def run(self, main: Coroutine[Any, Any, None]) -> None:
        """Run until main ends, also where a greenlet of the application runs a loop."""
        self._outside = _swap(self._outside)
        try:
            self.run_until_complete(main)
        finally:
            _swap(self._outside)

    @contextmanager
    def unseen(self) -> Iterator[None]:
        """Show greenlets what they saw before, and note what they leave."""
        inside = _swap(self._outside)
        try:
            yield
        finally:
            if self._is_abandoned:
                self._rest_forever()
            self._outside = _swap(inside)

    def _rest_forever(self) -> None:
        """Stay here: a fork has copies of its parent's greenlets, but not of its threads.

        The end of a copy would be reported as an error, since the fork has no such thread.
        """
        self._events.close()
        self._never.wait()

    async def getaddrinfo(self, *arguments: Any, **named: Any) -> Any:
        """Look an address up in a thread that ends with it. One of a pool lives on in forks of greenlets."""
        found: asyncio.Future[Any] = self.create_future()

        def settle(answer: Any, error: Exception | None) -> None:
            if found.done():
                return  # cancelled
            if error:
                found.set_exception(error)
            else:
                found.set_result(answer)

        def look_up() -> None:
            answer = error = None
            try:
                answer = socket.getaddrinfo(*arguments, **named)
            except Exception as e:
                error = e
            with suppress(RuntimeError):  # the loop was closed meanwhile
                self.call_soon_threadsafe(settle, answer, error)

        with self.unseen():  # the start of a thread waits for it
            threading.Thread(target=look_up, name="idworker lookup", daemon=True).start()
        return await found

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        with self.unseen():  # it logs
            super().call_exception_handler(context)

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        self._add(sock.fileno())
        await super().sock_connect(sock, address)

    def _add(self, descriptor: int) -> None:
        with suppress(OSError):  # of Windows, which has no fork
            self._own[descriptor] = _file(descriptor)

    def abandon(self) -> None:
        """Close a fork's descriptors of the loop, without a word.

        Python's objects stay, and each would close its number once more, which may be
        another file's by then. Worse, they act on what they share with the parent:
        they say goodbye to the server, and take the socket out of the parent's epoll.
        So each number gets an end of a dead pipe.
        """
        self._is_abandoned = True
        dead, end = os.pipe()
        for descriptor, file in self._own.items():
            with suppress(OSError):  # it was closed
                if _file(descriptor) == file:
                    os.dup2(dead, descriptor, inheritable=False)
        os.close(dead)
        os.close(end)


def _file(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


_Running = tuple[asyncio.AbstractEventLoop | None, "asyncio.Task[Any] | None", Any]
"""What asyncio keeps per thread of the operating system: loop, task, hooks of asynchronous generators."""


def _swap(new: _Running) -> _Running:
    """Set what runs in this thread, and return what ran before."""
    loop = asyncio._get_running_loop()
    task = None
    # Before, tasks were kept per loop.
    if sys.version_info >= (3, 14) and loop and (task := asyncio.current_task(loop)):
        asyncio.tasks._swap_current_task(loop, None)
    old = loop, task, sys.get_asyncgen_hooks()
    asyncio._set_running_loop(new[0])
    if sys.version_info >= (3, 14) and new[1]:
        asyncio.tasks._swap_current_task(new[0], new[1])
    sys.set_asyncgen_hooks(*new[2])
    return old
