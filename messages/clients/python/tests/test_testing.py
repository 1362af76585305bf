"""Clients in memory behave as the real ones do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from django.db import connections
from django.test import override_settings
from shop.begin import new_database
from shop.models import CustomerOrder, Item
from sqlalchemy import BigInteger, create_engine, select
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

import idworker_client.django
from idworker_client import (
    BadConfigError,
    BadCountError,
    BadPrefixError,
    BadTagError,
    BufferEmptyError,
    ClosedError,
    MalformedRequestError,
)
from idworker_client.sqlalchemy import AsyncRowIds, IdworkerDefault, RowIds
from idworker_client.testing import InMemoryIdworker, InMemorySyncIdworker, in_memory_django


class Base(DeclarativeBase): ...


class Order(Base):
    __tablename__ = "customer_order"
    id: Mapped[int] = mapped_column(BigInteger, primary_key=True, default=IdworkerDefault("order"))


def test_ids_of_each_tag_begin_at_1() -> None:
    with InMemorySyncIdworker() as ids:
        ids.connect()
        orders = ids.prefetch("order", runway=2)
        assert [ids.next("order"), *ids.next_n("order", 3), orders.take(), ids.next("order")] == [
            *range(1, 7)
        ]
        assert (ids.next("bill"), ids.snowflake(), *ids.snowflake_n(2)) == (1, 1, 2, 3)
        assert ids.prefetch_snowflake().take() == 4


def test_threads_take_each_id_once() -> None:
    ids = InMemorySyncIdworker()
    orders = ids.prefetch("order")
    with ThreadPoolExecutor(8) as threads:
        taken = list(threads.map(lambda _: orders.take(), range(10_000)))
    assert sorted(taken) == [*range(1, 10_001)]


def test_arguments_are_checked_as_by_the_real_client() -> None:
    ids = InMemorySyncIdworker()
    calls: list[tuple[Callable[[], object], type[Exception]]] = [
        (lambda: InMemorySyncIdworker(prefix="A"), BadPrefixError),
        (lambda: ids.next("a b"), BadTagError),
        (lambda: ids.next("order", timeout=0), BadConfigError),
        (lambda: ids.next_n("order", 0), BadCountError),
        (lambda: ids.next_n("order", 10_001), MalformedRequestError),
        (lambda: ids.prefetch("a b"), BadTagError),
        (lambda: ids.prefetch("order", limit=0), BadConfigError),
        (lambda: ids.prefetch("order").take(0), BadConfigError),
    ]
    for call, kind in calls:
        with pytest.raises(kind):
            call()
    assert ids.next("order") == 1


def test_a_closed_client_gives_no_id() -> None:
    ids = InMemorySyncIdworker()
    closed, orders = ids.prefetch("order"), ids.prefetch("order")
    closed.close()
    with pytest.raises(ClosedError):
        closed.take()
    ids.close()
    for call in (ids.connect, ids.snowflake, orders.take):
        with pytest.raises(ClosedError):
            call()


def test_the_client_for_asyncio() -> None:
    async def refused(call: Awaitable[object], kind: type[Exception]) -> None:
        with pytest.raises(kind):
            await call

    async def work() -> None:
        ids = InMemoryIdworker()
        assert [await ids.next("order"), *await ids.next_n("order", 2), await ids.next("order")] == [
            1,
            2,
            3,
            4,
        ]
        assert [await ids.snowflake(), *await ids.snowflake_n(2)] == [1, 2, 3]
        await refused(ids.next("a b"), BadTagError)
        await refused(ids.next_n("order", 10_001), MalformedRequestError)
        bills = ids.prefetch("bill")
        with pytest.raises(BufferEmptyError):
            bills.take()
        await bills.ready(3)
        assert [bills.take(), bills.take(), await bills.next()] == [1, 2, 3]
        await ids.aclose()
        await refused(ids.next("order"), ClosedError)
        await refused(bills.next(), ClosedError)

    asyncio.run(work())


def test_rows_of_django(tmp_path: Path) -> None:
    before = idworker_client.django._made.get("")
    new_database(tmp_path)
    with in_memory_django() as ids:
        orders = CustomerOrder.objects.bulk_create([CustomerOrder(name=f"{i}") for i in range(3)])
        item = Item.objects.create(order=orders[0])
        assert [order.pk for order in orders] == [1, 2, 3]
        assert (item.pk, item.number) == (1, 1)
        assert idworker_client.django.client() is ids
    assert idworker_client.django._made.get("") is before
    connections.close_all()


def test_a_setting_that_changes_meanwhile_does_not_leave_the_client_in_memory() -> None:
    with in_memory_django() as ids:
        with override_settings(IDWORKER={"URL": "nats://127.0.0.1:1"}):
            assert idworker_client.django.client() is ids
        assert idworker_client.django.client() is ids


def test_rows_of_sqlalchemy(tmp_path: Path) -> None:
    engine = create_engine("sqlite://", execution_options={"idworker": RowIds(InMemorySyncIdworker())})
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        session.add_all([Order(), Order()])
        assert list(session.scalars(select(Order.id))) == [1, 2]

    async def work() -> None:
        options = {"idworker": AsyncRowIds(InMemoryIdworker())}
        engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'db'}", execution_options=options)
        async with engine.begin() as connection:
            await connection.run_sync(Base.metadata.create_all)
        async with AsyncSession(engine) as session:
            session.add_all([Order(), Order()])
            assert list(await session.scalars(select(Order.id))) == [1, 2]
        await engine.dispose()

    asyncio.run(work())
