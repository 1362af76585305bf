"""SQLAlchemy and Django with the real binary."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nats
import pytest
from django.core import checks
from django.db import connections, transaction
from django.test.utils import override_settings
from installation import Installation, kill, pause, resume
from shop.begin import new_database
from shop.models import CustomerOrder, Item
from sqlalchemy import BigInteger, create_engine, insert, select, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from idworker_client import (
    CallTimeoutError,
    ConnectFailedError,
    Idworker,
    IdworkerError,
    NoSuchTagError,
    SyncIdworker,
)
from idworker_client.sqlalchemy import AsyncRowIds, IdworkerDefault, RowIdError, RowIds

WAIT = 120.0
"""The longest wait for a row, in seconds. Only a hang reaches it."""

ROWS = 10_000
BATCH = 100
RUNWAY = 0.05  # so short that requests are under way all the time


class Base(DeclarativeBase): ...


class Order(Base):
    __tablename__ = "customer_order"
    id: Mapped[int] = mapped_column(BigInteger, primary_key=True, default=IdworkerDefault("order"))
    name: Mapped[str] = mapped_column(unique=True)


class Absent(Base):
    __tablename__ = "absent"
    id: Mapped[int] = mapped_column(BigInteger, primary_key=True, default=IdworkerDefault("nosuch"))


class Invoice(Base):
    __tablename__ = "invoice"
    id: Mapped[int] = mapped_column(BigInteger, primary_key=True, default=IdworkerDefault("invoice"))


class Event(Base):
    __tablename__ = "event"
    id: Mapped[int] = mapped_column(BigInteger, primary_key=True, default=IdworkerDefault(snowflake=True))


@pytest.fixture(scope="module")
def running() -> Iterator[Installation]:
    with Installation() as made:
        for tag in ("order", "item"):
            made.create_tag(tag)
        made.create_tag("invoice", "--order", "strict")
        yield made


class Trouble:
    """A worker is killed and another frozen while rows are inserted."""

    def __init__(self, running: Installation, batches: int) -> None:
        self._victim = running.start_worker()
        self._sleeper = running.start_worker()
        self._left = iter(range(batches))
        self._steps = {
            batches // 4: lambda: kill(self._victim),
            batches // 3: lambda: pause(self._sleeper),
            batches * 3 // 4: lambda: resume(self._sleeper),
        }

    def batches(self, n: int) -> Iterator[list[dict[str, Any]]]:
        """Yield the rows of n batches."""
        for _ in range(n):
            batch = next(self._left)
            self._steps.get(batch, lambda: None)()
            yield [{"name": f"{batch}.{i}"} for i in range(BATCH)]

    def end(self) -> None:
        assert next(self._left, None) is None
        kill(self._sleeper)


def by_sqlalchemy(url: str, trouble: Trouble, database: Path) -> list[int]:
    with SyncIdworker(url) as client:
        ids = RowIds(client, wait=WAIT, runway=RUNWAY)
        engine = create_engine(f"sqlite:///{database}", execution_options={"idworker": ids})
        Base.metadata.create_all(engine)
        for rows in trouble.batches(ROWS // BATCH // 2):
            with Session(engine) as session, session.begin():
                session.add_all([Order(**row) for row in rows])
        for rows in trouble.batches(ROWS // BATCH // 2):
            with Session(engine) as session, session.begin():
                session.execute(insert(Order).values(rows))
        with Session(engine) as session:
            found = list(session.scalars(select(Order.id)))
        engine.dispose()
        return found


def by_sqlalchemy_with_asyncio(url: str, trouble: Trouble, database: Path) -> list[int]:
    async def work() -> list[int]:
        connection = await nats.connect(url, max_reconnect_attempts=-1)
        client = Idworker(connection)
        ids = AsyncRowIds(client, wait=WAIT, runway=RUNWAY)
        engine = create_async_engine(f"sqlite+aiosqlite:///{database}", execution_options={"idworker": ids})
        async with engine.begin() as c:
            await c.run_sync(Base.metadata.create_all)
        for rows in trouble.batches(ROWS // BATCH):
            async with AsyncSession(engine) as session, session.begin():
                session.add_all([Order(**row) for row in rows])
        async with AsyncSession(engine) as session:
            found = list(await session.scalars(select(Order.id)))
        await engine.dispose()
        await client.aclose()
        await connection.close()
        return found

    return asyncio.run(work())


def by_django(trouble: Trouble) -> list[int]:
    try:
        for rows in trouble.batches(ROWS // BATCH // 2):
            with transaction.atomic():
                CustomerOrder.objects.bulk_create([CustomerOrder(**row) for row in rows])
        for rows in trouble.batches(ROWS // BATCH // 2):
            with transaction.atomic():
                for row in rows:
                    CustomerOrder(**row).save()
        return list(CustomerOrder.objects.values_list("pk", flat=True))
    finally:
        connections.close_all()


@pytest.fixture
def django(running: Installation, tmp_path: Path) -> Iterator[None]:
    new_database(tmp_path)
    with override_settings(IDWORKER={"URL": running.url, "ROW_WAIT": WAIT, "RUNWAY": RUNWAY}):
        yield
    connections.close_all()


def test_each_row_has_its_own_id_while_workers_die(
    running: Installation, django: None, tmp_path: Path
) -> None:
    trouble = Trouble(running, 3 * ROWS // BATCH)
    with ThreadPoolExecutor() as threads:
        works = [
            threads.submit(by_sqlalchemy, running.url, trouble, tmp_path / "sync"),
            threads.submit(by_sqlalchemy_with_asyncio, running.url, trouble, tmp_path / "async"),
            threads.submit(by_django, trouble),
        ]
    found = [work.result() for work in works]
    assert [len(ids) for ids in found] == [ROWS] * 3
    assert len(set().union(*found)) == 3 * ROWS
    trouble.end()


def test_django_with_snowflake_ids(django: None) -> None:
    order = CustomerOrder.objects.create(name="a")
    items = Item.objects.bulk_create([Item(order=order) for _ in range(BATCH)])
    assert len({item.pk for item in items}) == BATCH
    assert all(item.pk > 2**40 for item in items)


def test_forks_have_ids_of_their_own(django: None) -> None:
    CustomerOrder.objects.create(name="before")  # the client has a connection and a buffer
    connections.close_all()
    children = [_fork(lambda i=i: _insert(i)) for i in range(4)]  # type: ignore[misc]
    _insert(4)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    ids = list(CustomerOrder.objects.values_list("pk", flat=True))
    assert len(set(ids)) == 5 * 10 * BATCH + 1


def _insert(process: int) -> None:
    for i in range(10):
        rows = [CustomerOrder(name=f"{process}.{i}.{k}") for k in range(BATCH)]
        CustomerOrder.objects.bulk_create(rows)


def _fork(work: Callable[[], None]) -> int:
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    return child


@contextmanager
def session_of(ids: RowIds) -> Iterator[Session]:
    engine = create_engine("sqlite://", execution_options={"idworker": ids})
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        yield session
    engine.dispose()


def test_strict_and_snowflake_rows(running: Installation, caplog: pytest.LogCaptureFixture) -> None:
    with SyncIdworker(running.url) as client, session_of(RowIds(client, wait=WAIT)) as session:
        with caplog.at_level(logging.WARNING, "idworker_client"):
            session.execute(insert(Invoice), [{} for _ in range(BATCH)])
        session.add_all([Event() for _ in range(BATCH)])
        session.commit()
        invoices = list(session.scalars(select(Invoice.id).order_by(text("rowid"))))
        assert len(invoices) == BATCH
        assert invoices == sorted(set(invoices)), "a strict tag's IDs ascend in the order of the inserts"
        assert min(session.scalars(select(Event.id))) > 2**40
    logged = [r.getMessage() for r in caplog.records if "tag" in r.getMessage()]
    assert logged == ["tag is strict, each row a request: tag=invoice"]


@contextmanager
def refusing_server() -> Iterator[str]:
    """A NATS server that accepts no password."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.sendall(
                        b'INFO {"server_id":"x","version":"2.15.2","auth_required":true,'
                        b'"max_payload":1048576}\r\n'
                    )
                    connection.recv(4096)
                    connection.sendall(b"-ERR 'Authorization Violation'\r\n")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"nats://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


