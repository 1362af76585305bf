"""Models of a Django project for tests."""

from __future__ import annotations

from django.db import models

from idworker_client.django import IdworkerField


class CustomerOrder(models.Model):
    id = IdworkerField(tag="order", primary_key=True)
    name = models.CharField(max_length=100, unique=True)


class Parcel(CustomerOrder):
    """Its row has the ID of its order's row."""

    weight = models.IntegerField(default=1)


class Item(models.Model):
    """A row with two IDs: the primary key is a snowflake ID."""

    id = IdworkerField(snowflake=True, primary_key=True)
    order = models.ForeignKey(CustomerOrder, on_delete=models.CASCADE)
    number = IdworkerField(tag="item", unique=True)


class Note(models.Model):
    """A row that begins without a number."""

    number = IdworkerField(tag="note", null=True, unique=True)
    text = models.TextField()
