"""Tensors: the values of a graph."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias, Union

import numpy as np

from pando import _core
from popart._internal import ir as internal
from popart.logging_ import getLogger
from popxl.context import get_current_graph, get_main_graph
from popxl.dtypes import DType
from popxl.errors import UndefinedValue
from popxl.remote_buffer import RemoteBuffer
from popxl.typing_ import NewAliasAnnotation
from popxl.utils import to_numpy

if TYPE_CHECKING:
    from popxl.graph import Graph
    from popxl.ir import Ir, VariableRecord
    from popxl.replica_grouping import ReplicaGrouping

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

_RETRIEVAL_MODES = ("one_per_group", "all_replicas")


class TensorSpec(Mapping[str, Any]):
    """Shape and dtype of a tensor; `graph_input(**spec)` makes an input like it."""

    def __init__(
        self, shape: Iterable[int], dtype: DType, meta_shape: Iterable[int] | None = ()
    ) -> None:
        self.shape = tuple(shape)
        self.dtype = dtype
        self.meta_shape = tuple(meta_shape or ())

    def to_dict(self) -> dict[str, Any]:
        return {"shape": self.shape, "dtype": self.dtype, "meta_shape": self.meta_shape}

    def to_tuple(self) -> tuple[tuple[int, ...], DType, tuple[int, ...]]:
        return self.shape, self.dtype, self.meta_shape

    def __getitem__(self, key: str) -> Any:
        return self.to_dict()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.to_dict())

    def __len__(self) -> int:
        return len(self.to_dict())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorSpec) and self.to_tuple() == other.to_tuple()

    def __hash__(self) -> int:
        return hash(self.to_tuple())

    def __repr__(self) -> str:
        return f"TensorSpec(shape={self.shape}, dtype={self.dtype}, meta_shape={self.meta_shape})"


class LocationInfo:
    """Where a variable lives."""

    def __init__(self, remote: tuple[int, int] | None, sharded: bool) -> None:
        self._remote = remote
        self._sharded = sharded

    def isRemote(self) -> bool:
        return self._remote is not None

    def isSharded(self) -> bool:
        return self._sharded

    def getRemoteBufferInfo(self) -> tuple[int, int]:
        """Remote buffer id and offset."""
        if self._remote is None:
            raise _core.popart_exception("the tensor is not in a remote buffer")
        return self._remote


def _ops() -> Any:
    # popxl.ops is built on this module.
    from popxl import ops

    return ops


def _inferred_dtype(value: Any) -> DType:
    """The element type that host data has by itself."""
    return DType.as_dtype(to_numpy(value, copy=False).dtype)


def _binary(op_name: str) -> Any:
    def operator(self: Tensor, other: TensorLike) -> Tensor:
        return getattr(_ops(), op_name)(self, self._ensure_tensor(other))

    return operator


def _reflected(op_name: str) -> Any:
    def operator(self: Tensor, other: TensorLike) -> Tensor:
        return getattr(_ops(), op_name)(self._ensure_tensor(other), self)

    return operator


class Tensor:
    """A value of a graph. Made by ops, `variable`, `constant` and `graph_input`."""

    _ir: Ir
    _pb: _core.Tensor
    _id: str
    _dtype: DType
    _shape: tuple[int, ...]

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
        self._read_info()
        return self

    def _read_info(self) -> None:
        self._dtype = DType._from_pb(self._pb.dtype)
        self._shape = tuple(self._pb.shape)

    @classmethod
    def _from_pb(cls, tensor: Any) -> Tensor:
        """The one Tensor of a core tensor (or of a view of it)."""
        from popxl.ir import Ir

        core_tensor = tensor._pb if isinstance(tensor, internal.Tensor) else tensor
        return Ir._from_core_id(core_tensor.graph.ir_id)._tensor(core_tensor)

    _from_pb_tensor = _from_pb

    @property
    def _pb_tensor(self) -> internal.Tensor:
        return internal.Tensor(self._pb)

    @property
    def ir(self) -> Ir:
        """The Ir the tensor belongs to."""
        return self._ir

    @property
    def id(self) -> str:
        """Unique in the Ir: graph id, name scopes and name."""
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
        return self._dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    @property
    def rank(self) -> int:
        return len(self._shape)

    @property
    def nelms(self) -> int:
        return int(np.prod(self._shape, dtype=np.int64))

    @property
    def meta_shape(self) -> tuple[int, ...]:
        """The shape before sharding; empty when the tensor is not a shard."""
        return tuple(self._pb.meta_shape)

    @property
    def spec(self) -> TensorSpec:
        return TensorSpec(self.shape, self.dtype, self.meta_shape)

    def strides(self, shape: Iterable[int] | None = None) -> tuple[int, ...]:
        """Byte strides of a C-ordered array of `shape` (default: the own shape)."""
        sizes = self.shape if shape is None else tuple(shape)
        item = self.dtype.as_numpy().itemsize
        return tuple(
            item * int(np.prod(sizes[axis + 1 :], dtype=np.int64)) for axis in range(len(sizes))
        )

    @property
    def location_info(self) -> LocationInfo:
        record = self._ir._variables.get(self._id)
        if record is None:
            return LocationInfo(None, False)
        return LocationInfo(record.remote, record.sharded)

    @property
    def ipu(self) -> int:
        """The virtual device; UndefinedValue when nothing determines it."""
        device = _find_device(self._pb, set())
        if device is None:
            raise UndefinedValue(
                f"the ipu of {self!r} is undefined: no op that makes or uses it has one"
            )
        return device

    @property
    def tile_set(self) -> str:
        """`compute` or `io`; UndefinedValue when nothing determines it."""
        tile_set = _find_tile_set(self._pb, set())
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
        """Axes in the order `permutation`, by default reversed."""
        return _ops().transpose(self, permutation)

    def transpose_(self, permutation: Iterable[int] | None = None) -> Tensor:
        return _ops().transpose_(self, permutation)

    @property
    def T(self) -> Tensor:
        """Axes reversed."""
        return self.transpose()

    @property
    def T_(self) -> Tensor:
        return self.transpose_()

    def reshape(self, shape: Iterable[int]) -> Tensor:
        """The same elements in another shape; one size may be -1."""
        return _ops().reshape(self, shape)

    def reshape_(self, shape: Iterable[int]) -> Tensor:
        return _ops().reshape_(self, shape)

    def flatten(self) -> Tensor:
        """One axis."""
        return _ops().flatten(self)

    def flatten_(self) -> Tensor:
        return _ops().flatten_(self)

    def detach(self) -> Tensor:
        """The same value without a gradient."""
        return _ops().detach(self)

    def detach_(self) -> Tensor:
        return _ops().detach_(self)

    def diag(self) -> Tensor:
        """Every (columns + 1)-th element of a matrix: its diagonal when it is not taller."""
        if self.rank != 2:
            raise ValueError(f"diag: wanted a tensor of rank 2; given {self!r}")
        return self.flatten()[:: self.shape[1] + 1]

    def copy_to_ipu(self, destination: int, source: int | None = None) -> Tensor:
        """The tensor on virtual device `destination`."""
        return _ops().ipu_copy(self, destination, source)

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
        if not self._shape:
            raise ValueError(f"a scalar has no length: {self!r}")
        return self._shape[0]

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Tensor) and self._id == other._id and self._ir == other._ir
        )

    def __hash__(self) -> int:
        return hash((self._id, self._ir._pb.id))

    def __repr__(self) -> str:
        return f"{type(self).__name__}[{self._id} {self._dtype} {self._shape}]"

    __add__ = _binary("add")
    __radd__ = _reflected("add")
    __sub__ = _binary("sub")
    __rsub__ = _reflected("sub")
    __mul__ = _binary("mul")
    __rmul__ = _reflected("mul")
    __truediv__ = _binary("div")
    __rtruediv__ = _reflected("div")
    __matmul__ = _binary("matmul")
    __rmatmul__ = _reflected("matmul")
    __mod__ = _binary("fmod")
    __rmod__ = _reflected("fmod")
    __and__ = _binary("logical_and")
    __rand__ = _reflected("logical_and")
    __or__ = _binary("logical_or")
    __ror__ = _reflected("logical_or")

    def __iadd__(self, other: TensorLike) -> Tensor:  # type: ignore[misc]
        _ops().add_(self, self._ensure_tensor(other))
        return self

    def __pow__(self, other: TensorLike) -> Tensor:
        return _ops().pow(self, other if isinstance(other, Tensor) else constant(other))

    def __rpow__(self, other: TensorLike) -> Tensor:
        return _ops().pow(self._ensure_tensor(other, _inferred_dtype(other)), self)

    def __neg__(self) -> Tensor:
        return _ops().negate(self)

    def __invert__(self) -> Tensor:
        return _ops().logical_not(self)

    def __getitem__(self, key: Any) -> Tensor:
        from popxl.indexing import index_tensor

        return index_tensor(self, key)


class Variable(Tensor):
    """A tensor of the main graph whose value persists between runs."""

    @property
    def _record(self) -> VariableRecord:
        return self._ir._variables[self._id]

    @property
    def replica_grouping(self) -> ReplicaGrouping:
        """The groups of replicas that share one value."""
        from popxl.replica_grouping import ReplicaGrouping

        record = self._record
        return ReplicaGrouping._make(self._ir, record.assignment, record.constant_grouping)

    @property
    def retrieval_mode(self) -> str:
        """`one_per_group` or `all_replicas`."""
        return self._record.retrieval_mode

    @property
    def shape_on_host(self) -> tuple[int, ...]:
        """The shape of the host value: one entry per group when there are several."""
        return self._record.shape_on_host

    @property
    def shape_on_replica(self) -> tuple[int, ...]:
        return self.shape

    def copy_to_ipu(self, dst: int, src: int) -> Tensor:  # type: ignore[override]
        """The tensor on virtual device `dst`, from device `src`."""
        return _ops().ipu_copy(self, dst, src)


class Constant(Tensor):
    """A tensor whose value is fixed."""

    def copy_to_ipu(self, dst: int, src: int) -> Tensor:  # type: ignore[override]
        """The tensor on virtual device `dst`, from device `src`."""
        return _ops().ipu_copy(self, dst, src)


if TYPE_CHECKING:
    TensorByRef: TypeAlias = Tensor
else:
    TensorByRef = NewAliasAnnotation("TensorByRef", Tensor)


def tensor_class(core_tensor: _core.Tensor) -> type[Tensor]:
    """The class of the Tensor of a core tensor."""
    kind = core_tensor.kind
    if kind == _core.TensorKind.Variable:
        return Variable
    return Constant if kind == _core.TensorKind.Constant else Tensor


def _call_sites(core_tensor: _core.Tensor) -> Iterator[_core.Tensor]:
    """What call sites connect to a graph input."""
    graph = core_tensor.graph
    from popxl.ir import Ir

    for caller in Ir._from_core_id(graph.ir_id)._pb.graphs:
        for op in caller.ops:
            if op.kind in ("Call", "Loop") and op.called_graphs[0] is graph:
                index = next(i for i, t in enumerate(graph.inputs) if t is core_tensor)
                if index < len(op.inputs) and op.inputs[index] is not None:
                    yield op.inputs[index]


def output_device(op: _core.Op, index: int) -> int | None:
    """The virtual device of an output of an op."""
    if op.kind == "IpuCopy":
        return int(op.attributes["destination"])
    if op.kind in ("AllReduce", "AllReduceGrad"):
        return int(op.attributes["ipus"][index])
    device: int | None = op.context.device
    return device


def input_device(op: _core.Op, index: int) -> int | None:
    """The virtual device on which an op wants an input."""
    if op.kind == "IpuCopy":
        return int(op.attributes["source"])
    return output_device(op, index)


def _find_device(core_tensor: _core.Tensor, visited: set[str]) -> int | None:
    visited.add(core_tensor.id)
    producer = core_tensor.producer
    if producer is not None:
        return output_device(producer, core_tensor.producer_index)
    if core_tensor.kind == _core.TensorKind.GraphInput:
        for parent in _call_sites(core_tensor):
            if parent.id not in visited:
                found = _find_device(parent, visited)
                if found is not None:
                    return found
    for op, index in core_tensor.uses:
        source = input_device(op, index)
        if source is not None:
            return source
    return None


def _find_tile_set(core_tensor: _core.Tensor, visited: set[str]) -> str | None:
    visited.add(core_tensor.id)
    producer = core_tensor.producer
    if producer is not None:
        if producer.kind != "IoTileCopy":
            return "io" if producer.context.io_tiles else "compute"
        source = producer.inputs[0]
        found = _find_tile_set(source, visited) if source.id not in visited else None
        return "io" if found == "compute" else "compute"
    if core_tensor.kind == _core.TensorKind.GraphInput:
        for parent in _call_sites(core_tensor):
            if parent.id not in visited:
                found = _find_tile_set(parent, visited)
                if found is not None:
                    return found
    for op, _ in core_tensor.uses:
        if op.kind != "IoTileCopy":
            return "io" if op.context.io_tiles else "compute"
    return None


def _storage(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array as the core takes it: float8 as plain bytes."""
    return array.view(np.uint8) if array.dtype.names is not None else array


