"""Recipes for variables: what a graph input needs, and the data to fill it with."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import popxl
from popxl import ops
from popxl.utils import to_numpy
from popxl_addons.dot_tree import DotTree
from popxl_addons.named_replica_grouping import NamedReplicaGrouping
from popxl_addons.named_tensors import NamedTensors

DataIterable = Callable[[], Any] | Iterable[Any]


def _endless(function: Callable[[], Any]) -> Iterator[Any]:
    while True:
        yield function()


def _data_iterator(data_iter: DataIterable) -> Iterator[Any]:
    """An iterator over `data_iter`. A callable is tried once first, so that its failure is
    reported where the factory is made."""
    if callable(data_iter):
        try:
            data_iter()
        except Exception as error:
            raise ValueError(
                f"The function {data_iter!r} given for a variable's data failed when it was "
                f"called without arguments: {error}"
            ) from error
        return _endless(data_iter)
    if isinstance(data_iter, Iterable):
        return iter(data_iter)
    raise ValueError(
        "The data of a variable must be a function or an iterable, "
        f"not {type(data_iter).__name__}: {data_iter!r}"
    )


class VariableFactory:
    """Makes graph inputs and variables of one shape and dtype.

    `data_iter` is a function called for each value, or an iterable that is consumed. With
    `shard_over > 1` the graph input is one replica's 1-D shard; `meta_shape` is the whole shape.
    Raises ValueError for data of another kind and more shards than elements, RuntimeError outside a
    graph context.
    """

    def __init__(
        self,
        data_iter: DataIterable,
        dtype: popxl.dtype | None = None,
        name: str | None = None,
        by_ref: bool = False,
        replica_grouping: popxl.ReplicaGrouping | None = None,
        shard_over: int = 1,
        *,
        replica_sharded: bool = False,
    ) -> None:
        self.name = name
        self.by_ref = by_ref
        self.replica_grouping = replica_grouping or popxl.gcg().ir.replica_grouping()
        if replica_sharded:
            shard_over = self.replica_grouping.group_size
        assert shard_over <= self.replica_grouping.group_size, (
            f"Cannot shard over {shard_over} replicas: "
            f"the replica group has {self.replica_grouping.group_size}."
        )
        self.replica_sharded = shard_over > 1
        self._upcoming: list[Any] = []
        self.data_iter = _data_iterator(data_iter)

        first = self._peek()
        element_shape = tuple(int(size) for size in first.shape)
        if shard_over > max(1, int(np.prod(element_shape))):
            raise ValueError(
                f"VariableFactory: {int(np.prod(element_shape))} elements of shape {element_shape} "
                f"cannot be sharded over {shard_over} replicas"
            )
        self.dtype = dtype or popxl.dtype.as_dtype(to_numpy(first, copy=False))
        self.shape: tuple[int, ...] = element_shape
        self.meta_shape: tuple[int, ...] | None = None
        if self.replica_sharded:
            self.meta_shape = element_shape
            self.shape = (int(np.prod(element_shape)) // shard_over,)

    def _peek(self) -> Any:
        """The first value, which stays the first to be handed out."""
        first = next(self.data_iter)
        if not (hasattr(first, "shape") or isinstance(first, Iterable | numbers.Number)):
            raise ValueError(
                "The data of a variable must consist of arrays, tensors or numbers, "
                f"not {type(first).__name__}: {first!r}"
            )
        self._upcoming.append(first)
        return first

    def _next_element(self) -> Any:
        return self._upcoming.pop() if self._upcoming else next(self.data_iter)

    def _host_shape(self) -> tuple[int, ...]:
        """The whole shape, led by the groups when there are several."""
        shape = self.meta_shape or self.shape
        groups = self.replica_grouping.num_groups
        return (groups, *shape) if groups > 1 else shape

    def create_input(self, prefix: str | None = None) -> popxl.Tensor:
        """A graph input of the current graph, named `name` or `prefix.name`."""
        return self._create_named_input(f"{prefix}.{self.name}" if prefix else self.name)

    def _create_named_input(self, name: str | None) -> popxl.Tensor:
        return popxl.graph_input(
            self.shape, self.dtype, name, by_ref=self.by_ref, meta_shape=self.meta_shape
        )

    def create_tensor(
        self,
        name: str | None = None,
        empty: bool = False,
        memmap_dir: str | Path | None = None,
        read_only_if_exists: bool = False,
    ) -> popxl.tensor.Variable:
        """A variable of the main graph with the next data, always the whole (unsharded) shape."""
        name = name or self.name
        data = self._variable_data(name, empty, memmap_dir, read_only_if_exists)
        return popxl.variable(data, self.dtype, name, replica_grouping=self.replica_grouping)

    def create_remote_tensor(
        self,
        buffer: popxl.RemoteBuffer,
        entry: int,
        name: str | None = None,
        empty: bool = False,
        memmap_dir: str | Path | None = None,
        read_only_if_exists: bool = False,
    ) -> popxl.tensor.Variable:
        """A variable that lives in slot `entry` of `buffer`."""
        name = name or self.name
        data = self._variable_data(name, empty, memmap_dir, read_only_if_exists)
        sharded = bool(buffer.meta_shape)
        create = popxl.remote_replica_sharded_variable if sharded else popxl.remote_variable
        return create(data, buffer, entry, self.dtype, name, replica_grouping=self.replica_grouping)

    def _variable_data(
        self,
        name: str | None,
        empty: bool,
        memmap_dir: str | Path | None,
        read_only_if_exists: bool,
    ) -> np.ndarray:
        if memmap_dir is None:
            return self.next_data(empty)
        if name is None:
            raise ValueError("A variable kept in a memory-mapped file needs a name.")
        return self.next_memmap(memmap_dir, name, empty, read_only_if_exists)

    def next_data(self, empty: bool = False) -> np.ndarray:
        """The next value: one element, or one per replica group stacked on a new first axis.

        `empty`: an uninitialised array instead, and nothing is consumed. Raises StopIteration
        when the data is used up.
        """
        if empty:
            return np.empty(self._host_shape(), self.dtype.as_numpy())
        groups = self.replica_grouping.num_groups
        if groups == 1:
            return to_numpy(self._next_element(), self.dtype)
        return np.stack([to_numpy(self._next_element(), self.dtype) for _ in range(groups)])

    def next_memmap(
        self,
        memmap_dir: str | Path,
        name: str,
        empty: bool = False,
        read_only_if_exists: bool = False,
    ) -> np.memmap[Any, Any]:
        """The memory-mapped raw file `memmap_dir/<name>.npy`, made and filled when missing.

        The content of an existing file wins over the data of this factory.
        """
        path = Path(memmap_dir) / f"{name}.npy"
        path.parent.mkdir(parents=True, exist_ok=True)
        shape, dtype = self._host_shape(), self.dtype.as_numpy()
        if path.exists():
            mode = "r" if read_only_if_exists else "r+"
            return np.memmap(path, dtype=dtype, mode=mode, shape=shape)  # type: ignore[call-overload]
        result = np.memmap(path, dtype=dtype, mode="w+", shape=shape)
        if not empty:
            result[...] = self.next_data()
        return result


class NamedVariableFactories(DotTree[VariableFactory]):
    """A tree of variable factories."""

    def _sorted(self) -> list[tuple[str, VariableFactory]]:
        return sorted(self.to_dict().items(), key=lambda item: item[0])

    def init(
        self,
        prefix: str | None = None,
        empty: bool = False,
        memmap_dir: str | Path | None = None,
        read_only_if_exists: bool = False,
    ) -> NamedTensors:
        """One variable per factory, in the order of the flat keys, each named by its key."""
        return NamedTensors.from_dict(
            {
                key: factory.create_tensor(
                    _prefixed(prefix, key), empty, memmap_dir, read_only_if_exists
                )
                for key, factory in self._sorted()
            }
        )

    def init_remote(
        self,
        buffers: DotTree[popxl.RemoteBuffer],
        entry: int = 0,
        prefix: str | None = None,
        empty: bool = False,
        memmap_dir: str | Path | None = None,
        read_only_if_exists: bool = False,
    ) -> NamedTensors:
        """As init, in slot `entry` of the buffer with the same key; KeyError when it is missing."""
        return NamedTensors.from_dict(
            {
                key: factory.create_remote_tensor(
                    buffers[key],
                    entry,
                    _prefixed(prefix, key),
                    empty,
                    memmap_dir,
                    read_only_if_exists,
                )
                for key, factory in self._sorted()
            }
        )

    def init_zero(self) -> NamedTensors:
        """A zero tensor of the current graph per factory, in insertion order."""
        return self._init_tensors("zero")

    def init_undef(self) -> NamedTensors:
        """A tensor of the current graph with undefined content per factory."""
        return self._init_tensors("undef")

    def _init_tensors(self, init_type: str) -> NamedTensors:
        return NamedTensors.from_dict(
            {
                key: ops.init(factory.shape, factory.dtype, key, init_type)
                for key, factory in self.to_dict().items()
            }
        )

    @property
    def replica_groupings(self) -> NamedReplicaGrouping:
        """The groupings of the factories under the same keys."""
        return NamedReplicaGrouping.from_dict(
            {key: factory.replica_grouping for key, factory in self.to_dict().items()}
        )


def _prefixed(prefix: str | None, key: str) -> str:
    return f"{prefix}.{key}" if prefix else key


def add_variable_input(
    name: str,
    data_iter: DataIterable,
    dtype: popxl.dtype | None = None,
    by_ref: bool = False,
    replica_grouping: popxl.ReplicaGrouping | None = None,
) -> tuple[popxl.Tensor, VariableFactory]:
    """An input of the current graph and the factory for the variable to be bound to it."""
    factory = VariableFactory(data_iter, dtype, name, by_ref, replica_grouping)
    return factory.create_input(), factory


def add_replica_sharded_variable_input(
    name: str,
    data_iter: DataIterable,
    dtype: popxl.dtype | None = None,
    by_ref: bool = False,
    replica_grouping: popxl.ReplicaGrouping | None = None,
    shard_over: int | None = None,
) -> tuple[popxl.Tensor, VariableFactory]:
    """As add_variable_input, for one replica's shard; the default is to shard over the group."""
    group = replica_grouping or popxl.gcg().ir.replica_grouping()
    factory = VariableFactory(data_iter, dtype, name, by_ref, group, shard_over or group.group_size)
    return factory.create_input(), factory
