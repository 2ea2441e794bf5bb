"""Classes of internal ops, one per kind: `isinstance(op, ir.op.MatMulOp)`.

A class is made when its name is first used. `<Kind>Op` is the class of kind `<Kind>`; a few kinds
are also known under a second name.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from pando import _core
from pando.missing_names import missing_name
from popart._internal.op_view import NAMES_OF_KINDS, Op
from popart._internal.view_base import makes_views_of

_OTHER_NAMES = {
    "GroupNormOp": "GroupNormalization",
    "SubtractOp": "Sub",
    **{f"{name}Op": kind for kind, name in NAMES_OF_KINDS.items()},
}
# Kinds that no op of ours has: classes to compare with, whatever the original would make.
_EXTRA_KINDS = (
    "MultiExchange",
    "MulLhsInplace",
    "MulRhsInplace",
    "AddRhsInplace",
    "HostLoadInplace",
)
# Kinds whose class is derived from that of another kind.
_DERIVED = {
    "DetachInplace": "Detach",
    "ConcatInplace": "Concat",
    "IdentityInplace": "Identity",
    "ScaledAddLhsInplace": "ScaledAdd",
    "HostLoadInplace": "HostLoad",
    "RemoteLoadInplace": "RemoteLoad",
    "ReplicatedAllReduceInplace": "ReplicatedAllReduce",
    "TiedGather": "Gather",
    "Scatter": "ScatterReduce",
    "Accumulate": "AccumulateBase",
    "SparseAccumulate": "AccumulateBase",
}
_EXCHANGE = (
    "HostLoad",
    "HostLoadInplace",
    "HostStore",
    "RemoteLoad",
    "RemoteLoadInplace",
    "RemoteStore",
    "MultiExchange",
    "RemoteCodeLoad",
)

_classes: dict[str, type[Any]] = {}


@makes_views_of(_core.Op)
def view_of(core_op: _core.Op) -> Any:
    """The view of a core op, of the class of its kind."""
    return _class_of(core_op.kind)(core_op)


def _class_of(kind: str) -> type[Any]:
    known = _classes.get(kind)
    if known is None:
        # Few programs look at ops, so the classes are loaded with the first view.
        from popart._internal import op_kinds

        base = op_kinds.CLASSES.get(kind, Op)
        if kind in _DERIVED:
            base = _class_of(_DERIVED[kind])
        name = f"{NAMES_OF_KINDS.get(kind, kind)}Op"
        known = _classes[kind] = type(name, (base,), {"__module__": __name__, "kind": kind})
    return known


class _Exchange(SimpleNamespace):
    """The classes of the ops that move data in and out."""

    def __getattr__(self, name: str) -> type[Any]:
        kind = name.removesuffix("Op")
        if kind not in _EXCHANGE:
            raise AttributeError(f"popart._internal.ir.op.exchange has no class '{name}'")
        return _class_of(kind)


exchange = _Exchange()


def __getattr__(name: str) -> type[Any]:
    kind = _OTHER_NAMES.get(name, name.removesuffix("Op"))
    kinds = [kind.name for kind in _core.op_kinds()]
    known = (*kinds, *_EXTRA_KINDS, *_DERIVED, *_DERIVED.values())
    if name.endswith("Op") and kind in known:
        return _class_of(kind)
    classes = [f"{kind}Op" for kind in known] + list(_OTHER_NAMES)
    raise missing_name("popart._internal.ir.op", name, classes)
