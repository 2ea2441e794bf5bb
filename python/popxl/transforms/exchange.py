"""Grouping of transfers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pando import _core
from popxl.context import _context, in_sequence, io_tiles

_TRANSFERS = {
    "HostLoad",
    "HostStore",
    "RemoteLoad",
    "RemoteLoadInplace",
    "RemoteStore",
    "RemoteCodeLoad",
}


@contextmanager
def _created_ops() -> Iterator[list[_core.Op]]:
    """The ops created in the current graph in the body."""
    graph = _context.graph._pb
    created: list[_core.Op] = []

    def listen(op: _core.Op) -> None:
        if op.graph is graph:
            created.append(op)

    _context._created_listeners.append(listen)
    try:
        yield created
    finally:
        _context._created_listeners.remove(listen)


@contextmanager
def merge_exchange() -> Iterator[None]:
    """Allow that host and remote transfers created in the body are merged.

    Transfers are copies on this machine; merging would change nothing, so they stay single ops.

    Yields:
        None.

    Raises:
        RuntimeError: There is no current graph.
    """
    _context.graph  # noqa: B018 - a current graph is required
    yield


@contextmanager
def io_tile_exchange(verify_overlap: bool = True) -> Iterator[None]:
    """Combine `io_tiles`, `merge_exchange` and `in_sequence(False)`.

    Args:
        verify_overlap: Whether the transfers created in the body must be mergeable into one: no
            transfer may depend on another and nothing else may be created.

    Yields:
        None.

    Raises:
        RuntimeError: There is no current graph, or the transfers are not mergeable.
    """
    with _created_ops() as created, io_tiles(), merge_exchange(), in_sequence(False):
        yield
    if verify_overlap:
        groups = _num_merged(created)
        if groups > 1:
            raise RuntimeError(
                "More than one Op remained after merging the exchanges of an io_tile_exchange "
                f"block, so they cannot overlap: {[op.kind for op in created]}"
            )


def _num_merged(created: list[_core.Op]) -> int:
    """Ops that would remain when independent transfers are merged (Inits not counted)."""
    depth: dict[int, int] = {}
    others = 0
    for op in created:
        sources = [t.producer for t in op.inputs if t is not None and t.producer is not None]
        base = max((depth.get(source.id, 0) for source in sources), default=0)
        depth[op.id] = base + (op.kind in _TRANSFERS)
        if op.kind not in _TRANSFERS and op.kind != "Init":
            others += 1
    return max(depth.values(), default=0) + others
