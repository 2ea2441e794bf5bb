"""Graphs: functions of tensors."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, MutableSet
from typing import TYPE_CHECKING, Any

from pando import _core
from popart._internal import ir as internal
from popart._internal.owners import owner_of
from popxl.context import _context
from popxl.tensor_base import Constant, Tensor, Variable

if TYPE_CHECKING:
    from popxl.ir import Ir

_hook_handles = itertools.count()


class _ByRefInputs(MutableSet[Tensor]):
    """The by-reference inputs of a graph; changes go straight to the graph.

    Args:
        graph: The graph.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    @classmethod
    def _from_iterable(cls, it: Iterable[Any]) -> Any:
        # The results of `&`, `|` and `-` are sets of their own.
        return set(it)

    def __contains__(self, tensor: object) -> bool:
        return any(tensor is other for other in self)

    def __iter__(self) -> Iterator[Tensor]:
        return (t for t in self._graph.inputs if t._pb.is_by_ref)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def add(self, value: Tensor) -> None:
        self._graph._pb.set_by_ref(value._pb, True)

    def discard(self, value: Tensor) -> None:
        self._graph._pb.set_by_ref(value._pb, False)

    def update(self, values: Iterable[Tensor]) -> None:
        for value in values:
            self.add(value)

    def __repr__(self) -> str:
        return repr(set(self))


class Graph:
    """A graph of an Ir: inputs, outputs and ops. Use it as a context to create ops in it.

    `Ir.main_graph`, `Ir.create_graph` and `Ir.create_empty_graph` give graphs.
    """

    _ir: Ir
    _pb: _core.Graph
    _id: str

    def __init__(self) -> None:
        raise TypeError("graphs come from an Ir: use `ir.main_graph` or `ir.create_graph`")

    @classmethod
    def _from_pb(cls, graph: Any) -> Graph:
        """The one Graph of a core graph (or of a view of it)."""
        core_graph = graph._pb if isinstance(graph, internal.Graph) else graph
        ir: Ir = owner_of(core_graph.ir_id)
        return ir._graph(core_graph)

    @classmethod
    def _make(cls, ir: Ir, core_graph: _core.Graph) -> Graph:
        self = cls.__new__(cls)
        self._ir = ir
        self._pb = core_graph
        self._id = core_graph.id
        return self

    @property
    def _pb_graph(self) -> internal.Graph:
        return internal.Graph(self._pb)

    @property
    def _by_ref_inputs(self) -> MutableSet[Tensor]:
        return _ByRefInputs(self)

    @property
    def ir(self) -> Ir:
        """The Ir that the graph belongs to."""
        return self._ir

    @property
    def main_graph(self) -> Graph:
        """The main graph of the Ir."""
        return self._ir.main_graph

    @property
    def id(self) -> str:
        """The id, empty for the main graph."""
        return self._id

    @property
    def name(self) -> str:
        """The same as the id."""
        return self._id

    def _wrap(self, tensors: Iterable[_core.Tensor]) -> tuple[Tensor, ...]:
        return tuple(self._ir._tensor(tensor) for tensor in tensors)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The inputs, in order."""
        return self._wrap(self._pb.inputs)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """The outputs, in order. `autodiff` may append to them."""
        return self._wrap(self._pb.outputs)

    @property
    def inputs_by_name(self) -> dict[str, Tensor]:
        """The inputs by their names."""
        return {tensor.name: tensor for tensor in self.inputs}

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Every tensor, sorted by id."""
        return self._wrap(self._pb.tensors)

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The variables, sorted by id; only the main graph has some."""
        return tuple(t for t in self.tensors if isinstance(t, Variable))

    @property
    def constants(self) -> tuple[Constant, ...]:
        """The constants, sorted by id."""
        return tuple(t for t in self.tensors if isinstance(t, Constant))

    @property
    def called_graphs(self) -> tuple[Graph, ...]:
        """The distinct graphs that ops of this graph call."""
        return tuple(self._ir._graph(graph) for graph in self._pb.called_graphs)

    def get_tensor(self, tensor_id: str) -> Tensor:
        """Find a tensor by its id.

        Args:
            tensor_id: The id, with the id of the graph before the name.

        Returns:
            The tensor.

        Raises:
            popart_exception: The graph has no such tensor.
        """
        tensor = self._pb.find_tensor(tensor_id)
        if tensor is None:
            raise _core.popart_exception(f"{self!r} has no tensor with id '{tensor_id}'")
        return self._ir._tensor(tensor)

    def _create_tensor_id(self, name: str | None = None) -> str:
        """A new id: name scopes and `name` (default `t`), made unique in the graph."""
        return str(self._pb.unique_tensor_id(_context.scoped(name or "t")))

    def register_op_created_hook(self, fn: Callable[[internal.Op], Any]) -> int:
        """Call a function with every op created in this graph from now on.

        Args:
            fn: The function, which gets an internal view of the op.

        Returns:
            A handle for `remove_op_created_hook`.
        """
        handle = next(_hook_handles)
        self._ir._op_created_hooks.setdefault(self._id, {})[handle] = fn
        return handle

    def remove_op_created_hook(self, handle: int) -> None:
        """Stop the calls of a hook.

        Args:
            handle: What `register_op_created_hook` returned.

        Raises:
            ValueError: The graph has no hook with the handle.
        """
        hooks = self._ir._op_created_hooks.get(self._id, {})
        if handle not in hooks:
            raise ValueError(f"{self!r} has no op-created hook with handle {handle}")
        del hooks[handle]

    def __contains__(self, value: object) -> bool:
        if not isinstance(value, Tensor):
            raise TypeError(f"only tensors can be looked for in a graph; given {type(value)}")
        return value._pb.graph is self._pb

    def __enter__(self) -> Graph:
        _context.push_graph(self)
        return self

    def __exit__(self, *_: object) -> None:
        _context.pop_graph()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Graph):
            raise TypeError(f"a graph can only be compared with a graph; given {type(other)}")
        return self is other or (self._id == other._id and self._ir == other._ir)

    def __hash__(self) -> int:
        return hash((self._id, self._ir._pb.id))

    def __repr__(self) -> str:
        return f"Graph[id={self._id} name={self.name}]"

    def _repr_html_(self) -> str:
        """A notebook's table of the first 100 ops: kind, inputs, outputs and the user's line."""
        from popxl.notebook import graph_html

        return graph_html(self)
