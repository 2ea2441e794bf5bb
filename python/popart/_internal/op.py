"""Classes of internal ops, one per kind: `isinstance(op, ir.op.MatMulOp)`.

A class is made when its name is first used. `<Kind>Op` is the class of kind `<Kind>`; a few kinds
are also known under a second name.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from pando import _core

_OTHER_NAMES = {
    "GroupNormOp": "GroupNormalization",
    "SubtractOp": "Sub",
    "HistogramOp": "Histogram",
    "LogSoftmaxOp": "LogSoftmax",
}
# Classes that the original groups in a submodule, or that no op of ours ever has.
_EXTRA_KINDS = ("MultiExchange", "RemoteCodeLoad", "IpuCopy", "IoTileCopy", "Sum")
_EXCHANGE = (
    "HostLoad",
    "HostStore",
    "RemoteLoad",
    "RemoteLoadInplace",
    "RemoteStore",
    "MultiExchange",
    "RemoteCodeLoad",
)

_base: type[Any]
_graph_view: Callable[[Any], Any]
_classes: dict[str, type[Any]] = {}


def bind(base: type[Any], graph_view: Callable[[Any], Any]) -> Callable[[_core.Op], Any]:
    """Sets the base class of every op class; returns the function that makes views."""
    global _base, _graph_view
    _base = base
    _graph_view = graph_view
    return view_of


def view_of(core_op: _core.Op) -> Any:
    """The view of a core op, of the class of its kind."""
    return _class_of(core_op.kind)(core_op)


def _called_graph(self: Any) -> Any:
    return _graph_view(self._pb.called_graphs[0])


def _class_of(kind: str) -> type[Any]:
    known = _classes.get(kind)
    if known is None:
        members: dict[str, Any] = {"__module__": __name__}
        if kind in ("Call", "Loop"):
            members["getCalledGraph"] = _called_graph
        if kind == "Loop":
            members["getTripCountValue"] = lambda self: self._pb.attributes["trip_count"]
            members["setTripCountValue"] = lambda self, count: self._pb.set_attribute(
                "trip_count", count
            )
        known = _classes[kind] = type(f"{kind}Op", (_base,), members)
    return known


def _kinds() -> set[str]:
    return {kind.name for kind in _core.op_kinds()} | set(_EXTRA_KINDS)


class _Exchange(SimpleNamespace):
    def __getattr__(self, name: str) -> type[Any]:
        kind = name.removesuffix("Op")
        if kind not in _EXCHANGE:
            raise AttributeError(f"popart._internal.ir.op.exchange has no class '{name}'")
        return _class_of(kind)


exchange = _Exchange()


def __getattr__(name: str) -> type[Any]:
    kind = _OTHER_NAMES.get(name, name.removesuffix("Op"))
    if name.endswith("Op") and kind in _kinds():
        return _class_of(kind)
    raise AttributeError(f"popart._internal.ir.op has no class '{name}'")
