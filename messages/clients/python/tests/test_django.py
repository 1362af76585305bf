"""idworker_client.django: each row has an ID of its own, or the migration is refused."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.conf import settings
from django.core import checks, serializers
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import IntegrityError, connection, connections, migrations, models, transaction
from django.db.migrations.writer import MigrationWriter
from django.db.transaction import TransactionManagementError
from django.test.utils import CaptureQueriesContext, override_settings
from fake_client import FakeClient, Source
from shop.begin import new_database
from shop.models import CustomerOrder, Item, Note, Parcel

import idworker_client.django
from idworker_client import BadConfigError, BadTagError, CallTimeoutError
from idworker_client.django import IdworkerField
from idworker_client.sqlalchemy import RowIds

NAMES = [f"n{i}" for i in range(7)]


@pytest.fixture(scope="module", autouse=True)
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    new_database(tmp_path_factory.mktemp("django"))
    yield
    connections.close_all()


@pytest.fixture(autouse=True)
def source(monkeypatch: pytest.MonkeyPatch) -> Source:
    made = Source()
    client = FakeClient(made)
    monkeypatch.setitem(idworker_client.django._made, "", (client, RowIds(client)))
    for model in (Item, Parcel, CustomerOrder, Note):
        model.objects.all().delete()
    return made


def check_rows(source: Source, n: int) -> list[int]:
    """Each row has an ID that was given once, to it."""
    ids = list(CustomerOrder.objects.order_by("pk").values_list("pk", flat=True))
    assert len(ids) == n
    assert len(set(ids)) == n
    assert set(ids) <= set(source.given)
    assert len(set(source.given)) == len(source.given)
    return ids


def orders() -> list[CustomerOrder]:
    return [CustomerOrder(name=name) for name in NAMES]


def each_way() -> dict[str, Callable[[], object]]:
    """All ways that insert the rows of NAMES."""
    objects = CustomerOrder.objects

    def save() -> None:
        for order in orders():
            order.save()

    def copies() -> None:
        order = CustomerOrder(name=NAMES[0])
        order.save()
        for name in NAMES[1:]:
            order.pk = None
            order.name = name
            order.save()

    def true_copies() -> None:
        order = CustomerOrder(name=NAMES[0])
        order.save()
        for name in NAMES[1:]:
            order.pk = None
            order._state.adding = True
            order.name = name
            order.save(force_insert=True)

    def fixture() -> None:
        rows = [{"model": "shop.customerorder", "pk": None, "fields": {"name": name}} for name in NAMES]
        for row in serializers.deserialize("json", json.dumps(rows)):
            row.save()

    return {
        "save": save,
        "create": lambda: [objects.create(name=name) for name in NAMES],
        "get_or_create": lambda: [objects.get_or_create(name=name) for name in NAMES + NAMES],
        "update_or_create": lambda: [objects.update_or_create(name=name) for name in NAMES + NAMES],
        "bulk_create": lambda: objects.bulk_create(orders()),
        "bulk_create in batches": lambda: objects.bulk_create(orders(), batch_size=2),
        "bulk_create of some": lambda: objects.bulk_create(orders() + orders(), ignore_conflicts=True),
        "upsert": lambda: [
            objects.bulk_create(
                orders(), update_conflicts=True, unique_fields=["name"], update_fields=["name"]
            )
            for _ in range(2)
        ],
        "copies": copies,
        "true copies": true_copies,
        "children": lambda: [Parcel.objects.create(name=name) for name in NAMES],
        "fixture": fixture,
        "abulk_create": lambda: asyncio.run(objects.abulk_create(orders())),
    }


@pytest.mark.parametrize("way", each_way())
def test_each_row_has_its_own_id(way: str, source: Source) -> None:
    each_way()[way]()
    check_rows(source, len(NAMES))


def test_objects_have_the_ids_of_their_rows(source: Source) -> None:
    saved = CustomerOrder(name="a")
    saved.save()
    bulk = CustomerOrder.objects.bulk_create(orders())
    for order in [saved, *bulk]:
        assert CustomerOrder.objects.get(name=order.name).pk == order.pk


def test_a_new_row_costs_one_statement_and_one_id(source: Source) -> None:
    with CaptureQueriesContext(connection) as queries:
        CustomerOrder(name="a").save()
        CustomerOrder.objects.create(name="b")
    assert [q["sql"].split()[0] for q in queries] == ["INSERT", "INSERT"]
    assert len(source.given) == 2


def test_an_id_that_the_application_sets_is_kept(source: Source) -> None:
    CustomerOrder.objects.create(pk=5, name="a")
    CustomerOrder(pk=6, name="b").save()
    CustomerOrder.objects.bulk_create([CustomerOrder(pk=7, name="c")])
    fixture = [{"model": "shop.customerorder", "pk": 8, "fields": {"name": "d"}}]
    for row in serializers.deserialize("json", json.dumps(fixture)):
        row.save()
    assert list(CustomerOrder.objects.order_by("pk").values_list("pk", flat=True)) == [5, 6, 7, 8]
    assert source.given == []


def test_a_fixture_without_a_number_is_refused(source: Source) -> None:
    CustomerOrder.objects.create(pk=5, name="a")
    fixture = [{"model": "shop.item", "pk": 1, "fields": {"order": 5, "number": None}}]
    (row,) = serializers.deserialize("json", json.dumps(fixture))
    with pytest.raises(IntegrityError, match="NOT NULL"):
        row.save()
    assert source.given == []


def test_updates_take_no_id(source: Source) -> None:
    order = CustomerOrder.objects.create(name="a")
    given = list(source.given)
    order.name = "b"
    order.save()
    order.save(update_fields=["name"])
    CustomerOrder.objects.update(name="c")
    CustomerOrder.objects.bulk_update([order], ["name"])
    note = Note(pk=Note.objects.bulk_create([Note(text="a")])[0].pk, text="b")
    Note.objects.update(number=None)
    note.save()
    assert source.given[: len(given)] == given
    assert len(source.given) == len(given) + 1, "only the new note has a number"
    assert Note.objects.get().number is None


def test_a_child_has_the_id_of_its_parent(source: Source) -> None:
    parcel = Parcel.objects.create(name="a", weight=2)
    assert parcel.pk == parcel.id == CustomerOrder.objects.get().pk
    assert source.given == [parcel.pk]


def test_a_row_with_two_ids(source: Source) -> None:
    order = CustomerOrder.objects.create(name="a")
    items = Item.objects.bulk_create([Item(order=order) for _ in NAMES])
    numbers = [i.number for i in items] + [i.pk for i in items]
    assert sorted([order.pk, *numbers]) == source.given
    assert {i.number for i in Item.objects.filter(order=order)} == {i.number for i in items}


def test_a_retry_after_a_rollback_has_each_id_once(source: Source) -> None:
    failed = orders()
    for _ in range(2):
        with pytest.raises(IntegrityError), transaction.atomic():
            for order in [*failed, CustomerOrder(name=NAMES[0])]:
                order.save()
        check_rows(source, 0)
    with transaction.atomic():
        for order in failed:
            order.save()  # the same objects
    with transaction.atomic(), pytest.raises(IntegrityError), transaction.atomic():
        CustomerOrder.objects.create(name=NAMES[0])
    CustomerOrder.objects.create(name="z")
    check_rows(source, len(NAMES) + 1)


def test_strict_rows_are_requests(source: Source, caplog: pytest.LogCaptureFixture) -> None:
    source.strict = ("order",)
    with caplog.at_level(logging.WARNING, "idworker_client"):
        CustomerOrder.objects.bulk_create(orders())
    assert source.requests == ["order"] * len(NAMES)
    assert [r.getMessage() for r in caplog.records] == ["tag is strict, each row a request: tag=order"]
    check_rows(source, len(NAMES))


def test_a_wait_in_a_transaction_is_short_and_ends_it(source: Source) -> None:
    source.error = CallTimeoutError("no ID", reason="no_reply")
    with transaction.atomic():
        with pytest.raises(CallTimeoutError) as e:
            CustomerOrder.objects.create(name="a")
        assert e.value is source.error
        assert e.value.retryable
        transaction.set_rollback(True)
    source.error = None
    with transaction.atomic():
        CustomerOrder.objects.create(name="a")
    assert source.waits == [2.0, 2.0]
    check_rows(source, 1)


def test_a_model_form_leaves_the_field_out() -> None:
    from django.forms import modelform_factory

    form = modelform_factory(CustomerOrder, fields="__all__")({"name": "a"})
    assert list(form.fields) == ["name"]
    assert form.is_valid()
    CustomerOrder(name="b").full_clean()


# Arguments and settings.


def test_bad_arguments() -> None:
    with pytest.raises(BadConfigError, match="IdworkerField needs a tag, or snowflake=True"):
        IdworkerField(primary_key=True)
    with pytest.raises(BadConfigError, match="has a tag and snowflake=True, but must have one of them"):
        IdworkerField(tag="order", snowflake=True)
    with pytest.raises(BadTagError):
        IdworkerField(tag="or der")
    for default in ({"default": 1}, {"default": lambda: 1}, {"db_default": 1}):
        with pytest.raises(BadConfigError, match="IdworkerField takes no default"):
            IdworkerField(tag="order", **default)


KEYS = "URL, PREFIX, TIMEOUT, TRACEPARENT, ROW_WAIT, RUNWAY, LIMIT, MAX_BATCH, OPTIONS"
BAD_SETTINGS: list[tuple[Any, str]] = [
    ({"PREFX": "ids"}, f"IDWORKER has the unknown key PREFX; known are {KEYS}"),
    ({"url": "nats://a"}, f"IDWORKER has the unknown key url; known are {KEYS}"),
    ([], "IDWORKER is list, but must be a dict"),
    ({"OPTIONS": "user"}, "IDWORKER: OPTIONS is str, but must be a dict"),
    ({"PREFIX": "a.b"}, "IDWORKER: bad prefix: "),
    ({"ROW_WAIT": 0}, "IDWORKER: bad wait: 0, "),
    ({"LIMIT": 0}, "IDWORKER: bad limit: 0, "),
    ({"OPTIONS": {"usr": "a"}}, "IDWORKER: "),
]


@pytest.mark.parametrize(("value", "message"), BAD_SETTINGS, ids=str)
def test_bad_settings_are_refused_by_the_check_and_at_the_first_id(value: Any, message: str) -> None:
    with override_settings(IDWORKER=value):
        (error,) = checks.run_checks()
        assert (error.id, error.msg.startswith(message)) == ("idworker.E001", True), error.msg
        with pytest.raises(ImproperlyConfigured) as e:
            CustomerOrder.objects.create(name="a")
        assert str(e.value) == error.msg


def test_the_settings_have_defaults() -> None:
    assert checks.run_checks() == []
    with override_settings():
        del settings.IDWORKER
        assert checks.run_checks() == []


def test_the_client_is_one_for_all_until_the_setting_changes() -> None:
    with override_settings(IDWORKER={"PREFIX": "shop"}):
        first = idworker_client.django.client()
        assert idworker_client.django.client() is first
        with override_settings(IDWORKER={"PREFIX": "other"}):
            assert idworker_client.django.client() is not first


# Migrations.


def test_migrations_are_complete() -> None:
    call_command("makemigrations", "shop", check_changes=True, dry_run=True, verbosity=0)


@pytest.mark.parametrize(
    "field",
    [
        IdworkerField(tag="order", primary_key=True),
        IdworkerField(snowflake=True),
        IdworkerField("the number", tag="order", null=True, unique=True, db_column="no"),
        IdworkerField(tag="order", editable=True, blank=False),
    ],
)
def test_a_field_survives_its_migration(field: IdworkerField) -> None:
    text, imports = MigrationWriter.serialize(field)
    scope: dict[str, Any] = {}
    exec("\n".join([*imports, f"field = {text}"]), scope)
    again = scope["field"]
    assert again.deconstruct()[1:] == field.deconstruct()[1:]
    assert (again.tag, again.snowflake, again.null) == (field.tag, field.snowflake, field.null)
    assert (again.blank, again.editable) == (field.blank, field.editable)


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Write the models of an application, and have it in INSTALLED_APPS."""
    folder = tmp_path / "stock"
    (folder / "migrations").mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "migrations" / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))

    def install(body: str) -> None:
        for name in [n for n in sys.modules if n.split(".")[0] == "stock"]:
            del sys.modules[name]
        apps.all_models.pop("stock", None)
        (folder / "models.py").write_text(
            "from django.db import models\nfrom idworker_client.django import IdworkerField\n"
            f"class Part(models.Model):\n    name = models.CharField(max_length=9)\n    {body}\n"
        )
        # Its bytecode may have the same second and size.
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        sys.path_importer_cache.clear()
        settings.INSTALLED_APPS = ["shop", "stock"]
        apps.set_installed_apps(settings.INSTALLED_APPS)
        installed.append(True)

    installed: list[bool] = []
    yield install
    for _ in installed:
        apps.unset_installed_apps()
    settings.INSTALLED_APPS = ["shop"]
    call_command("migrate", verbosity=0)
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS stock_part")
        cursor.execute("DELETE FROM django_migrations WHERE app = 'stock'")


