"""A pre-fork web server."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from installation import PATIENCE, Installation, eventually
from shop.begin import new_database

WORKERS = 4
IDS = 100_000
EACH = 1000


@contextmanager
def gunicorn(app: str, *options: str, **variables: str) -> Iterator[str]:
    """Serve an application of this folder, and yield its URL. At the end there was no error."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listener:
        address = f"fd://{listener.fileno()}"
        server = subprocess.Popen(
            [sys.executable, "-m", "gunicorn", *options, "--timeout", "600", "--bind", address, app],
            cwd=Path(__file__).parent,
            env={**os.environ, **variables},
            pass_fds=[listener.fileno()],
            stderr=subprocess.PIPE,
        )
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:  # the listener is closed, so that a request fails if the server ends
        yield url
    finally:
        server.terminate()
        _, log = server.communicate(timeout=PATIENCE)
    assert server.returncode == 0
    assert "Error" not in log.decode(), log.decode()


def get(url: str) -> dict[str, Any]:
    """Return the JSON of a reply."""
    with urllib.request.urlopen(url, timeout=PATIENCE) as reply:
        result: dict[str, Any] = json.load(reply)
    return result


@pytest.mark.parametrize("preload", [0, 500])
def test_gunicorn_with_a_preloaded_application(preload: int) -> None:
    """Its workers take 100,000 IDs at least; the application may have taken some before the fork."""
    with Installation() as installation:
        installation.create_tag("order")
        options = ["--preload", "--workers", str(WORKERS), "--worker-class", "sync"]
        variables = {"TEST_NATS_URL": installation.url, "TEST_PRELOAD": str(preload)}
        replies: list[dict[str, Any]] = []
        with (
            gunicorn("wsgi:app", *options, **variables) as url,
            ThreadPoolExecutor(2 * WORKERS) as threads,
        ):

            def all_serve() -> bool:
                replies.extend(threads.map(get, [f"{url}/{EACH}"] * (IDS // EACH)))
                return len({reply["process"] for reply in replies}) == WORKERS

            eventually("each worker has served", all_serve)
        taken = [id for reply in replies for id in reply["ids"]]
        taken += replies[0]["preloaded"]
        assert len(set(taken)) == len(taken) == EACH * len(replies) + preload


@pytest.mark.parametrize("worker", ["gevent", "gthread"])
def test_django_inserts_and_queries_in(worker: str, tmp_path: Path) -> None:
    """100 requests, each of which inserts a row and then queries."""
    if worker == "gevent" and not importlib.util.find_spec("gevent"):
        pytest.skip("gevent is not installed")
    new_database(tmp_path)
    with Installation() as installation, ThreadPoolExecutor(8) as threads:
        installation.create_tag("order")
        options = ["--workers", "2", "--threads", "4", "--worker-class", worker]
        variables = {"TEST_NATS_URL": installation.url, "TEST_DATABASE": str(tmp_path / "shop.sqlite3")}
        with gunicorn("wsgi_django:app", *options, **variables) as url:
            replies = list(threads.map(get, [f"{url}/{i}" for i in range(100)]))
    assert len({reply["id"] for reply in replies}) == 100
    assert max(reply["rows"] for reply in replies) == 100
