"""The code of docs/python.md that tests an application without NATS."""

from __future__ import annotations

from idworker_client import SyncIdworker
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
