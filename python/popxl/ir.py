"""The Ir: a whole program."""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args, get_origin
from weakref import ReferenceType, WeakValueDictionary

import numpy as np

from pando import _core
from popart._internal import ir as _ir
from popart._internal.options import SessionOptions
from popart._internal.owners import owner_of, register_owner
from popxl import dot
from popxl.graph import Graph
from popxl.module import Module
from popxl.replica_grouping import ReplicaGrouping
from popxl.streams import DeviceToHostStream, HostToDeviceStream
from popxl.tensor_base import Tensor, TensorByRef, tensor_class
from popxl.tensor_spec import TensorSpec
from popxl.variable_record import VariableRecord
from popxl.variables import graph_input, graph_output

if TYPE_CHECKING:
    from popxl.session import Session


class Ir:
    """A program: graphs, variables, streams and remote buffers.

    Args:
        replication: The number of replicas; `popdist` takes that of the launcher.

    Raises:
        ValueError: It is another word or less than 1.
    """

    def __init__(self, replication: int | str = 1) -> None:
        self._pb = _core.Ir()
        self._options = SessionOptions()
        self._graphs: WeakValueDictionary[str, Graph] = WeakValueDictionary()
        # By id. Those that are gone stay as small as a reference; the core keeps them anyway.
        self._tensors: dict[str, ReferenceType[Tensor]] = {}
        self._variables: dict[str, VariableRecord] = {}
        self._op_created_hooks: dict[str, dict[int, Callable[[Any], Any]]] = {}
        self._has_read_only_memmap = False
        self._has_session = False
        self._session_reference: Callable[[], Session | None] = lambda: None
        self._patterns = _ir.patterns.Patterns()
        # Those of recent ops, by what they tell: see Context.op_context.
        self._op_contexts: dict[tuple[Any, ...], _core.OpContext] = {}
        # Graphs whose ops were connected by hand; what programs attached to ops, by op id.
        self._rewired: set[str] = set()
        self._op_notes: dict[int, dict[str, Any]] = {}
        # By the names that calls in the program have for them.
        self._host_functions: dict[str, Callable[..., Any]] = {}
        # In the order in which they were made.
        self._pipelines: list[_core.PipelineSchedule] = []
        register_owner(self)
        if replication == "popdist":
            import popdist.popart

            popdist.popart.configureSessionOptions(self._options)
            self._pb.replication_factor = self.replication_factor
        elif isinstance(replication, str):
            raise ValueError(f"Ir: wanted a number of replicas or 'popdist'; given {replication!r}")
        else:
            self.replication_factor = replication

    def _session(self) -> Session | None:
        """The session of the Ir while it exists."""
        return self._session_reference()

    @classmethod
    def _from_core_id(cls, ir_id: int) -> Ir:
        ir: Ir = owner_of(ir_id)
        return ir

    @classmethod
    def _from_pb(cls, pb_ir: Any) -> Ir:
        """The popxl Ir of an internal (or core) one."""
        core_ir = pb_ir._pb if isinstance(pb_ir, _ir.Ir) else pb_ir
        return cls._from_core_id(core_ir.id)

    @property
    def _pb_ir(self) -> _ir.Ir:
        return _ir.Ir(self)

    def _graph(self, core_graph: _core.Graph) -> Graph:
        """The one Graph of a core graph."""
        graph = self._graphs.get(core_graph.id)
        if graph is None or graph._pb is not core_graph:
            graph = Graph._make(self, core_graph)
            self._graphs[core_graph.id] = graph
        return graph

    def _tensor(self, core_tensor: _core.Tensor) -> Tensor:
        """The one Tensor of a core tensor."""
        reference = self._tensors.get(core_tensor.id)
        tensor = None if reference is None else reference()
        if tensor is None or tensor._pb is not core_tensor:
            tensor = self._new_tensor(core_tensor, tensor_class(core_tensor))
        return tensor

    def _new_tensor(self, core_tensor: _core.Tensor, kind: type[Tensor] = Tensor) -> Tensor:
        """The first Tensor of a core tensor."""
        tensor = kind._make(self, core_tensor)
        self._tensors[tensor._id] = ReferenceType(tensor)
        return tensor

    def _settle(self) -> None:
        """Orders the graphs that were rewired; popart_exception if one was left incomplete."""
        if not self._rewired:
            return
        for graph in self._pb.graphs:
            if graph.id not in self._rewired:
                continue
            for tensor in graph.tensors:
                is_made = tensor.producer is not None or tensor in graph.outputs or tensor.is_used
                if tensor.kind == _core.TensorKind.Activation and not is_made:
                    graph.erase_tensor(tensor)
            graph.reorder(_ir.schedule(list(graph.ops)))
        _core.verify(self._pb)
        self._rewired.clear()

    @property
    def id(self) -> int:
        """The number of the Ir in the process."""
        return int(self._pb.id)

    @property
    def main_graph(self) -> Graph:
        """The graph that a session runs."""
        return self._graph(self._pb.main_graph)

    def create_empty_graph(self, name: str | None = None) -> Graph:
        """Make a graph without inputs, outputs and ops.

        Args:
            name: What its id begins with; None: `graph`.

        Returns:
            The graph.
        """
        return self._graph(self._pb.create_graph(name or "graph"))

    def create_graph(self, fn: Callable[..., Any] | Module, *args: Any, **kwargs: Any) -> Graph:
        """Make a graph with the ops that a function creates.

        Arguments that are tensors or tensor specifications, also in lists, become inputs of the
        graph, named after the parameters; parameters annotated `TensorByRef` are by reference. The
        function gets the inputs in their place, and other arguments as they are. What it returns
        becomes the outputs.

        Args:
            fn: The function, or a module, whose `build` is taken.
            *args: The arguments of the function.
            **kwargs: The arguments of the function by name.

        Returns:
            The graph.

        Raises:
            TypeError: `fn` is neither, an argument mixes tensors with other values, or an
                annotation that says `TensorByRef` cannot be evaluated.
            ValueError: The arguments do not fit `fn`, or it returns something else than tensors of
                the graph.
        """
        if isinstance(fn, Module):
            build: Callable[..., Any] = fn.build
            name = type(fn).__qualname__
        elif callable(fn) and hasattr(fn, "__qualname__"):
            build = fn
            name = fn.__qualname__
        else:
            raise TypeError(
                "create_graph: wanted a popxl.Module or a function with a __qualname__; given "
                f"{type(fn)}"
            )
        signature = _signature(build)
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ValueError(f"create_graph: the arguments do not fit {name}: {error}") from error
        bound.apply_defaults()
        graph = self._graph(self._pb.create_graph(name))
        with graph:
            for key, value in bound.arguments.items():
                bound.arguments[key] = _graph_argument(signature.parameters[key], value)
            outputs = fn(*bound.args, **bound.kwargs)
            _mark_outputs(name, outputs)
        return graph

    @property
    def num_host_transfers(self) -> int:
        """The elements of a stream for each run, 1 or more: the first axis of its arrays."""
        return int(self._pb.num_host_transfers)

    @num_host_transfers.setter
    def num_host_transfers(self, value: int) -> None:
        if value < 1:
            raise ValueError(f"num_host_transfers must be at least 1; given {value}")
        self._pb.num_host_transfers = value

    @property
    def replication_factor(self) -> int:
        """The number of replicas in all instances. It cannot be set once a session exists."""
        options = self._options
        if options.enableDistributedReplicatedGraphs:
            return int(options.globalReplicationFactor)
        return int(options.replicatedGraphCount) if options.enableReplicatedGraphs else 1

    @replication_factor.setter
    def replication_factor(self, value: int) -> None:
        if self._has_session:
            raise RuntimeError(
                f"{self!r}: the replication factor cannot be changed once a session exists"
            )
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            raise TypeError(f"replication_factor: wanted a whole number; given {value!r}")
        value = int(value)
        if not 1 <= value <= _core.MOST_REPLICAS:
            raise ValueError(
                f"replication_factor must be from 1 to {_core.MOST_REPLICAS}, as each replica has "
                f"a thread of its own; given {value}"
            )
        self._options.replicatedGraphCount = value
        self._options.enableReplicatedGraphs = value > 1
        self._pb.replication_factor = value

    @property
    def instance_replication_factor(self) -> int:
        """The number of replicas of this process."""
        return int(self._options.replicatedGraphCount)

    def replica_grouping(self, stride: int = 1, group_size: int | None = None) -> ReplicaGrouping:
        """Make groups of replicas that lie a constant stride apart.

        Replica r is in group r % stride + stride * (r // (stride * group_size)).

        Args:
            stride: The distance between the members of a group, which divides the number of
                replicas.
            group_size: The number of members; None: as many as there are.

        Returns:
            The grouping.

        Raises:
            ValueError: The stride or the size does not suit the number of replicas.
        """
        return ReplicaGrouping._from_stride(self, stride, group_size)

    def replica_grouping_from_assignments(self, assignment: Sequence[int]) -> ReplicaGrouping:
        """Make groups of replicas from the group of each one.

        Args:
            assignment: The group of each replica. Groups have equal sizes and are numbered from 0
                on in the order in which they first appear.

        Returns:
            The grouping.

        Raises:
            ValueError: There is not one group for each replica, or sizes or numbers are wrong.
        """
        return ReplicaGrouping._from_assignment(self, assignment)

    def _used_streams(self) -> tuple[list[HostToDeviceStream], list[DeviceToHostStream]]:
        """Those that ops load, and those that they store to, in order of first use."""
        loaded, stored = self._pb.used_streams()
        tensor = self.main_graph.get_tensor
        return (
            [HostToDeviceStream._from_tensor(tensor(handle)) for handle in loaded],
            [DeviceToHostStream._from_tensor(tensor(handle)) for handle in stored],
        )

    def get_all_h2d_streams(self) -> set[HostToDeviceStream]:
        """Find the streams that at least one op loads.

        Returns:
            A new set.
        """
        return set(self._used_streams()[0])

    def get_all_d2h_streams(self) -> set[DeviceToHostStream]:
        """Find the streams that at least one op stores to.

        Returns:
            A new set.
        """
        return set(self._used_streams()[1])

    def dot_checkpoint(self, check: str, save_dir: Any = None) -> None:
        """Write the graphs as Graphviz files if a checkpoint is active.

        Active are those in the session option `dotChecks` and in the environment variable
        `POPART_DOT_CHECKS`; `ALL` stands for all.

        Args:
            check: The name of the checkpoint.
            save_dir: The folder, also for later checkpoints; if nothing names checkpoints, all
                become active. None: the session option `logDir`.
        """
        dot.checkpoint(self, check, save_dir)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ir):
            raise TypeError(f"an Ir can only be compared with an Ir; given {type(other)}")
        return self._pb.id == other._pb.id

    def __hash__(self) -> int:
        return hash(self._pb.id)

    def __repr__(self) -> str:
        return f"Ir[id={self.id}]"

    def _repr_html_(self) -> str:
        """A notebook's table of the first 100 graphs, below replicas, variables and bytes."""
        from popxl.notebook import ir_html

        return ir_html(self)


