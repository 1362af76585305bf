"""The driver of testing/conformance for Python, which specifies the operations.

Without flags it drives Idworker and Prefetcher: an operation is a task. With
--sync it drives SyncIdworker and SyncPrefetcher: an operation is a thread. It is
part of the tests, since it needs clocks and buffers, which callers cannot reach.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import os
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

import driver_offline
from driver_async import AsyncClients, trace_of_task
from driver_results import Operations, describe
from driver_sync import SyncClients, trace_of_thread


class Answers:
    """Writes answers to stdout, whole lines, from any thread."""

    def __init__(self) -> None:
        self._out = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # a library's print is no answer
        self._lock = threading.Lock()

    def write(self, id: int, ok: object = None, error: BaseException | None = None) -> None:
        answer: dict[str, Any] = {"id": id, "ok": {} if ok is None else ok}
        if error is not None:
            described = describe(error)
            answer = {"id": id, "error": described}
            if described["kind"] == "driver":
                traceback.print_exception(type(error), error, error.__traceback__)
        line = json.dumps(answer) + "\n"
        with self._lock:
            self._out.write(line)
            self._out.flush()


def read(begin: Callable[[int, str, dict[str, Any]], object]) -> None:
    """Begin each operation of stdin. At its end, end the process, whatever is under way."""
    for line in sys.stdin.buffer:
        if line.strip():
            fields = json.loads(line)
            begin(fields.pop("id"), fields.pop("op"), fields)
    os._exit(0)


def drive_tasks(answers: Answers) -> None:
    """Perform each operation in a task."""
    loop = asyncio.new_event_loop()
    tasks: dict[int, asyncio.Task[Any]] = {}

    def cancel(*, call: int) -> None:
        if task := tasks.get(call):
            task.cancel()

    # What needs no server may take long.
    offline = {op: functools.partial(asyncio.to_thread, f) for op, f in driver_offline.OPERATIONS.items()}
    operations: Operations = {**offline, **AsyncClients().operations(), "cancel": cancel}

    async def perform(op: str, fields: dict[str, Any]) -> Any:
        trace_of_task.set(fields.pop("traceparent", None))
        result = operations[op](**fields)
        return await result if inspect.isawaitable(result) else result

    def begin(id: int, op: str, fields: dict[str, Any]) -> None:
        def answer(task: asyncio.Task[Any]) -> None:
            del tasks[id]
            error = asyncio.CancelledError() if task.cancelled() else task.exception()
            answers.write(id, None if error else task.result(), error)

        tasks[id] = loop.create_task(perform(op, fields))
        tasks[id].add_done_callback(answer)

    def read_all() -> None:
        read(lambda *operation: loop.call_soon_threadsafe(begin, *operation))

    threading.Thread(target=read_all, daemon=True).start()
    loop.run_forever()


def drive_threads(answers: Answers) -> None:
    """Perform each operation in a thread."""
    operations = {**driver_offline.OPERATIONS, **SyncClients().operations()}

    def perform(id: int, op: str, fields: dict[str, Any]) -> None:
        ok, failed = None, None
        trace_of_thread.value = fields.pop("traceparent", None)
        try:
            ok = operations[op](**fields)
        except Exception as error:
            failed = error
        answers.write(id, ok, failed)

    threading.stack_size(256 << 10)  # a thousand calls are under way at once
    read(lambda *operation: threading.Thread(target=perform, args=operation, daemon=True).start())


if __name__ == "__main__":
    if sys.argv[1:] == ["--sync"]:
        drive_threads(Answers())
    else:
        drive_tasks(Answers())
