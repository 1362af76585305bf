"""Callers' texts in messages, which are one line whatever the text is."""

from __future__ import annotations

import unicodedata

_INVISIBLE = {"Cc", "Cf", "Zl", "Zp", "Cs"}


def quote(text: str, most: int = 40) -> str:
    """Quote at most so many characters of a text."""
    return f'"{plain(text, most)}"'


def plain(text: str, most: int = 40) -> str:
    """Show at most so many characters of a text."""
    return "".join(f"\\u{ord(c):04x}" if is_invisible(c) else c for c in text[:most])


def number(value: object) -> str:
    """Show what should be an int. str refuses those of thousands of digits."""
    if not isinstance(value, int) or isinstance(value, bool):
        return f"of type {type(value).__name__}"
    return str(value) if value.bit_length() <= 128 else f"of {value.bit_length()} bits"


def is_invisible(character: str) -> bool:
    """Whether a character shows nothing, changes how others are shown, or is half of one."""
    return unicodedata.category(character) in _INVISIBLE
