"""A program whose threads are greenlets: it takes IDs while others run, forks if it can, and takes more.

Arguments: gevent or eventlet; "before" or "after" if it patches Python before or after it imports the client,
"partly" if it leaves threads as they are; a NATS URL.
It prints all IDs, and ends with an error if another greenlet ever saw an event loop run.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import os
import sys

library, order, url = sys.argv[1:]


def patch() -> None:
    """Replace Python's threads by greenlets."""
    if library == "gevent":
        importlib.import_module("gevent.monkey").patch_all(thread=order != "partly")
    else:
        importlib.import_module("eventlet").monkey_patch()


if order != "after":
    patch()

from idworker_client import CallTimeoutError, SyncIdworker  # noqa: E402

if order == "after":
    patch()

import threading  # noqa: E402
import time  # noqa: E402

turns = 0
seen: set[str] = set()


def look(where: str) -> None:
    """Note a loop that seems to run here."""
    if asyncio._get_running_loop() is not None:
        seen.add(where)


def watch() -> None:
    """Look all the time."""
    global turns
    while True:
        turns += 1
        look("another greenlet")
        time.sleep(0)


class SlowHandler(logging.Handler):
    """It lets other greenlets run at each record, as one that writes to a socket does."""

    def emit(self, record: logging.LogRecord) -> None:
        look("a handler of log records")
        time.sleep(0.01)


logging.getLogger().addHandler(SlowHandler())
threading.Thread(target=watch, daemon=True).start()
ids = SyncIdworker(url, timeout=120)
orders = ids.prefetch("order")
taken: list[int] = []


def take() -> None:
    """Take IDs in each way."""
    mine = [ids.next("order") for _ in range(20)]
    mine += ids.next_n("order", 20)
    mine += [orders.take(120) for _ in range(200)]
    look("who took IDs")
    taken.extend(mine)


def take_in_greenlets() -> None:
    """Take IDs in ten of them at once."""
    takers = [threading.Thread(target=take) for _ in range(10)]
    for taker in takers:
        taker.start()
    for taker in takers:
        taker.join()


take_in_greenlets()
before = turns
try:
    ids.next("silent", timeout=2)  # nobody replies, and the failure is logged
    sys.exit("an ID without a reply")
except CallTimeoutError:
    pass
if turns < before + 10:
    sys.exit("a call stopped all other greenlets")

child = os.fork() if library == "gevent" else -1  # eventlet itself does not support forks
if child == 0:
    taken.clear()
take_in_greenlets()
look("the main greenlet")
if child > 0 and os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0:
    sys.exit("the child failed")
print(json.dumps(taken), flush=True)  # the child's line is complete by now
ids.close()
if seen:
    sys.exit(f"a loop seems to run in {seen}")
