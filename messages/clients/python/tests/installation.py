"""A real installation for tests, of the binary idworker."""

from __future__ import annotations

import atexit
import functools
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

PATIENCE = 120.0
"""The longest wait for a state, in seconds. Only a hang reaches it."""

# Where the system can, it kills a process as soon as these tests end, however they end.
_DIES_WITH_TESTS = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []


def eventually(what: str, condition: Callable[[], bool]) -> None:
    """Wait until a condition holds; fail after PATIENCE."""
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {PATIENCE:.0f} s: {what}")
        time.sleep(0.005)


class Installation:
    """One process with NATS, loader and worker, and the workers that a test starts beside it.

    The binary is IDWORKER_BIN, or is built from this repository, for which Go is
    needed. arguments are more flags of idworker serve. Begin it in the main thread.
    """

    def __init__(self, *arguments: str) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="idworker"))
        self._processes: list[subprocess.Popen[bytes]] = []
        port = _free_port()
        self.url = f"nats://127.0.0.1:{port}"
        """The URL of the NATS server."""
        self._owner = os.getpid()
        atexit.register(self._close_at_exit)
        data = str(self._folder / "data")
        self.server = self._serve("--listen", f"127.0.0.1:{port}", "--data", data, *arguments)
        """The process that is all of it at first."""

    def create_tag(self, tag: str, *arguments: str) -> None:
        """Create a tag. arguments are flags of idworker tag create."""
        self.run("tag", "create", tag, *arguments)

    def run(self, *command: str) -> str:
        """Run a command of the binary against this installation; return what it printed."""
        result = subprocess.run(
            [_binary(), *command, "--server", self.url],
            cwd=self._folder,
            env=_neutral(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
        )
        if result.returncode != 0:
            raise AssertionError(f"idworker {' '.join(command)}: {result.stdout}")
        return result.stdout

    def start_worker(self) -> subprocess.Popen[bytes]:
        """Start a worker process beside the first one, and wait until it serves."""
        return self._serve("--server", self.url, "--role", "worker")

    def close(self) -> None:
        """Kill all processes, and delete their data."""
        atexit.unregister(self._close_at_exit)
        for process in self._processes:
            kill(process)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _close_at_exit(self) -> None:
        if os.getpid() == self._owner:  # it is no forked child
            self.close()

    def __enter__(self) -> Installation:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _serve(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start idworker serve; its log says when it serves, and an exit ends the wait."""
        log = self._folder / f"{len(self._processes)}.log"
        with log.open("wb") as out:
            process = self._launch(out, "serve", *arguments)

        def serves() -> bool:
            text = log.read_text(errors="replace")
            if process.poll() is not None:
                raise AssertionError(f"idworker serve ended: {text}")
            return "serving" in text

        eventually("idworker serves", serves)
        return process

    def _launch(self, out: IO[bytes], *arguments: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [*_DIES_WITH_TESTS, _binary(), *arguments],
            cwd=self._folder,
            env=_neutral(),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
        self._processes.append(process)
        return process


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process as a crash does, and wait for its end."""
    process.kill()
    process.wait()


def pause(process: subprocess.Popen[bytes]) -> None:
    """Freeze a process. It has stopped when this returns."""
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)  # nor does it wait for a dead one


def resume(process: subprocess.Popen[bytes]) -> None:
    """Let a frozen process go on."""
    process.send_signal(signal.SIGCONT)


@functools.cache
def _binary() -> str:
    given = os.environ.get("IDWORKER_BIN")
    if given:
        return given
    root = next((p for p in Path(__file__).resolve().parents if (p / "go.mod").exists()), None)
    if root is None:
        raise AssertionError("no go.mod above the tests: set IDWORKER_BIN")
    built = root / "bin" / "idworker"
    subprocess.run(["go", "build", "-o", built, "./cmd/idworker"], cwd=root, check=True)
    return str(built)


def _neutral() -> dict[str, str]:
    """The environment without the variables that the binary reads: a developer's would decide tests."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("NATS_", "IDWORKER_"))}


def _free_port() -> int:
    """A port below those that the kernel gives to connections, which could take one before
    the server does, and below those of testing/freeport."""
    for _ in range(100):
        port = random.randrange(10_000, 15_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("no free port between 10000 and 15000")
