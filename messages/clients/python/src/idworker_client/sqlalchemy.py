"""SQLAlchemy 2: a default of columns that gives each row an ID of its own.

    class CustomerOrder(Base):
        __tablename__ = "customer_order"
        id: Mapped[int] = mapped_column(BigInteger, primary_key=True, default=IdworkerDefault("order"))

    ids = RowIds(SyncIdworker("nats://127.0.0.1:4222"))
    engine = create_engine(url, execution_options={"idworker": ids})

An async engine has AsyncRowIds of an Idworker instead; its rows wait without
blocking the event loop.
"""

from __future__ import annotations

from typing import Any

try:
    from sqlalchemy import BigInteger, Insert, Integer
except ImportError as error:
    raise ImportError(
        "idworker_client.sqlalchemy needs SQLAlchemy: pip install 'idworker-client[sqlalchemy]'"
    ) from error
from sqlalchemy.engine import AdaptedConnection
from sqlalchemy.exc import DontWrapMixin

from ._errors import BadConfigError, IdworkerError
from ._rows import AsyncRowIds, RowIds, check_source

__all__ = ["AsyncRowIds", "IdworkerDefault", "RowIdError", "RowIds"]


class RowIdError(IdworkerError, DontWrapMixin):
    """Why a row got no ID, and was not inserted. If retryable, retry the transaction.

    It has the message and fields of the client's error. SQLAlchemy would give up
    the connection of the database at a TimeoutError, as CallTimeoutError is, and
    hide other errors in a StatementError.
    """

    error: IdworkerError
    """The error of the client."""

    def __init__(self, error: IdworkerError) -> None:
        super().__init__(
            str(error), code=error.code, subject=error.subject, tries=error.tries, reason=error.reason
        )
        self.error = error
        self.retryable = error.retryable  # type: ignore[misc]


class IdworkerDefault:
    """The default of a BigInteger column: an ID of a tag, or a snowflake ID.

    SQLAlchemy calls it for each row whose insert has no value for the column: rows
    of a flush, of executemany, of a list of values, and of a statement that runs
    again. It would call it once for all rows of ``insert().from_select``, which is
    therefore refused.

    IDs come from the RowIds or AsyncRowIds in the engine's execution option
    ``idworker``. The call that executes the insert raises RowIdError.
    """

    def __init__(self, tag: str | None = None, *, snowflake: bool = False) -> None:
        check_source("IdworkerDefault", tag, snowflake)
        self._tag = tag

    def __call__(self, context: Any) -> int:
        """Return an ID for a row. SQLAlchemy calls it."""
        try:
            return self._next(context)
        except IdworkerError as e:
            raise RowIdError(e) from e

    def _next(self, context: Any) -> int:
        column = context.current_column
        # In a list of values, SQLAlchemy wraps the column of each further row.
        column = getattr(column, "original", column)
        _check_statement(column, context.compiled)
        if isinstance(column.type, Integer) and not isinstance(column.type, BigInteger):
            raise BadConfigError(f"column {column}: its type is {column.type!r}, but must be BigInteger")
        source = context.execution_options.get("idworker")
        if isinstance(source, RowIds):
            return source.next(self._tag)
        if isinstance(source, AsyncRowIds):
            buffered = source.take(self._tag)
            return self._wait(source, context) if buffered is None else buffered
        raise BadConfigError(
            f"column {column}: the engine's execution option idworker is {type(source).__name__},"
            " but must be RowIds or AsyncRowIds"
        )

    def _wait(self, source: AsyncRowIds, context: Any) -> int:
        connection = context.root_connection.connection.dbapi_connection
        if not isinstance(connection, AdaptedConnection):
            raise BadConfigError("AsyncRowIds needs an async engine: give this one RowIds of a SyncIdworker")
        return connection.run_async(lambda _: source.next(self._tag))


def _check_statement(column: Any, compiled: Any) -> None:
    """Refuse a statement that inserts many rows with one value of the column."""
    # The table of an ORM's statement is an annotated copy, which is equal.
    statements = [compiled.statement, *(cte.element for cte in compiled.ctes or ())]
    for statement in statements:
        if isinstance(statement, Insert) and statement.select is not None and statement.table == column.table:
            raise BadConfigError(
                f"column {column}: insert from select would give all rows one ID; select the rows,"
                " and insert them with a list of values"
            )
