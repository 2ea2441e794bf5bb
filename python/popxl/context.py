"""The graph, device and naming context in which ops are created."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pando import _core
from pando.user_location import user_location
from popart._internal import ir as _ir
from popart._internal.owners import owner_of

if TYPE_CHECKING:
    from popxl.graph import Graph
    from popxl.ir import Ir
    from popxl.tensor_base import Tensor

_F = TypeVar("_F", bound=Callable[..., Any])

_EXECUTION = {
    _ir.ExecutionContext.Normal: _core.ExecutionContext.Normal,
    _ir.ExecutionContext.WeightsFromHostFragment: _core.ExecutionContext.WeightsFromHost,
    _ir.ExecutionContext.WeightsToHostFragment: _core.ExecutionContext.WeightsToHost,
}


# Op contexts that are kept for the next op of the same line.
_MOST_CONTEXTS_KEPT = 4096


class Context:
    """The one process-wide context: what `with graph`, `ipu`, `name_scope` ... change."""

    def __init__(self) -> None:
        self._graphs: list[Graph] = []
        self._name_scopes: list[str] = []
        self._ipu_id: int | None = 0
        self._io_tile_set = False
        self._in_sequence: bool | None = None
        self._execution_context = _ir.ExecutionContext.Normal
        # Ops that the next ordered op of a (graph, execution context) follows; None: a place
        # holder that keeps unordered ops unordered.
        self._previous_ops: dict[tuple[int, str, Any], list[_core.Op | None]] = {}
        # Called with every op created in any graph, as an internal op.
        self._created_listeners: list[Callable[[_core.Op], None]] = []

    @property
    def graph(self) -> Graph:
        """The graph that was entered last; RuntimeError when there is none."""
        if not self._graphs:
            raise RuntimeError(
                "no graph has been selected: create ops and tensors inside `with graph:`"
            )
        return self._graphs[-1]

    @property
    def bottom_graph(self) -> Graph:
        """The graph that was entered first; RuntimeError when there is none."""
        if not self._graphs:
            raise RuntimeError("no graph has been selected: use this inside `with graph:` of an Ir")
        return self._graphs[0]

    def push_graph(self, graph: Graph) -> None:
        """Enter a graph.

        Args:
            graph: The graph, of the Ir of those entered before.

        Raises:
            RuntimeError: It is of another Ir.
        """
        if self._graphs and self._graphs[0].ir != graph.ir:
            raise RuntimeError(
                f"{graph!r} belongs to {graph.ir!r}, but the current graph "
                f"{self._graphs[-1]!r} belongs to {self._graphs[0].ir!r}: leave it first"
            )
        self._graphs.append(graph)

    def pop_graph(self) -> None:
        """Leave the graph that was entered last."""
        self._graphs.pop()

    @property
    def ipu_id(self) -> int | None:
        """The virtual device of new ops; None: they get none."""
        return self._ipu_id

    def scoped(self, name: str) -> str:
        """Put the name scopes before a name.

        Args:
            name: The name.

        Returns:
            `a/b/name` inside the name scopes a and b.
        """
        return "/".join([*self._name_scopes, name]) if self._name_scopes else name

    def op_context(self, name: str, skip: int = 0) -> _core.OpContext:
        """Describe where a new op is made.

        Args:
            name: The name of the op, without scopes.
            skip: How many callers are known not to be the user's program.

        Returns:
            What is recorded with the op: name, line of the program, device, tile set and execution.
        """
        scoped, execution = self.scoped(name), self._execution_context
        file, line, function = user_location(skip + 1)
        # Python computes the hashes of enumerations slowly.
        key = (scoped, file, line, function, self._ipu_id, self._io_tile_set, id(execution))
        # The core copies it into the op, and ops of one line have equal ones.
        known = self._graphs[-1]._ir._op_contexts if self._graphs else {}
        context = known.get(key)
        if context is None:
            context = _core.OpContext(
                name=scoped,
                file=file,
                line=line,
                function=function,
                device=self._ipu_id,
                io_tiles=self._io_tile_set,
                execution=_EXECUTION.get(execution, _core.ExecutionContext.Normal),
            )
            if len(known) >= _MOST_CONTEXTS_KEPT:
                known.clear()
            known[key] = context
        return context

    def _get_op_settings(self, name: str) -> _ir.Settings:
        """Settings for a new op of the current graph, as custom-op code expects them."""
        return _ir.Settings(
            graph=self.graph._pb_graph,
            name=self.scoped(name),
            virtual_graph_id=self._ipu_id,
            tile_set=_ir.TileSet.IO if self._io_tile_set else _ir.TileSet.Compute,
            execution_context=self._execution_context,
        )

    def _op_created(self, op: Any) -> Any:
        """Applies `in_sequence` and runs the hooks of the op's graph."""
        core_op = op._pb if isinstance(op, _ir.Op) else op
        self._order(core_op)
        self._run_hooks(core_op)
        return op

    def _add_in_sequence_topocons(self, op: Any) -> None:
        self._order(op._pb if isinstance(op, _ir.Op) else op)

    def _order(self, op: _core.Op) -> None:
        mode = self._in_sequence
        if mode is None:
            return
        key = (op.graph.ir_id, op.graph.id, op.context.execution)
        previous = self._previous_ops.get(key, [])
        earlier = previous if mode else previous[:1]
        for other in earlier:
            if other is not None:
                op.run_after(other)
        if mode:
            self._previous_ops[key] = [op]
        else:
            (previous or self._previous_ops.setdefault(key, [None])).append(op)

    def _ops_moved(self, graph: _core.Graph, successor: _core.Op) -> None:
        """What would follow ops that are no longer in `graph` follows `successor` instead."""
        for (ir_id, graph_id, _), previous in self._previous_ops.items():
            if (ir_id, graph_id) == (graph.ir_id, graph.id):
                current = (op if op is None or op.graph is graph else successor for op in previous)
                previous[:] = dict.fromkeys(current)

    def _run_hooks(self, op: _core.Op) -> None:
        for listener in self._created_listeners:
            listener(op)
        ir: Ir = owner_of(op.graph.ir_id)
        hooks = ir._op_created_hooks.get(op.graph.id)
        if hooks:
            view = _ir.op_view(op)
            for hook in list(hooks.values()):
                hook(view)


