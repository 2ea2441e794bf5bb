"""Modules: layers, optimisers and whole models that carry their variables with them."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import popxl
from popxl_addons.build_grad import AuxStore, VarGradStore, build_grad_graph
from popxl_addons.graph import GraphWithNamedArgs
from popxl_addons.graph_cache import CacheEntry, GraphCache, function_key
from popxl_addons.graph_common import CalledGraphsGradInfo
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.utils import overrides
from popxl_addons.variable_factory import (
    DataIterable,
    NamedVariableFactories,
    VariableFactory,
)

# Modules whose graph is being made, innermost last. popxl calls a module to build its graph just
# as a program calls it to inline it; this tells the two apart.
_being_built: list[Module] = []

_INLINING_ERRORS = ("error", "warning", "none")

GradsFunction = Callable[[GraphWithNamedArgs], Sequence[popxl.Tensor]]


class NameScopeMeta(type):
    """Runs every `build` that a class defines inside the module's name scope."""

    def __new__(
        mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]
    ) -> NameScopeMeta:
        if "build" in namespace:
            namespace["build"] = _in_name_scope(namespace["build"])
        return super().__new__(mcs, name, bases, namespace)


def _in_name_scope(build: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(build)
    def scoped(self: Module, *args: Any, **kwargs: Any) -> Any:
        with self._name_scope_context():
            return build(self, *args, **kwargs)

    return scoped


class Module(popxl.Module, metaclass=NameScopeMeta):
    """A function over tensors, `build`, together with the variables it needs.

    `module(...)` builds in the current graph; `create_graph` makes a graph of its own.
    `cache`: equal arguments give the same graph (a GraphCache to share one, or any true value).
    `grad_inlining_error`: what happens when a module with its own `build_grad` is built in place,
    where autodiff cannot use it: "error", "warning" or "none".
    """

    def __init__(
        self, cache: GraphCache | bool | None = False, grad_inlining_error: str = "error"
    ) -> None:
        if grad_inlining_error not in _INLINING_ERRORS:
            raise ValueError(
                f"grad_inlining_error must be one of {_INLINING_ERRORS}; "
                f"got {grad_inlining_error!r}."
            )
        self._graph_cache = cache if isinstance(cache, GraphCache) else GraphCache()
        self._cached = bool(cache)
        if self._cached and self.implements_grad_graph:
            raise ValueError(
                f"{type(self).__qualname__} overrides build_grad and cannot be cached: a gradient "
                "graph belongs to one forward graph."
            )
        self._grad_inlining_error = grad_inlining_error
        self._name_scope: str | None = None
        self._variable_factories = NamedVariableFactories()
        self._named_inputs = NamedTensors()
        self._own_grad_info: CalledGraphsGradInfo = {}
        self._sub_modules: dict[str, Module] = {}
        self._length: int | None = None
        self.aux = AuxStore()
        self.var_grad = VarGradStore()

    # Building -------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Builds in the current graph; returns what `build` returns."""
        if self.implements_grad_graph and not (_being_built and _being_built[-1] is self):
            self._report_inlining()
        return self.build(*args, **kwargs)

    def build(self, *args: Any, **kwargs: Any) -> Any:
        """To be written by subclasses: returns None, a tensor or an iterable of tensors."""
        raise NotImplementedError(f"{type(self).__qualname__} must define build.")

    def build_grad(self, *grads: popxl.Tensor) -> Any:
        """May be written by subclasses: the gradient of `build`.

        Takes one gradient per forward output; returns the gradients of the inputs that are not
        variables and puts those of variables into `var_grad`.
        """
        raise NotImplementedError(f"{type(self).__qualname__} does not define build_grad.")

    @property
    def implements_grad_graph(self) -> bool:
        """Whether the class has its own build_grad."""
        return overrides(type(self), Module, "build_grad")

    def _report_inlining(self) -> None:
        message = (
            f"{type(self).__qualname__} has its own build_grad, which is not used when the module "
            "is built in place. Use create_graph or call_module."
        )
        if self._grad_inlining_error == "error":
            raise Exception(message)
        if self._grad_inlining_error == "warning":
            warnings.warn(message, UserWarning, stacklevel=3)

    def create_graph(
        self, *args: Any, **kwargs: Any
    ) -> tuple[NamedVariableFactories, GraphWithNamedArgs]:
        """The graph of `build` for these arguments, and the factories of its variables.

        Tensors and TensorSpecs become graph inputs in the order of the signature, followed by the
        variable inputs in the order in which they are added; all other values are fixed.
        """
        if not self._cached:
            return self._create_new_graph(*args, **kwargs)
        entries = self._graph_cache.entries(popxl.gcg().ir)
        key = function_key(self, *args, **kwargs)
        if key not in entries:
            factories, graph = self._create_new_graph(*args, **kwargs)
            payload = {"factories": factories, "graph": graph}
            entries[key] = CacheEntry(graph.graph, payload)
        stored = entries[key].payload
        known: GraphWithNamedArgs = stored["graph"]
        wrapper = GraphWithNamedArgs(
            known.graph,
            known.args.copy(),
            from_module=self,
            aux=known._aux,
            called_graphs_grad_info=known.called_graphs_grad_info,
        )
        return stored["factories"].copy(), wrapper

    def _create_new_graph(
        self, *args: Any, **kwargs: Any
    ) -> tuple[NamedVariableFactories, GraphWithNamedArgs]:
        ir = popxl.gcg().ir
        _being_built.append(self)
        try:
            graph = ir.create_graph(self, *args, **kwargs)
        finally:
            _being_built.pop()
        if self.implements_grad_graph:
            graph._pb_graph.setCanBeRecursivelyAutodiffed(False)
        factories = self._variable_factories.copy()
        wrapper = GraphWithNamedArgs(
            graph,
            self._named_inputs.copy(),
            from_module=self,
            aux=self.aux.values(),
            called_graphs_grad_info=self.called_graphs_grad_info,
        )
        self._reset()
        return factories, wrapper

    def _reset(self) -> None:
        """Forgets what one build registered; nested names stay as empty trees."""
        self._variable_factories._clear()
        self._named_inputs._clear()
        self.aux.clear()
        self._clear_grad_info()

    def _clear_grad_info(self) -> None:
        self._own_grad_info.clear()
        for module in self._sub_modules.values():
            module._clear_grad_info()

    def create_grad_graph(
        self,
        fwd_graph: GraphWithNamedArgs,
        grads_provided: Sequence[popxl.Tensor] | None = None,
        grads_required: Sequence[popxl.Tensor] | None = None,
    ) -> GraphWithNamedArgs:
        """The gradient graph that `build_grad` writes; to be made once per forward graph.

        Defaults: gradients of all outputs are provided, gradients of all inputs required.
        """
        return build_grad_graph(self, fwd_graph, grads_provided, grads_required)

    # Variables ------------------------------------------------------------------------------

    def add_variable_input(
        self,
        name: str,
        data_iter: DataIterable,
        dtype: popxl.dtype | None = None,
        by_ref: bool = False,
        replica_grouping: popxl.ReplicaGrouping | None = None,
        overwrite: bool = False,
    ) -> popxl.Tensor:
        """An input of the current graph for a variable whose values `data_iter` gives."""
        factory = VariableFactory(data_iter, dtype, name, by_ref, replica_grouping)
        return self._register(name, factory, factory.create_input(), overwrite)

    def add_replica_sharded_variable_input(
        self,
        name: str,
        data_iter: DataIterable,
        dtype: popxl.dtype | None = None,
        by_ref: bool = False,
        replica_grouping: popxl.ReplicaGrouping | None = None,
        shard_over: int | None = None,
    ) -> popxl.Tensor:
        """As add_variable_input, for one replica's 1-D shard of the variable."""
        group = replica_grouping or popxl.gcg().ir.replica_grouping()
        factory = VariableFactory(
            data_iter, dtype, name, by_ref, group, shard_over or group.group_size
        )
        return self._register(name, factory, factory.create_input(), overwrite=False)

    def add_variable_inputs(
        self, name: str | int, factories: NamedVariableFactories, overwrite: bool = False
    ) -> NamedTensors:
        """One graph input per factory, registered as a tree under `name`."""
        inputs = NamedTensors.from_dict(
            {key: factory.create_input() for key, factory in factories.to_dict().items()}
        )
        self._variable_factories.insert(name, factories.copy(), overwrite)
        self._named_inputs.insert(name, inputs, overwrite)
        return inputs

    def add_variable_factory(
        self, factory: VariableFactory, name: str | None = None
    ) -> popxl.Tensor:
        """A graph input for an existing factory, registered under `name` or its own name."""
        key = name or factory.name
        if key is None:
            raise ValueError("The factory has no name of its own; give one.")
        return self._register(key, factory, factory._create_named_input(key), overwrite=False)

    def _register(
        self, name: str, factory: VariableFactory, graph_input: popxl.Tensor, overwrite: bool
    ) -> popxl.Tensor:
        self._variable_factories.insert(name, factory, overwrite)
        self._named_inputs.insert(name, graph_input, overwrite)
        return graph_input

    # Modules in modules ---------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Module):
            self._variable_factories.insert(name, value._variable_factories)
            self._named_inputs.insert(name, value._named_inputs)
            value.set_name_scope(name)
            self._sub_modules[name] = value
        super().__setattr__(name, value)

    @classmethod
    def from_list(cls, modules: Iterable[Module]) -> Module:
        """A container with the modules as its attributes "0", "1", ..."""
        container = cls()
        container._length = 0
        for index, module in enumerate(modules):
            setattr(container, str(index), module)
            container._length = index + 1
        return container

    @classmethod
    def from_variable_factories(cls, factories: Iterable[VariableFactory]) -> Module:
        """A container with graph inputs for the factories as "0", "1", ..."""
        container = cls()
        for index, factory in enumerate(factories):
            setattr(container, str(index), container.add_variable_factory(factory, str(index)))
        return container

    def get(self, key: int | str) -> Any:
        """The attribute of that name or number."""
        return getattr(self, str(key))

    def __getitem__(self, key: int | str) -> Any:
        return self.get(key)

    def __iter__(self) -> Iterator[Module]:
        if self._length is None:
            raise AttributeError(
                f"{type(self).__qualname__} is not iterable; only Module.from_list containers are."
            )
        return (self.get(index) for index in range(self._length))

    def set_name_scope(self, name: str) -> None:
        """Names of tensors and ops made in `build` start with `name/`."""
        self._name_scope = name

    def _name_scope_context(self) -> AbstractContextManager[Any]:
        scope = self._name_scope
        return popxl.name_scope(scope) if scope is not None else nullcontext()

    @property
    def called_graphs_grad_info(self) -> CalledGraphsGradInfo:
        """Forward graph -> gradient of the graphs that this module and its parts call."""
        result = dict(self._own_grad_info)
        for module in self._sub_modules.values():
            result.update(module.called_graphs_grad_info)
        return result

    def call_module(
        self,
        module: Module,
        name: str | None = None,
        autodiff: str = "auto",
        grads_provided: GradsFunction | None = None,
        grads_required: GradsFunction | None = None,
    ) -> ModuleCall:
        """A callable that makes a graph of `module`, registers its variables here and calls it."""
        return ModuleCall(self, module, name, autodiff, grads_provided, grads_required)


class ModuleCall:
    """See Module.call_module. `graph`, `var_factories` and `n_outputs_pre_autodiff` are set by
    the call."""

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
