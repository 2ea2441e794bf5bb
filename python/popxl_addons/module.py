"""Modules: layers, optimisers and whole models that carry their variables with them."""

from __future__ import annotations

import functools
import reprlib
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import popxl
from popxl_addons.build_grad import build_grad_graph
from popxl_addons.graph import GraphWithNamedArgs
from popxl_addons.graph_cache import CacheEntry, GraphCache, function_key
from popxl_addons.graph_common import CalledGraphsGradInfo
from popxl_addons.module_call import GradsFunction, ModuleCall
from popxl_addons.module_state import ModuleState
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


class NameScopeMeta(type):
    """Metaclass of modules: runs every `build` of a class inside the module's name scope."""

    def __new__(
        mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]
    ) -> NameScopeMeta:
        """Makes a class of modules.

        Args:
            name: The name of the class.
            bases: Its bases.
            namespace: What its body defines.

        Returns:
            The class.
        """
        if "build" in namespace:
            namespace["build"] = _in_name_scope(namespace["build"])
        return super().__new__(mcs, name, bases, namespace)


def _in_name_scope(build: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(build)
    def scoped(self: Module, *args: Any, **kwargs: Any) -> Any:
        with self._name_scope_context():
            return build(self, *args, **kwargs)

    return scoped


class Module(ModuleState, metaclass=NameScopeMeta):
    """A function over tensors, `build`, together with the variables it needs.

    `module(...)` builds in the current graph; `create_graph` makes a graph of its own.

    Args:
        cache: Whether equal arguments give the same graph; a GraphCache shares one among modules.
        grad_inlining_error: What happens when a module with its own `build_grad` is built in place,
            where autodiff cannot use it: "error", "warning" or "none".

    Raises:
        ValueError: `grad_inlining_error` is none of the three, or `cache` is set and the class
            overrides `build_grad`.
    """

    def __init__(
        self, cache: GraphCache | bool | None = False, grad_inlining_error: str = "error"
    ) -> None:
        if grad_inlining_error not in _INLINING_ERRORS:
            raise ValueError(
                f"grad_inlining_error must be one of {_INLINING_ERRORS}; "
                f"got {grad_inlining_error!r}."
            )
        if isinstance(cache, GraphCache):
            self._graph_cache = cache
        self._cached = bool(cache)
        if self._cached and self.implements_grad_graph:
            raise ValueError(
                f"{type(self).__qualname__} overrides build_grad and cannot be cached: a gradient "
                "graph belongs to one forward graph."
            )
        self._grad_inlining_error = grad_inlining_error

    @reprlib.recursive_repr()
    def __repr__(self) -> str:
        facts = [
            f"{name}={value!r}"
            for name, value in vars(self).items()
            if not name.startswith("_") and isinstance(value, Module | bool | int | float | str)
        ]
        return f"{type(self).__qualname__}[{', '.join(facts)}]"

    # Building -------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Builds in the current graph.

        Args:
            *args: Arguments of `build`.
            **kwargs: Keyword arguments of `build`.

        Returns:
            What `build` returns.

        Raises:
            Exception: The class overrides `build_grad` and `grad_inlining_error` is "error".
        """
        if self.implements_grad_graph and not (_being_built and _being_built[-1] is self):
            self._report_inlining()
        return self.build(*args, **kwargs)

    def build(self, *args: Any, **kwargs: Any) -> Any:
        """The function; subclasses write it.

        Args:
            *args: Tensors and other values, as the subclass names them.
            **kwargs: The same.

        Returns:
            None, a tensor or an iterable of tensors.

        Raises:
            NotImplementedError: The subclass does not define it.
        """
        raise NotImplementedError(f"{type(self).__qualname__} must define build.")

    def build_grad(self, *grads: popxl.Tensor) -> Any:
        """The gradient of `build`; subclasses may write it.

        It puts the gradients of variables into `var_grad`.

        Args:
            *grads: One gradient for each forward output for which one is provided. They must be
                named positional parameters.

        Returns:
            The gradients of the required inputs that are not variables, in order.

        Raises:
            NotImplementedError: The subclass does not define it.
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
        """Makes the graph of `build`.

        Args:
            *args: Arguments of `build`. Tensors and TensorSpecs, also in lists and tuples, become
                graph inputs in the order of the signature, of the same shape, dtype and meta shape;
                all other values are fixed.
            **kwargs: Keyword arguments of `build`, likewise.

        Returns:
            The factories of the module's variables, and the graph. Its variable inputs follow the
            others in the order in which they were added, and have names.
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
        """Makes the gradient graph that `build_grad` writes; once per forward graph.

        Args:
            fwd_graph: What `create_graph` of this module gave.
            grads_provided: Outputs of the forward graph whose gradients are given; None means all.
            grads_required: Inputs of the forward graph whose gradients are wanted; None means all.

        Returns:
            The gradient graph, with its `grad_graph_info`.

        Raises:
            TypeError: `build_grad` takes other parameters than one for each gradient provided.
            ValueError: A tensor is not of the forward graph, or a gradient has another shape.
            Exception: A required gradient is missing.
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
        """Adds an input for a variable to the current graph.

        Args:
            name: The key of the variable in this module; dotted names nest.
            data_iter: Gives the values, as for `VariableFactory`.
            dtype: The dtype of the variable; None means that of the data.
            by_ref: Whether calls pass it by reference, so that changes reach the variable.
            replica_grouping: Replicas in one group have the same value; None means all replicas.
            overwrite: Whether the key may exist.

        Returns:
            The graph input, of the shape of the data.

        Raises:
            ValueError: The key exists or is no key, or the data cannot be used.
        """
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
        """Adds an input for one replica's shard of a variable to the current graph.

        Args:
            name: The key of the variable in this module; dotted names nest.
            data_iter: Gives the values of the whole variable, as for `VariableFactory`.
            dtype: The dtype of the variable; None means that of the data.
            by_ref: Whether calls pass it by reference.
            replica_grouping: Replicas in one group share the value; None means all replicas.
            shard_over: Over how many replicas it is sharded; None means the whole group.

        Returns:
            The graph input: 1-D, with the shape of the data as its meta shape.

        Raises:
            ValueError: The key exists or is no key, or the data cannot be used.
        """
        group = replica_grouping or popxl.gcg().ir.replica_grouping()
        factory = VariableFactory(
            data_iter, dtype, name, by_ref, group, shard_over or group.group_size
        )
        return self._register(name, factory, factory.create_input(), overwrite=False)

    def add_variable_inputs(
        self, name: str | int, factories: NamedVariableFactories, overwrite: bool = False
    ) -> NamedTensors:
        """Adds an input for each of several variables to the current graph.

        Args:
            name: The key of the tree in this module; a name or a number of at least 0.
            factories: The variables; a copy of the tree is registered.
            overwrite: Whether the key may exist.

        Returns:
            The graph inputs, under the keys of the factories.

        Raises:
            ValueError: The key exists or is no key.
        """
        inputs = NamedTensors.from_dict(
            {key: factory.create_input() for key, factory in factories.to_dict().items()}
        )
        self._variable_factories.insert(name, factories.copy(), overwrite)
        self._named_inputs.insert(name, inputs, overwrite)
        return inputs

    def add_variable_factory(
        self, factory: VariableFactory, name: str | None = None
    ) -> popxl.Tensor:
        """Adds an input for a variable whose factory exists to the current graph.

        Args:
            factory: The variable.
            name: The key in this module; None means the factory's own name.

        Returns:
            The graph input.

        Raises:
            ValueError: There is no name, or the key exists.
        """
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
        """A container of modules.

        Args:
            modules: They become the attributes "0", "1", ...

        Returns:
            A module that can be iterated over and indexed, and has all their variables.
        """
        container = cls()
        container._length = 0
        for index, module in enumerate(modules):
            setattr(container, str(index), module)
            container._length = index + 1
        return container

    @classmethod
    def from_variable_factories(cls, factories: Iterable[VariableFactory]) -> Module:
        """A container of variables; to be made inside a graph.

        Args:
            factories: The graph inputs for them become the attributes "0", "1", ...

        Returns:
            A module with those variables.
        """
        container = cls()
        for index, factory in enumerate(factories):
            setattr(container, str(index), container.add_variable_factory(factory, str(index)))
        return container

    def get(self, key: int | str) -> Any:
        """An attribute by name or number.

        Args:
            key: The name, or the number of a module in a container.

        Returns:
            The attribute.

        Raises:
            AttributeError: There is none.
        """
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
        """Sets what the names of tensors and ops made in `build` start with.

        Args:
            name: The scope; names become `name/...`.
        """
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
        """Prepares a call of another module's graph.

        Args:
            module: The module that gets a graph of its own.
            name: The key of its variables here; None means the name of its class.
            autodiff: Whether its gradient graph is made too: "build_grad" (the one that it writes),
                "autodiff" (by the transform), "auto" (the first where there is one) or "none".
            grads_provided: Gives the outputs whose gradients are provided, of the graph; None means
                all.
            grads_required: Gives the inputs whose gradients are required, of the graph; None means
                all.

        Returns:
            A callable that takes the arguments of the module's `build`.

        Raises:
            ValueError: `autodiff` is none of the four.
        """
        return ModuleCall(self, module, name, autodiff, grads_provided, grads_required)