def _host_info(array: np.ndarray[Any, Any], shape: Iterable[int] | None = None) -> Any:
    return _core.TensorInfo(
        DType.as_dtype(array.dtype)._pb, list(array.shape if shape is None else shape)
    )


def _main_graph(what: str) -> Graph:
    graph = get_current_graph()
    if graph is not graph.ir.main_graph:
        raise ValueError(
            f"{what} can only be made in the main graph; the current graph is {graph!r}: pass "
            "tensors to subgraphs as inputs"
        )
    return graph


def _check_retrieval_mode(mode: str | None) -> str:
    if mode is None:
        return "one_per_group"
    if mode not in _RETRIEVAL_MODES:
        raise ValueError(f"retrieval_mode: wanted {' or '.join(_RETRIEVAL_MODES)}; given {mode!r}")
    return mode


def variable(
    data: HostTensor,
    dtype: DType | None = None,
    name: str | None = None,
    downcast: bool = True,
    replica_grouping: ReplicaGrouping | None = None,
    retrieval_mode: str | None = None,
    log2_scale: int | None = None,
    nan_on_overflow: bool | None = None,
) -> Variable:
    """A variable of the main graph that starts with `data`.

    With a replica grouping of several groups the first axis of `data` is the group. A memory-mapped
    array is used as the storage itself.
    """
    return _make_variable(
        data,
        dtype,
        name,
        downcast,
        replica_grouping,
        retrieval_mode,
        log2_scale,
        nan_on_overflow,
    )


