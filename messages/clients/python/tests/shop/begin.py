"""Set Django up, before the models are imported."""

from __future__ import annotations

import os
from pathlib import Path

import django
from django.core.management import call_command
from django.db import connections

os.environ["DJANGO_SETTINGS_MODULE"] = "shop.settings"
django.setup()


def new_database(folder: Path) -> None:
    """Use a new database in a file."""
    connections.close_all()
    connections["default"].settings_dict["NAME"] = str(folder / "shop.sqlite3")
    connections.databases["default"]["NAME"] = str(folder / "shop.sqlite3")  # of other threads
    call_command("migrate", verbosity=0)
