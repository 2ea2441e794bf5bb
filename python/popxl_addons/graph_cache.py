"""Reuse of graphs that are built from equal arguments."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

import popxl
from popxl import ops
from popxl.context import get_current_context
from popxl_addons.graph import BoundGraph, GraphWithNamedArgs

# The entries are kept on the Ir object: they hold graphs, which keep their Ir alive, so that any
# table outside of the Ir would keep it alive for ever.
_IR_ATTRIBUTE = "_popxl_addons_graph_caches"


@dataclass
class CacheEntry:
    """A graph, and what its maker wants to find again with it.

    Attributes:
        graph: The graph.
        payload: Values of the maker, by name.
    """

    graph: popxl.Graph
    payload: dict[str, Any] = field(default_factory=dict)


class GraphCache:
    """Graphs by the function and the arguments they were built from, separately for each Ir."""

    def entries(self, ir: popxl.Ir) -> dict[Hashable, CacheEntry]:
        """What is cached for an Ir.

        Args:
            ir: The Ir.

        Returns:
            Key -> entry; the dict itself, so that new entries last.
        """
        caches = vars(ir).setdefault(_IR_ATTRIBUTE, weakref.WeakKeyDictionary())
        entries: dict[Hashable, CacheEntry] = caches.setdefault(self, {})
        return entries

    def create_graph(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> popxl.Graph:
        """The graph of a function in the current Ir, built once for arguments of one kind.

        Tensors are of one kind if shape, dtype and meta shape are equal, other values if they are
        equal. The device (`popxl.ipu`) counts too; name scopes do not.

        Args:
            fn: What builds the graph.
            *args: Its arguments, as for `popxl.Ir.create_graph`.
            **kwargs: Its keyword arguments.

        Returns:
            The graph, new or known.

        Raises:
            TypeError: An argument cannot be hashed.
        """
        ir = popxl.gcg().ir
        entries = self.entries(ir)
        key = function_key(fn, *args, **kwargs)
        if key not in entries:
            entries[key] = CacheEntry(ir.create_graph(fn, *args, **kwargs))
        return entries[key].graph


def function(fn: Callable[..., Any]) -> Callable[..., tuple[popxl.Tensor, ...]]:
    """Decorator: a call of the function becomes a call of its graph.

    The graph is built once for arguments of one kind (see `GraphCache.create_graph`).

    Args:
        fn: Takes and returns tensors.

    Returns:
        A function with the same arguments that returns the outputs of the call.
    """
    cache = GraphCache()

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> tuple[popxl.Tensor, ...]:
        return tuple(ops.call(cache.create_graph(fn, *args, **kwargs), *args, **kwargs))

    return call


def bound_arguments(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> inspect.BoundArguments:
    """Arguments bound to the signature of a callable.

    Args:
        fn: The callable; the signature is that of `fn.__call__`.
        *args: Positional arguments.
        **kwargs: Keyword arguments.

    Returns:
        The bound arguments, with defaults.

    Raises:
        TypeError: They do not fit the signature.
    """
    bound = inspect.signature(fn.__call__).bind(*args, **kwargs)  # type: ignore[operator]
    bound.apply_defaults()
    return bound


def argument_key(argument: Any) -> Hashable:
    """What must be equal of an argument for a graph to be used again.

    Args:
        argument: A tensor or TensorSpec, of which shape, dtype and meta shape count; a bound or
            named graph; a list, tuple or dict of such; any other value that can be hashed.

    Returns:
        A key that can be hashed.

    Raises:
        TypeError: The argument, or something in it, cannot be hashed.
    """
    if isinstance(argument, popxl.Tensor | popxl.TensorSpec):
        return (tuple(argument.shape), argument.dtype, tuple(argument.meta_shape or ()))
    if isinstance(argument, BoundGraph):
        return (argument.graph, argument_key(argument.args))
    if isinstance(argument, GraphWithNamedArgs):
        return argument.graph
    if isinstance(argument, dict):
        return tuple((argument_key(k), argument_key(v)) for k, v in argument.items())
    if isinstance(argument, list | tuple):
        return tuple(argument_key(item) for item in argument)
    if not isinstance(argument, Hashable):
        raise TypeError(f"unhashable type: {type(argument).__name__}: {argument!r}")
    return argument


def function_key(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Hashable:
    """What must be equal for the graph of a function to be used again.

    Args:
        fn: What builds the graph.
        *args: Its arguments.
        **kwargs: Its keyword arguments.

    Returns:
        The function's hash, the current device and tile set, and the keys of the arguments.

    Raises:
        TypeError: An argument cannot be hashed.
    """
    settings = get_current_context()._get_op_settings("key")
    arguments = bound_arguments(fn, *args, **kwargs).arguments
    placement = (settings.vgraphId, settings.tileSet)
    return (hash(fn), placement, argument_key(dict(arguments)))


def tensor_hash(tensor: popxl.Tensor | popxl.TensorSpec) -> int:
    """The hash of a tensor's shape, dtype and meta shape.

    Args:
        tensor: A tensor or TensorSpec.

    Returns:
        The hash; data and name do not count.
    """
    return hash(argument_key(tensor))


def argument_hash(argument: Any) -> int:
    """The hash of `argument_key`.

    Args:
        argument: As for `argument_key`.

    Returns:
        The hash.

    Raises:
        TypeError: The argument cannot be hashed.
    """
    return hash(argument_key(argument))


def get_function_hash(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> int:
    """The hash of `function_key`.

    Args:
        fn: As for `function_key`.
        *args: As for `function_key`.
        **kwargs: As for `function_key`.

    Returns:
        The hash.

    Raises:
        TypeError: An argument cannot be hashed.
    """
    return hash(function_key(fn, *args, **kwargs))
