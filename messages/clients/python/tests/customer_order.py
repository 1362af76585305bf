"""The table of docs/python.md."""

from __future__ import annotations

from sqlalchemy import BigInteger
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from idworker_client.sqlalchemy import IdworkerDefault


class Base(DeclarativeBase): ...


class CustomerOrder(Base):
    __tablename__ = "customer_order"
    id: Mapped[int] = mapped_column(BigInteger, primary_key=True, default=IdworkerDefault("order"))
