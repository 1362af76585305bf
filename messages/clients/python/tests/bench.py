"""Benchmarks, for people: python tests/bench.py [seconds]. pytest does not run them.

Each figure is the median of rounds that alternate with those it is compared with.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import statistics
import sys
import threading
import time
import uuid
from collections.abc import Awaitable, Callable

import nats
from installation import PATIENCE, Installation

from idworker_client import Idworker, SyncIdworker

ROUNDS = 15
TAKES = 100_000
CALLS = 2000


def median(rounds: list[float]) -> float:
    return statistics.median(rounds)


def per_call(function: Callable[[], object], calls: int = TAKES) -> float:
    """Return nanoseconds a call."""
    begin = time.perf_counter()
    for _ in itertools.repeat(None, calls):
        function()
    return (time.perf_counter() - begin) / calls * 1e9


def in_threads(n: int, function: Callable[[], object]) -> float:
    """Return nanoseconds a call when n threads share the calls."""
    threads = [threading.Thread(target=per_call, args=(function, TAKES // n)) for _ in range(n)]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return (time.perf_counter() - begin) / TAKES * 1e9


def takes(url: str) -> None:
    with SyncIdworker(url, timeout=PATIENCE) as ids:
        orders = ids.prefetch("order", runway=10)

        def take() -> int:
            return orders.take(PATIENCE)

        asked: dict[str, Callable[[], float]] = {
            "SyncPrefetcher.take": lambda: per_call(orders.take),
            "SyncPrefetcher.take, 8 threads": lambda: in_threads(8, take),
            "uuid.uuid4": lambda: per_call(uuid.uuid4),
            "next(itertools.count())": lambda: per_call(functools.partial(next, itertools.count())),
        }
        for _ in range(10):
            per_call(take)  # until the buffer has grown
        rounds: dict[str, list[float]] = {name: [] for name in asked}
        for _ in range(ROUNDS):
            for name, measure in asked.items():
                rounds[name].append(measure())
        for name, figures in rounds.items():
            print(f"{name:34} {median(figures):8.0f} ns")


async def asyncio_takes(url: str) -> None:
    connection = await nats.connect(url)
    orders = Idworker(connection, timeout=PATIENCE).prefetch("order", runway=10)
    figures = []
    for _ in range(ROUNDS):
        await orders.ready(TAKES, timeout=PATIENCE)
        figures.append(per_call(orders.take))
    print(f"{'Prefetcher.take':34} {median(figures):8.0f} ns")
    await orders.aclose()
    await connection.close()


async def calls(url: str) -> None:
    connection = await nats.connect(url)
    ids = Idworker(connection, timeout=PATIENCE)

    async def bare() -> object:
        return await connection.request("ids.segment.order", timeout=PATIENCE)

    async def rate(tasks: int, call: Callable[[], Awaitable[object]]) -> float:
        async def run() -> None:
            for _ in range(CALLS // tasks):
                await call()

        begin = time.perf_counter()
        await asyncio.gather(*(run() for _ in range(tasks)))
        return CALLS // tasks * tasks / (time.perf_counter() - begin)

    for tasks in (1, 64):
        rounds: list[tuple[float, float]] = []
        for _ in range(ROUNDS):
            rounds.append((await rate(tasks, lambda: ids.next("order")), await rate(tasks, bare)))
        ours, theirs = median([r[0] for r in rounds]), median([r[1] for r in rounds])
        print(f"next, {tasks:2} tasks {ours:8.0f}/s, bare request {theirs:8.0f}/s: {ours / theirs:.2f}")
    await connection.close()


def main() -> None:
    with Installation() as installation:
        installation.create_tag("order")
        print(f"Python {sys.version.split()[0]}")
        takes(installation.url)
        asyncio.run(asyncio_takes(installation.url))
        asyncio.run(calls(installation.url))


if __name__ == "__main__":
    main()
