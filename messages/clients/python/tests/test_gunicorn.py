"""A pre-fork web server."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from installation import PATIENCE, Installation

WORKERS = 4
IDS = 100_000
EACH = 1000


@pytest.mark.parametrize("preload", [0, 500])
def test_gunicorn_with_a_preloaded_application(preload: int) -> None:
    """Its workers share 100,000 IDs; the application may have taken some before the fork."""
    with Installation() as installation, socket.create_server(("127.0.0.1", 0), backlog=100) as listener:
        installation.create_tag("order")
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/{EACH}"
        command = [
            sys.executable,
            "-m",
            "gunicorn",
            "--preload",
            "--workers",
            str(WORKERS),
            "--worker-class",
            "sync",
        ]
        server = subprocess.Popen(
            [*command, "--timeout", "600", "--bind", f"fd://{listener.fileno()}", "wsgi:app"],
            cwd=Path(__file__).parent,
            env={**os.environ, "TEST_NATS_URL": installation.url, "TEST_PRELOAD": str(preload)},
            pass_fds=[listener.fileno()],
            stderr=subprocess.PIPE,
        )
        listener.close()  # a request fails if the server ends
        try:

            def get(_: int) -> dict[str, list[int]]:
                with urllib.request.urlopen(url, timeout=PATIENCE) as reply:
                    result: dict[str, list[int]] = json.load(reply)
                return result

            with ThreadPoolExecutor(2 * WORKERS) as threads:
                replies = list(threads.map(get, range(IDS // EACH)))
        finally:
            server.terminate()
            _, log = server.communicate(timeout=PATIENCE)
        taken = [id for reply in replies for id in reply["ids"]]
        taken += replies[0]["preloaded"]
        assert len(set(taken)) == len(taken) == IDS + preload
        assert len({str(reply["process"]) for reply in replies}) > 1
        assert server.returncode == 0
        assert "Error" not in log.decode(), log.decode()
