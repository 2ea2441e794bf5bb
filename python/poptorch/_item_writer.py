"""Writes items to slots of a ring, and says how they lie there."""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from typing import Any

import torch

from poptorch._accessor_messages import Described
from poptorch._ring import Layout, Ring
from poptorch._structures import Mismatch, Node, describe


def check_tensor(tensor: torch.Tensor) -> None:
    """Refuse a tensor that cannot lie in a slot.

    Args:
        tensor: A tensor of an item.

    Raises:
        TypeError: It is on another device, not dense, or quantized.
    """
    if not tensor.is_cpu or tensor.layout is not torch.strided or tensor.is_quantized:
        raise TypeError(
            "an asynchronous data accessor wants dense tensors on the CPU; given one of "
            f"{tensor.dtype} with layout {tensor.layout} on {tensor.device}"
        )


def item_of(loaded: Any) -> Any:
    """Make an item of what was loaded.

    Args:
        loaded: What a data loader or another iterable gave.

    Returns:
        The same, but a list for a tuple.
    """
    return list(loaded) if type(loaded) is tuple else loaded


def tensors_if_like(node: Node | None, item: Any) -> list[torch.Tensor] | None:
    """Take the tensors out of an item that is like an earlier one.

    Args:
        node: The structure of the earlier one; None: there was none.
        item: The item.

    Returns:
        Its tensors; None if it has another structure, or other tensors.
    """
    tensors: list[torch.Tensor] = []
    if node is None:
        return None
    try:
        node.collect(item, tensors)
    except Mismatch:
        return None
    return tensors


def described(item: Any) -> tuple[Node, list[torch.Tensor]]:
    """Describe an item.

    Args:
        item: The item.

    Returns:
        Its structure and its tensors.
    """
    node = describe("item", item)
    tensors: list[torch.Tensor] = []
    node.collect(item, tensors)
    return node, tensors


def description_of(node: Node, layout: Layout) -> bytes:
    """Describe items to another process.

    Args:
        node: Their structure.
        layout: Where their tensors lie.

    Returns:
        A pickled `Described`.
    """
    leaves, skeleton = _leaves(layout), io.BytesIO()
    _Pickler(skeleton, leaves).dump(node.build(iter(leaves)))
    return pickle.dumps(Described(skeleton.getvalue(), layout))


def node_of(message: Described) -> Node:
    """Read what `description_of` wrote.

    Args:
        message: The message, unpickled.

    Returns:
        The structure of the items.
    """
    skeleton = _Unpickler(io.BytesIO(message.skeleton), _leaves(message.layout))
    return describe("item", skeleton.load())


def _leaves(layout: Layout) -> list[torch.Tensor]:
    """Tensors like those of an item, with one element in memory."""
    return [
        torch.zeros((), dtype=dtype).expand(shape)
        for dtype, shape in zip(layout.dtypes, layout.shapes, strict=True)
    ]


# Tensors become numbers: pickled, each has its address, so that no two descriptions were equal.
class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, leaves: list[torch.Tensor]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._numbers = {id(leaf): number for number, leaf in enumerate(leaves)}

    def persistent_id(self, value: Any) -> int | None:
        return self._numbers.get(id(value))


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, leaves: list[torch.Tensor]) -> None:
        super().__init__(file)
        self._leaves = leaves

    def persistent_load(self, number: Any) -> torch.Tensor:
        return self._leaves[number]


class ItemWriter:
    """Writes items; what is worked out for one serves the next ones like it."""

    def __init__(self) -> None:
        self.node: Node | None = None
        self.layout: Layout | None = None
        # A pickled `Described`, with which another process makes items of slots.
        self.description = b""
        self._views: dict[int, list[torch.Tensor]] = {}

    def tensors_of(self, item: Any) -> list[torch.Tensor]:
        """Take the tensors out of an item, and describe it if it is not like the last one.

        Args:
            item: The item.

        Returns:
            Its tensors, in the order of the layout.

        Raises:
            TypeError: A tensor cannot lie in a slot.
        """
        tensors = tensors_if_like(self.node, item)
        if tensors is not None:
            return tensors
        node, tensors = described(item)
        for tensor in tensors:
            check_tensor(tensor)
        self.describe(node, Layout.of(tensors))
        return tensors

    def describe(self, node: Node, layout: Layout) -> None:
        """Say what the next items are like.

        Args:
            node: Their structure.
            layout: Where their tensors lie.
        """
        self.node, self.layout = node, layout
        self.description = description_of(node, layout)
        self._views.clear()

    def targets(self, ring: Ring, slot: int) -> list[torch.Tensor]:
        """Give the tensors of a slot that has an item like the last one.

        Args:
            ring: The ring, always the same one.
            slot: The number of the slot.

        Returns:
            Tensors on its memory, the same objects until an item is described.
        """
        if slot not in self._views:
            assert self.layout is not None
            self._views[slot] = ring.tensors(slot, self.layout)
        return self._views[slot]

    def write(self, ring: Ring, slot: int, tensors: Sequence[torch.Tensor]) -> None:
        """Write the tensors of the last item.

        Args:
            ring: The ring.
            slot: The number of the slot.
            tensors: What `tensors_of` gave; those that are targets of the slot stay as they are.
        """
        for target, tensor in zip(self.targets(ring, slot), tensors, strict=True):
            if tensor is not target:
                target.copy_(tensor.detach() if tensor.requires_grad else tensor)
