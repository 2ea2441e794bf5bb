from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call, grad_and_value

from benchmarks import data
from benchmarks.models.recommender import Recommender


class Dense(nn.Module):
    """What is computed from the dense features and the rows of the tables."""

    def __init__(self, of: Recommender) -> None:
        super().__init__()
        self.of = of
        for name, sizes in of.dense_layers.items():
            setattr(self, name, nn.Linear(*sizes))

    def _layers(self, part: str, x: torch.Tensor) -> torch.Tensor:
        names = [name for name in self.of.dense_layers if name.startswith(part)]
        for name in names:
            x = getattr(self, name)(x)
            if part == "bottom" or name != names[-1]:
                x = F.relu(x)
        return x

    def interact(self, dense: torch.Tensor, looked_up: Sequence[torch.Tensor]) -> torch.Tensor:
        x = self._layers("bottom", dense)
        vectors = torch.stack([x, *looked_up], dim=1)
        first, second = self.of.pairs
        products = (vectors @ vectors.transpose(1, 2))[:, first, second]
        return self._layers("top", torch.cat([x, products], dim=1)).squeeze(1)

    forward = interact


class Net(Dense):
    def __init__(self, of: Recommender) -> None:
        super().__init__(of)
        for name in of.table_names:
            setattr(self, name, nn.Parameter(torch.empty(of.rows, of.width)))

    def forward(self, dense: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        tables = [getattr(self, name) for name in self.of.table_names]
        # Their gradients hold only the rows that were read, and so SGD writes only these.
        looked_up = [
            F.embedding(ids, table, sparse=torch.is_grad_enabled())
            for ids, table in zip(rows, tables, strict=True)
        ]
        return self.interact(dense, looked_up)


def functional_step(of: Recommender, net: nn.Module) -> Callable[..., torch.Tensor]:
    """The whole SGD step: gradients of the rows that were read, which are added to their tables."""
    dense_net = Dense(of)
    weights = {name: value.detach() for name, value in net.named_parameters()}
    tables = [weights.pop(name) for name in of.table_names]

    def loss_of(
        values: dict[str, torch.Tensor],
        looked_up: tuple[torch.Tensor, ...],
        dense: torch.Tensor,
        labels: torch.Tensor,
    ) -> torch.Tensor:
        logits = functional_call(dense_net, values, (dense, looked_up))
        return F.binary_cross_entropy_with_logits(logits, labels)

    def step(dense: torch.Tensor, rows: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        looked_up = tuple(table[ids] for table, ids in zip(tables, rows, strict=True))
        gradients, loss = grad_and_value(loss_of, (0, 1))(weights, looked_up, dense, labels)
        for name, gradient in gradients[0].items():
            weights[name].sub_(gradient, alpha=data.LEARNING_RATE)
        for table, ids, gradient in zip(tables, rows, gradients[1], strict=True):
            table.index_add_(0, ids, gradient, alpha=-data.LEARNING_RATE)
        return loss

    return step
