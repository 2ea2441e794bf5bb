"""What every module has, even one that does not call the constructor of its base."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import popxl
from popxl_addons.build_grad import AuxStore, VarGradStore
from popxl_addons.graph_cache import GraphCache
from popxl_addons.graph_common import CalledGraphsGradInfo
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.variable_factory import NamedVariableFactories

if TYPE_CHECKING:
    from popxl_addons.module import Module

Subclass = TypeVar("Subclass", bound="ModuleState")


class ModuleState(popxl.Module):
    """The state of a module: its options, its parts, and what the build that goes on registers."""

    _graph_cache: GraphCache
    _cached = False
    _grad_inlining_error = "error"
    _name_scope: str | None = None
    _variable_factories: NamedVariableFactories
    _named_inputs: NamedTensors
    _own_grad_info: CalledGraphsGradInfo
    _sub_modules: dict[str, Module]
    _length: int | None = None
    aux: AuxStore
    var_grad: VarGradStore

    def __new__(cls: type[Subclass], *args: Any, **kwargs: Any) -> Subclass:
        """Makes a module that has its state before any constructor runs.

        Args:
            *args: What the constructors get.
            **kwargs: What the constructors get.

        Returns:
            The module.
        """
        self = super().__new__(cls)
        self._graph_cache = GraphCache()
        self._variable_factories = NamedVariableFactories()
        self._named_inputs = NamedTensors()
        self._own_grad_info = {}
        self._sub_modules = {}
        self.aux = AuxStore()
        self.var_grad = VarGradStore()
        return self
