"""The client for threads where gevent or eventlet turned threads into greenlets."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from installation import PATIENCE
from scripted import Request, Server


@pytest.mark.parametrize(
    ("library", "patched"),
    [
        ("gevent", "before"),
        ("gevent", "after"),
        ("gevent", "partly"),
        ("eventlet", "before"),
        ("eventlet", "after"),
    ],
)
def test_greenlets_take_each_id_once_and_see_no_event_loop(library: str, patched: str) -> None:
    if not importlib.util.find_spec(library):
        pytest.skip(f"{library} is not installed")
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
        processes = list(map(json.loads, ran.stdout.splitlines()))
        taken = [id for ids in processes for id in ids]
        assert sorted(map(len, processes)) == ([2400, 4800] if library == "gevent" else [4800])
        assert len(set(taken)) == len(taken)
        assert len(server.connections) == len(processes), "a child keeps no copy of its parent's loop"


@pytest.mark.parametrize("library", ["gevent", "eventlet"])
def test_a_first_call_in_a_native_thread_is_refused_and_harms_no_later_one(library: str) -> None:
    if not importlib.util.find_spec(library):
        pytest.skip(f"{library} is not installed")
    with Server() as server:
        ran = subprocess.run(
            [sys.executable, "-W", "ignore", Path(__file__).parent / "native_first.py", library, server.url],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
    assert (ran.stderr, ran.returncode) == ("", 0)
    why, *rest = ran.stdout.splitlines()
    assert why.endswith("make the first call, or connect(), in the main thread")
    taken = " ".join(rest).split()
    assert len(set(taken)) == len(taken) == (3 if library == "gevent" else 2)