def test_an_unknown_tag_fails_at_once(running: Installation) -> None:
    with SyncIdworker(running.url) as client, session_of(RowIds(client, wait=WAIT)) as session:
        session.add(Absent())
        with pytest.raises(RowIdError) as e:
            session.flush()
    assert isinstance(e.value.error, NoSuchTagError)
    assert (e.value.code, e.value.retryable) == (404, False)
    assert "ids.segment.nosuch" in str(e.value)


def test_the_tags_of_fields_are_checked_before_a_deployment(running: Installation) -> None:
    def messages(**given: Any) -> list[tuple[Any, str]]:
        with override_settings(IDWORKER=given):
            found = checks.run_checks(include_deployment_checks=True)
        return [(m.id, m.msg) for m in found if str(m.id).startswith("idworker.")]

    assert messages(URL=running.url) == [("idworker.E002", "request ids.segment.note: no such tag (404)")]
    ((id, text),) = messages(URL="nats://127.0.0.1:1", ROW_WAIT=0.1)
    assert id == "idworker.W001"
    assert text.startswith(
        "The tags could not be checked: request ids.segment.order: connect to 127.0.0.1:1:"
    )


def test_a_strict_tag_is_checked_without_a_number(running: Installation) -> None:
    running.create_tag("strict", "--order", "strict")
    with SyncIdworker(running.url) as client:
        ids = RowIds(client, wait=WAIT)
        with pytest.raises(NoSuchTagError):
            ids.check("nosuch")
        for tag in ("order", "strict", None):
            ids.check(tag)
        last = client.next("strict")
        ids.check("strict")
        assert client.next("strict") == last + 1

    async def work() -> None:
        connection = await nats.connect(running.url)
        ids = AsyncRowIds(Idworker(connection), wait=WAIT)
        with pytest.raises(NoSuchTagError):
            await ids.check("nosuch")
        for tag in ("order", "strict", None):
            await ids.check(tag)
        await connection.close()

    asyncio.run(work())


