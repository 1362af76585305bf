"""The client for threads where gevent or eventlet turned threads into greenlets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from installation import PATIENCE
from scripted import Request, Server


@pytest.mark.parametrize("patched", ["before", "after"])
@pytest.mark.parametrize("library", ["gevent", "eventlet"])
def test_greenlets_take_each_id_once_and_see_no_event_loop(library: str, patched: str) -> None:
    pytest.importorskip(library)
    with Server() as server:

        def respond(request: Request) -> None:
            (server.silent if request.subject.endswith(".silent") else server.grant)(request)

        server.respond = respond
        ran = subprocess.run(
            [
                sys.executable,
                "-W",
                "ignore",
                Path(__file__).parent / "greenlets.py",
                library,
                patched,
                server.url.replace("127.0.0.1", "localhost"),
            ],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert (ran.stderr, ran.returncode) == ("", 0)
        child, parent = sorted(map(json.loads, ran.stdout.splitlines()), key=len)
        assert (len(child), len(parent)) == (2400, 4800)
        assert len({*child, *parent}) == len(child) + len(parent)
        assert len(server.connections) == 2, "the child keeps no copy of its parent's loop"
