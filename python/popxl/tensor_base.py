"""Tensors: the values of a graph."""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias, Union

import numpy as np

from pando import _core
from popart._internal import ir as internal
from popart._internal.owners import owner_of
from popart._internal.tensor_devices import find_device, find_tile_set
from popxl.constants import constant
from popxl.dtypes import DType
from popxl.errors import UndefinedValue
from popxl.indexing import index_tensor
from popxl.replica_grouping import ReplicaGrouping
from popxl.tensor_operators import TensorOperators, all_ops
from popxl.tensor_spec import LocationInfo, TensorSpec
from popxl.typing_ import NewAliasAnnotation

if TYPE_CHECKING:
    from popxl.graph import Graph
    from popxl.ir import Ir
    from popxl.variable_record import VariableRecord

ScalarType = int | float | bool | np.generic
HostScalarTensor = ScalarType | np.ndarray[Any, Any]
HostTensor = HostScalarTensor | Iterable[Any]
TensorLike = Union["Tensor", HostTensor]
host_tensor_types = (
    np.ndarray,
    np.generic,
    builtins.int,
    builtins.float,
    builtins.bool,
    list,
    tuple,
)


class Tensor(TensorOperators):
    """A value of a graph. Ops, `variable`, `constant` and `graph_input` make tensors.

    Operators are ops: `+ - * / @ % **` and `-t` are add, sub, mul, div, matmul, fmod, pow and
    negate; `& | ~` are logical_and, logical_or and logical_not. Host data on the other side become
    a constant of the tensor's dtype, except exponents, whose dtype is inferred. `+=` writes the
    tensor in place; other augmented operators make a new one. `t[key]` takes ints, slices, and
    arrays of ints or bools. `==` and `hash` are by identity, not by value, and a tensor cannot be
    iterated.
    """

    _ir: Ir
    _pb: _core.Tensor
    _id: str

    # NumPy leaves `array + tensor` to the reflected operators.
    __array_ufunc__ = None
    # Tensors are not iterable: argument flattening relies on it.
    __iter__ = None
    __contains__ = None

    def __init__(self) -> None:
        raise RuntimeError("tensors are made by ops, variable, constant and graph_input")

    @classmethod
    def _make(cls, ir: Ir, core_tensor: _core.Tensor) -> Tensor:
        self = cls.__new__(cls)
        self._ir = ir
        self._pb = core_tensor
        self._id = core_tensor.id
        return self

    @classmethod
    def _from_pb(cls, tensor: Any) -> Tensor:
        """The one Tensor of a core tensor (or of a view of it)."""
        core_tensor = tensor._pb if isinstance(tensor, internal.Tensor) else tensor
        ir: Ir = owner_of(core_tensor.graph.ir_id)
        return ir._tensor(core_tensor)

    _from_pb_tensor = _from_pb

    @property
    def _pb_tensor(self) -> internal.Tensor:
        return internal.Tensor(self._pb)

    @property
    def ir(self) -> Ir:
        """The Ir that the tensor belongs to."""
        return self._ir

    @property
    def id(self) -> str:
        """The id, which is unique in the Ir: graph id, name scopes and name."""
        return self._id

    @property
    def name(self) -> str:
        """The id without the graph id."""
        return str(self._pb.name)

    @property
    def scope(self) -> str:
        """The id of the graph."""
        return str(self._pb.graph.id)

    @property
    def _graph(self) -> Graph:
        return self._ir._graph(self._pb.graph)

    @property
    def dtype(self) -> DType:
        """The element type."""
        return DType._from_pb(self._pb.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape on one replica."""
        return tuple(self._pb.shape)

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self._pb.shape)

    @property
    def nelms(self) -> int:
        """The number of elements."""
        return int(np.prod(self._pb.shape, dtype=np.int64))

    @property
    def meta_shape(self) -> tuple[int, ...]:
        """The shape before sharding; empty when the tensor is not a shard."""
        return tuple(self._pb.meta_shape)

    @property
    def spec(self) -> TensorSpec:
        """Shape, dtype and meta shape, as `graph_input(**t.spec)` takes them."""
        return TensorSpec(self.shape, self.dtype, self.meta_shape)

    def strides(self, shape: Iterable[int] | None = None) -> tuple[int, ...]:
        """Give the strides of a C-ordered array, in bytes.

        Args:
            shape: The shape of the array; None: that of the tensor.

        Returns:
            One stride for each axis.
        """
        sizes = self.shape if shape is None else tuple(shape)
        item = self.dtype.as_numpy().itemsize
        return tuple(
            item * int(np.prod(sizes[axis + 1 :], dtype=np.int64)) for axis in range(len(sizes))
        )

    @property
    def location_info(self) -> LocationInfo:
        """Where the tensor lives, if it is a variable; on the device otherwise."""
        record = self._ir._variables.get(self._id)
        if record is None:
            return LocationInfo(None, False)
        return LocationInfo(record.remote, record.sharded)

    @property
    def ipu(self) -> int:
        """The virtual device; UndefinedValue when nothing determines it."""
        device = find_device(self._pb, set())
        if device is None:
            raise UndefinedValue(
                f"the ipu of {self!r} is undefined: no op that makes or uses it has one"
            )
        return device

    @property
    def tile_set(self) -> str:
        """`compute` or `io`; UndefinedValue when nothing determines it."""
        tile_set = find_tile_set(self._pb, set())
        if tile_set is None:
            raise UndefinedValue(
                f"the tile set of {self!r} is undefined: no op that makes or uses it has one"
            )
        return tile_set

    @property
    def in_sync_with_ipu(self) -> bool:
        """Whether the host value of a variable is that of the device."""
        session = self._ir._session()
        return session is None or session._in_sync

    def transpose(self, permutation: Iterable[int] | None = None) -> Tensor:
        """Permute the axes into a new tensor, as `ops.transpose` does.

        Args:
            permutation: Every axis once; None: the axes reversed.

        Returns:
            A new tensor.
        """
        return all_ops().transpose(self, permutation)

    def transpose_(self, permutation: Iterable[int] | None = None) -> Tensor:
        """Permute the axes of an alias, as `ops.transpose_` does.

        Args:
            permutation: Every axis once; None: the axes reversed.

        Returns:
            An alias of the tensor.
        """
        return all_ops().transpose_(self, permutation)

    @property
    def T(self) -> Tensor:
        """A new tensor with the axes reversed."""
        return self.transpose()

    @property
    def T_(self) -> Tensor:
        """An alias with the axes reversed."""
        return self.transpose_()

    def reshape(self, shape: Iterable[int]) -> Tensor:
        """Copy the elements to another shape, as `ops.reshape` does.

        Args:
            shape: The new shape; one size may be -1.

        Returns:
            A new tensor.
        """
        return all_ops().reshape(self, shape)

    def reshape_(self, shape: Iterable[int]) -> Tensor:
        """Make an alias in another shape, as `ops.reshape_` does.

        Args:
            shape: The new shape; one size may be -1.

        Returns:
            An alias of the tensor.
        """
        return all_ops().reshape_(self, shape)

    def flatten(self) -> Tensor:
        """Copy the elements to one axis.

        Returns:
            A new tensor of rank 1.
        """
        return all_ops().flatten(self)

    def flatten_(self) -> Tensor:
        """Make an alias with one axis.

        Returns:
            An alias of the tensor.
        """
        return all_ops().flatten_(self)

    def detach(self) -> Tensor:
        """Copy the tensor so that no gradient passes from the copy to it.

        Returns:
            A new tensor.
        """
        return all_ops().detach(self)

    def detach_(self) -> Tensor:
        """Make an alias through which no gradient passes.

        Returns:
            An alias of the tensor.
        """
        return all_ops().detach_(self)

    def diag(self) -> Tensor:
        """Take every (columns + 1)-th element of a matrix.

        That is its diagonal when it is not taller than wide.

        Returns:
            A new tensor of rank 1.

        Raises:
            ValueError: The rank is not 2.
        """
        if self.rank != 2:
            raise ValueError(f"diag: wanted a tensor of rank 2; given {self!r}")
        return self.flatten()[:: self.shape[1] + 1]

    def copy_to_ipu(self, destination: int, source: int | None = None) -> Tensor:
        """Copy the tensor to a virtual device, as `ops.ipu_copy` does.

        Args:
            destination: The number of the virtual device to copy to.
            source: That of the tensor; None: `ipu`.

        Returns:
            A new tensor.

        Raises:
            ValueError: `source` is None and nothing tells the device.
        """
        return all_ops().ipu_copy(self, destination, source)

    def _ensure_tensor(
        self, value: TensorLike, dtype: DType | None = None, raise_on_empty: bool = True
    ) -> Tensor:
        """A tensor as it is, anything else as a constant of `dtype` (default: the own dtype)."""
        if isinstance(value, Tensor):
            return value
        result = constant(value, dtype or self.dtype)
        if raise_on_empty and result.nelms == 0:
            raise ValueError(f"The value has 0 elements - wanted some; given {value!r}")
        return result

    def __len__(self) -> int:
        shape = self.shape
        if not shape:
            raise ValueError(f"a scalar has no length: {self!r}")
        return shape[0]

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Tensor) and self._id == other._id and self._ir == other._ir
        )

    def __hash__(self) -> int:
        return hash((self._id, self._ir._pb.id))

    def __repr__(self) -> str:
        return f"{type(self).__name__}[{self._id} {self.dtype} {self.shape}]"

    def __str__(self) -> str:
        # Programs print tensors of every class under one name.
        return f"Tensor[{self._id} {self.dtype} {self.shape}]"

    def __iadd__(self, other: TensorLike) -> Tensor:
        all_ops().add_(self, self._ensure_tensor(other))
        return self

    def __getitem__(self, key: Any) -> Tensor:
        return index_tensor(self, key)


class Variable(Tensor):
    """A tensor of the main graph whose value persists from one run to the next."""

    @property
    def _record(self) -> VariableRecord:
        return self._ir._variables[self._id]

    @property
    def _memmap_arr(self) -> np.memmap[Any, Any] | None:
        """The memory-mapped array that is the host value."""
        data = self._record.data
        # Copies of a memory-mapped array have its class but no file.
        return data if isinstance(data, np.memmap) and data.filename is not None else None

    @property
    def replica_grouping(self) -> ReplicaGrouping:
        """The groups of replicas that share one value."""
        record = self._record
        return ReplicaGrouping._make(self._ir, record.assignment, record.constant_grouping)

    @property
    def retrieval_mode(self) -> str:
        """Which replicas are read back: `one_per_group` or `all_replicas`."""
        return self._record.retrieval_mode

    @property
    def shape_on_host(self) -> tuple[int, ...]:
        """The shape of the host value: with the groups as first axis when there are several."""
        return self._record.shape_on_host

    @property
    def shape_on_replica(self) -> tuple[int, ...]:
        """The shape on one replica."""
        return self.shape

    def copy_to_ipu(self, dst: int, src: int) -> Tensor:  # type: ignore[override]
        """Copy the variable to a virtual device, as `ops.ipu_copy` does.

        Args:
            dst: The number of the virtual device to copy to.
            src: That of the variable.

        Returns:
            A new tensor.
        """
        return all_ops().ipu_copy(self, dst, src)


class Constant(Tensor):
    """A tensor whose value is fixed when the graph is built."""

    def copy_to_ipu(self, dst: int, src: int) -> Tensor:  # type: ignore[override]
        """Copy the constant to a virtual device, as `ops.ipu_copy` does.

        Args:
            dst: The number of the virtual device to copy to.
            src: That of the constant.

        Returns:
            A new tensor.
        """
        return all_ops().ipu_copy(self, dst, src)


if TYPE_CHECKING:
    TensorByRef: TypeAlias = Tensor
else:
    TensorByRef = NewAliasAnnotation("TensorByRef", Tensor)


def tensor_class(core_tensor: _core.Tensor) -> type[Tensor]:
    """Find the class of the Tensor of a core tensor.

    Args:
        core_tensor: The core tensor.

    Returns:
        `Variable`, `Constant` or `Tensor`.
    """
    kind = core_tensor.kind
    if kind == _core.TensorKind.Variable:
        return Variable
    return Constant if kind == _core.TensorKind.Constant else Tensor