def _shape_of_one_group(
    shape: tuple[int, ...], grouping: ReplicaGrouping, name: str | None
) -> tuple[int, ...]:
    if grouping.num_groups == 1:
        return shape
    if not shape or shape[0] != grouping.num_groups:
        raise _core.popart_exception(
            f"variable '{name or 't'}': wanted data with first axis {grouping.num_groups}, one "
            f"entry per replica group; given shape {shape}"
        )
    return shape[1:]


def _make_variable(
    data: HostTensor,
    dtype: DType | None,
    name: str | None,
    downcast: bool,
    replica_grouping: ReplicaGrouping | None,
    retrieval_mode: str | None,
    log2_scale: int | None,
    nan_on_overflow: bool | None,
    remote: tuple[int, int] | None = None,
    shard_over: int | None = None,
) -> Variable:
    """A variable on the device or, with `remote`, in that slot of that buffer."""
    from popxl.ir import VariableRecord

    graph = _main_graph("variables")
    ir = graph.ir
    mode = _check_retrieval_mode(retrieval_mode)
    grouping = replica_grouping if replica_grouping is not None else ir.replica_grouping()
    # The host array has one entry per replica where the replicas of a group may differ.
    per_replica = mode == "all_replicas" and grouping.group_size > 1
    is_memmap = isinstance(data, np.memmap) and grouping.is_const and not per_replica
    if isinstance(data, np.memmap) and not is_memmap:
        getLogger("popxl").warn(
            f"variable '{name or 't'}': the memory-mapped array is copied, because {grouping!r} "
            f"with retrieval mode {mode} keeps its values in another layout"
        )
    array = to_numpy(data, dtype, downcast, not is_memmap, log2_scale, nan_on_overflow)
    host_shape = tuple(array.shape)
    shape = _shape_of_one_group(host_shape, grouping, name)
    if isinstance(data, np.memmap) and not array.flags.writeable:
        ir._has_read_only_memmap = True
    if per_replica:
        entries = array if grouping.num_groups > 1 else array[np.newaxis]
        array = entries[grouping.assignment]
    buffer, slot = remote or (0, 0)
    settings = _core.VariableSettings(
        grouping.assignment if grouping.num_groups > 1 else [],
        per_replica,
        buffer,
        slot,
        shard_over or 1,
    )
    core_tensor = graph._pb.add_variable(
        graph._create_tensor_id(name), _host_info(array, shape), _storage(array), settings
    )
    ir._variables[core_tensor.id] = VariableRecord(
        grouping.assignment,
        grouping._constant,
        mode,
        array,
        remote,
        shard_over is not None,
        shape_on_host=host_shape,
    )
    tensor = ir._tensor(core_tensor)
    assert isinstance(tensor, Variable)
    return tensor


