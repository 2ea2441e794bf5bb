"""Transfers in parts, where a whole one would take too much memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

_PART_BYTES = 1 << 26


def parts_of(sizes: Mapping[str, int]) -> Iterator[list[str]]:
    """Share names out. A part ends with the name that brings it to 64 MiB.

    Args:
        sizes: Bytes by name.

    Yields:
        The names of a part, in their order.
    """
    part: list[str] = []
    taken = 0
    for name, size in sizes.items():
        part.append(name)
        taken += size
        if taken >= _PART_BYTES:
            yield part
            part, taken = [], 0
    if part:
        yield part
