"""A program whose threads are greenlets, and whose first call comes from a native thread.

Arguments: gevent or eventlet; a NATS URL. It prints why that call was refused, and then the IDs of
later calls.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

library, url = sys.argv[1:]

if library == "gevent":
    importlib.import_module("gevent.monkey").patch_all()
else:
    importlib.import_module("eventlet").monkey_patch()

from idworker_client import IdworkerError, SyncIdworker  # noqa: E402


def in_native_thread(call: Callable[[], Any]) -> Any:
    """Call in a thread of the operating system."""
    if library == "gevent":
        return importlib.import_module("gevent").get_hub().threadpool.apply(call)
    return importlib.import_module("eventlet.tpool").execute(call)


def refused() -> str:
    """Make a call, and return its error."""
    try:
        return f"ID {ids.next('order')}"
    except IdworkerError as e:
        return str(e)


ids = SyncIdworker(url, timeout=60)
print(in_native_thread(refused))
print(ids.next("order"), ids.prefetch("order").take(60))
if library == "gevent":  # eventlet's locks are not for native threads
    print(in_native_thread(lambda: ids.next("order")))
ids.close()