def constant(
    data: HostTensor,
    dtype: DType | None = None,
    name: str | None = None,
    downcast: bool = True,
    log2_scale: int | None = None,
    nan_on_overflow: bool | None = None,
) -> Constant:
    """A constant of the current graph."""
    graph = get_current_graph()
    given = getattr(data, "dtype", None)
    if dtype is None and isinstance(given, np.dtype) and given.names is not None:
        raise TypeError(
            "constant: float8 data needs an explicit dtype: popxl.float8_143 or popxl.float8_152"
        )
    array = to_numpy(data, dtype, downcast, True, log2_scale, nan_on_overflow)
    core_tensor = graph._pb.add_constant(
        graph._create_tensor_id(name), _host_info(array), _storage(array)
    )
    tensor = graph.ir._tensor(core_tensor)
    assert isinstance(tensor, Constant)
    return tensor


def remote_variable(
    data: HostTensor,
    remote_buffer: RemoteBuffer,
    offset: int = 0,
    dtype: DType | None = None,
    name: str | None = None,
    downcast: bool = True,
    replica_grouping: ReplicaGrouping | None = None,
    retrieval_mode: str | None = "one_per_group",
    log2_scale: int | None = None,
    nan_on_overflow: bool | None = None,
) -> Variable:
    """A variable whose value lives in slot `offset` of a remote buffer.

    It is a handle for the host: ops reach the value by loading from the buffer.
    """
    return _make_variable(
        data,
        dtype,
        name,
        downcast,
        replica_grouping,
        retrieval_mode,
        log2_scale,
        nan_on_overflow,
        _slot_of(remote_buffer, offset),
    )


