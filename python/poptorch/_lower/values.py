"""The values of traced tensors: views and writes in place, without either in the graph.

Tensors that share memory in torch share a `_Storage` here. A write through one of them makes a new
value of the first tensor of that memory; the others find their values anew from it when they are
read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

import popxl
from poptorch._trace.recorder import memory_of
from popxl import ops

Replay = Callable[[popxl.Tensor], popxl.Tensor]
Inverse = Callable[[popxl.Tensor, popxl.Tensor], popxl.Tensor]


class _Storage:
    """The memory that several traced tensors share.

    Args:
        value: The value of the first of them.
    """

    def __init__(self, value: popxl.Tensor) -> None:
        self.value = value
        self.version = 0


@dataclass
class _View:
    """One traced tensor: the first of its memory, or a view of another one."""

    meta: torch.Tensor
    storage: _Storage
    parent: _View | None
    replay: Replay | None
    inverse: Inverse | None
    value: popxl.Tensor
    version: int


class Values:
    """The popxl tensors that stand for traced tensors at this point of the program."""

    def __init__(self) -> None:
        self._views: dict[int, _View] = {}
        self._first: dict[int, _View] = {}

    def __contains__(self, meta: torch.Tensor) -> bool:
        return id(meta) in self._views

    def shares_memory(self, meta: torch.Tensor) -> bool:
        """Whether a tensor that has a value shares memory with this one.

        Args:
            meta: The traced tensor.

        Returns:
            Whether one does.
        """
        return memory_of(meta) in self._first

    def define(self, meta: torch.Tensor, value: popxl.Tensor) -> None:
        """Give a value to a tensor with memory of its own.

        Args:
            meta: The traced tensor.
            value: Its value.
        """
        view = _View(meta, _Storage(value), None, None, None, value, 0)
        self._views[id(meta)] = view
        self._first[memory_of(meta)] = view

    def define_view(
        self,
        meta: torch.Tensor,
        parent: torch.Tensor | None,
        value: popxl.Tensor,
        replay: Replay | None,
        inverse: Inverse | None,
    ) -> None:
        """Give a value to a view of a tensor that has one.

        Args:
            meta: The view.
            parent: What it was made of; None: the first tensor of its memory.
            value: Its value now.
            replay: Makes its value of that of the parent; None: by positions in memory.
            inverse: Makes the value of the parent of the old one and the view's new one; None: by
                positions in memory.
        """
        above = self._first[memory_of(meta)] if parent is None else self._views[id(parent)]
        self._views[id(meta)] = _View(
            meta,
            above.storage,
            above,
            replay or self.by_position(above.meta, meta),
            inverse or _scatter_inverse(above.meta, meta),
            value,
            above.storage.version,
        )

    def adopt(self, meta: torch.Tensor) -> None:
        """Give a value to a tensor that torch made of another one without an operator.

        Args:
            meta: A tensor that shares the memory of one with a value.
        """
        first = self._first[memory_of(meta)]
        whole = _geometry(first.meta) == _geometry(meta)
        value = self._read(first) if whole else self.read_by_position(meta)
        replay: Replay | None = (lambda base: base) if whole else None
        inverse: Inverse | None = (lambda old, new: new) if whole else None
        self.define_view(meta, None, value, replay, inverse)

    def by_position(self, parent: torch.Tensor, view: torch.Tensor) -> Replay:
        """How the value of any view follows from that of the tensor that it is a view of.

        Args:
            parent: The tensor.
            view: A tensor that shares its memory and has no element outside of it.

        Returns:
            A function that gathers the elements of the view.
        """
        return _gather_replay(parent, view)

    def scatter(self, parent: torch.Tensor, view: torch.Tensor) -> Inverse:
        """How the value of a tensor follows from that of any view of it.

        Args:
            parent: The tensor.
            view: A tensor that shares its memory and has no element outside of it.

        Returns:
            A function that puts the elements of the view in their places.
        """
        return _scatter_inverse(parent, view)

    def read_by_position(self, meta: torch.Tensor) -> popxl.Tensor:
        """The value of a view of memory that some tensor with a value has.

        Args:
            meta: The view.

        Returns:
            Its value now.
        """
        first = self._first[memory_of(meta)]
        return self.by_position(first.meta, meta)(self._read(first))

    def read(self, meta: torch.Tensor) -> popxl.Tensor:
        """The value of a tensor now.

        Args:
            meta: The traced tensor.

        Returns:
            Its value.
        """
        return self._read(self._views[id(meta)])

    def _read(self, view: _View) -> popxl.Tensor:
        if view.version != view.storage.version:
            if view.parent is None or view.replay is None:
                view.value = view.storage.value
            else:
                view.value = view.replay(self._read(view.parent))
            view.version = view.storage.version
        return view.value

    def write(self, meta: torch.Tensor, value: popxl.Tensor) -> None:
        """Change the value of a tensor, and with it those of all that share its memory.

        Args:
            meta: The traced tensor.
            value: Its new value, of the same shape and dtype.
        """
        view = self._views[id(meta)]
        self._write(view, value)
        view.value, view.version = value, view.storage.version

    def _write(self, view: _View, value: popxl.Tensor) -> None:
        if view.parent is None or view.inverse is None:
            view.storage.value = value
            view.storage.version += 1
            return
        self._write(view.parent, view.inverse(self._read(view.parent), value))

    def was_written(self, meta: torch.Tensor) -> bool:
        """Whether the memory of a tensor was written since it got its value.

        Args:
            meta: The traced tensor.

        Returns:
            Whether it was.
        """
        return self._views[id(meta)].storage.version > 0


def _geometry(meta: torch.Tensor) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    return tuple(meta.shape), meta.stride(), int(meta.storage_offset())


def _positions(meta: torch.Tensor) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Where the elements of a tensor are in its memory, in row-major order."""
    positions = np.full(tuple(meta.shape), meta.storage_offset(), np.int64)
    for axis, (size, stride) in enumerate(zip(meta.shape, meta.stride(), strict=True)):
        steps = np.arange(size, dtype=np.int64) * stride
        positions += steps.reshape([-1 if axis == i else 1 for i in range(meta.dim())])
    return positions.reshape(-1)


def _elements_of(parent: torch.Tensor, view: torch.Tensor) -> popxl.Tensor:
    """For each element of a view, its number among the parent's, as a constant."""
    of_parent, of_view = _positions(parent), _positions(view)
    numbers = np.zeros(max(of_parent.max(), of_view.max()) + 1, np.int32)
    numbers[of_parent] = np.arange(of_parent.size, dtype=np.int32)
    return popxl.constant(numbers[of_view], popxl.int32)


def _gather_replay(parent: torch.Tensor, view: torch.Tensor) -> Replay:
    def replay(value: popxl.Tensor) -> popxl.Tensor:
        elements = _elements_of(parent, view)
        return ops.gather(value.flatten(), elements, 0).reshape(tuple(view.shape))

    return replay


def _scatter_inverse(parent: torch.Tensor, view: torch.Tensor) -> Inverse:
    def inverse(old: popxl.Tensor, new: popxl.Tensor) -> popxl.Tensor:
        elements = _elements_of(parent, view)
        return ops.scatter(old.flatten(), elements, new.flatten(), 0).reshape(old.shape)

    return inverse
