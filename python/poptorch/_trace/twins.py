"""Parameters and buffers of a module as tensors of the trace, for the time of the trace."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from poptorch._impl import createPoptorchError
from poptorch._private_torch import StatisticsNorm, calls_within
from poptorch._trace.recorder import ScopeState


@dataclass
class Twins:
    """The tensors of the trace that stand for those of a module.

    Attributes:
        originals: Parameters and buffers on the host by the first name that the module has for
            each, in the order of its state dictionary.
        metas: The meta tensors by the same names.
        parameters: The names of those that are parameters.
        complex_buffers: The meta tensors and the originals of complex buffers, which are none of
            the others, by name.
    """

    originals: dict[str, torch.Tensor] = field(default_factory=dict)
    metas: dict[str, torch.Tensor] = field(default_factory=dict)
    parameters: set[str] = field(default_factory=set)
    complex_buffers: dict[str, tuple[torch.Tensor, torch.Tensor]] = field(default_factory=dict)
    _slots: list[_Slot] = field(default_factory=list)

    @contextmanager
    def away(self) -> Iterator[None]:
        """Put the originals back for a while, as for a layer that runs on the host.

        Yields:
            Nothing.
        """
        # What forward has put elsewhere stays, and is refused at the end.
        in_place = [s for s in self._slots if s.tensors.get(s.attribute) is s.twin]
        for slot in in_place:
            slot.hold(slot.original)
        try:
            yield
        finally:
            for slot in in_place:
                slot.hold(slot.twin)


@dataclass(frozen=True)
class _Slot:
    owner: torch.nn.Module
    attribute: str
    name: str
    original: torch.Tensor
    twin: torch.Tensor
    is_parameter: bool

    @property
    def tensors(self) -> dict[str, Any]:
        """Those of the kind that the module has now."""
        return self.owner._parameters if self.is_parameter else self.owner._buffers

    def hold(self, tensor: torch.Tensor) -> None:
        # Recurrent modules keep lists of their weights, which setattr keeps up to date.
        setattr(self.owner, self.attribute, tensor)


def _twins(module: torch.nn.Module, per_replica: Collection[str]) -> Twins:
    """A twin for each tensor, one for all places that hold the same tensor."""
    twins = Twins()
    names: dict[int, str] = {}
    slots = []
    for prefix, owner in module.named_modules():
        for held, is_parameter in ((owner._parameters, True), (owner._buffers, False)):
            for attribute, tensor in held.items():
                if tensor is None:
                    continue
                name = names.setdefault(
                    id(tensor), f"{prefix}.{attribute}" if prefix else attribute
                )
                if tensor.is_complex():
                    twin = _complex_twin(name, tensor, is_parameter)
                    twin, _ = twins.complex_buffers.setdefault(name, (twin, tensor))
                    slots.append(_Slot(owner, attribute, name, tensor, twin, is_parameter))
                    continue
                if name not in twins.metas:
                    twins.originals[name] = tensor
                    row = tensor.detach()[0] if name in per_replica else tensor.detach()
                    twins.metas[name] = _twin(tensor, row, is_parameter)
                    if is_parameter:
                        twins.parameters.add(name)
                slots.append(_Slot(owner, attribute, name, tensor, twins.metas[name], is_parameter))
    twins._slots = slots
    return twins


def _complex_twin(name: str, tensor: torch.Tensor, is_parameter: bool) -> torch.Tensor:
    if is_parameter:
        raise createPoptorchError(
            f"The parameter {name} is complex, {tensor.dtype}; parameters are real: make one of "
            "torch.view_as_real, and use torch.view_as_complex where it is read"
        )
    return torch.empty_like(tensor, device="meta")


def _twin(original: torch.Tensor, values: torch.Tensor, is_parameter: bool) -> torch.Tensor:
    twin = torch.empty_like(values, device="meta")
    if is_parameter:
        twin = torch.nn.Parameter(twin, original.requires_grad)
        kind = _class_without_wrapper(original)
        if kind is not torch.nn.Parameter:
            twin.__class__ = kind
    vars(twin).update(vars(original))
    return twin


def _class_without_wrapper(tensor: torch.Tensor) -> Any:
    """The class that a tensor had before its module was wrapped."""
    return next(
        kind
        for kind in type(tensor).__mro__
        if not any(base.__module__.startswith("poptorch.") for base in kind.__mro__)
    )


def _check_not_rebound(slots: list[_Slot]) -> None:
    for slot in slots:
        if isinstance(slot.owner, StatisticsNorm):
            continue
        kind = "Parameter" if slot.is_parameter else "Buffer"
        if slot.attribute not in slot.tensors:
            raise createPoptorchError(
                f"{kind} {slot.name} is removed from the model when calling the forward method."
            )
        if slot.tensors[slot.attribute] is not slot.twin:
            raise createPoptorchError(
                f"{kind} {slot.name} is reassigned within the model when calling the forward "
                "method. This is not supported. Consider using "
                f"self.{slot.name}.copy_(src) to copy data from a source tensor, where src is the "
                "name of the source tensor."
            )


# What a module registers is not plain: others may share these containers, which keep their places.
_REGISTRIES = ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set")


@dataclass(frozen=True)
class _Attributes:
    """What a module has before the trace."""

    owner: torch.nn.Module
    plain: dict[str, Any]
    registered: dict[str, Any]


def _attributes_of(module: torch.nn.Module) -> list[_Attributes]:
    return [
        _Attributes(
            owner,
            {key: value for key, value in vars(owner).items() if key not in _REGISTRIES},
            {key: vars(owner)[key].copy() for key in _REGISTRIES if key in vars(owner)},
        )
        for owner in module.modules()
    ]


def _restore_attributes(saved: list[_Attributes]) -> None:
    for before in saved:
        current = vars(before.owner)
        for key, registered in before.registered.items():
            current[key].clear()
            current[key].update(registered)
        for key, value in before.plain.items():
            if current.get(key) is not value:
                current[key] = value
        for key in current.keys() - before.plain.keys() - set(_REGISTRIES):
            if _holds_traced(current[key]):
                del current[key]


def _holds_traced(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return value.device.type == "meta"
    if isinstance(value, (list, tuple)):
        return any(map(_holds_traced, value))
    if isinstance(value, dict):
        return any(map(_holds_traced, value.values()))
    return False


@contextmanager
def twins_in(module: torch.nn.Module, per_replica: Collection[str] = ()) -> Iterator[Twins]:
    """Put twins in place of all parameters and buffers of a module, and the originals back.

    Args:
        module: The module.
        per_replica: The names of parameters that have one value for each group of replicas: the
            twin is like one of them.

    Yields:
        The twins.

    Raises:
        Error: A parameter or buffer was replaced or deleted while the twins were in place.
    """
    twins = _twins(module, per_replica)
    saved = _attributes_of(module)
    try:
        for slot in twins._slots:
            slot.hold(slot.twin)
        # Those lists belong to the trace: what forward changes is counted from here.
        yield twins
        _check_not_rebound(twins._slots)
    finally:
        _restore_attributes(saved)
        for slot in twins._slots:
            if slot.is_parameter:
                # The lists of recurrent modules hold twins, until originals are put there.
                slot.hold(slot.original)


@contextmanager
def module_scopes(module: torch.nn.Module, state: ScopeState, enabled: bool) -> Iterator[None]:
    """Name ops by the modules that are being called.

    Args:
        module: The module whose parts push their names.
        state: Where the names go.
        enabled: Whether they do.

    Yields:
        Nothing.
    """
    with ExitStack() as stack:
        for path, part in module.named_modules() if enabled else ():
            if path:
                scope = functools.partial(_scope, path.rpartition(".")[2], state)
                stack.enter_context(calls_within(part, scope))
        yield


@contextmanager
def _scope(name: str, state: ScopeState) -> Iterator[None]:
    state.names.append(name)
    try:
        yield
    finally:
        state.names.pop()
