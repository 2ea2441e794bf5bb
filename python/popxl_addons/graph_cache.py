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
    """A graph, and what its maker wants to find again with it."""

    graph: popxl.Graph
    payload: dict[str, Any] = field(default_factory=dict)


class GraphCache:
    """Graphs by the function and the arguments they were built from, separately for each Ir."""

    def entries(self, ir: popxl.Ir) -> dict[Hashable, CacheEntry]:
        """What is cached for `ir`."""
        caches = vars(ir).setdefault(_IR_ATTRIBUTE, weakref.WeakKeyDictionary())
        entries: dict[Hashable, CacheEntry] = caches.setdefault(self, {})
        return entries

    def create_graph(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> popxl.Graph:
        """The graph of `fn` in the current Ir, built once for arguments of one kind."""
        ir = popxl.gcg().ir
        entries = self.entries(ir)
        key = function_key(fn, *args, **kwargs)
        if key not in entries:
            entries[key] = CacheEntry(ir.create_graph(fn, *args, **kwargs))
        return entries[key].graph


def function(fn: Callable[..., Any]) -> Callable[..., tuple[popxl.Tensor, ...]]:
    """Decorator: a call of `fn` becomes a call of its graph, which is built once per kind of
    arguments."""
    cache = GraphCache()

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> tuple[popxl.Tensor, ...]:
        return tuple(ops.call(cache.create_graph(fn, *args, **kwargs), *args, **kwargs))

    return call


def bound_arguments(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> inspect.BoundArguments:
    """The arguments bound to the signature of `fn.__call__`, with defaults."""
    bound = inspect.signature(fn.__call__).bind(*args, **kwargs)  # type: ignore[operator]
    bound.apply_defaults()
    return bound


def argument_key(argument: Any) -> Hashable:
    """What must be equal of an argument for a graph to be used again.

    Tensors count by shape and dtype, other values by equality. TypeError when not hashable.
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
    """The key of a graph: the function's hash, the current IPU and tile set, the arguments."""
    settings = get_current_context()._get_op_settings("key")
    arguments = bound_arguments(fn, *args, **kwargs).arguments
    placement = (settings.vgraphId, settings.tileSet)
    return (hash(fn), placement, argument_key(dict(arguments)))


def tensor_hash(tensor: popxl.Tensor | popxl.TensorSpec) -> int:
    """Hash of shape, dtype and meta shape."""
    return hash(argument_key(tensor))


def argument_hash(argument: Any) -> int:
    """Hash of `argument_key(argument)`."""
    return hash(argument_key(argument))


def get_function_hash(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> int:
    """Hash of `function_key`."""
    return hash(function_key(fn, *args, **kwargs))
