"""Django: a field that gives each row an ID of its own.

    class CustomerOrder(models.Model):
        id = IdworkerField(tag="order", primary_key=True)

The setting IDWORKER says where IDs come from; all of its keys have defaults:

    IDWORKER = {"URL": "nats://127.0.0.1:4222", "OPTIONS": {"user": …, "password": …}}

URL is a URL or a list, PREFIX that of the installation, TIMEOUT the longest call
of client() in seconds, TRACEPARENT the traceparent of SyncIdworker, ROW_WAIT the
longest wait for a row's ID in seconds; RUNWAY, LIMIT and MAX_BATCH size the buffers
as SyncIdworker.prefetch says, and OPTIONS are those of nats.connect.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

try:
    from django.apps import apps
    from django.conf import settings
except ImportError as error:
    raise ImportError("idworker_client.django needs Django: pip install 'idworker-client[django]'") from error
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import CommandError
from django.core.signals import setting_changed
from django.db import models
from django.db.migrations import AddField
from django.db.models.signals import pre_migrate

from ._errors import BadConfigError, IdworkerError, NoSuchTagError
from ._rows import RowIds, check_source
from ._sync import SyncIdworker

__all__ = ["IdworkerField", "client"]

if TYPE_CHECKING:
    _BigIntegerField = models.BigIntegerField[Any, Any]  # of null=True, too
else:
    _BigIntegerField = models.BigIntegerField

_KEYS_OF_CLIENT = {"URL": "url", "PREFIX": "prefix", "TIMEOUT": "timeout", "TRACEPARENT": "traceparent"}
_KEYS_OF_ROWS = {"ROW_WAIT": "wait", "RUNWAY": "runway", "LIMIT": "limit", "MAX_BATCH": "max_batch"}
_KEYS = (*_KEYS_OF_CLIENT, *_KEYS_OF_ROWS, "OPTIONS")


_ADVICE = (
    "Add the field with null=True, give each row an ID of idworker_client.django.client(), then remove null"
)
_NO_DEFAULT = f"IdworkerField takes no default, which would be one value for all rows of a table. {_ADVICE}"


class IdworkerField(_BigIntegerField):
    """A column of IDs of a tag, or of snowflake IDs; a primary key, as a rule.

    A row that is inserted without a value gets an ID of its own: by save, create,
    bulk_create and all that call them. Its object has it before the insert. An
    update, a raw query and QuerySet.update take no ID. Forms leave the field out.

    The errors are those of SyncIdworker.next. A wait ends after 2 s by default with
    CallTimeoutError, because a transaction may be open; retry the whole atomic block.
    """

    def __init__(self, *args: Any, tag: str | None = None, snowflake: bool = False, **kwargs: Any) -> None:
        check_source("IdworkerField", tag, snowflake)
        if "default" in kwargs or "db_default" in kwargs:
            raise BadConfigError(_NO_DEFAULT)
        kwargs.setdefault("blank", True)
        kwargs.setdefault("editable", False)
        super().__init__(*args, **kwargs)
        self.tag = tag
        self.snowflake = snowflake

    def deconstruct(self) -> Any:
        """Return what a migration needs to make the field again."""
        # makemigrations sets what a user types as "one-off default".
        if self.default is not models.NOT_PROVIDED:
            raise BadConfigError(_NO_DEFAULT)
        name, path, args, kwargs = super().deconstruct()
        for key, usual in (("blank", True), ("editable", False)):
            if kwargs.pop(key, not usual) is not usual:
                kwargs[key] = not usual
        if self.snowflake:
            kwargs["snowflake"] = True
        else:
            kwargs["tag"] = self.tag
        return name, path, args, kwargs

    def has_default(self) -> bool:
        """Return whether Django may insert a new object without trying to update it first."""
        return self.primary_key

    def get_default(self) -> None:
        """Return nothing: an object that is never saved needs no ID."""

    def get_pk_value_on_save(self, instance: models.Model) -> int:
        """Return an ID for a primary key. bulk_create and fixtures ask here."""
        return _rows().next(self.tag)

    def pre_save(self, model_instance: models.Model, add: bool) -> Any:
        """Return the value to store; an ID if the row is new and has none."""
        value = super().pre_save(model_instance, add)
        if value is None and add:
            value = _rows().next(self.tag)
            setattr(model_instance, self.attname, value)
        return value


def client() -> SyncIdworker:
    """Return this process's client, which the setting IDWORKER describes.

    It is made at the first call, connects at its own first call, and makes a new
    connection in a forked child. Raises ImproperlyConfigured.
    """
    return _made_once()[0]


_made: dict[str, tuple[SyncIdworker, RowIds]] = {}


def _rows() -> RowIds:
    return _made_once()[1]


def _made_once() -> tuple[SyncIdworker, RowIds]:
    found = _made.get("")
    # A lock could be held at a fork. A second client is never used, and has not connected.
    return found if found is not None else _made.setdefault("", _make())


def _make() -> tuple[SyncIdworker, RowIds]:
    given = getattr(settings, "IDWORKER", {})
    if not isinstance(given, dict):
        raise ImproperlyConfigured(f"IDWORKER is {type(given).__name__}, but must be a dict")
    unknown = sorted(str(key) for key in given if key not in _KEYS)
    if unknown:
        raise ImproperlyConfigured(f"IDWORKER has the unknown key {unknown[0]}; known are {', '.join(_KEYS)}")
    options = given.get("OPTIONS", {})
    if not isinstance(options, dict):
        raise ImproperlyConfigured(f"IDWORKER: OPTIONS is {type(options).__name__}, but must be a dict")
    for_client = {name: given[key] for key, name in _KEYS_OF_CLIENT.items() if key in given}
    for_rows = {name: given[key] for key, name in _KEYS_OF_ROWS.items() if key in given}
    try:
        made = SyncIdworker(**for_client, **options)
        return made, RowIds(made, **for_rows)
    except (IdworkerError, TypeError) as e:
        raise ImproperlyConfigured(f"IDWORKER: {e}") from e


@checks.register()
def _check_settings(app_configs: Sequence[Any] | None, **_: Any) -> list[checks.CheckMessage]:
    try:
        _make()  # which neither connects nor stays
    except ImproperlyConfigured as e:
        return [checks.Error(str(e), id="idworker.E001")]
    return []


@checks.register(deploy=True)
def _check_tags(app_configs: Sequence[Any] | None, **_: Any) -> list[checks.CheckMessage]:
    """Request an ID of each tag, since a wrong one would otherwise show at its first insert."""
    models_of = [
        m for a in (apps.get_app_configs() if app_configs is None else app_configs) for m in a.get_models()
    ]
    fields = {f.tag: f for m in models_of for f in m._meta.local_fields if isinstance(f, IdworkerField)}
    found: list[checks.CheckMessage] = []
    try:
        ids, rows = _make()
    except ImproperlyConfigured:
        return []  # which _check_settings reports
    with ids:
        for tag, field in fields.items():
            try:
                rows.check(tag)
            except NoSuchTagError as e:
                hint = f"Create it with idworker tag create {tag}, or correct the field's tag."
                found.append(checks.Error(str(e), hint=hint, obj=field, id="idworker.E002"))
            except IdworkerError as e:
                found.append(checks.Warning(f"The tags could not be checked: {e}", id="idworker.W001"))
                break
    return found


def _forget_client(setting: str, **_: Any) -> None:
    """Follow override_settings of tests, but keep a client in memory, which no setting describes."""
    from .testing import InMemorySyncIdworker

    made = _made.get("")
    if setting == "IDWORKER" and made is not None and not isinstance(made[0], InMemorySyncIdworker):
        del _made[""]
        made[0].close()


def _refuse_one_value_for_all_rows(plan: Iterable[tuple[Any, bool]] = (), **_: Any) -> None:
    """Refuse a migration that adds a field without null: MySQL would put 0 in all rows."""
    for migration, backwards in plan:
        for operation in () if backwards else _flat(migration.operations):
            field = getattr(operation, "field", None)
            if isinstance(operation, AddField) and isinstance(field, IdworkerField) and not field.null:
                place = f"{operation.model_name}.{operation.name}"
                raise CommandError(
                    f"{migration} adds {place} without null, with no ID for its rows. {_ADVICE}"
                )


def _flat(operations: Iterable[Any]) -> Iterator[Any]:
    for operation in operations:
        yield operation
        yield from _flat(getattr(operation, "database_operations", ()))


setting_changed.connect(_forget_client)
pre_migrate.connect(_refuse_one_value_for_all_rows)
