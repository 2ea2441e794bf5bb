"""The C++ core of Pando: graphs, transforms and sessions."""

from collections.abc import Callable, Sequence
import enum
from typing import Any


class popart_exception(Exception):
    pass

class popart_internal_exception(popart_exception):
    pass

class popart_runtime_error(popart_exception):
    pass

class OutOfMemoryException(popart_exception):
    def getSummaryReport(self) -> str:
        """
        What is alive at the peak, one tensor a line; empty when no program was compiled.
        """

    def getProfilePath(self) -> str:
        """Always empty: no profile is written, the summary holds everything."""

class poplar_exception(Exception):
    pass

class poplar_runtime_error(poplar_exception):
    pass

class poplar_application_runtime_error(poplar_runtime_error):
    pass

class DType(enum.Enum):
    bool = 0

    int8 = 1

    int16 = 2

    int32 = 3

    int64 = 4

    uint8 = 5

    uint16 = 6

    uint32 = 7

    uint64 = 8

    float8_143 = 9

    float8_152 = 10

    float16 = 11

    bfloat16 = 12

    float32 = 13

    float64 = 14

    complex64 = 15

    complex128 = 16

def parse_dtype(name: str) -> DType: ...

def dtype_bytes(dtype: DType) -> int: ...

def share_bfloat16(bits: object) -> Any:
    """
    The memory of a writable array of uint16 as an object of bfloat16 with the DLPack protocol.
    """

def bfloat16_bits(given: object) -> Any:
    """
    The bits of an object with the DLPack protocol as a read-only array of uint16; None if its elements are not bfloat16.
    """

class TensorKind(enum.Enum):
    Activation = 0

    GraphInput = 1

    Variable = 2

    Constant = 3

    Stream = 4

class TensorInfo:
    def __init__(self, dtype: DType, shape: Sequence[int], meta_shape: Sequence[int] | None = None) -> None: ...

    @property
    def dtype(self) -> DType: ...

    @property
    def shape(self) -> list[int]: ...

    @property
    def meta_shape(self) -> list[int]: ...

    @meta_shape.setter
    def meta_shape(self, arg: Sequence[int], /) -> None: ...

    @property
    def num_elements(self) -> int: ...

    @property
    def bytes(self) -> int: ...

    def __repr__(self) -> str: ...

class VariableSettings:
    def __init__(self, groups: Sequence[int] = [], entry_per_replica: bool = False, remote_buffer: int = 0, slot: int = 0, shard_over: int = 1) -> None: ...

    @property
    def groups(self) -> list[int]: ...

    @property
    def entry_per_replica(self) -> bool: ...

    @property
    def remote_buffer(self) -> int: ...

    @property
    def slot(self) -> int: ...

    @property
    def shard_over(self) -> int: ...