def _signature(fn: Callable[..., Any]) -> inspect.Signature:
    """With annotations that say `TensorByRef` evaluated, where they are text.

    All are in a module with `from __future__ import annotations`; others do not matter here and
    may name what exists for type checkers alone.
    """
    signature = inspect.signature(fn, follow_wrapped=True)
    names = getattr(inspect.unwrap(fn), "__globals__", {})
    parameters = []
    for parameter in signature.parameters.values():
        text = parameter.annotation
        if isinstance(text, str) and "TensorByRef" in text:
            try:
                parameter = parameter.replace(annotation=eval(text, names))
            except Exception as error:
                raise TypeError(
                    f"create_graph: the annotation '{text}' of '{parameter.name}' is text "
                    f"(`from __future__ import annotations`) and cannot be evaluated: {error}; "
                    "import its names at the top of the module"
                ) from error
        parameters.append(parameter)
    return signature.replace(parameters=parameters)


def _is_tensor_like(value: object) -> bool:
    return isinstance(value, (Tensor, TensorSpec))


def _check_no_mixture(name: str, values: Iterable[Any]) -> bool:
    """Whether the values are tensors; TypeError when only some are."""
    kinds = {_is_tensor_like(value) for value in values}
    if len(kinds) == 2:
        raise TypeError(
            f"create_graph: argument '{name}' mixes tensors with other values; give tensors only "
            "or none"
        )
    return kinds == {True}


