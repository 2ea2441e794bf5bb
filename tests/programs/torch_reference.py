"""The training programs written once more in PyTorch tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch

Batch = tuple[np.ndarray, np.ndarray]
# First and second moment of each weight.
Moments = Mapping[str, tuple[np.ndarray, np.ndarray]]


def scores(weights: Mapping[str, torch.Tensor], images: torch.Tensor, layers: int) -> torch.Tensor:
    """Linear layers fc1 ... with tanh-GELU between them."""
    x = images.reshape(len(images), -1)
    for layer in range(1, layers + 1):
        x = x @ weights[f"fc{layer}.weight"] + weights[f"fc{layer}.bias"]
        if layer < layers:
            x = torch.nn.functional.gelu(x, approximate="tanh")
    return x


class Adam:
    """Adam without bias correction and with its first moment in float16.

    The moving averages are formed in the dtype of their state, every product and sum rounded to
    it; the step has the dtype of the first moment.
    """

    def __init__(
        self, weights: Mapping[str, torch.Tensor], lr: float, moments: Moments | None = None
    ) -> None:
        self._lr = np.float32(lr)
        if moments is not None:
            self._first = {key: torch.tensor(moments[key][0]) for key in weights}
            self._second = {key: torch.tensor(moments[key][1]) for key in weights}
            return
        self._first = {key: torch.zeros_like(w, dtype=torch.float16) for key, w in weights.items()}
        self._second = {key: torch.zeros_like(w) for key, w in weights.items()}

    def step(self, key: str, weight: torch.Tensor, grad: torch.Tensor) -> None:
        first, second = self._first[key], self._second[key]
        beta1, beta2 = np.float32(0.9), np.float32(0.999)
        rest1, rest2 = np.float32(1) - beta1, np.float32(1) - beta2
        half = torch.float16
        first.copy_(
            first * torch.tensor(beta1, dtype=half)
            + grad.to(half) * torch.tensor(rest1, dtype=half)
        )
        second.copy_(second * torch.tensor(beta2) + torch.tensor(rest2) * grad * grad)
        update = (first.float() / (second.sqrt() + np.float32(1e-5))).to(half)
        weight -= torch.tensor(self._lr) * update.float()


def reported_loss(logits: torch.Tensor, labels: torch.Tensor) -> float:
    """What `nll_loss_with_softmax_grad` gives as loss: the probability is kept from 0."""
    chosen = torch.softmax(logits.detach().double(), -1)[torch.arange(len(labels)), labels.long()]
    return -(chosen + 1e-7).log().mean().item()


def train_with_adam(
    start: Mapping[str, np.ndarray],
    batches: Sequence[Batch],
    lr: float,
    moments: Moments | None = None,
) -> tuple[list[float], dict[str, np.ndarray]]:
    """Losses and final weights. `moments`: those to start with; None: zeros."""
    weights = {key: torch.tensor(value, requires_grad=True) for key, value in start.items()}
    adam = Adam(weights, lr, moments)
    losses = []
    for images, labels in batches:
        logits = scores(weights, torch.tensor(images), len(weights) // 2)
        loss = torch.nn.functional.cross_entropy(logits, torch.tensor(labels).long())
        grads = torch.autograd.grad(loss, list(weights.values()))
        with torch.no_grad():
            for (key, weight), grad in zip(weights.items(), grads, strict=True):
                adam.step(key, weight, grad)
        losses.append(reported_loss(logits, torch.tensor(labels)))
    return losses, {key: weight.detach().numpy() for key, weight in weights.items()}


def train_two_layers_with_sgd(
    start: Mapping[str, np.ndarray], batches: Sequence[Batch], lr: float
) -> tuple[list[float], dict[str, np.ndarray]]:
    """Two linear layers W0, b0, W1, b1, each followed by tanh-GELU; losses and final weights."""
    weights = {key: torch.tensor(value, requires_grad=True) for key, value in start.items()}
    losses = []
    for images, labels in batches:
        x = torch.tensor(images).reshape(len(images), -1)
        for layer in (0, 1):
            x = x @ weights[f"W{layer}"] + weights[f"b{layer}"]
            x = torch.nn.functional.gelu(x, approximate="tanh")
        loss = torch.nn.functional.cross_entropy(x, torch.tensor(labels).long())
        grads = torch.autograd.grad(loss, list(weights.values()))
        with torch.no_grad():
            for weight, grad in zip(weights.values(), grads, strict=True):
                weight -= np.float32(lr) * grad
        losses.append(loss.item())
    return losses, {key: weight.detach().numpy() for key, weight in weights.items()}
