"""Calls of a module's graph from another module."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import popxl
from popxl_addons.graph import GraphWithNamedArgs
from popxl_addons.variable_factory import NamedVariableFactories

if TYPE_CHECKING:
    from popxl_addons.module import Module

GradsFunction = Callable[[GraphWithNamedArgs], Sequence[popxl.Tensor]]


class ModuleCall:
    """What `Module.call_module` gives.

    A call makes the graph, registers its variables with the parent and calls it. The attributes
    `graph`, `var_factories` and `n_outputs_pre_autodiff` are set then.

    Args:
        parent: The module that calls.
        module: The module that is called.
        name: As for `Module.call_module`.
        autodiff: As for `Module.call_module`.
        grads_provided: As for `Module.call_module`.
        grads_required: As for `Module.call_module`.

    Raises:
        ValueError: `autodiff` is unknown.
    """

    def __init__(
        self,
        parent: Module,
        module: Module,
        name: str | None,
        autodiff: str,
        grads_provided: GradsFunction | None,
        grads_required: GradsFunction | None,
    ) -> None:
        methods = ("auto", "autodiff", "build_grad", "none")
        if autodiff not in methods:
            raise ValueError(f"autodiff must be one of {methods}; got {autodiff!r}.")
        self._parent = parent
        self._module = module
        self._name = name or type(module).__name__
        self._autodiff = autodiff
        self._grads_provided = grads_provided
        self._grads_required = grads_required
        self.graph: GraphWithNamedArgs
        self.var_factories: NamedVariableFactories
        self.n_outputs_pre_autodiff: int

    def __call__(self, *args: Any) -> tuple[popxl.Tensor, ...]:
        """Makes the graph for these arguments and calls it.

        Args:
            *args: Arguments of the module's `build`.

        Returns:
            The outputs that the graph had before its gradient was made.
        """
        self.var_factories, self.graph = self._module.create_graph(*args)
        self.n_outputs_pre_autodiff = len(self.graph.graph.outputs)
        variables = self._parent.add_variable_inputs(self._name, self.var_factories)
        self._parent._own_grad_info.update(self.graph.called_graphs_grad_info)
        self._differentiate()
        tensors = [arg for arg in args if _is_tensor_argument(arg)]
        return self.graph.bind(variables).call(*tensors)[: self.n_outputs_pre_autodiff]

    def _differentiate(self) -> None:
        by_hand = self._module.implements_grad_graph
        if self._autodiff == "none" or (self._autodiff == "auto" and not by_hand):
            return
        gradient = self.graph.autodiff(
            self._grads_provided(self.graph) if self._grads_provided else None,
            self._grads_required(self.graph) if self._grads_required else None,
            method=self._autodiff,
        )
        self._parent._own_grad_info[self.graph.graph] = gradient.grad_graph_info


def _is_tensor_argument(argument: Any) -> bool:
    """Whether an argument of create_graph became graph inputs."""
    if isinstance(argument, list | tuple):
        return any(isinstance(item, popxl.Tensor) for item in argument)
    return isinstance(argument, popxl.Tensor)
