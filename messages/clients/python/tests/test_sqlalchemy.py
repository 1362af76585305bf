"""idworker_client.sqlalchemy: each row has an ID of its own, or the insert is refused."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fake_client import FakeAsyncClient, FakeBuffer, FakeClient, Source
from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Engine,
    Insert,
    Integer,
    MetaData,
    String,
    Table,
    create_engine,
    insert,
    literal,
    null,
    select,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.sqlite import insert as upsert
from sqlalchemy.exc import IntegrityError, StatementError
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, MappedAsDataclass, Session, mapped_column

from idworker_client import BadConfigError, BadTagError, CallTimeoutError
from idworker_client.sqlalchemy import AsyncRowIds, IdworkerDefault, RowIdError, RowIds


class Base(DeclarativeBase): ...


class Order(Base):
    __tablename__ = "customer_order"
    id: Mapped[int] = mapped_column(BigInteger, primary_key=True, default=IdworkerDefault("order"))
    name: Mapped[str] = mapped_column(String, unique=True)


class Event(Base):
    __tablename__ = "event"
    id: Mapped[int] = mapped_column(BigInteger, primary_key=True, default=IdworkerDefault(snowflake=True))
    name: Mapped[str]


ORDERS = Base.metadata.tables["customer_order"]
NAMES = [f"n{i}" for i in range(7)]
ROWS = [{"name": name} for name in NAMES]


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def engine(source: Source, tmp_path: Path) -> Iterator[Engine]:
    ids = RowIds(FakeClient(source))
    made = create_engine(f"sqlite:///{tmp_path / 'db'}", execution_options={"idworker": ids})
    Base.metadata.create_all(made)
    yield made
    made.dispose()


def check_rows(connection: Connection, source: Source, n: int) -> list[int]:
    """Each row has an ID that was given once, to it."""
    ids = list(connection.scalars(select(ORDERS.c.id).order_by(ORDERS.c.id)))
    assert len(ids) == n
    assert len(set(ids)) == n
    assert set(ids) <= set(source.given)
    assert len(set(source.given)) == len(source.given)
    return ids


def each_way() -> dict[str, Callable[[Session], object]]:
    """All ways that insert the rows of NAMES."""

    def one_statement_again(s: Session) -> None:
        for row in ROWS:
            s.execute(insert(ORDERS), row)

    def one_by_one(s: Session) -> None:
        for name in NAMES:
            s.add(Order(name=name))
            s.flush()

    return {
        "add_all": lambda s: s.add_all([Order(name=name) for name in NAMES]),
        "one by one": one_by_one,
        "merge": lambda s: [s.merge(Order(name=name)) for name in NAMES],
        "bulk_save_objects": lambda s: s.bulk_save_objects([Order(name=name) for name in NAMES]),
        "bulk_insert_mappings": lambda s: s.bulk_insert_mappings(Order.__mapper__, ROWS),
        "ORM bulk insert": lambda s: s.execute(insert(Order), ROWS),
        "ORM bulk insert returning": lambda s: s.scalars(insert(Order).returning(Order), ROWS).all(),
        "list of values": lambda s: s.execute(insert(ORDERS).values(ROWS)),
        "ORM list of values": lambda s: s.execute(insert(Order).values(ROWS)),
        "executemany": lambda s: s.execute(insert(ORDERS), ROWS),
        "insertmanyvalues": lambda s: s.execute(insert(ORDERS).returning(ORDERS.c.id), ROWS).all(),
        "one statement again": one_statement_again,
        "upsert": lambda s: s.execute(upsert(ORDERS).on_conflict_do_nothing(), ROWS),
    }


@pytest.mark.parametrize("way", each_way())
def test_each_row_has_its_own_id(way: str, engine: Engine, source: Source) -> None:
    with Session(engine) as session, session.begin():
        each_way()[way](session)
    with engine.connect() as connection:
        check_rows(connection, source, len(NAMES))


def test_an_id_that_the_application_sets_is_kept(engine: Engine, source: Source) -> None:
    with Session(engine) as session, session.begin():
        session.add(Order(id=5, name="a"))
        session.execute(insert(Order), [{"id": 6, "name": "b"}])
        assert list(session.scalars(select(Order.id).order_by(Order.id))) == [5, 6]
    assert source.given == []


def from_selects() -> dict[str, Callable[[], Any]]:
    names = select(literal("x").label("name")).union_all(select(literal("y")))
    several = select(names.subquery().c.name)
    inner = insert(ORDERS).from_select(["name"], several)
    return {
        "insert from select": lambda: inner,
        "ORM": lambda: insert(Order).from_select(["name"], several),
        "with a parameter": lambda: insert(ORDERS).from_select(["name"], select(literal("x"))),
    }


@pytest.mark.parametrize("way", from_selects())
def test_insert_from_select_is_refused(way: str, engine: Engine, source: Source) -> None:
    statement = from_selects()[way]()
    for _ in range(2):  # again from the cache of compiled statements
        with engine.begin() as connection:
            with pytest.raises(RowIdError) as e:
                connection.execute(statement)
            assert str(e.value) == (
                "column customer_order.id: insert from select would give all rows one ID;"
                " select the rows, and insert them with a list of values"
            )
            check_rows(connection, source, 0)
    assert source.given == []


def ctes() -> dict[str, Any]:
    """An insert from select inside another statement, which only PostgreSQL runs."""
    inner = insert(ORDERS).from_select(["name"], select(Event.name)).returning(ORDERS.c.id).cte("inner")
    log = Table("log", MetaData(), Column("number", BigInteger))
    outer: Insert = insert(log).values(number=1).add_cte(inner)
    nested = select(select(inner.c.id).cte("outer").c.id)
    return {"select": select(inner.c.id), "insert": outer, "nested": nested}


@pytest.mark.parametrize("way", ctes())
def test_insert_from_select_is_refused_in_a_cte(way: str) -> None:
    compiled = ctes()[way].compile(dialect=postgresql.dialect())  # type: ignore[no-untyped-call]
    (column,) = compiled.insert_prefetch
    with pytest.raises(RowIdError, match="insert from select would give all rows one ID"):
        column.default.arg(Context(compiled, column))


def test_insert_from_select_of_rows_in_a_cte_is_not_refused() -> None:
    log = Table("log", MetaData(), Column("number", BigInteger))
    inner = insert(ORDERS).values(ROWS).returning(ORDERS.c.id).cte("inner")
    statement = insert(log).from_select(["number"], select(inner.c.id))
    compiled: Any = statement.compile(dialect=postgresql.dialect())  # type: ignore[no-untyped-call]
    ids = [c.default.arg(Context(compiled, c)) for c in compiled.insert_prefetch]
    assert len(set(ids)) == len(NAMES)


class Context:
    """What a default sees of a statement that runs."""

    source = Source()

    def __init__(self, compiled: Any, column: Any) -> None:
        self.compiled = compiled
        self.current_column = column
        self.execution_options = {"idworker": RowIds(FakeClient(self.source))}


def test_insert_from_select_that_lists_the_ids_is_not_refused(engine: Engine, source: Source) -> None:
    with engine.begin() as connection:
        connection.execute(insert(ORDERS), ROWS)
        moved = select(ORDERS.c.id + 1_000_000, ORDERS.c.name + literal("'"))
        connection.execute(insert(ORDERS).from_select(["id", "name"], moved))
        assert len(set(connection.scalars(select(ORDERS.c.id)))) == 2 * len(NAMES)
    assert len(source.given) == len(NAMES)


def test_without_defaults_insert_from_select_stores_no_id(engine: Engine, source: Source) -> None:
    with engine.begin() as connection, pytest.raises(IntegrityError, match="NOT NULL"):
        connection.execute(insert(ORDERS).from_select(["name"], select(literal("x")), include_defaults=False))


def test_a_retry_after_a_rollback_has_each_id_once(engine: Engine, source: Source) -> None:
    with Session(engine) as session:
        first = [Order(name=name) for name in NAMES]
        session.add_all(first)
        session.flush()
        session.rollback()
        session.add_all([Order(name=name) for name in NAMES])
        session.commit()
        session.add_all([Order(name="again")])
        session.commit()
    with engine.connect() as connection:
        check_rows(connection, source, len(NAMES) + 1)


def test_the_same_objects_after_a_rollback_have_each_id_once(engine: Engine, source: Source) -> None:
    with Session(engine) as session:
        orders = [Order(name=name) for name in NAMES]
        session.add_all(orders)
        session.flush()
        session.rollback()
        session.add_all(orders)
        session.commit()
    with engine.connect() as connection:
        check_rows(connection, source, len(NAMES))


def test_a_savepoint_that_is_rolled_back_costs_ids(engine: Engine, source: Source) -> None:
    with Session(engine) as session, session.begin():
        session.add(Order(name="a"))
        session.flush()
        with pytest.raises(IntegrityError), session.begin_nested():
            session.add(Order(name="a"))
            session.flush()
        session.add(Order(name="b"))
    with engine.connect() as connection:
        check_rows(connection, source, 2)
    assert len(source.given) == 3


def test_an_upsert_keeps_the_id_of_the_row(engine: Engine, source: Source) -> None:
    statement = upsert(ORDERS)
    statement = statement.on_conflict_do_update(
        index_elements=["name"], set_={"name": statement.excluded.name}
    )
    with engine.begin() as connection:
        connection.execute(statement, ROWS)
        before = check_rows(connection, source, len(NAMES))
        connection.execute(statement, ROWS)
        assert check_rows(connection, source, len(NAMES)) == before


def test_a_snowflake_id(engine: Engine, source: Source) -> None:
    with Session(engine) as session, session.begin():
        session.add_all([Event(name="a"), Event(name="b")])
        session.flush()
        assert sorted(session.scalars(select(Event.id))) == source.given
    assert source.requests == []


def test_the_first_strict_row_is_logged_and_each_is_a_request(
    engine: Engine, source: Source, caplog: pytest.LogCaptureFixture
) -> None:
    source.strict = ("order",)
    with caplog.at_level(logging.WARNING, "idworker_client"), Session(engine) as session, session.begin():
        session.execute(insert(Order), ROWS)
    assert source.requests == ["order"] * len(NAMES)
    assert [r.getMessage() for r in caplog.records] == ["tag is strict, each row a request: tag=order"]
    with engine.connect() as connection:
        check_rows(connection, source, len(NAMES))


def test_threads_that_learn_of_a_strict_tag_at_once_log_it_once(
    source: Source, caplog: pytest.LogCaptureFixture
) -> None:
    source.strict = ("order",)
    source.meeting = threading.Barrier(8)
    ids = RowIds(FakeClient(source))
    with caplog.at_level(logging.WARNING, "idworker_client"), ThreadPoolExecutor(8) as threads:
        taken = list(threads.map(ids.next, ["order"] * 8))
    assert sorted(taken) == source.given
    assert len(caplog.records) == 1


def test_a_wait_in_a_transaction_is_short(engine: Engine, source: Source) -> None:
    source.error = CallTimeoutError("no ID", reason="no_reply")
    with Session(engine) as session:
        session.add(Order(name="a"))
        connection = session.connection()
        with pytest.raises(RowIdError) as e:
            session.flush()
        assert e.value.error is source.error
        assert e.value.retryable
        assert e.value.reason == "no_reply"
        assert not connection.invalidated, "SQLAlchemy gave up the connection"
        session.rollback()
        source.error = None
        session.add(Order(name="a"))
        session.commit()
    assert source.waits == [2.0, 2.0]


def test_bad_arguments() -> None:
    with pytest.raises(BadConfigError, match="IdworkerDefault needs a tag, or snowflake=True"):
        IdworkerDefault()
    with pytest.raises(BadConfigError, match="has a tag and snowflake=True, but must have one of them"):
        IdworkerDefault("order", snowflake=True)
    with pytest.raises(BadTagError):
        IdworkerDefault("or der")
    with pytest.raises(BadConfigError, match="bad wait"):
        RowIds(FakeClient(Source()), wait=0)


def test_a_column_that_is_too_small_is_refused(engine: Engine) -> None:
    table = Table("small", MetaData(), Column("id", Integer, primary_key=True, default=IdworkerDefault("a")))
    with engine.connect() as connection, pytest.raises(RowIdError) as e:
        connection.execute(insert(table))
    assert str(e.value) == "column small.id: its type is Integer(), but must be BigInteger"


def test_an_engine_without_row_ids_is_refused(tmp_path: Path) -> None:
    bare = create_engine("sqlite://")
    Base.metadata.create_all(bare)
    with bare.connect() as connection, pytest.raises(RowIdError) as e:
        connection.execute(insert(ORDERS), ROWS)
    assert str(e.value) == (
        "column customer_order.id: the engine's execution option idworker is NoneType,"
        " but must be RowIds or AsyncRowIds"
    )


def test_a_sync_engine_cannot_wait_for_asyncio() -> None:
    ids = AsyncRowIds(FakeAsyncClient(Source()))
    sync = create_engine("sqlite://", execution_options={"idworker": ids})
    Base.metadata.create_all(sync)
    with sync.connect() as connection, pytest.raises(RowIdError, match="needs an async engine"):
        connection.execute(insert(ORDERS), ROWS)


def test_rows_of_an_async_engine_wait_for_buffers(tmp_path: Path) -> None:
    source = Source()

    async def work() -> None:
        ids = AsyncRowIds(FakeAsyncClient(source))
        engine = create_async_engine(
            f"sqlite+aiosqlite:///{tmp_path / 'db'}", execution_options={"idworker": ids}
        )
        async with engine.begin() as connection:
            await connection.run_sync(Base.metadata.create_all)
        async with AsyncSession(engine) as session, session.begin():
            session.add_all([Order(name=name) for name in NAMES])
        async with AsyncSession(engine) as session, session.begin():
            await session.execute(insert(Order), [{"name": name + "'"} for name in NAMES])
        async with engine.connect() as connection:
            await connection.run_sync(check_rows, source, 2 * len(NAMES))
        await engine.dispose()

    run(work())
    assert set(source.waits) == {2.0}


def test_strict_rows_of_an_async_engine_are_requests(tmp_path: Path) -> None:
    source = Source(strict=("order",))

    async def work() -> None:
        ids = AsyncRowIds(FakeAsyncClient(source))
        engine = create_async_engine(
            f"sqlite+aiosqlite:///{tmp_path / 'db'}", execution_options={"idworker": ids}
        )
        async with engine.begin() as connection:
            await connection.run_sync(Base.metadata.create_all)
            await connection.execute(insert(ORDERS), ROWS)
            await connection.run_sync(check_rows, source, len(NAMES))
        await engine.dispose()

    run(work())
    assert source.requests == ["order"] * len(NAMES)


# What a buffer does as the default, without IdworkerDefault.


@pytest.fixture
def plain(engine: Engine, source: Source) -> Table:
    default = FakeBuffer(source, "order").take
    made = Table(
        "plain",
        MetaData(),
        Column("id", BigInteger, primary_key=True, default=default),
        Column("name", String),
    )
    made.create(engine)
    return made


def test_take_as_the_default_gives_each_row_its_own(plain: Table, engine: Engine, source: Source) -> None:
    with engine.begin() as connection:
        connection.execute(insert(plain), ROWS)
        connection.execute(insert(plain).values(ROWS))
        connection.execute(insert(plain).returning(plain.c.id), ROWS)
        assert sorted(connection.scalars(select(plain.c.id))) == sorted(source.given)
    assert len(set(source.given)) == 3 * len(NAMES)
    assert set(source.waits) == {5.0}


def test_take_as_the_default_of_insert_from_select_is_refused_by_the_key(
    plain: Table, engine: Engine
) -> None:
    with engine.begin() as connection:
        connection.execute(insert(ORDERS), ROWS)
        with pytest.raises(IntegrityError, match="UNIQUE"):
            connection.execute(insert(plain).from_select(["name"], select(ORDERS.c.name)))


def test_take_as_the_default_of_a_strict_tag_fails(plain: Table, engine: Engine, source: Source) -> None:
    source.strict = ("order",)
    with engine.connect() as connection, pytest.raises(StatementError, match="StrictTagError"):
        connection.execute(insert(plain), ROWS)


def test_dataclasses_take_the_default_of_inserts(engine: Engine, source: Source) -> None:
    class DataBase(MappedAsDataclass, DeclarativeBase): ...

    class Data(DataBase):
        __tablename__ = "data"
        id: Mapped[int] = mapped_column(
            BigInteger, primary_key=True, init=False, insert_default=IdworkerDefault("order")
        )
        name: Mapped[str | None] = mapped_column(String)

    DataBase.metadata.create_all(engine)
    with Session(engine) as session, session.begin():
        session.add_all([Data("a"), Data("b")])
        session.flush()
        assert sorted(session.scalars(select(Data.id))) == source.given


def test_an_explicit_null_is_refused(engine: Engine) -> None:
    with engine.begin() as connection, pytest.raises(IntegrityError, match="NOT NULL"):
        connection.execute(insert(ORDERS).values(id=null(), name="a"))


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 120))