def model() -> Any:
    return apps.get_app_config("stock").get_model("Part")


def parts() -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM stock_part ORDER BY id")
        return list(cursor.fetchall())


def test_a_field_is_added_with_null_filled_and_made_not_null(
    app: Callable[[str], None], source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    app("")
    call_command("makemigrations", "stock", verbosity=0)
    call_command("migrate", verbosity=0)
    part = model()
    part.objects.bulk_create([part(name=name) for name in NAMES])
    app("number = IdworkerField(tag='part', null=True)")
    call_command("makemigrations", "stock", verbosity=0)
    call_command("migrate", verbosity=0)
    assert [row[2] for row in parts()] == [None] * len(NAMES)
    assert source.given == []

    client = idworker_client.django.client()
    for row in model().objects.all():
        row.number = client.next("part")
        row.save()
    app("number = IdworkerField(tag='part', unique=True)")
    call_command("makemigrations", "stock", interactive=False, verbosity=0)
    call_command("migrate", verbosity=0)
    assert [row[2] for row in parts()] == source.given[: len(NAMES)]
    with pytest.raises(IntegrityError):
        model().objects.update(number=None)


def test_a_one_off_default_is_refused_by_makemigrations(
    app: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    app("")
    call_command("makemigrations", "stock", verbosity=0)
    app("number = IdworkerField(tag='part')")
    questioner = "django.db.migrations.questioner.InteractiveMigrationQuestioner.ask_not_null_addition"
    monkeypatch.setattr(questioner, lambda *_: 1)
    with pytest.raises(BadConfigError) as e:
        call_command("makemigrations", "stock", verbosity=0)
    assert str(e.value) == (
        "IdworkerField takes no default, which would be one value for all rows of a table."
        " Add the field with null=True, give each row an ID of idworker_client.django.client(),"
        " then remove null"
    )


@pytest.mark.parametrize("nested", [False, True])
def test_adding_a_field_without_null_is_refused_by_migrate(nested: bool, app: Callable[[str], None]) -> None:
    app("")
    call_command("makemigrations", "stock", verbosity=0)
    call_command("migrate", verbosity=0)
    operation: Any = migrations.AddField("part", "number", IdworkerField(tag="part"))
    if nested:
        operation = migrations.SeparateDatabaseAndState(database_operations=[operation])
    write_migration([operation])
    with pytest.raises(CommandError) as e:
        call_command("migrate", verbosity=0)
    assert str(e.value) == (
        "stock.0002_number adds part.number without null, with no ID for its rows."
        " Add the field with null=True, give each row an ID of idworker_client.django.client(),"
        " then remove null"
    )


def test_a_new_primary_key_without_null_is_refused_by_migrate(app: Callable[[str], None]) -> None:
    app("")
    call_command("makemigrations", "stock", verbosity=0)
    call_command("migrate", verbosity=0)
    app("number = IdworkerField(tag='part', primary_key=True)")
    call_command("makemigrations", "stock", interactive=False, verbosity=0)
    with pytest.raises(CommandError, match=r"adds part\.number without null"):
        call_command("migrate", verbosity=0)


def test_an_auto_field_becomes_an_idworker_field(app: Callable[[str], None], source: Source) -> None:
    app("")
    call_command("makemigrations", "stock", verbosity=0)
    call_command("migrate", verbosity=0)
    before = model().objects.create(name="a").pk
    app("id = IdworkerField(tag='part', primary_key=True)")
    call_command("makemigrations", "stock", verbosity=0)
    call_command("migrate", verbosity=0)
    model().objects.create(name="b")
    assert list(model().objects.order_by("name").values_list("pk", flat=True)) == [before, *source.given]


def write_migration(operations: list[Any]) -> None:
    made = type(
        "Migration",
        (migrations.Migration,),
        {"dependencies": [("stock", "0001_initial")], "operations": operations},
    )("0002_number", "stock")
    writer = MigrationWriter(made)
    Path(writer.path).write_text(writer.as_string())


def test_a_timeout_breaks_the_atomic_block(source: Source) -> None:
    """Django ends the block's statements, so that a retry repeats all of it."""
    source.error = CallTimeoutError("no ID")
    with transaction.atomic():
        with pytest.raises(CallTimeoutError):
            CustomerOrder(name="a").save()
        with pytest.raises(TransactionManagementError):
            CustomerOrder.objects.count()
        transaction.set_rollback(True)


def test_sqlite_keeps_64_bits(source: Source) -> None:
    largest = 2**63 - 1
    CustomerOrder.objects.create(pk=largest, name="a")
    assert CustomerOrder.objects.get().pk == largest
    assert isinstance(CustomerOrder._meta.pk, models.BigIntegerField)
