"""Products of groups of rows and what layers of experts need besides, against eager torch."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
from torch import nn

import poptorch
from poptorch._lower.lowering import IGNORED_ARGUMENTS
from poptorch._lower.registry import find, lowered_names

ENDS = torch.tensor([3, 3, 8], dtype=torch.int32)


class Grouped(nn.Module):
    """A grouped product of parameters."""

    def __init__(self, left: tuple[int, ...], right: tuple[int, ...], turned: bool) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        self.left = nn.Parameter(torch.randn(left, generator=generator))
        self.right = nn.Parameter(torch.randn(right, generator=generator))
        self.turned = turned

    def forward(self, ends: torch.Tensor | None = None) -> Any:
        right = self.right.mT if self.turned else self.right
        y = nn.functional.grouped_mm(self.left, right, offs=ends)
        weights = torch.cos(torch.arange(y.numel(), dtype=torch.float32)).reshape(y.shape)
        return y, poptorch.identity_loss((y * weights).sum(), "none")


SHAPES = {
    "rows": ((8, 4), (3, 4, 8), False, ENDS),
    "rows_and_transposed_weights": ((8, 4), (3, 8, 4), True, ENDS),
    "columns": ((3, 8, 4), (4, 8), False, ENDS),
    "terms": ((4, 8), (8, 12), False, ENDS),
    "batch": ((3, 8, 4), (3, 4, 8), False, None),
}


@pytest.mark.parametrize("case", SHAPES)
def test_grouped_products_and_their_gradients(case: str) -> None:
    left, right, turned, ends = SHAPES[case]
    inputs = () if ends is None else (ends,)
    model, eager = Grouped(left, right, turned), Grouped(left, right, turned)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    given = poptorch.trainingModel(model, optimizer=optimizer)(*inputs)[0]
    wanted, loss = eager(*inputs)
    torch.testing.assert_close(given, wanted)
    loss.backward()
    for parameter, changed in zip(eager.parameters(), model.parameters(), strict=True):
        assert parameter.grad is not None
        torch.testing.assert_close(changed, parameter - parameter.grad, rtol=1e-4, atol=1e-5)


class Counts(nn.Module):
    """Counts of elements in parts of a range."""

    def __init__(self, *range_of_parts: float) -> None:
        super().__init__()
        self.range_of_parts = range_of_parts

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.histc(x, 5, *self.range_of_parts)


@pytest.mark.parametrize("limits", [(0, 4), (-1, 1), (0, 0), (2, 2), ()])
@pytest.mark.parametrize(
    "values", [[0.0, 4.0, 3.99, -1.0, 5.0, 2.0], [1.5, 1.5, 1.5], [0.8, 0.79999995, 1.6]]
)
def test_counts_in_parts_of_a_range(limits: tuple[float, ...], values: list[float]) -> None:
    x = torch.tensor(values)
    given = poptorch.inferenceModel(Counts(*limits))(x)
    torch.testing.assert_close(given, torch.histc(x, 5, *limits))


# Torch makes these of another overload, which is what is traced.
_UNREACHED = {"aten::repeat_interleave.self_Tensor", "aten::repeat_interleave.self_int"}


def _takes_all(name: str, overload: str, function: Any) -> bool:
    namespace, operator = name.split("::")
    schema = getattr(getattr(getattr(torch.ops, namespace), operator), overload)._schema
    arguments = [a.name for a in schema.arguments if not a.is_out]
    if not any("Tensor" in str(a.type) for a in schema.arguments):
        return True
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return True
    return {*arguments} - IGNORED_ARGUMENTS <= {p.name for p in parameters}


def test_lowerings_take_the_arguments_of_every_overload() -> None:
    refused = set()
    for name in sorted(lowered_names()):
        namespace, operator = name.split("::")
        packet = getattr(getattr(torch.ops, namespace), operator, None)
        for overload in packet.overloads() if packet is not None else []:
            full = name if overload == "default" else f"{name}.{overload}"
            is_known = torch._C._dispatch_has_kernel(full)
            if is_known and not _takes_all(name, overload, find(name)):
                refused.add(full)
    assert refused == _UNREACHED
