"""How torch takes operators apart that have no lowering."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from poptorch._private_torch import Operator, decomposition_table

# Coordinates at the bounds of their range have no gradient in torch's own kernels, while that of
# clamp, of which the decompositions are made, passes there.
_GRADIENT_ENDS_AT_BOUNDS = ("aten::grid_sampler_2d",)


class _ClampAsHardtanh(TorchFunctionMode):
    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is torch.clamp:
            func = torch.nn.functional.hardtanh
        return func(*args, **(kwargs or {}))


def decomposition_of(func: Operator) -> Callable[..., Any] | None:
    """Find out how torch takes an operator apart.

    Args:
        func: The operator.

    Returns:
        A function in its place; None: there is none.
    """
    if func._can_decompose():
        return func.decompose
    if func not in decomposition_table:
        return _out_of_place(func)
    decomposed = decomposition_table[func]
    if func._schema.name not in _GRADIENT_ENDS_AT_BOUNDS:
        return decomposed

    def without_gradient_at_bounds(*args: Any, **kwargs: Any) -> Any:
        with _ClampAsHardtanh():
            return decomposed(*args, **kwargs)

    return without_gradient_at_bounds


def _out_of_place(func: Operator) -> Callable[..., Any] | None:
    """An in-place operator as its out-of-place form and a copy, where torch has that form."""
    name = func._schema.name.partition("::")[2]
    packet = getattr(getattr(torch.ops, func.namespace), name[:-1], None)
    if not name.endswith("_") or name.endswith("__") or packet is None:
        return None

    def written_back(target: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        return target.copy_(packet(target, *args, **kwargs))

    return written_back