def failures() -> dict[str, tuple[Callable[[str], dict[str, Any]], type[IdworkerError], str]]:
    """What SyncIdworker is told, given the URL of a server; the error, and its text."""
    return {
        "no worker with the prefix": (
            lambda url: {"url": url, "prefix": "other"},
            CallTimeoutError,
            "no worker answered",
        ),
        "not connected": (
            lambda _: {"url": "nats://127.0.0.1:1"},
            ConnectFailedError,
            "connect to 127.0.0.1:1",
        ),
    }


@pytest.mark.parametrize("way", failures())
def test_rows_without_ids_are_not_inserted(way: str, running: Installation) -> None:
    options, kind, message = failures()[way]
    given = options(running.url)
    with SyncIdworker(**given) as client, session_of(RowIds(client, wait=3)) as session:
        session.add(Order(name="a"))
        with pytest.raises(RowIdError) as e:
            session.flush()
        session.rollback()
        assert list(session.scalars(select(Order.id))) == []
    assert isinstance(e.value.error, kind)
    assert message in str(e.value)
    assert e.value.retryable


def test_a_wrong_password_is_refused_at_once() -> None:
    with (
        refusing_server() as url,
        SyncIdworker(url, user="shop", password="wrong") as client,
        session_of(RowIds(client, wait=WAIT)) as session,
    ):
        session.add(Order(name="a"))
        with pytest.raises(RowIdError) as e:
            session.flush()
    assert isinstance(e.value.error, ConnectFailedError)
    assert "authorization violation" in str(e.value).lower()
    assert "wrong" not in str(e.value)
