# ruff: noqa: RUF012 (as Django writes it)
import django.db.models.deletion
from django.db import migrations, models

import idworker_client.django


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="CustomerOrder",
            fields=[
                ("id", idworker_client.django.IdworkerField(primary_key=True, serialize=False, tag="order")),
                ("name", models.CharField(max_length=100, unique=True)),
            ],
        ),
        migrations.CreateModel(
            name="Note",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("number", idworker_client.django.IdworkerField(null=True, tag="note", unique=True)),
                ("text", models.TextField()),
            ],
        ),
        migrations.CreateModel(
            name="Parcel",
            fields=[
                (
                    "customerorder_ptr",
                    models.OneToOneField(
                        auto_created=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        parent_link=True,
                        primary_key=True,
                        serialize=False,
                        to="shop.customerorder",
                    ),
                ),
                ("weight", models.IntegerField(default=1)),
            ],
            bases=("shop.customerorder",),
        ),
        migrations.CreateModel(
            name="Item",
            fields=[
                (
                    "id",
                    idworker_client.django.IdworkerField(primary_key=True, serialize=False, snowflake=True),
                ),
                ("number", idworker_client.django.IdworkerField(tag="item", unique=True)),
                (
                    "order",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="shop.customerorder"),
                ),
            ],
        ),
    ]
