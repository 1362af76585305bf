"""IDs of one call."""

from __future__ import annotations

from collections.abc import Iterator


class IdBatch:
    """The IDs of one call, ascending, as few ranges. Iterating yields each ID once."""

    __slots__ = ("ranges",)

    ranges: tuple[tuple[int, int], ...]
    """Pairs of first and last ID, both inclusive; ascending, without overlap."""

    def __init__(self, ranges: tuple[tuple[int, int], ...]) -> None:
        self.ranges = ranges

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self.ranges)

    def __iter__(self) -> Iterator[int]:
        for first, last in self.ranges:
            yield from range(first, last + 1)

    def __repr__(self) -> str:
        return f"IdBatch({self.ranges!r})"
