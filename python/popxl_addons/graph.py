"""Graphs with names for their inputs, and graphs with some inputs already bound."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import popxl
from popxl import ops
from popxl.ops.call import CallSiteInfo
from popxl.transforms.autodiff import GradGraphInfo
from popxl_addons.dot_tree import DotTree
from popxl_addons.grad_graph_info import differentiate
from popxl_addons.graph_common import (
    CalledGraphsGradInfo,
    CalledGraphsGradInfoLike,
    called_graphs_grad_info_of,
)
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.schedule import schedule_text

if TYPE_CHECKING:
    from popxl_addons.module import Module

TensorMap = Mapping[popxl.Tensor, Any]


def _flatten(values: Sequence[Any]) -> list[Any]:
    """Takes lists of tensors apart; arrays (NumPy, torch) stay whole."""
    flat: list[Any] = []
    for value in values:
        if isinstance(value, Iterable) and not (isinstance(value, str) or hasattr(value, "shape")):
            flat.extend(value)
        else:
            flat.append(value)
    return flat


def _coerced(graph: popxl.Graph, values: Sequence[Any]) -> list[Any]:
    """The positional inputs of a call: lists are flattened, host arrays become constants of the
    dtype of their graph input (popxl itself would take an array apart)."""
    flat = _flatten(values)
    for index, value in enumerate(flat[: len(graph.inputs)]):
        if isinstance(value, popxl.Tensor):
            continue
        wanted = graph.inputs[index]
        try:
            flat[index] = popxl.constant(value, wanted.dtype)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"Input {index} of {graph.name} needs a tensor or a number for {wanted}; "
                f"got {type(value).__name__}: {value!r}"
            ) from error
    return flat


def create_named_graph(name: str, function: Callable[..., Any], *args: Any) -> popxl.Graph:
    """Makes a graph with a name of its own.

    Args:
        name: The graph is called `<name>_subgraph(<n>)`.
        function: Builds the graph.
        *args: Its arguments, as for `popxl.Ir.create_graph`.

    Returns:
        The new graph of the current Ir.
    """
    function.__qualname__ = name
    return popxl.gcg().ir.create_graph(function, *args)


class BoundGraph:
    """A graph together with outer tensors for some of its inputs.

    Args:
        graph: The graph.
        args: Graph input -> tensor of the graph that calls it.
    """

    def __init__(self, graph: popxl.Graph, args: TensorMap | None = None) -> None:
        self.graph = graph
        self.args: dict[popxl.Tensor, Any] = dict(args or {})

    def call(self, *tensors: Any, args: TensorMap | None = None) -> tuple[popxl.Tensor, ...]:
        """Calls the graph from the current graph.

        Args:
            *tensors: Fill the graph's inputs from the first on: tensors, lists of tensors, numbers
                or arrays.
            args: Graph input -> outer tensor, for inputs that are neither bound nor given by
                position. They win over bound ones.

        Returns:
            The outer outputs; an empty tuple for a graph without outputs.

        Raises:
            ValueError: An input is given twice or not at all.
            TypeError: A value cannot become a tensor.
        """
        return tuple(self.call_with_info(*tensors, args=args).outputs)

    def call_with_info(self, *tensors: Any, args: TensorMap | None = None) -> CallSiteInfo:
        """Calls the graph from the current graph.

        Args:
            *tensors: As for `call`.
            args: As for `call`.

        Returns:
            The call site, which knows what belongs to which input and output.

        Raises:
            ValueError: An input is given twice or not at all.
            TypeError: A value cannot become a tensor.
        """
        inputs_dict = {**self.args, **(args or {})}
        return ops.call_with_info(
            self.graph, *_coerced(self.graph, tensors), inputs_dict=inputs_dict
        )

    def bind(self, mapping: TensorMap) -> BoundGraph:
        """Binds more arguments.

        Args:
            mapping: Graph input -> outer tensor; these win over those that are bound.

        Returns:
            A new bound graph.
        """
        return BoundGraph(self.graph, {**self.args, **mapping})

    def subgraph_io_map(
        self,
        *tensors: Any,
        args: TensorMap | None = None,
        outs: Sequence[popxl.Tensor],
    ) -> dict[popxl.Tensor, Any]:
        """What a call with these arguments connects.

        Args:
            *tensors: As for `call`.
            args: As for `call`.
            outs: The outer outputs of the call.

        Returns:
            Graph output -> outer output and graph input -> outer tensor, in one dict.

        Raises:
            TypeError: `outs` is None.
        """
        if outs is None:
            raise TypeError("subgraph_io_map needs the outer output tensors `outs`; got None.")
        result: dict[popxl.Tensor, Any] = dict(zip(self.graph.outputs, outs, strict=False))
        result.update(zip(self.graph.inputs, _flatten(tensors), strict=False))
        result.update({**self.args, **(args or {})})
        return result

    def __repr__(self) -> str:
        bound = ", ".join(f"{inner.name}={outer}" for inner, outer in self.args.items())
        return f"BoundGraph[graph={self.graph.name} {bound}]"


class GraphWithNamedArgs:
    """A graph of which some inputs have names, and what is known about its gradient.

    Args:
        graph: The graph.
        args: Its named inputs; None means none.
        grad_graph_info: What its inputs and outputs stand for, if it is a gradient graph.
        from_module: The module that built it.
        aux: What that module's `build` left for its `build_grad`.
        called_graphs_grad_info: Known gradients of graphs that it calls.
    """

    def __init__(
        self,
        graph: popxl.Graph,
        args: NamedTensors | None = None,
        grad_graph_info: GradGraphInfo | None = None,
        from_module: Module | None = None,
        aux: Mapping[str, Any] | None = None,
        called_graphs_grad_info: CalledGraphsGradInfoLike | None = None,
    ) -> None:
        self.graph = graph
        self.args = args if args is not None else NamedTensors()
        self._grad_graph_info = grad_graph_info
        self._from_module = from_module
        self._aux: dict[str, Any] = dict(aux or {})
        self.called_graphs_grad_info: CalledGraphsGradInfo = called_graphs_grad_info_of(
            called_graphs_grad_info
        )
        self._autodiff_applied = False

    @classmethod
    def from_grad_graph(
        cls, grad_graph_info: GradGraphInfo, args: NamedTensors | None = None
    ) -> GraphWithNamedArgs:
        """Wraps a gradient graph.

        Args:
            grad_graph_info: What `popxl.transforms.autodiff` returned.
            args: Named inputs of the gradient graph; None means none.

        Returns:
            The wrapper of `grad_graph_info.graph`.
        """
        return cls(grad_graph_info.graph, args, grad_graph_info)

    @property
    def grad_graph_info(self) -> GradGraphInfo:
        """What this gradient graph's inputs and outputs stand for.

        Raises:
            AttributeError: This is not a gradient graph.
        """
        if self._grad_graph_info is None:
            raise AttributeError(
                f"{self.graph.name} has no grad_graph_info: it is not a gradient graph."
            )
        return self._grad_graph_info

    @grad_graph_info.setter
    def grad_graph_info(self, info: GradGraphInfo) -> None:
        self._grad_graph_info = info

    def bind(self, args: DotTree[Any] | None = None) -> BoundGraph:
        """Binds named inputs.

        Args:
            args: Outer tensors by name. Names that only one side has are left out; None binds
                nothing.

        Returns:
            The graph with these inputs bound.
        """
        return BoundGraph(self.graph, self.args.to_mapping(args) if args is not None else None)

    def call(self, *tensors: Any, args: TensorMap | None = None) -> tuple[popxl.Tensor, ...]:
        """Calls the graph from the current graph without binding names.

        Args:
            *tensors: As for `BoundGraph.call`.
            args: As for `BoundGraph.call`.

        Returns:
            The outer outputs.

        Raises:
            ValueError: An input is given twice or not at all.
            TypeError: A value cannot become a tensor.
        """
        return BoundGraph(self.graph).call(*tensors, args=args)

    def call_with_info(self, *tensors: Any, args: TensorMap | None = None) -> CallSiteInfo:
        """Calls the graph from the current graph without binding names.

        Args:
            *tensors: As for `BoundGraph.call`.
            args: As for `BoundGraph.call`.

        Returns:
            The call site.

        Raises:
            ValueError: An input is given twice or not at all.
            TypeError: A value cannot become a tensor.
        """
        return BoundGraph(self.graph).call_with_info(*tensors, args=args)

    def autodiff(
        self,
        grads_provided: Sequence[popxl.Tensor] | None = None,
        grads_required: Sequence[popxl.Tensor] | None = None,
        called_graphs_grad_info: CalledGraphsGradInfoLike | None = None,
        method: str = "auto",
        force: bool = False,
    ) -> GraphWithNamedArgs:
        """Makes the gradient graph.

        Args:
            grads_provided: Outputs whose gradients are given; None means all.
            grads_required: Inputs whose gradients are wanted; None means all.
            called_graphs_grad_info: Known gradients of called graphs; they win over those that the
                wrapper has.
            method: "build_grad" (what the module wrote), "autodiff" (the transform) or "auto" (the
                first where there is one).
            force: Whether the graph may have been differentiated before.

        Returns:
            The gradient graph, with its `grad_graph_info`.

        Raises:
            ValueError: `method` is none of the three.
            Exception: The graph was differentiated before and `force` is False, or the module that
                it comes from has no `build_grad`.
        """
        if self._autodiff_applied and not force:
            raise Exception(
                f"{self.graph.name} has been differentiated already. Pass force=True to do it "
                "once more."
            )
        grad = self._gradient(grads_provided, grads_required, called_graphs_grad_info, method)
        self._autodiff_applied = True
        return grad

    def _gradient(
        self,
        grads_provided: Sequence[popxl.Tensor] | None,
        grads_required: Sequence[popxl.Tensor] | None,
        called_graphs_grad_info: CalledGraphsGradInfoLike | None,
        method: str,
    ) -> GraphWithNamedArgs:
        if method not in ("auto", "build_grad", "autodiff"):
            raise ValueError(
                f"Unknown method {method!r}; choose from 'auto', 'build_grad', 'autodiff'."
            )
        module = self._from_module
        by_hand = module is not None and module.implements_grad_graph
        if method == "autodiff" or (method == "auto" and not by_hand):
            return self._transformed(grads_provided, grads_required, called_graphs_grad_info)
        if module is None or not by_hand:
            raise Exception(
                f"{self.graph.name} does not come from a module that overrides build_grad."
            )
        return module.create_grad_graph(self, grads_provided, grads_required)

    def _transformed(
        self,
        grads_provided: Sequence[popxl.Tensor] | None,
        grads_required: Sequence[popxl.Tensor] | None,
        called_graphs_grad_info: CalledGraphsGradInfoLike | None,
    ) -> GraphWithNamedArgs:
        """The gradient graph that the transform makes, whatever the module wrote."""
        known = {
            **self.called_graphs_grad_info,
            **called_graphs_grad_info_of(called_graphs_grad_info),
        }
        return GraphWithNamedArgs.from_grad_graph(
            differentiate(self.graph, grads_provided, grads_required, known)
        )

    def copy(self) -> GraphWithNamedArgs:
        """Another wrapper of the same graph.

        Returns:
            A wrapper with copied arguments and the same `grad_graph_info`; it no longer knows its
            module.
        """
        return GraphWithNamedArgs(self.graph, self.args.copy(), self._grad_graph_info)

    def print_schedule(self) -> str:
        """The graph's ops as text; nothing is printed.

        Returns:
            One line per op in schedule order, after the graph's name, inputs and outputs.
        """
        return schedule_text(self.graph, self.args)

    def __repr__(self) -> str:
        info = self._grad_graph_info
        return (
            f"GraphWithNamedArgs[graph={self.graph.name} inputs={len(self.graph.inputs)} "
            f"outputs={len(self.graph.outputs)} args={self.args.keys_flat()}"
            f"{'' if info is None else f' gradient_of={info.forward_graph.name}'}]"
        )

    def _repr_html_(self) -> str:
        return self.graph._repr_html_()
