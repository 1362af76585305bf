"""A Django application whose view inserts a row and counts them all."""

from __future__ import annotations

import os

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path

os.environ["DJANGO_SETTINGS_MODULE"] = "shop.settings"
settings.IDWORKER = {"URL": os.environ["TEST_NATS_URL"], "ROW_WAIT": 120}
settings.DATABASES["default"]["NAME"] = os.environ["TEST_DATABASE"]
settings.ALLOWED_HOSTS = ["127.0.0.1"]
settings.ROOT_URLCONF = __name__
app = get_wsgi_application()

from shop.models import CustomerOrder  # noqa: E402


def insert(_: HttpRequest, name: str) -> HttpResponse:
    """Insert a row, and reply with its ID."""
    made = CustomerOrder.objects.create(name=name)
    return JsonResponse({"process": os.getpid(), "id": made.pk, "rows": CustomerOrder.objects.count()})


urlpatterns = [path("<name>", insert)]
