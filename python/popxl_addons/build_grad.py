"""Gradient graphs that a module writes by hand."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import popxl
from popxl.transforms.autodiff import GradGraphInfo
from popxl_addons.grad_graph_info import make_grad_graph_info
from popxl_addons.graph import GraphWithNamedArgs
from popxl_addons.utils import duplicate_items

if TYPE_CHECKING:
    from popxl_addons.module import Module


class AuxStore:
    """What a module's `build` leaves for its `build_grad`.

    Tensors of the forward graph become inputs of the gradient graph when they are read.
    """

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self._inputs: dict[str, popxl.Tensor] | None = None

    def __setitem__(self, key: str, value: Any) -> None:
        self._values[key] = value

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def __getitem__(self, key: str) -> Any:
        if self._inputs is None:
            raise Exception(f"aux['{key}'] can only be read inside build_grad.")
        if key not in self._values:
            raise KeyError(f"'{key}' is not in aux; build stored {list(self._values)}")
        value = self._values[key]
        if not isinstance(value, popxl.Tensor):
            return value
        if key not in self._inputs:
            self._inputs[key] = popxl.graph_input(**value.spec, name=key)
        return self._inputs[key]

    def values(self) -> dict[str, Any]:
        """All that is stored.

        Returns:
            A new dict: key -> tensor of the forward graph or other value.
        """
        return dict(self._values)

    def clear(self) -> None:
        """Forgets all that is stored."""
        self._values.clear()

    @contextmanager
    def reading(self, values: Mapping[str, Any]) -> Iterator[dict[popxl.Tensor, popxl.Tensor]]:
        """Allows reading while the gradient graph is built.

        Args:
            values: What the forward graph's `build` stored.

        Yields:
            Gradient graph input -> forward tensor, filled at the end of the body with those that
            were read.
        """
        connected: dict[popxl.Tensor, popxl.Tensor] = {}
        self._values, self._inputs = dict(values), {}
        try:
            yield connected
            for key, graph_input in self._inputs.items():
                connected[graph_input] = values[key]
        finally:
            self._values, self._inputs = {}, None


class VarGradStore:
    """The gradients of a module's variables by flat key, set inside `build_grad`."""

    def __init__(self) -> None:
        self._variables: dict[str, popxl.Tensor] | None = None
        self._gradients: dict[popxl.Tensor, popxl.Tensor] = {}

    def __setitem__(self, key: str, gradient: popxl.Tensor) -> None:
        if self._variables is None:
            raise Exception(f"var_grad['{key}'] can only be set inside build_grad.")
        if not isinstance(gradient, popxl.Tensor):
            raise TypeError(
                f"var_grad['{key}'] needs a tensor, not {type(gradient).__name__}: {gradient!r}"
            )
        if key not in self._variables:
            raise KeyError(f"'{key}' is no variable; the variables are {list(self._variables)}")
        variable = self._variables[key]
        if gradient.shape != variable.shape or gradient.meta_shape != variable.meta_shape:
            raise ValueError(
                f"var_grad['{key}'] has shape {gradient.shape} (meta shape {gradient.meta_shape});"
                f" the variable has {variable.shape} (meta shape {variable.meta_shape})."
            )
        self._gradients[variable] = gradient

    @contextmanager
    def collecting(
        self, variables: Mapping[str, popxl.Tensor]
    ) -> Iterator[dict[popxl.Tensor, popxl.Tensor]]:
        """Allows setting while the gradient graph is built.

        Args:
            variables: Flat key -> the forward graph's input of that variable.

        Yields:
            Forward variable -> gradient, filled by the body.
        """
        self._variables, self._gradients = dict(variables), {}
        try:
            yield self._gradients
        finally:
            self._variables, self._gradients = None, {}


def create_grad_graph_info(
    ir: popxl.Ir,
    fwd_graph: popxl.Graph,
    grad_graph: popxl.Graph,
    grad_input_to_fwd_output: Mapping[popxl.Tensor, popxl.Tensor],
    grad_output_to_fwd_input: Mapping[popxl.Tensor, popxl.Tensor],
    fwd_tensors: Sequence[popxl.Tensor],
) -> GradGraphInfo:
    """The contract between a forward graph and a gradient graph that was written by hand.

    Args:
        ir: The Ir of both graphs.
        fwd_graph: The forward graph.
        grad_graph: The gradient graph.
        grad_input_to_fwd_output: For each gradient graph input the tensor of the forward graph that
            it takes, or whose gradient it takes.
        grad_output_to_fwd_input: For each gradient graph output the forward tensor whose gradient
            it is.
        fwd_tensors: The forward tensors of which inputs take the value itself; others take the
            gradient.

    Returns:
        What `popxl.transforms.autodiff` gives for a graph that it made itself.

    Raises:
        ValueError: A graph belongs to another Ir, or an input or output is not described.
    """
    if fwd_graph.ir != ir or grad_graph.ir != ir:
        raise ValueError(f"{fwd_graph.name} and {grad_graph.name} must both belong to {ir}.")
    for kind, tensors, mapping in (
        ("input", grad_graph.inputs, grad_input_to_fwd_output),
        ("output", grad_graph.outputs, grad_output_to_fwd_input),
    ):
        if missing := [t for t in tensors if t not in mapping]:
            raise ValueError(f"No forward tensor is given for the gradient {kind}s {missing}.")
    forward = [grad_input_to_fwd_output[t] for t in grad_graph.inputs]
    return make_grad_graph_info(
        fwd_graph,
        grad_graph,
        [(tensor, tensor in fwd_tensors) for tensor in forward],
        [grad_output_to_fwd_input[t] for t in grad_graph.outputs],
    )


