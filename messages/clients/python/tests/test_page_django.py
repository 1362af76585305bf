"""The code of docs/python.md that tests an application of Django."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connections
from shop.begin import new_database
from shop.models import CustomerOrder

from idworker_client.testing import in_memory_django


@pytest.fixture(autouse=True)
def ids() -> Iterator[None]:
    with in_memory_django():
        yield


@pytest.fixture(autouse=True)
def database(tmp_path: Path) -> Iterator[None]:
    new_database(tmp_path)
    yield
    connections.close_all()


@pytest.mark.parametrize("name", ["a", "b"])
def test_the_first_row_of_each_test_has_the_id_1(name: str) -> None:
    assert CustomerOrder.objects.create(name=name).pk == 1


@in_memory_django()
def test_a_decorated_test() -> None:
    assert CustomerOrder.objects.create(name="a").pk == 1
