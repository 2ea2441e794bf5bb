"""What all views have in common, and the way from a core object to its view."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pando import _core
from popart._internal.owners import IrOwner, owner_of

_Maker = TypeVar("_Maker", bound=Callable[[Any], Any])

# Views lead to each other (a tensor to its ops, an op to its tensors), so each module of views
# registers here what the others make.
_makers: dict[type, Callable[[Any], Any]] = {}


def makes_views_of(core_class: type) -> Callable[[_Maker], _Maker]:
    """Decorate what makes the view of an object of a class of the core."""

    def register(maker: _Maker) -> _Maker:
        _makers[core_class] = maker
        return maker

    return register


def view_of(core: Any) -> Any:
    """The view of a core object; the view of an op is of the class of its kind."""
    return _makers[type(core)](core)


class View:
    """Equality and hash by the core object. Keeps the Ir, which owns the object, alive."""

    def __init__(self, core: Any) -> None:
        self._pb = core
        graph = core if isinstance(core, _core.Graph) else core.graph
        self._owner: IrOwner = owner_of(graph.ir_id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, View) and self._pb is other._pb

    def __hash__(self) -> int:
        return hash(id(self._pb))
