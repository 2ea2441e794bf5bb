"""Graphs that run for several micro-batches in a row, loading inputs and storing results one by
one: the building block of phased execution."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

import popxl
from pando import _core
from popxl.context import get_current_context
from popxl.transforms import ExpectedConnectionType
from popxl_addons.graph import GraphWithNamedArgs
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.remote import create_remote_buffer
from popxl_addons.transforms.serial_handles import CoreHandles, Handles, RemoteHandle
from popxl_addons.utils import suffix_graph_name

__all__ = [
    "BatchSerialResult",
    "RemoteHandle",
    "batch_serial_buffer",
    "batch_serialise",
    "batch_serialise_fwd_and_grad",
    "batch_serialise_non_overlapped",
    "batch_serialise_overlapped",
]

_IO_MODES = ("compute", "io", "io_overlapped")


@dataclass
class BatchSerialResult:
    """A batch serialised graph and how it relates to the original.

    Attributes:
        graph: The graph, whose first input is the row.
        stored_buffers: Tensor of the original graph -> where its values are stored.
    """

    graph: GraphWithNamedArgs
    stored_buffers: dict[popxl.Tensor, RemoteHandle]
    _remap: dict[popxl.Tensor, popxl.Tensor] = field(default_factory=dict)

    def remap_tensors(self, named_tensors: NamedTensors) -> NamedTensors:
        """The tensors of the new graph for those of the original one.

        Args:
            named_tensors: Inputs of the original graph that the caller passes.

        Returns:
            Inputs of the new graph under the same keys.

        Raises:
            KeyError: A tensor is no such input.
        """
        return named_tensors.remap(self._remap)


def batch_serial_buffer(
    t: popxl.Tensor | popxl.TensorSpec,
    steps: int = 1,
    rows: int = 1,
    shard_group: popxl.ReplicaGrouping | None = None,
    *,
    sharded_threshold: int | None = None,
) -> popxl.RemoteBuffer:
    """Makes a remote buffer with an entry for every step of every row.

    Args:
        t: A tensor or spec like those that are stored.
        steps: Entries of a row.
        rows: The number of rows.
        shard_group: The replicas over which entries are sharded; None keeps them whole.
        sharded_threshold: Only tensors of at least so many elements are sharded; None sets no
            threshold.

    Returns:
        The buffer, of rows * steps entries.

    Raises:
        ValueError: The elements cannot be shared out evenly.
    """
    if shard_group is None:
        return create_remote_buffer(t, steps * rows, shard_over=1)
    threshold: dict[str, Any] = {}
    if sharded_threshold is not None:
        threshold = {"sharded_threshold": sharded_threshold}
    return create_remote_buffer(t, steps * rows, shard_group, shard_group.group_size, **threshold)


def _normalise(handles: Handles) -> None:
    """Turns tuples into handles, in place."""
    for tensor, handle in list(handles.items()):
        if isinstance(handle, tuple):
            handles[tensor] = RemoteHandle(*handle)


def _make_sharded_buffers(handles: Handles, steps: int, rows: int) -> None:
    """Turns groupings, which ask for a buffer that is sharded over them, into handles, in place."""
    for tensor, handle in list(handles.items()):
        if isinstance(handle, popxl.ReplicaGrouping):
            buffer = batch_serial_buffer(tensor, steps, rows, handle)
            handles[tensor] = RemoteHandle(buffer, 0, handle)


def _check(rows: int, io_mode: str, steps: int) -> str:
    """The mode to be used; ValueError for what cannot be."""
    if rows < 1:
        raise ValueError(f"batch_serialise: wanted at least 1 row; given {rows}")
    if io_mode not in _IO_MODES:
        raise ValueError(
            f"batch_serialise: io_mode must be one of {', '.join(_IO_MODES)}; given {io_mode!r}"
        )
    io_tiles = popxl.gcg().ir._pb_ir.getSessionOptions().numIOTiles
    if io_mode != "compute" and io_tiles < 1:
        raise ValueError(
            f"batch_serialise: io_mode {io_mode!r} needs IO tiles, but the session option "
            f"numIOTiles is {io_tiles}: set it, or use io_mode='compute'"
        )
    if io_mode == "io_overlapped" and steps == 1:
        logging.warning("io_mode 'io_overlapped' needs at least 2 steps: using 'io' for 1 step")
        return "io"
    return io_mode


@dataclass
class _Request:
    """What the public functions take, checked."""

    steps: int
    load_handles: Handles
    store_streams: Handles
    store_buffers: Handles
    seed_input: popxl.Tensor | None
    rows: int
    io_mode: str

    def __post_init__(self) -> None:
        self.io_mode = _check(self.rows, self.io_mode, self.steps)
        _normalise(self.load_handles)
        _normalise(self.store_buffers)

    def new_stores(self) -> Handles:
        """The stores without inputs that are loaded from a remote buffer: these are stored already.

        Returns:
            Tensor -> handle.
        """
        return {
            tensor: handle
            for tensor, handle in self.store_buffers.items()
            if not isinstance(self.load_handles.get(tensor), RemoteHandle)
        }

    def options(
        self, core_handles: CoreHandles, buffers: Handles, *graphs: popxl.Graph
    ) -> _core.SerialOptions:
        """What the core transform takes.

        Args:
            core_handles: Makes the handles.
            buffers: What new_stores gave.
            *graphs: The graphs, the first of which gives the name.

        Returns:
            The options.
        """
        stores = core_handles.all_of(self.store_streams, *graphs)
        stores += core_handles.all_of(buffers, *graphs)
        return _core.SerialOptions(
            name=suffix_graph_name(graphs[0].name, "_repeat_graph"),
            steps=self.steps,
            rows=self.rows,
            loads=core_handles.all_of(self.load_handles, *graphs),
            stores=stores,
            seed=None if self.seed_input is None else self.seed_input._pb,
            io_tiles=self.io_mode != "compute",
            overlapped=self.io_mode == "io_overlapped",
            context=get_current_context().op_context("batch_serialise"),
        )


def _refuse_loaded_args(graph: GraphWithNamedArgs, load_handles: Handles) -> None:
    for key, tensor in graph.args.to_dict().items():
        if tensor in load_handles:
            raise KeyError(
                f"'{key}' is a named argument of {graph.graph.name}, which the caller passes: it "
                "cannot have a load handle"
            )


def _result(
    core: _core.BatchSerialised,
    original: GraphWithNamedArgs,
    stored: dict[popxl.Tensor, RemoteHandle],
) -> BatchSerialResult:
    remap = {popxl.Tensor._from_pb(old): popxl.Tensor._from_pb(new) for old, new in core.passed}
    args = NamedTensors.from_dict({key: remap[t] for key, t in original.args.to_dict().items()})
    graph = GraphWithNamedArgs(popxl.Graph._from_pb(core.graph), args)
    return BatchSerialResult(graph, stored, remap)


def batch_serialise(
    graph: GraphWithNamedArgs,
    steps: int,
    load_handles: Handles,
    store_streams: Handles,
    store_buffers: Handles,
    seed_input: popxl.Tensor | None = None,
    rows: int = 1,
    io_mode: str = "io",
) -> BatchSerialResult:
    """Makes a graph that runs another one for several steps.

    Each step loads inputs and stores results. Inputs that are neither loaded nor the seed are
    passed by the caller, after the row (and the seed). Outputs that are not stored are dropped.
    Step i of row r is entry r * steps + i of a buffer.

    Args:
        graph: The graph of one step.
        steps: How many steps there are.
        load_handles: Input -> stream, RemoteHandle, or tuple of its attributes; tuples are replaced
            in place.
        store_streams: Input or output -> stream that it is stored to.
        store_buffers: Input or output -> RemoteHandle or tuple; what is loaded from a buffer is not
            stored.
        seed_input: An input, uint32 (2,), that gets a new seed in each step; None means none.
        rows: How many rows buffers have at least.
        io_mode: "compute" and "io" load, compute and store one step after the other;
            "io_overlapped" loads the next step and stores the one before beside the computation.
            The last two need the session option numIOTiles.

    Returns:
        The graph, which has no outputs, and where its results are.

    Raises:
        ValueError: `rows` is less than 1, `io_mode` is unknown, or it needs numIOTiles.
        KeyError: A named argument of `graph` has a load handle.
        TypeError: A handle is of another kind.
    """
    request = _Request(steps, load_handles, store_streams, store_buffers, seed_input, rows, io_mode)
    _refuse_loaded_args(graph, load_handles)
    buffers = request.new_stores()
    options = request.options(CoreHandles(), buffers, graph.graph)
    core = _core.batch_serialise(graph.graph._pb, options)
    stored = {tensor: handle for tensor, handle in buffers.items() if tensor in graph.graph}
    return _result(core, graph, stored)


def batch_serialise_non_overlapped(
    graph: GraphWithNamedArgs,
    steps: int,
    load_handles: Handles,
    store_streams: Handles,
    store_buffers: Handles,
    seed_input: popxl.Tensor | None = None,
    rows: int = 1,
    use_io_tiles: bool = False,
) -> BatchSerialResult:
    """`batch_serialise` that loads, computes and stores one step after the other.

    Args:
        graph: As for `batch_serialise`.
        steps: As for `batch_serialise`.
        load_handles: As for `batch_serialise`.
        store_streams: As for `batch_serialise`.
        store_buffers: As for `batch_serialise`.
        seed_input: As for `batch_serialise`.
        rows: As for `batch_serialise`.
        use_io_tiles: True is the mode "io", False "compute".

    Returns:
        As `batch_serialise`.
    """
    mode = "io" if use_io_tiles else "compute"
    return batch_serialise(
        graph, steps, load_handles, store_streams, store_buffers, seed_input, rows, mode
    )


def batch_serialise_overlapped(
    graph: GraphWithNamedArgs,
    steps: int,
    load_handles: Handles,
    store_streams: Handles,
    store_buffers: Handles,
    seed_input: popxl.Tensor | None = None,
    rows: int = 1,
) -> BatchSerialResult:
    """`batch_serialise` that loads and stores other steps beside the computation.

    Args:
        graph: As for `batch_serialise`.
        steps: As for `batch_serialise`.
        load_handles: As for `batch_serialise`.
        store_streams: As for `batch_serialise`.
        store_buffers: As for `batch_serialise`.
        seed_input: As for `batch_serialise`.
        rows: As for `batch_serialise`.

    Returns:
        As `batch_serialise`.
    """
    return batch_serialise(
        graph, steps, load_handles, store_streams, store_buffers, seed_input, rows, "io_overlapped"
    )


def batch_serialise_fwd_and_grad(
    forward_graph: GraphWithNamedArgs,
    gradient_graph: GraphWithNamedArgs,
    named_inputs_for_grad_graph: NamedTensors,
    steps: int,
    load_handles: Handles,
    store_streams: Handles,
    store_buffers: Handles,
    seed_input: popxl.Tensor | None = None,
    rows: int = 1,
    io_mode: str = "io",
) -> tuple[BatchSerialResult, BatchSerialResult]:
    """Batch serialises a forward graph and its gradient graph.

    A forward tensor that the gradient needs is passed by name if it is among the named inputs; else
    it is loaded from the buffer that it is stored to or was loaded from, or from a new one.

    Args:
        forward_graph: The forward graph.
        gradient_graph: Its gradient graph, whose `args` get the new named arguments.
        named_inputs_for_grad_graph: Inputs of the forward graph, by name.
        steps: How many steps there are.
        load_handles: As for `batch_serialise`, of both graphs; every output gradient needs one.
        store_streams: As for `batch_serialise`, of both graphs.
        store_buffers: As for `batch_serialise`, of both graphs; a grouping as value has the new
            buffer of that tensor sharded over it.
        seed_input: As for `batch_serialise`, of the forward graph.
        rows: As for `batch_serialise`.
        io_mode: As for `batch_serialise`.

    Returns:
        The two results, forward and gradient.

    Raises:
        ValueError: An output gradient has no load handle. All errors of `batch_serialise`.
    """
    request = _Request(steps, load_handles, store_streams, store_buffers, seed_input, rows, io_mode)
    info = gradient_graph.grad_graph_info
    buffers = request.new_stores()
    _make_sharded_buffers(buffers, steps, rows)
    _name_gradient_inputs(gradient_graph, named_inputs_for_grad_graph)
    _refuse_loaded_args(forward_graph, load_handles)
    _refuse_loaded_args(gradient_graph, load_handles)

    handles = CoreHandles()
    options = request.options(handles, buffers, forward_graph.graph, gradient_graph.graph)
    named = [tensor._pb for tensor in named_inputs_for_grad_graph.tensors]
    gradient_name = suffix_graph_name(gradient_graph.graph.name, "_repeat_graph")
    core = _core.batch_serialise_pair(info._pb, named, options, gradient_name)

    stored: dict[popxl.Tensor, RemoteHandle] = {}
    for core_tensor, core_handle in core.stored:
        tensor = popxl.Tensor._from_pb(core_tensor)
        stored[tensor] = buffers.get(tensor) or RemoteHandle(handles.buffer(core_handle.buffer))
    forward = _result(core.forward, forward_graph, stored)
    stored_gradients = {t: handle for t, handle in buffers.items() if t in gradient_graph.graph}
    gradient = _result(core.gradient, gradient_graph, stored_gradients)
    gradient.graph.grad_graph_info = info
    return forward, gradient


def _name_gradient_inputs(gradient_graph: GraphWithNamedArgs, named: NamedTensors) -> None:
    """Puts the forward tensors that the gradient needs and that have names before its own named
    arguments."""
    info = gradient_graph.grad_graph_info
    by_forward_tensor = {
        connection.fwd_tensor: graph_input
        for graph_input, connection in zip(
            gradient_graph.graph.inputs, info.expected_inputs, strict=False
        )
        if connection.connection_type == ExpectedConnectionType.Fwd
    }
    args = NamedTensors.from_dict(
        {
            key: by_forward_tensor[tensor]
            for key, tensor in named.to_dict().items()
            if tensor in by_forward_tensor
        }
    )
    for key, tensor in gradient_graph.args.copy().to_dict().items():
        args._extend(key, tensor)
    gradient_graph.args = args