def _slot_of(remote_buffer: RemoteBuffer, offset: int) -> tuple[int, int]:
    if offset < 0:
        raise ValueError(f"a slot of {remote_buffer!r} must be at least 0; given {offset}")
    return remote_buffer.remote_buffer_id, int(offset)


def remote_replica_sharded_variable(
    data: HostTensor,
    remote_buffer: RemoteBuffer,
    offset: int = 0,
    dtype: DType | None = None,
    name: str | None = None,
    downcast: bool = True,
    replica_grouping: ReplicaGrouping | None = None,
    retrieval_mode: str | None = "one_per_group",
    log2_scale: int | None = None,
    nan_on_overflow: bool | None = None,
) -> Variable:
    """A remote variable of which every replica of a group holds one part."""
    graph = _main_graph("variables")
    if graph.ir.replication_factor <= 1:
        raise ValueError(
            "remote_replica_sharded_variable: wanted an Ir of more than one replica; "
            f"replication_factor is {graph.ir.replication_factor}"
        )
    grouping = replica_grouping or graph.ir.replica_grouping()
    shape = np.shape(data)  # type: ignore[arg-type]
    per_group = shape[1:] if grouping.num_groups > 1 else shape
    if remote_buffer.meta_shape and remote_buffer.meta_shape != per_group:
        raise ValueError(
            f"remote_replica_sharded_variable: {remote_buffer!r} is for shards of a tensor of "
            f"shape {remote_buffer.meta_shape}; given shape {per_group}"
        )
    elements = int(np.prod(per_group, dtype=np.int64))
    group_size = grouping.const_rg.group_size
    shard_over = _shards_of(elements, remote_buffer, group_size)
    remote_buffer.meta_shape = per_group
    return _make_variable(
        data,
        dtype,
        name,
        downcast,
        grouping,
        retrieval_mode,
        log2_scale,
        nan_on_overflow,
        _slot_of(remote_buffer, offset),
        shard_over,
    )


