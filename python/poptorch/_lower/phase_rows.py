"""The rows of remote buffers that hold what phases work with."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

import popxl
from poptorch._lower.stages import Source, StageGraph, StageTensor


@dataclass(frozen=True)
class Row:
    """A row of a remote buffer, or the first one of those of several micro-batches.

    Attributes:
        buffer: The buffer.
        number: The row.
    """

    buffer: popxl.RemoteBuffer
    number: int


@dataclass(frozen=True)
class StoredRow:
    """A variable that is a row of a remote buffer.

    Attributes:
        row: The row.
        initial: The first value of all its elements, if the program begins with one.
        grouping: The groups of replicas that share a value; None: all replicas share one.
    """

    row: Row
    initial: float | None = None
    grouping: popxl.ReplicaGrouping | None = None

    @property
    def replicas_of_groups(self) -> list[list[int]]:
        """The replicas of each group; nothing where all replicas share a value."""
        if self.grouping is None or self.grouping.num_groups == 1:
            return []
        groups: list[list[int]] = [[] for _ in range(self.grouping.num_groups)]
        for replica, group in enumerate(self.grouping.assignment):
            groups[group].append(replica)
        return groups

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape on the host: with several groups, that of the row behind their number."""
        shape, groups = tuple(self.row.buffer.tensor_shape), self.replicas_of_groups
        return (len(groups), *shape) if groups else shape

    @property
    def nbytes(self) -> int:
        """The size of the row."""
        buffer = self.row.buffer
        return math.prod(buffer.tensor_shape) * np.dtype(buffer.tensor_dtype.as_numpy()).itemsize


class RowTable:
    """Gives every tensor that phases share a row.

    What the phases of one graph read at the same place is in one buffer: the phases then differ in
    the number of the row alone.

    Args:
        stages: The phases.
        written: The new values of tensors of the module that phases write, by name.
        micro_batches: How many micro-batches each phase has: a row of weights is there once, a row
            of other values once for each micro-batch.
    """

    def __init__(
        self,
        stages: Sequence[StageGraph],
        written: Mapping[str, StageTensor],
        micro_batches: int,
    ) -> None:
        self._micro_batches = micro_batches
        self._parents: dict[Source, Source] = {}
        self._tensors: dict[Source, popxl.Tensor] = {}
        self._buffers: dict[tuple[Source, str], popxl.RemoteBuffer] = {}
        places: dict[tuple[str, str], Source] = {}
        for stage in stages:
            for source, tensor in stage.reads.items():
                self._add(source, tensor)
                self._unite(places.setdefault((stage.graph.id, tensor.id), source), source)
        for name, one in written.items():
            source = Source("tensor", name)
            self._add(source, one.tensor)
            graph = stages[one.stage].graph.id
            self._unite(places.setdefault((graph, one.tensor.id), source), source)
        self._slots: dict[Source, int] = {}
        self._counts: dict[Source, int] = {}
        for source in self._parents:
            root = self._root(source)
            self._slots[source] = self._counts.get(root, 0)
            self._counts[root] = self._slots[source] + 1

    def _add(self, source: Source, tensor: popxl.Tensor) -> None:
        if source not in self._parents:
            self._parents[source] = source
            self._tensors[source] = tensor

    def _root(self, source: Source) -> Source:
        while self._parents[source] != source:
            self._parents[source] = self._parents[self._parents[source]]
            source = self._parents[source]
        return source

    def _unite(self, one: Source, other: Source) -> None:
        self._parents[self._root(other)] = self._root(one)

    def has(self, source: Source) -> bool:
        """Whether a phase reads or writes a tensor.

        Args:
            source: The tensor.

        Returns:
            Whether one does.
        """
        return source in self._slots

    def of(self, source: Source, kind: str = "", dtype: popxl.dtype | None = None) -> Row:
        """Find the row of a tensor, or of something of its shape that belongs to it.

        Args:
            source: The tensor, which a phase reads or writes.
            kind: What it is that belongs to the tensor; empty: the tensor itself.
            dtype: The dtype of that; None: that of the tensor.

        Returns:
            The row; where there is one for each micro-batch, the first one.
        """
        root = self._root(source)
        repeats = 1 if source.kind == "tensor" else self._micro_batches
        key = (root, kind)
        if key not in self._buffers:
            like = self._tensors[root]
            self._buffers[key] = popxl.remote_buffer(
                like.shape, dtype or like.dtype, self._counts[root] * repeats
            )
        return Row(self._buffers[key], self._slots[source] * repeats)