_context = Context()


def get_current_context() -> Context:
    """Give the process-wide context.

    Returns:
        The context itself.
    """
    return _context


def get_current_graph() -> Graph:
    """Give the graph of the innermost `with graph:`. `gcg` is the same function.

    Returns:
        The graph.

    Raises:
        RuntimeError: There is none.
    """
    return _context.graph


def get_main_graph() -> Graph:
    """Give the main graph of the Ir of the current graph. `gmg` is the same function.

    Returns:
        The graph.

    Raises:
        RuntimeError: There is no current graph.
    """
    return _context.bottom_graph.ir.main_graph


def get_ir() -> Ir:
    """Give the Ir of the current graph. `gir` is the same function.

    Returns:
        The Ir.

    Raises:
        RuntimeError: There is no current graph.
    """
    return _context.bottom_graph.ir


gcg = get_current_graph
gmg = get_main_graph
gir = get_ir


def get_source_location(offset: int) -> tuple[str, int, str]:
    """Find a frame above the caller.

    Args:
        offset: How many levels above.

    Returns:
        Its file, line and function.

    Raises:
        IndexError: There are fewer levels.
    """
    try:
        frame = sys._getframe(offset + 1)
    except ValueError as error:
        raise IndexError(f"there is no frame {offset} levels up") from error
    return frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name


