"""Errors between processes, and what says that a package is missing."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import pytest
from scripted import Server

from idworker_client import CallTimeoutError, IdworkerError, NoSuchTagError, SyncIdworker
from idworker_client.number import DocumentNumberError
from idworker_client.opaque import OpaqueIdError
from idworker_client.sqlalchemy import RowIdError, RowIds

ROW = CallTimeoutError("no reply", subject="ids.segment.order", tries=3, reason="no_reply")


@pytest.mark.parametrize(
    "error",
    [
        ROW,
        NoSuchTagError("no such tag (404)", code=404, subject="ids.segment.order", tries=1),
        OpaqueIdError("check", "it was changed"),
        DocumentNumberError("format", "{ without }"),
        RowIdError(ROW),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_survives_pickle_with_its_fields(error: IdworkerError) -> None:
    """multiprocessing's pool waits without end for an error that does not."""
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is type(error)
        assert str(again) == str(error)
        fields = dict(again.__dict__)
        if isinstance(again, RowIdError):
            assert type(fields.pop("error")) is CallTimeoutError
            fields["error"] = ROW
        assert fields == error.__dict__
        assert again.retryable == error.retryable


def test_a_client_and_its_buffers_are_neither_pickled_nor_copied() -> None:
    with Server() as server, SyncIdworker(server.url, timeout=300) as ids:
        orders = ids.prefetch("order")
        orders.take(300)
        for what in (ids, orders, RowIds(ids), orders.take):
            for duplicate in (pickle.dumps, copy.deepcopy):
                with pytest.raises(TypeError, match="cannot be pickled or copied, make one in each process"):
                    duplicate(what)
        with pytest.raises(TypeError, match="cannot be pickled or copied"):
            copy.copy(orders)


@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [
        ("django", "Django", "django"),
        ("sqlalchemy", "SQLAlchemy", "sqlalchemy"),
        ("opaque", "cryptography", "opaque"),
    ],
)
def test_a_missing_package_is_named_with_its_extra(module: str, package: str, extra: str) -> None:
    run = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import sys; sys.modules['{package.lower()}'] = None; import idworker_client.{module}",
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    last = run.stderr.splitlines()[-1]
    assert (
        last
        == f"ImportError: idworker_client.{module} needs {package}: pip install 'idworker-client[{extra}]'"
    )
