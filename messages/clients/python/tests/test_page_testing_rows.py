"""The code of docs/python.md that tests rows of SQLAlchemy without NATS."""

from __future__ import annotations

from customer_order import Base, CustomerOrder
from sqlalchemy import create_engine, select
from sqlalchemy.orm import Session

from idworker_client.sqlalchemy import RowIds
from idworker_client.testing import InMemorySyncIdworker


def test_an_order_is_stored() -> None:
    ids = RowIds(InMemorySyncIdworker())
    engine = create_engine("sqlite://", execution_options={"idworker": ids})
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        session.add(CustomerOrder())
        session.commit()
        assert session.scalars(select(CustomerOrder.id)).all() == [1]