def _shards_of(elements: int, remote_buffer: RemoteBuffer, group_size: int) -> int:
    """How many parts of `elements` elements fill the slots of the buffer, one for each replica."""
    part = int(np.prod(remote_buffer.tensor_shape, dtype=np.int64))
    wanted = remote_buffer._shard_over
    for shards in range(group_size, 0, -1) if wanted is None else [wanted]:
        if group_size % shards == 0 and -(-elements // shards) == part:
            return shards
    raise ValueError(
        f"remote_replica_sharded_variable: {elements} elements over a group of {group_size} "
        f"replicas do not give parts of {part} elements, the size of the slots of "
        f"{remote_buffer!r}: make the buffer with replica_sharded_buffer"
    )


def replica_sharded_buffer(
    shape: Iterable[int],
    dtype: DType,
    replica_grouping: ReplicaGrouping | None = None,
    shard_over: int | None = None,
    entries: int = 1,
) -> RemoteBuffer:
    """A remote buffer for the shards of tensors of `shape` (with the group axis, if several)."""
    grouping = replica_grouping or get_main_graph().ir.replica_grouping()
    const = grouping.const_rg
    sizes = tuple(shape)
    per_group = sizes[1:] if const.num_groups > 1 else sizes
    shards = const.group_size if shard_over is None else shard_over
    if shards <= 0 or shards > const.group_size or const.group_size % shards != 0:
        raise ValueError(
            f"replica_sharded_buffer: shard_over must divide the group size {const.group_size}; "
            f"given {shards}"
        )
    elements = int(np.prod(per_group, dtype=np.int64))
    buffer = RemoteBuffer((-(-elements // shards),), dtype, entries)
    buffer.meta_shape = per_group
    buffer._shard_over = shards
    return buffer


def replica_sharded_variable(
    data: HostTensor,
    dtype: DType | None = None,
    name: str | None = None,
    downcast: bool = True,
    replica_grouping: ReplicaGrouping | None = None,
    shard_over: int | None = None,
    retrieval_mode: str | None = "one_per_group",
    log2_scale: int | None = None,
    nan_on_overflow: bool | None = None,
) -> tuple[Variable, Tensor]:
    """A sharded variable and its shard, which is loaded with the weights and saved with them."""
    from popxl.context import _execution_context

    array = to_numpy(data, dtype, downcast, False, log2_scale, nan_on_overflow)
    element_type = DType.as_dtype(array.dtype)
    buffer = replica_sharded_buffer(array.shape, element_type, replica_grouping, shard_over)
    handle = remote_replica_sharded_variable(
        array, buffer, 0, element_type, name, False, replica_grouping, retrieval_mode
    )
    with _execution_context(internal.ExecutionContext.WeightsFromHostFragment):
        shard: Tensor = _ops().remote_load(buffer, 0, f"{handle.name}_rts")
    with _execution_context(internal.ExecutionContext.WeightsToHostFragment):
        _ops().remote_store(buffer, 0, shard)
    return handle, shard


def graph_input(
    shape: Iterable[int],
    dtype: DType,
    name: str | None = None,
    by_ref: bool = False,
    meta_shape: Iterable[int] | None = None,
) -> Tensor:
    """Appends an input to the current graph."""
    graph = get_current_graph()
    info = _core.TensorInfo(
        dtype._pb, [int(size) for size in shape], [int(size) for size in meta_shape or ()]
    )
    core_tensor = graph._pb.add_input(graph._create_tensor_id(name), info, by_ref)
    return graph.ir._tensor(core_tensor)


def graph_output(t: Tensor) -> None:
    """Appends a tensor to the outputs of the current graph."""
    if not isinstance(t, Tensor):
        raise TypeError(f"graph_output: wanted a tensor; given {type(t)}")
    graph = get_current_graph()
    if t not in graph:
        raise ValueError(f"graph_output: {t!r} is not in the current graph {graph!r}")
    graph._pb.mark_output(t._pb)


class TensorStorage(Enum):
    """Where a tensor is stored."""

    OnChip = "OnChip"
    OffChip = "OffChip"


class ReplicatedTensorSharding(Enum):
    """Whether a tensor is sharded over replicas."""

    On = "On"
    Off = "Off"


class TensorLocation:
    """Storage and sharding of a tensor."""

    def __init__(
        self,
        storage: TensorStorage = TensorStorage.OnChip,
        replicated_tensor_sharding: ReplicatedTensorSharding = ReplicatedTensorSharding.Off,
    ) -> None:
        self._storage = storage
        self._sharding = replicated_tensor_sharding

    @property
    def storage(self) -> TensorStorage:
        return self._storage

    @property
    def replicated_tensor_sharding(self) -> ReplicatedTensorSharding:
        return self._sharding

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TensorLocation)
            and self._storage == other._storage
            and self._sharding == other._sharding
        )

    def __hash__(self) -> int:
        return hash((self._storage, self._sharding))

    def __repr__(self) -> str:
        return (
            f"TensorLocation(storage={self._storage}, replicated_tensor_sharding={self._sharding})"
        )
