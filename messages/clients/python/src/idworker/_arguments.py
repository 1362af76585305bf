"""Checks of arguments."""

from __future__ import annotations


def check_tag(tag: str) -> None:
    """Check a tag: 1 to 128 letters, digits, ``_``, ``-``, and dots between them.

    Raises BadTagError with what is wrong and what is allowed.
    """
    raise NotImplementedError


def check_prefix(prefix: str) -> None:
    """Check the prefix of an installation's subjects.

    Raises BadPrefixError with what is wrong and what is allowed.
    """
    raise NotImplementedError


def check_count(n: int) -> None:
    """Check the number of IDs of a request, 1 to 2^63−1; the worker has a limit of its own.

    Raises BadCountError.
    """
    raise NotImplementedError
