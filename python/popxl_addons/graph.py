"""Graphs with names for their inputs, and graphs with some inputs already bound."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import popxl
from popxl import ops
from popxl.ops.call import CallSiteInfo
from popxl.transforms.autodiff import GradGraphInfo
from popxl_addons.dot_tree import DotTree
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
    """The graph of a function, called `<name>_subgraph(<n>)`."""
    function.__qualname__ = name
    return popxl.gcg().ir.create_graph(function, *args)


class BoundGraph:
    """A graph together with outer tensors for some of its inputs."""

    def __init__(self, graph: popxl.Graph, args: TensorMap | None = None) -> None:
        self.graph = graph
        self.args: dict[popxl.Tensor, Any] = dict(args or {})

    def call(self, *tensors: Any, args: TensorMap | None = None) -> tuple[popxl.Tensor, ...]:
        """Calls the graph from the current graph and returns the outer outputs.

        `tensors` fill the graph's inputs from the first on: tensors, lists of tensors, numbers or
        arrays. The bound arguments and then `args` (graph input -> outer tensor) fill the rest.
        Raises ValueError when an input is given twice or not at all, TypeError for a value that
        cannot become a tensor.
        """
        return tuple(self.call_with_info(*tensors, args=args).outputs)

    def call_with_info(self, *tensors: Any, args: TensorMap | None = None) -> CallSiteInfo:
        """As call; returns the call site."""
        inputs_dict = {**self.args, **(args or {})}
        return ops.call_with_info(
            self.graph, *_coerced(self.graph, tensors), inputs_dict=inputs_dict
        )

    def bind(self, mapping: TensorMap) -> BoundGraph:
        """A bound graph with more arguments; new ones win."""
        return BoundGraph(self.graph, {**self.args, **mapping})

    def subgraph_io_map(
        self,
        *tensors: Any,
        args: TensorMap | None = None,
        outs: Sequence[popxl.Tensor],
    ) -> dict[popxl.Tensor, Any]:
        """Graph outputs -> `outs` and graph inputs -> what a call with these arguments passes."""
        if outs is None:
            raise TypeError("subgraph_io_map needs the outer output tensors `outs`; got None.")
        result: dict[popxl.Tensor, Any] = dict(zip(self.graph.outputs, outs, strict=False))
        result.update(zip(self.graph.inputs, _flatten(tensors), strict=False))
        result.update({**self.args, **(args or {})})
        return result


class GraphWithNamedArgs:
    """A graph whose inputs (some of them) have names, and what is known about its gradient."""

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
        """Wraps the gradient graph of `grad_graph_info`."""
        return cls(grad_graph_info.graph, args, grad_graph_info)

    @property
    def grad_graph_info(self) -> GradGraphInfo:
        """What this gradient graph's inputs and outputs stand for."""
        if self._grad_graph_info is None:
            raise AttributeError(
                f"{self.graph.name} has no grad_graph_info: it is not a gradient graph."
            )
        return self._grad_graph_info

    @grad_graph_info.setter
    def grad_graph_info(self, info: GradGraphInfo) -> None:
        self._grad_graph_info = info

    def bind(self, args: DotTree[Any] | None = None) -> BoundGraph:
        """Binds the tensors whose names are names of arguments; other names are left out."""
        return BoundGraph(self.graph, self.args.to_mapping(args) if args is not None else None)

    def call(self, *tensors: Any, args: TensorMap | None = None) -> tuple[popxl.Tensor, ...]:
        """See BoundGraph.call."""
        return BoundGraph(self.graph).call(*tensors, args=args)

    def call_with_info(self, *tensors: Any, args: TensorMap | None = None) -> CallSiteInfo:
        """See BoundGraph.call_with_info."""
        return BoundGraph(self.graph).call_with_info(*tensors, args=args)

    def autodiff(
        self,
        grads_provided: Sequence[popxl.Tensor] | None = None,
        grads_required: Sequence[popxl.Tensor] | None = None,
        called_graphs_grad_info: CalledGraphsGradInfoLike | None = None,
        method: str = "auto",
        force: bool = False,
    ) -> GraphWithNamedArgs:
        """The gradient graph.

        `method`: "build_grad" (what the module wrote), "autodiff" (the transform) or "auto" (the
        first where there is one). A second use needs `force`.
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
        # The transform is built on this class.
        from popxl_addons.transforms.autodiff import autodiff

        if method not in ("auto", "build_grad", "autodiff"):
            raise ValueError(
                f"Unknown method {method!r}; choose from 'auto', 'build_grad', 'autodiff'."
            )
        module = self._from_module
        by_hand = module is not None and module.implements_grad_graph
        if method == "autodiff" or (method == "auto" and not by_hand):
            return autodiff(self, grads_provided, grads_required, called_graphs_grad_info)
        if module is None or not by_hand:
            raise Exception(
                f"{self.graph.name} does not come from a module that overrides build_grad."
            )
        return module.create_grad_graph(self, grads_provided, grads_required)

    def copy(self) -> GraphWithNamedArgs:
        """A wrapper of the same graph with copied arguments and the same gradient information."""
        return GraphWithNamedArgs(self.graph, self.args.copy(), self._grad_graph_info)

    def print_schedule(self) -> str:
        """The graph's ops as text, one line per op in schedule order."""
        return schedule_text(self.graph, self.args)
