"""Products of groups of rows, as of layers of experts, against eager torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import poptorch

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
