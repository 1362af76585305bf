"""The code of docs/python.md and of the package's README."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace

import nats
import pytest
from customer_order import Base, CustomerOrder
from installation import PATIENCE, Installation
from scripted import Server
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from idworker_client import SyncIdworker
from idworker_client._errors import ClosedError
from idworker_client.number import NumberFormat
from idworker_client.opaque import OpaqueKeys
from idworker_client.sqlalchemy import RowIdError


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with Installation() as made:
        made.create_tag("order")
        made.create_tag("ticket.*", "--template", "--dated", "yyyyMMdd", "--order", "strict")
        yield made.url


def test_the_client_for_threads(url: str) -> None:
    from idworker_client import SyncIdworker

    client = SyncIdworker(url)
    id = client.next("order")
    batch = list(client.next_n("order", 100))
    snowflake = client.snowflake()
    snowflakes = list(client.snowflake_n(100))

    orders = client.prefetch("order")
    buffered = orders.take()

    client.close()

    assert len({id, *batch, snowflake, *snowflakes, buffered}) == 203


def test_the_client_for_asyncio(url: str) -> None:
    async def work() -> None:
        import nats

        from idworker_client import Idworker

        nc = await nats.connect(url, max_reconnect_attempts=-1)
        client = Idworker(nc)
        id = await client.next("order")

        orders = client.prefetch("order")
        first = await orders.next()
        await orders.ready(2)
        rest = [orders.take(), orders.take()]

        await client.aclose()
        await nc.close()

        assert len({id, first, *rest}) == 4

    asyncio.run(work())


class FastAPI:
    """Stands in for the framework, on which the client does not depend."""

    def __init__(self, lifespan: Callable[[FastAPI], AbstractAsyncContextManager[None]]) -> None:
        self.lifespan = lifespan
        self.state = SimpleNamespace()


def test_the_lifespan_of_an_application(url: str) -> None:
    from collections.abc import AsyncIterator
    from contextlib import asynccontextmanager

    import nats

    from idworker_client import Idworker

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        nc = await nats.connect(url, max_reconnect_attempts=-1)
        app.state.ids = Idworker(nc)
        try:
            yield
        finally:
            await app.state.ids.aclose()
            await nc.close()

    app = FastAPI(lifespan=lifespan)

    async def work() -> None:
        async with app.lifespan(app):
            assert await app.state.ids.next("order") > 0
        with pytest.raises(ClosedError):
            await app.state.ids.next("order")

    asyncio.run(work())


class trace:
    """Stands in for that of OpenTelemetry, on which the client does not depend."""

    is_valid, trace_id, span_id, trace_flags = True, 0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331, 1

    @classmethod
    def get_current_span(cls) -> trace:
        return cls()

    def get_span_context(self) -> trace:
        return self


def test_traces() -> None:
    with Server() as server:
        url = server.url

        def traceparent() -> str | None:
            span = trace.get_current_span().get_span_context()
            if not span.is_valid:
                return None
            return f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"

        client = SyncIdworker(url, traceparent=traceparent)

        client.next("order")
        header = b"traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n"
        assert header in server.connections[0].received
        client.close()


def test_rows_of_sqlalchemy(url: str) -> None:
    from sqlalchemy import create_engine

    from idworker_client import SyncIdworker
    from idworker_client.sqlalchemy import RowIds

    client = SyncIdworker(url)
    ids = RowIds(client)
    ids.check("order")
    engine = create_engine("sqlite://", execution_options={"idworker": ids})

    Base.metadata.create_all(engine)

    for attempt in range(5):
        try:
            with Session(engine) as session, session.begin():
                session.add_all([CustomerOrder(), CustomerOrder()])
            break
        except RowIdError as e:
            if attempt == 4 or not e.retryable:
                raise

    with Session(engine) as session:
        assert len(set(session.scalars(select(CustomerOrder.id)))) == 2
    client.close()


def test_rows_of_sqlalchemy_with_asyncio(url: str, tmp_path: Path) -> None:
    async def work() -> None:
        nc = await nats.connect(url, max_reconnect_attempts=-1)
        database = f"sqlite+aiosqlite:///{tmp_path / 'db'}"

        from sqlalchemy.ext.asyncio import create_async_engine

        from idworker_client import Idworker
        from idworker_client.sqlalchemy import AsyncRowIds

        client = Idworker(nc)
        ids = AsyncRowIds(client)
        engine = create_async_engine(database, execution_options={"idworker": ids})

        async with engine.begin() as connection:
            await connection.run_sync(Base.metadata.create_all)
        async with AsyncSession(engine) as session, session.begin():
            session.add_all([CustomerOrder(), CustomerOrder()])
        await engine.dispose()
        await client.aclose()
        await nc.close()

    asyncio.run(work())


def test_opaque_ids_and_numbers(url: str, tmp_path: Path) -> None:
    keys = str(tmp_path / "keys")
    key_file = "1 " + "A" * 43 + "=\n"
    Path(keys).write_text(key_file)
    id = 1
    with SyncIdworker(url) as client:
        orders = OpaqueKeys.load(keys).texts("order", "ord")
        text = orders.seal(id)

        tickets = NumberFormat("ticket", "TCK-{yyyyMMdd}-{seq:6}", "Asia/Shanghai")
        number = tickets.next(client, datetime.now(timezone.utc))

    assert orders.open(text) == id
    assert number.endswith("-000001")


def test_the_program_of_the_readme(url: str, tmp_path: Path) -> None:
    readme = (Path(__file__).parent.parent / "README.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    (tmp_path / "first.py").write_text(program)
    result = subprocess.run(
        [sys.executable, "first.py"],
        cwd=tmp_path,
        env={**os.environ, "NATS_URL": url},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert result.returncode == 0, result.stderr
    assert len({int(word) for word in result.stdout.split()}) == 3


REPOSITORY = Path(__file__).parents[4]


def test_no_text_installs_the_package_of_another_project() -> None:
    """That of PyPI with the name idworker. Ours comes from a clone, or has its name once released."""
    package = REPOSITORY / "messages/clients/python"
    texts = [REPOSITORY / "README.md", *(REPOSITORY / "docs").glob("*.md"), package / "README.md"]
    texts += (package / "src").rglob("*.py")
    installs = re.compile(r"pip install ([^`\"\n]*)")
    found = [command for text in texts for command in installs.findall(text.read_text())]
    assert [command for command in found if "idworker-client" in command or ".whl" in command]
    assert not [command for command in found if re.search(r"(^|[ '])idworker(\[|'|$| )", command)]
    version = re.search('^version = "(.*)"$', (package / "pyproject.toml").read_text(), re.MULTILINE)
    assert version
    wheels = {wheel for command in found for wheel in re.findall(r"idworker_client-(\S+)-py3-none", command)}
    assert wheels == {version[1]}


def test_the_core_needs_no_orm() -> None:
    code = "import sys, idworker_client; print({'django', 'sqlalchemy', 'cryptography'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE)
    assert result.stdout == "set()\n", result.stderr
