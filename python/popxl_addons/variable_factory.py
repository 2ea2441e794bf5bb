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

    A function is called once to see whether it works and once to learn shape and dtype; the second
    value is the first that is used.

    Args:
        data_iter: A function without arguments that is called for each value, or an iterable that
            is consumed. Values are arrays or tensors, without an axis for groups.
        dtype: The dtype of the variable; None means that of the data.
        name: The name of inputs and variables; None leaves it to popxl.
        by_ref: Whether graph inputs are passed by reference.
        replica_grouping: Replicas in one group have the same value; None means all replicas.
        shard_over: With more than 1 the graph input is one replica's 1-D shard of so many;
            `meta_shape` is the whole shape then.
        replica_sharded: An older form of `shard_over`: True means the size of the group.

    Raises:
        ValueError: The data are of another kind, the function fails, or there are more shards than
            elements.
        AssertionError: There are more shards than replicas in a group.
        RuntimeError: There is no current graph.
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
        self.data_iter = _data_iterator(data_iter)
        self.replica_grouping = replica_grouping or popxl.gcg().ir.replica_grouping()
        if replica_sharded:
            shard_over = self.replica_grouping.group_size
        assert shard_over <= self.replica_grouping.group_size, (
            f"Cannot shard over {shard_over} replicas: "
            f"the replica group has {self.replica_grouping.group_size}."
        )
        self.replica_sharded = shard_over > 1
        self._upcoming: list[Any] = []

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

    def __repr__(self) -> str:
        whole = f" meta_shape={self.meta_shape}" if self.meta_shape else ""
        return f"VariableFactory[{self.name} {self.dtype} {self.shape}{whole}]"

    def _host_shape(self) -> tuple[int, ...]:
        """The whole shape, led by the groups when there are several."""
        shape = self.meta_shape or self.shape
        groups = self.replica_grouping.num_groups
        return (groups, *shape) if groups > 1 else shape

    def create_input(self, prefix: str | None = None) -> popxl.Tensor:
        """Adds an input to the current graph.

        Args:
            prefix: The input is named `prefix.name`; None means `name`.

        Returns:
            The graph input, of the factory's shape, dtype and meta shape.
        """
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
        """Makes a variable of the main graph with the next data.

        Args:
            name: Its name; None means the factory's.
            empty: Whether its data are left uninitialised; nothing is consumed then.
            memmap_dir: A folder for its data as a memory-mapped file; None keeps them in memory.
            read_only_if_exists: Whether an existing file is only read.

        Returns:
            The variable, always whole (not sharded).

        Raises:
            ValueError: The current graph is not the main graph, or a file has no name.
            StopIteration: The data are used up.
        """
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
        """Makes a variable that lives in a remote buffer, with the next data.

        Args:
            buffer: The remote buffer; one with a meta shape keeps shards.
            entry: The slot.
            name: As for `create_tensor`.
            empty: As for `create_tensor`.
            memmap_dir: As for `create_tensor`.
            read_only_if_exists: As for `create_tensor`.

        Returns:
            The variable.

        Raises:
            ValueError: The current graph is not the main graph, or a file has no name.
            StopIteration: The data are used up.
        """
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
        """The next value.

        Args:
            empty: Whether to give an uninitialised array instead, without consuming anything.

        Returns:
            An array of the factory's dtype and whole shape; with several groups, one value each,
            stacked on a new first axis.

        Raises:
            StopIteration: The data are used up.
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
        """The value in a memory-mapped file `memmap_dir/<name>.npy`, which has no header.

        The content of an existing file wins over the data of this factory.

        Args:
            memmap_dir: The folder, made when missing.
            name: The name of the variable.
            empty: Whether a new file is left as it is, instead of being filled with `next_data`.
            read_only_if_exists: Whether an existing file is only read.

        Returns:
            The array in the file.
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
        """Makes one variable per factory, in the order of the flat keys.

        Args:
            prefix: Each variable is named `prefix.key`; None means `key`.
            empty: Whether the data are left uninitialised.
            memmap_dir: A folder for the data as memory-mapped files; None keeps them in memory.
            read_only_if_exists: Whether existing files are only read.

        Returns:
            The variables under the same keys, sorted by flat key.

        Raises:
            ValueError: The current graph is not the main graph.
            StopIteration: Data are used up.
        """
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
        """Makes one variable per factory in remote buffers, in the order of the flat keys.

        Args:
            buffers: The buffers, under the same keys.
            entry: The slot of each buffer.
            prefix: As for `init`.
            empty: As for `init`.
            memmap_dir: As for `init`.
            read_only_if_exists: As for `init`.

        Returns:
            The variables under the same keys, sorted by flat key.

        Raises:
            KeyError: A factory has no buffer.
            ValueError: The current graph is not the main graph.
            StopIteration: Data are used up.
        """
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
        """Makes a zero tensor of the current graph for each factory.

        Returns:
            The tensors under the same keys, in insertion order; shards without their meta shape.
        """
        return self._init_tensors("zero")

    def init_undef(self) -> NamedTensors:
        """Makes a tensor of the current graph with undefined content for each factory.

        Returns:
            The tensors under the same keys, in insertion order; shards without their meta shape.
        """
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
    """Adds an input for a variable to the current graph.

    Args:
        name: The name of the input and the factory.
        data_iter: Gives the values, as for `VariableFactory`.
        dtype: The dtype of the variable; None means that of the data.
        by_ref: Whether calls pass it by reference.
        replica_grouping: Replicas in one group have the same value; None means all replicas.

    Returns:
        The graph input, and the factory for the variable to be bound to it.
    """
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
    """Adds an input for one replica's shard of a variable to the current graph.

    Args:
        name: The name of the input and the factory.
        data_iter: Gives the values of the whole variable, as for `VariableFactory`.
        dtype: The dtype of the variable; None means that of the data.
        by_ref: Whether calls pass it by reference.
        replica_grouping: Replicas in one group share the value; None means all replicas.
        shard_over: Over how many replicas it is sharded; None means the whole group.

    Returns:
        The graph input, 1-D with the shape of the data as its meta shape, and the factory.
    """
    group = replica_grouping or popxl.gcg().ir.replica_grouping()
    factory = VariableFactory(data_iter, dtype, name, by_ref, group, shard_over or group.group_size)
    return factory.create_input(), factory