def _graph_argument(parameter: inspect.Parameter, value: Any) -> Any:
    """The value for `fn`: graph inputs in place of tensors."""
    name = parameter.name
    annotation = parameter.annotation

    def make_input(spec: Any, input_name: str, by_ref: bool) -> Tensor:
        return graph_input(spec.shape, spec.dtype, input_name, by_ref, spec.meta_shape)

    if parameter.kind is inspect.Parameter.VAR_KEYWORD and isinstance(value, Mapping):
        if not _check_no_mixture(name, value.values()):
            return value
        by_ref = annotation is TensorByRef
        return OrderedDict((key, make_input(v, key, by_ref)) for key, v in value.items())
    if _is_tensor_like(value):
        return make_input(value, name, annotation is TensorByRef)
    if isinstance(value, (list, tuple)) and _check_no_mixture(name, value):
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            by_ref = annotation is TensorByRef
        else:
            by_ref = get_origin(annotation) in (list, tuple) and any(
                argument is TensorByRef for argument in get_args(annotation)
            )
        return [make_input(v, f"{name}_{i}", by_ref) for i, v in enumerate(value)]
    return value


def _mark_outputs(name: str, outputs: Any) -> None:
    if outputs is None:
        return
    if isinstance(outputs, Tensor):
        outputs = [outputs]
    if not isinstance(outputs, Iterable):
        raise ValueError(
            f"create_graph: {name} must return None, a tensor or several tensors; it returned "
            f"{type(outputs)}"
        )
    outputs = list(outputs)
    wrong = [value for value in outputs if not isinstance(value, Tensor)]
    if wrong:
        raise ValueError(
            f"create_graph: {name} must return tensors only; it returned {type(wrong[0])}"
        )
    for output in outputs:
        graph_output(output)
