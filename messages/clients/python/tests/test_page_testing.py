"""The code of docs/python.md that tests an application without NATS."""

from __future__ import annotations

from customer_order import Base, CustomerOrder
from sqlalchemy import create_engine, select
from sqlalchemy.orm import Session

from idworker_client import SyncIdworker
from idworker_client.sqlalchemy import RowIds
from idworker_client.testing import InMemorySyncIdworker


class Shop:
    """An application, as small as can be."""

    def __init__(self, ids: SyncIdworker) -> None:
        self._orders = ids.prefetch("order")

    def place_order(self) -> int:
        return self._orders.take()


def test_a_shop_numbers_its_orders() -> None:
    shop = Shop(InMemorySyncIdworker())
    assert [shop.place_order(), shop.place_order()] == [1, 2]


def test_an_order_is_stored() -> None:
    ids = RowIds(InMemorySyncIdworker())
    engine = create_engine("sqlite://", execution_options={"idworker": ids})
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        session.add(CustomerOrder())
        session.commit()
        assert session.scalars(select(CustomerOrder.id)).all() == [1]
