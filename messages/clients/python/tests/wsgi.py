"""A web application whose module makes its client, as most do."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from typing import Any

from idworker_client import SyncIdworker

ids = SyncIdworker(os.environ["TEST_NATS_URL"], timeout=120)
orders = ids.prefetch("order")
preloaded = [orders.take(120) for _ in range(int(os.environ["TEST_PRELOAD"]))]


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Reply with as many IDs as the path says, and those that were taken before the fork."""
    taken = [orders.take(120) for _ in range(int(environ["PATH_INFO"].strip("/")))]
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps({"process": os.getpid(), "ids": taken, "preloaded": preloaded}).encode()]