def _snake_case(kind: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", kind).lower()


def create_op(
    kind: str,
    inputs: Sequence[Tensor | None],
    attributes: dict[str, object],
    *,
    names: Sequence[str] = (),
    settings_name: str | None = None,
    called_graphs: Sequence[Graph] = (),
) -> _core.Op:
    """Create an op in the current graph under the current context.

    Args:
        kind: The kind of the op.
        inputs: The inputs; None where nothing is connected.
        attributes: The attributes of the kind.
        names: The names of the outputs, without scopes; empty: names made of the kind.
        settings_name: The name of the op, without scopes; None: one made of the kind.
        called_graphs: The graphs that the op calls.

    Returns:
        The op of the core.

    Raises:
        RuntimeError: There is no current graph.
        popart_exception: The inputs or attributes do not suit the kind.
    """
    context = _context
    graph = context.graph
    op_name = settings_name if settings_name is not None else _snake_case(kind)
    op = graph._pb.create_op(
        kind,
        [None if tensor is None else tensor._pb for tensor in inputs],
        attributes,
        context.op_context(op_name, skip=1),
        [callee._pb for callee in called_graphs],
        [context.scoped(name) for name in names],
    )
    context._order(op)
    if context._created_listeners or graph._ir._op_created_hooks:
        context._run_hooks(op)
    return op


@contextmanager
def in_sequence(mode: bool | str = True) -> Iterator[bool | None]:
    """Order the ops created in the body.

    Args:
        mode: True: each op after the one before. False: unordered among themselves, but after the
            op before the block. `pass`: as if there were no `in_sequence` around.

    Yields:
        The mode; None for `pass`.

    Raises:
        TypeError: The mode is None.
        ValueError: It is another value.
    """
    if mode is None:
        raise TypeError("in_sequence: wanted True, False or 'pass'; given None")
    if not isinstance(mode, bool) and mode != "pass":
        raise ValueError(f"in_sequence: wanted True, False or 'pass'; given {mode!r}")
    previous = _context._in_sequence
    _set_in_sequence(None if mode == "pass" else bool(mode))
    try:
        yield _context._in_sequence
    finally:
        _set_in_sequence(previous)


def _set_in_sequence(mode: bool | None) -> None:
    _context._in_sequence = mode
    if mode is None:
        _context._previous_ops.clear()


@contextmanager
def ipu(ipu: int | None) -> Iterator[int | None]:
    """Put the ops created in the body on a virtual device. Outside of any block it is device 0.

    Args:
        ipu: The number of the device; None: the ops get none.

    Yields:
        The number.
    """
    previous = _context._ipu_id
    _context._ipu_id = ipu
    try:
        yield ipu
    finally:
        _context._ipu_id = previous


@contextmanager
def io_tiles() -> Iterator[None]:
    """Put the ops created in the body on the IO tile set, which has no effect on values.

    Yields:
        None.
    """
    previous = _context._io_tile_set
    _context._io_tile_set = True
    try:
        yield
    finally:
        _context._io_tile_set = previous


@contextmanager
def name_scope(name: str) -> Iterator[list[str]]:
    """Put a name before those of the tensors and ops created in the body: `<name>/...`.

    Args:
        name: The name.

    Yields:
        The list of the name scopes.
    """
    depth = len(_context._name_scopes)
    _context._name_scopes.append(name)
    try:
        yield _context._name_scopes
    finally:
        del _context._name_scopes[depth:]


@contextmanager
def _execution_context(execution: _ir.ExecutionContext) -> Iterator[None]:
    """Ops created in the body run with the named program (weights from or to the host)."""
    previous = _context._execution_context
    _context._execution_context = execution
    try:
        yield
    finally:
        _context._execution_context = previous


@contextmanager
def debug_context_frame_offset(i: int) -> Iterator[None]:
    """Mark the body as a wrapper of frames.

    Source lines are found by walking out of the project's packages, so it has no effect.

    Args:
        i: The number of frames, 0 or more.

    Yields:
        None.

    Raises:
        ValueError: The number is negative.
    """
    if i < 0:
        raise ValueError(f"debug_context_frame_offset: wanted an offset >= 0; given {i}")
    yield


def op_debug_context(name: str | _F) -> Any:
    """Decorate an op function; signature and return value stay.

    Args:
        name: The name of the op, or the function itself.

    Returns:
        The function, or a decorator.
    """
    if callable(name):
        return name

    def decorate(function: _F) -> _F:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return cast(_F, call)

    return decorate
