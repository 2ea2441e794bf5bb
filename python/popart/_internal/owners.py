"""The front end's Ir of each Ir of the core, by which code beneath the front end finds it."""

from __future__ import annotations

from typing import Any, Protocol
from weakref import WeakValueDictionary

from pando import _core
from popart._internal.options import SessionOptions
from popart._internal.patterns import Patterns


class IrOwner(Protocol):
    """What internal views use of a front end's Ir."""

    _pb: _core.Ir
    _options: SessionOptions
    _patterns: Patterns
    _rewired: set[str]
    _op_notes: dict[int, dict[str, Any]]
    replication_factor: int

    def _tensor(self, core_tensor: _core.Tensor) -> Any: ...

    def dot_checkpoint(self, check: str, save_dir: Any = None) -> None: ...


_owners: WeakValueDictionary[int, IrOwner] = WeakValueDictionary()


def register_owner(owner: IrOwner) -> None:
    """Make a new Ir of a front end known, as long as it lives."""
    _owners[owner._pb.id] = owner


def owner_of(ir_id: int) -> Any:
    """The front end's Ir of the core's Ir with that id."""
    return _owners[ir_id]