def _checked_members(
    graph: popxl.Graph, name: str, tensors: Sequence[popxl.Tensor]
) -> list[popxl.Tensor]:
    if foreign := [t for t in tensors if t not in graph]:
        raise ValueError(f"{name} must be tensors of {graph.name}; these are not: {foreign}")
    if repeated := duplicate_items(tensors):
        raise ValueError(f"{name} lists these tensors more than once: {repeated}")
    return list(tensors)


def _check_signature(build_grad: Callable[..., Any], num_gradients: int) -> None:
    signature = inspect.signature(build_grad)
    positional = (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    )
    if others := [p for p in signature.parameters.values() if p.kind not in positional]:
        raise TypeError(
            f"{build_grad.__qualname__} must take only positional parameters, one per gradient "
            f"provided; given {', '.join(map(str, others))} in its signature {signature}."
        )
    if len(signature.parameters) != num_gradients:
        raise ValueError(
            f"{build_grad.__qualname__} must take {num_gradients} positional parameters, one per "
            f"gradient provided; its signature is {signature}."
        )


def _as_list(outputs: Any) -> list[popxl.Tensor]:
    if outputs is None:
        return []
    return [outputs] if isinstance(outputs, popxl.Tensor) else list(outputs)


def _check_gradients(
    name: str, gradients: Sequence[popxl.Tensor], wanted: Sequence[popxl.Tensor]
) -> None:
    if len(gradients) != len(wanted):
        raise Exception(
            f"{name} returned {len(gradients)} gradients; {len(wanted)} are required, for the "
            f"inputs {list(wanted)}."
        )
    for gradient, tensor in zip(gradients, wanted, strict=True):
        if gradient.shape != tensor.shape:
            raise ValueError(f"{name} returned a gradient of shape {gradient.shape} for {tensor}.")


def _add_outputs(graph: popxl.Graph, values: Iterable[Any]) -> None:
    """Every tensor among the values becomes one more output."""
    with graph:
        for value in values:
            if isinstance(value, popxl.Tensor):
                popxl.graph_output(value)


def build_grad_graph(
    module: Module,
    fwd_graph: GraphWithNamedArgs,
    grads_provided: Sequence[popxl.Tensor] | None,
    grads_required: Sequence[popxl.Tensor] | None,
) -> GraphWithNamedArgs:
    """Builds a gradient graph from a module's `build_grad`.

    Every tensor in the forward graph's aux becomes one more output of the forward graph.

    Args:
        module: The module that `fwd_graph` comes from; the rest is as for its `create_grad_graph`.
        fwd_graph: The forward graph.
        grads_provided: Gradients that are given.
        grads_required: Gradients that are wanted.

    Returns:
        The gradient graph.
    """
    graph = fwd_graph.graph
    provided = _checked_members(
        graph, "grads_provided", graph.outputs if grads_provided is None else grads_provided
    )
    required = _checked_members(
        graph, "grads_required", graph.inputs if grads_required is None else grads_required
    )
    _check_signature(module.build_grad, len(provided))
    variables = fwd_graph.args.to_dict()
    is_variable = set(variables.values())
    required_inputs = [t for t in required if t not in is_variable]
    required_variables = [t for t in required if t in is_variable]
    name = f"{type(module).__qualname__}.build_grad"

    with (
        module.aux.reading(fwd_graph._aux) as aux_inputs,
        module.var_grad.collecting(variables) as var_grads,
    ):

        def build(*gradients: popxl.Tensor) -> list[popxl.Tensor]:
            results = _as_list(module.build_grad(*gradients))
            _check_gradients(name, results, required_inputs)
            if missing := [t for t in required_variables if t not in var_grads]:
                raise Exception(f"{name} set no var_grad for the required variables {missing}.")
            return results + [var_grads[t] for t in required_variables]

        build.__qualname__ = name
        grad_graph = graph.ir.create_graph(build, *(t.spec for t in provided))

    _add_outputs(graph, fwd_graph._aux.values())
    seeds = dict(zip(grad_graph.inputs, provided, strict=False))
    info = make_grad_graph_info(
        graph,
        grad_graph,
        [
            (aux_inputs[t], True) if t in aux_inputs else (seeds[t], False)
            for t in grad_graph.inputs
        ],
        required_inputs + required_variables,
    )
    return GraphWithNamedArgs.from_grad_graph(info)