class Tensor:
    @property
    def id(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def graph(self) -> Graph: ...

    @property
    def kind(self) -> TensorKind: ...

    @property
    def dtype(self) -> DType: ...

    @property
    def shape(self) -> list[int]: ...

    @property
    def meta_shape(self) -> list[int]: ...

    @meta_shape.setter
    def meta_shape(self, arg: Sequence[int], /) -> None: ...

    @property
    def info(self) -> TensorInfo: ...

    @property
    def producer(self) -> Op: ...

    @property
    def producer_index(self) -> int: ...

    @property
    def uses(self) -> list[tuple[Op, int]]: ...

    @property
    def is_used(self) -> bool: ...

    @property
    def device(self) -> int | None:
        """That of the producer, else of the first use that has one."""

    @property
    def on_io_tiles(self) -> bool | None:
        """
        Whether the producer, else the first use, is on them; None if nothing tells.
        """

    @property
    def is_by_ref(self) -> bool: ...

    @property
    def settings(self) -> VariableSettings: ...

    @property
    def data(self, /) -> Any: ...

    def share_data(self, array: object) -> None: ...

class ExecutionContext(enum.Enum):
    Normal = 0

    WeightsFromHost = 1

    WeightsToHost = 2

class OpContext:
    def __init__(self, name: str = '', file: str = '', line: int = 0, function: str = '', device: int | None = 0, io_tiles: bool = False, execution: ExecutionContext = ExecutionContext.Normal) -> None: ...

    @property
    def name(self) -> str: ...

    @name.setter
    def name(self, arg: str, /) -> None: ...

    @property
    def file(self) -> str: ...

    @property
    def line(self) -> int: ...

    @property
    def function(self) -> str: ...

    @property
    def device(self) -> int | None: ...

    @device.setter
    def device(self, arg: int | None, /) -> None: ...

    @property
    def io_tiles(self) -> bool: ...

    @io_tiles.setter
    def io_tiles(self, arg: bool, /) -> None: ...

    @property
    def execution(self) -> ExecutionContext: ...

    @execution.setter
    def execution(self, arg: ExecutionContext, /) -> None: ...

class Op:
    @property
    def id(self) -> int: ...

    @property
    def kind(self) -> str: ...

    @property
    def graph(self) -> Graph: ...

    @property
    def inputs(self) -> list[Tensor]: ...

    @property
    def outputs(self) -> list[Tensor]: ...

    def input(self, index: int) -> Tensor:
        """None where nothing is connected."""

    def output(self, index: int) -> Tensor:
        """None where there is none."""

    def set_input(self, index: int, tensor: Tensor | None) -> None: ...

    def add_output(self, tensor_id: str, info: TensorInfo) -> Tensor: ...

    @property
    def attributes(self) -> dict: ...

    @attributes.setter
    def attributes(self, arg: dict, /) -> None: ...

    def set_attribute(self, arg0: str, arg1: object, /) -> None: ...

    @property
    def context(self) -> OpContext: ...

    @property
    def called_graphs(self) -> list[Graph]: ...

    @property
    def after(self) -> list[Op]: ...

    def run_after(self, arg: Op, /) -> None: ...

    @property
    def modified_inputs(self) -> list[int]: ...

    def describe(self) -> str: ...

    def resize_inputs(self, count: int) -> None: ...

    def set_output(self, index: int, tensor: Tensor | None) -> None: ...

    def infer_outputs(self) -> None:
        """Gives the outputs the shapes and dtypes that follow from the inputs."""

    def aliased_input(self, output: int) -> int:
        """The input whose storage the output has; -1: its own."""

    def set_after(self, arg: Sequence[Op], /) -> None: ...

class Graph:
    @property
    def id(self) -> str: ...

    @property
    def ir_id(self) -> int: ...

    @property
    def is_main(self) -> bool: ...

    @property
    def inputs(self) -> list[Tensor]: ...

    @property
    def outputs(self) -> list[Tensor]: ...

    def input_index(self, tensor: Tensor) -> int | None: ...

    def output_index(self, tensor: Tensor) -> int | None: ...

    @property
    def ops(self) -> list[Op]: ...

    @property
    def tensors(self) -> list[Tensor]: ...

    @property
    def called_graphs(self) -> list[Graph]: ...

    def can_take(self, tensors: Sequence[Tensor]) -> bool:
        """Whether all are in the graph, and in one place as far as is known."""

    def find_tensor(self, id: str) -> Tensor: ...

    def find_op(self, id: int) -> Op: ...

    def unique_tensor_id(self, scoped_name: str) -> str: ...

    def add_input(self, id: str, info: TensorInfo, by_ref: bool = False) -> Tensor: ...

    def add_variable(self, id: str, info: TensorInfo, array: object, settings: VariableSettings = ...) -> Tensor: ...

    def add_constant(self, id: str, info: TensorInfo, array: object) -> Tensor: ...

    def add_stream(self, id: str, info: TensorInfo) -> Tensor: ...

    @property
    def differentiable(self) -> bool: ...

    @differentiable.setter
    def differentiable(self, arg: bool, /) -> None: ...

    def create_op(self, kind: str, inputs: Sequence[Tensor | None], attributes: dict, context: OpContext, called_graphs: Sequence[Graph] = [], output_names: Sequence[str] = []) -> Op: ...

    def create_tensor(self, kind: str, inputs: Sequence[Tensor | None], attributes: dict, context: OpContext, name: str) -> Tensor:
        """The first output of a new op that calls no graph."""

    def add_activation(self, id: str, info: TensorInfo) -> Tensor: ...

    def set_outputs(self, outputs: Sequence[Tensor]) -> None: ...

    def set_input_order(self, inputs: Sequence[Tensor]) -> None: ...

    def remove_input(self, index: int) -> None: ...

    def remove_output(self, index: int) -> None: ...

    def erase_tensor(self, tensor: Tensor) -> None: ...

    def clone_unconnected(self, op: Op) -> Op: ...

    def reorder(self, ops: Sequence[Op]) -> None: ...

    def erase_op(self, op: Op) -> None: ...

    def replace_uses(self, old: Tensor, new: Tensor) -> None: ...

    def mark_output(self, tensor: Tensor) -> None: ...

    def set_insertion_point(self, op: Op | None) -> None: ...

    def set_by_ref(self, input: Tensor, by_ref: bool) -> None: ...

MOST_REPLICAS: int = 65536

class StreamDirection(enum.Enum):
    HostToDevice = 0

    DeviceToHost = 1

class Stream:
    @property
    def handle(self) -> Tensor: ...

    @property
    def direction(self) -> StreamDirection: ...

class RemoteBuffer:
    @property
    def id(self) -> int: ...

    @property
    def info(self) -> TensorInfo: ...

    @property
    def entries(self) -> int: ...

    def replace(self, info: TensorInfo, entries: int) -> None:
        """Gives it other slots, and as many."""

class Ir:
    def __init__(self) -> None: ...

    @property
    def id(self) -> int: ...

    @property
    def main_graph(self) -> Graph: ...

    @property
    def graphs(self) -> list[Graph]: ...

    def find_graph(self, id: str) -> Graph: ...

    def create_graph(self, base: str) -> Graph: ...

    def create_graph_with_id(self, id: str) -> Graph: ...

    def erase_graph(self, graph: Graph) -> None: ...

    def add_stream(self, handle: Tensor, direction: StreamDirection) -> Stream: ...

    def find_stream(self, handle_id: str) -> Stream: ...

    @property
    def streams(self) -> list[Stream]: ...

    def used_streams(self) -> tuple[list[str], list[str]]:
        """
        The ids of the streams that ops load, and of those that they store to, in order of first use.
        """

    @property
    def has_ops(self) -> bool: ...

    def add_remote_buffer(self, info: TensorInfo, entries: int) -> RemoteBuffer: ...

    @property
    def remote_buffers(self) -> list[RemoteBuffer]: ...

    def next_op_id(self) -> int: ...

    def next_tensor_suffix(self) -> int: ...

    def clone(self) -> Ir: ...

    def text(self, max_data_bytes: int | None) -> str:
        """The form that parse_ir reads."""

    @property
    def num_host_transfers(self) -> int: ...

    @num_host_transfers.setter
    def num_host_transfers(self, arg: int, /) -> None: ...

    @property
    def replication_factor(self) -> int: ...

    @replication_factor.setter
    def replication_factor(self, arg: int, /) -> None: ...

class AttributeType(enum.Enum):
    Flag = 0

    Integer = 1

    Number = 2

    Text = 3

    DTypeName = 4

    IntList = 5

    NumberList = 6

    TextList = 7

class OpKind:
    @property
    def name(self) -> str: ...

    @property
    def doc(self) -> str: ...

    @property
    def family(self) -> str:
        """Empty for ops of users' libraries."""

    @property
    def min_inputs(self) -> int: ...

    @property
    def max_inputs(self) -> int: ...

    @property
    def attributes(self) -> list[tuple[str, bool]]: ...

    @property
    def attribute_types(self) -> list[AttributeType]:
        """Of `attributes`, in their order."""

    @property
    def num_called_graphs(self) -> int: ...

    @property
    def differentiable_inputs(self) -> list[int]: ...

    @property
    def is_pointwise(self) -> bool: ...

    @property
    def is_view(self) -> bool: ...

    @property
    def has_gradient(self) -> bool: ...

    @property
    def has_side_effects(self) -> bool: ...

def verify(ir: Ir) -> None:
    """
    Raises popart_internal_exception naming the first broken rule of the Ir.
    """

def op_kinds() -> list[OpKind]:
    """Every registered op kind, sorted by name."""

class LibraryAttribute:
    @property
    def name(self) -> str: ...

    @property
    def type(self) -> AttributeType: ...

    @property
    def required(self) -> bool: ...

    @property
    def doc(self) -> str: ...

class LibraryOp:
    @property
    def name(self) -> str: ...

    @property
    def doc(self) -> str: ...

    @property
    def attributes(self) -> list[LibraryAttribute]: ...

    @property
    def min_inputs(self) -> int: ...

    @property
    def max_inputs(self) -> int:
        """-1: any number."""

    @property
    def max_outputs(self) -> int: ...

    @property
    def num_in_place(self) -> int: ...

    @property
    def has_gradient(self) -> bool: ...

    @property
    def defined_in(self) -> OpLibrary: ...

class OpLibrary:
    @property
    def path(self) -> str: ...

    @property
    def hash(self) -> str: ...

    @property
    def domain(self) -> str:
        """Empty: it names none."""

    @property
    def domain_version(self) -> int: ...

    @property
    def ops(self) -> list[LibraryOp]: ...

def load_library(path: str) -> OpLibrary:
    """See pando.load_library."""

def find_library_op(name: str) -> LibraryOp:
    """None if no library that is loaded has it."""

class ConnectionType(enum.Enum):
    Fwd = 0

    FwdGrad = 1

class ExpectedConnection:
    def __init__(self, forward_tensor: Tensor, type: ConnectionType) -> None: ...

    @property
    def forward_tensor(self) -> Tensor: ...

    @property
    def type(self) -> ConnectionType: ...

class GradGraphInfo:
    def __init__(self, forward_graph: Graph, gradient_graph: Graph, expected_inputs: Sequence[ExpectedConnection], expected_outputs: Sequence[ExpectedConnection]) -> None: ...

    @property
    def forward_graph(self) -> Graph: ...

    @property
    def gradient_graph(self) -> Graph: ...

    @property
    def expected_inputs(self) -> list[ExpectedConnection]: ...

    @property
    def expected_outputs(self) -> list[ExpectedConnection]: ...

def autodiff(graph: Graph, grads_provided: Sequence[Tensor] | None = None, grads_required: Sequence[Tensor] | None = None, called_graphs_info: Sequence[GradGraphInfo] = [], leaves_out_unreached: bool = False) -> list[GradGraphInfo]:
    """
    Differentiates a graph; returns one info per differentiated or supplied forward graph.
    """

def find_attention(graph: Graph) -> None:
    """Makes one op of the products and the softmax of each attention."""

def check_inplace_ambiguity(ir: Ir) -> None: ...

class Accumulation:
    @property
    def counter(self) -> Tensor: ...

    @property
    def accumulators(self) -> list[Tensor]: ...

    @property
    def info(self) -> GradGraphInfo: ...

def accumulate_gradients(info: GradGraphInfo, counter_name: str, names: Sequence[str], sums: bool, context: OpContext) -> Accumulation:
    """
    Keeps the running mean, or the sum, of the last gradients of a gradient graph in by-reference inputs.
    """

class RecomputeInputs:
    @property
    def forward(self) -> list[tuple[Tensor, Tensor]]: ...

    @property
    def gradient(self) -> list[tuple[Tensor, Tensor]]: ...

    @property
    def expected(self) -> list[ExpectedConnection]: ...

def add_recompute_inputs(target: Graph, info: GradGraphInfo) -> RecomputeInputs:
    """Adds the inputs that recomputing needs to a graph."""

class Recomputation:
    @property
    def info(self) -> GradGraphInfo: ...

    @property
    def inputs(self) -> RecomputeInputs: ...

def recompute(info: GradGraphInfo, name: str, context: OpContext) -> Recomputation:
    """A gradient graph that runs the forward graph again."""

class SerialRow(enum.Enum):
    Relative = 0

    First = 1

    Computed = 2

class SerialHandle:
    def __init__(self, stream: Stream | None = None, buffer: RemoteBuffer | None = None, row: SerialRow = SerialRow.Relative, row_offset: int = 0, row_graph: Graph | None = None, gather: Graph | None = None, shard: Graph | None = None) -> None: ...

    @property
    def buffer(self) -> RemoteBuffer: ...

    @property
    def row(self) -> SerialRow: ...

    @property
    def row_offset(self) -> int: ...

class SerialOptions:
    def __init__(self, name: str, steps: int, rows: int, loads: Sequence[tuple[Tensor, SerialHandle]], stores: Sequence[tuple[Tensor, SerialHandle]], seed: Tensor | None, io_tiles: bool, overlapped: bool, context: OpContext) -> None: ...

class BatchSerialised:
    @property
    def graph(self) -> Graph: ...

    @property
    def passed(self) -> list[tuple[Tensor, Tensor]]: ...

class BatchSerialisedPair:
    @property
    def forward(self) -> BatchSerialised: ...

    @property
    def gradient(self) -> BatchSerialised: ...

    @property
    def stored(self) -> list[tuple[Tensor, SerialHandle]]: ...

def batch_serialise(graph: Graph, options: SerialOptions) -> BatchSerialised:
    """A graph that runs a graph for several micro-batches in a row."""

def batch_serialise_pair(info: GradGraphInfo, named: Sequence[Tensor], options: SerialOptions, gradient_name: str) -> BatchSerialisedPair:
    """Serialises a forward graph and its gradient graph."""

class PipelineStage:
    @property
    def graph(self) -> str:
        """The id of the graph of its ops."""

    @property
    def devices(self) -> list[int]:
        """The virtual devices that compute them, ascending."""

class PipelineSchedule:
    """
    Which stage of a pipeline works on which micro-batch in which cycle; str() is a table of it.
    """

    @property
    def graph(self) -> str:
        """The id of the graph that runs the cycles."""

    @property
    def stages(self) -> list[PipelineStage]: ...

    @property
    def steps(self) -> int:
        """The number of micro-batches."""

    @property
    def num_cycles(self) -> int: ...

    @property
    def main_begin(self) -> int:
        """The first cycle in which all stages work."""

    @property
    def main_end(self) -> int:
        """The first cycle of the ramp down."""

    def micro_batch(self, stage: int, cycle: int) -> int | None:
        """What a stage works on in a cycle; None: nothing."""

    def shown_cycles(self, most: int) -> list[int | None]:
        """
        The columns of a picture with room for about `most` cycles; None: some are left out.
        """

    def __str__(self) -> str: ...

def pipeline(graph: Graph, ops: Sequence[tuple[Op, int]], steps: int, context: OpContext) -> PipelineSchedule:
    """Moves ops with their stages into a graph that runs them as a pipeline."""

def repeat_graph(graph: Graph, count: int, context: OpContext) -> Graph:
    """Moves all ops of a graph into a graph that a loop in their place runs."""

def route_tensor(tensor: Tensor, target: Graph, modified: bool) -> Tensor:
    """The tensor of a graph below that stands for a tensor."""

def next_callback() -> int:
    """A number for one more callback, from 1 on."""

def enter_callback_thread(number: int, name: str) -> None:
    """Says that the calling thread runs the function of this callback."""

class CallLock:
    """
    A lock for calls. What a run waits for gets RuntimeError while it lasts.
    """

    def __init__(self, lock: object) -> None: ...

    def begin_run(self, callbacks: Sequence[int]) -> None: ...

    def end_run(self) -> None: ...

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...

class PersistentTensor:
    @property
    def id(self) -> str: ...

    @property
    def dtype(self) -> DType: ...

    @property
    def shape(self) -> list[int]: ...

    @property
    def is_variable(self) -> bool: ...

class RemoteBufferDesc:
    @property
    def id(self) -> int: ...

    @property
    def dtype(self) -> DType: ...

    @property
    def shape(self) -> list[int]: ...

    @property
    def entries(self) -> int: ...

class IoReport:
    @property
    def bytes_loaded(self) -> int: ...

    @property
    def bytes_stored(self) -> int: ...

    @property
    def bytes_from_stores(self) -> int: ...

    @property
    def io_seconds(self) -> float: ...

    @property
    def busy_seconds(self) -> float: ...

    @property
    def waiting_seconds(self) -> float: ...

class StreamDesc:
    @property
    def id(self) -> str: ...

    @property
    def dtype(self) -> DType: ...

    @property
    def shape(self) -> list[int]: ...

    @property
    def host_to_device(self) -> bool: ...

class RepeatedStream:
    @property
    def stream(self) -> str: ...

    @property
    def host_to_device(self) -> bool: ...

    @property
    def transfers(self) -> int: ...

    @property
    def count(self) -> int: ...

class LiveTensor:
    @property
    def name(self) -> str: ...

    @property
    def bytes(self) -> int: ...

    @property
    def location(self) -> str: ...

    @property
    def depth(self) -> int: ...

class DeviceMemoryUse:
    @property
    def device(self) -> int: ...

    @property
    def persistent_bytes(self) -> int: ...

    @property
    def peak_frame_bytes(self) -> int: ...

    @property
    def alive_at_peak(self) -> list[LiveTensor]: ...

class MemoryReport:
    @property
    def devices(self) -> list[DeviceMemoryUse]: ...

    @property
    def persistent_bytes(self) -> int: ...

    @property
    def peak_frame_bytes(self) -> int: ...

    @property
    def frame_lower_bound_bytes(self) -> int: ...

    @property
    def alive_at_peak(self) -> list[LiveTensor]: ...

    @property
    def timeline(self) -> list[int]: ...

class InstructionTime:
    @property
    def function(self) -> str: ...

    @property
    def op(self) -> str: ...

    @property
    def location(self) -> str: ...

    @property
    def kernel(self) -> str: ...

    @property
    def calls(self) -> int: ...

    @property
    def seconds(self) -> float: ...

class CompileReport:
    @property
    def seconds(self) -> float: ...

    @property
    def stages(self) -> list[tuple[str, float]]: ...

    @property
    def cache_file(self) -> str: ...

class BufferTraffic:
    @property
    def bytes_loaded(self) -> int: ...

    @property
    def bytes_stored(self) -> int: ...

class PhaseProfile:
    @property
    def name(self) -> str: ...

    @property
    def device(self) -> int: ...

    @property
    def seconds(self) -> float: ...

    @property
    def waiting_seconds(self) -> float: ...

    @property
    def exchange_seconds(self) -> float: ...

    @property
    def io_seconds(self) -> float: ...

    @property
    def compute_seconds(self) -> float: ...

    @property
    def host_bytes_loaded(self) -> int: ...

    @property
    def host_bytes_stored(self) -> int: ...

    @property
    def buffers(self) -> dict[int, BufferTraffic]: ...

class TimelineEvent:
    @property
    def start(self) -> float: ...

    @property
    def end(self) -> float: ...

    @property
    def depth(self) -> int: ...

    @property
    def name(self) -> str: ...

    @property
    def phase(self) -> str: ...

class TimelineLane:
    @property
    def name(self) -> str: ...

    @property
    def events(self) -> list[TimelineEvent]: ...

class Checksum:
    """XXH3 with 64 bits over data that comes in pieces."""

    def __init__(self) -> None: ...

    def update(self, data: object) -> None: ...

    @property
    def value(self) -> int: ...

class SnapshotRow:
    @property
    def replica(self) -> int: ...

    @property
    def buffer(self) -> int: ...

    @property
    def slot(self) -> int: ...

class StateSnapshot:
    """What a session held at one moment; may be read while it runs."""

    def read_persistent(self, replica: int, index: int, to: object) -> None:
        """Fills an array with the value of a state tensor of one replica."""

    def next_row(self, to: object) -> SnapshotRow | None:
        """
        Fills the beginning of an array, in which the largest row must fit, with one more row of a remote buffer, in any order; None when none is left.
        """

    def cancel(self) -> None: ...

class TransferQueue:
    """
    Transfers of a stream between a program that runs and a thread of the host.
    """

    def __init__(self, name: str, host_to_device: bool, part_bytes: int, parts: int, room: int) -> None: ...

    def put(self, transfer: object) -> bool:
        """Gives one transfer; False: the queue is closed or has failed."""

    def take(self, transfer: object) -> bool:
        """
        Fills an array with the oldest transfer; False: it is closed or has failed, and none is left.
        """

    def close(self) -> None: ...

    def fail(self, message: str) -> None: ...

    @property
    def transfers(self) -> int:
        """Those that all replicas have loaded, or stored, in all runs so far."""

class HostCall:
    """A call of a function of the host, by a program that waits."""

    @property
    def inputs(self) -> list[tuple[DType, list[int]]]: ...

    @property
    def outputs(self) -> list[tuple[DType, list[int]]]: ...

    def read_input(self, index: int, to: object) -> None:
        """Fills an array with an input."""

    def write_output(self, index: int, value: object) -> None: ...

class HostFunctionQueue:
    """The calls of one function of the host, which a thread takes."""

    def __init__(self, name: str) -> None: ...

    @property
    def name(self) -> str: ...

    def take(self) -> HostCall:
        """The oldest call; None: the queue is closed."""

    def finish(self, call: HostCall, error: str | None = None) -> None:
        """Ends a call: its outputs are written, or the error says why not."""

    def close(self) -> None: ...

class Session:
    def __init__(self, ir: Ir, memory_limit_bytes: int = 0, device_memory_limit_bytes: int = 0, num_threads: int = 0, check_inplace_ambiguity: bool = True, profile: bool = False, check_log2_scales: bool = True, stable_softmax: bool = True, collective_timeout_seconds: float = 600.0, cache_folder: str = '', cache_suffix: str = '', cache_limit_bytes: int = 1073741824, log: Callable[[bool, str], None] | None = None, remote: dict = {}, machine_code: str = 'auto', flush_denormals: bool = True, check_finite: bool = False) -> None: ...

    @property
    def variable_ids(self) -> list[str]:
        """The variables that the program uses."""

    @property
    def host_functions(self) -> list[str]:
        """The names of those it calls."""

    def set_host_function(self, queue: HostFunctionQueue) -> None: ...

    def snapshot(self, room_bytes: int, rows_only: bool = False) -> StateSnapshot:
        """
        The state as it is now, between runs, or rows of remote buffers only; a snapshot before it is cancelled.
        """

    def read_persistent(self, replica: int, index: int, to: object) -> None: ...

    def write_persistent(self, replica: int, index: int, value: object) -> None: ...

    def write_remote(self, replica: int, buffer: int, slot: int, value: object) -> None: ...

    def read_remote(self, replica: int, buffer: int, slot: int, to: object) -> None: ...

    @property
    def persistent(self) -> list[PersistentTensor]: ...

    @property
    def state_tensors(self) -> list[int]:
        """
        Indices of the persistent tensors that are no constants, nor made of others.
        """

    @property
    def remote_buffers(self) -> list[RemoteBufferDesc]: ...

    @property
    def fingerprint(self) -> int:
        """Checksum of the compiled program, without where its ops were made."""

    @property
    def input_streams(self) -> list[StreamDesc]: ...

    @property
    def output_streams(self) -> list[StreamDesc]: ...

    @property
    def num_replicas(self) -> int: ...

    def attach(self) -> None: ...

    def detach(self) -> None: ...

    @property
    def is_attached(self) -> bool: ...

    def run(self, inputs: list, outputs: list) -> list[RepeatedStream]:
        """
        Runs the program once. One C-ordered NumPy array per stream, in the order of input_streams and output_streams. Returns the streams whose array it began again.
        """

    def weights_from_host(self, ids: Sequence[str] | None = None) -> None:
        """Of the variables with these ids; None: of all."""

    def weights_to_host(self, ids: Sequence[str] | None = None) -> None:
        """Of the variables with these ids; None: of all."""

    def weights_to_host_and_detach(self) -> None: ...

    @property
    def memory(self) -> MemoryReport: ...

    @property
    def compile_report(self) -> CompileReport: ...

    @property
    def actual_peak_bytes(self) -> int: ...

    @property
    def io_report(self) -> IoReport: ...

    @property
    def io_method(self) -> str: ...

    def trace(self) -> list[InstructionTime]: ...

    def phases(self) -> list[PhaseProfile]: ...

    def timeline(self) -> list[TimelineLane]: ...

    def disassembly(self) -> str: ...

    def explain(self) -> str: ...

def run_command_line(arguments: Sequence[str]) -> int:
    """Runs one command of the `pando` command line; returns its exit status."""
