"""Small networks of the plain layers train as in eager torch."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import nn

import poptorch

Case = tuple[nn.Module, nn.Module, torch.Tensor, torch.Tensor]


class WithLoss(nn.Module):
    """A network whose forward pass also computes the loss."""

    def __init__(self, network: nn.Module, loss: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.loss = loss

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        output = self.network(x)
        return output, self.loss(output, y)


class Residual(nn.Module):
    """A block of ResNet, with activations in place."""

    def __init__(self, channels: int, wider: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, wider, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(wider, wider, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(wider), nn.BatchNorm2d(wider)])
        self.relu = nn.ReLU(inplace=True)
        self.down: nn.Module = nn.Identity()
        if stride > 1:
            shortcut = nn.Conv2d(channels, wider, 1, stride, bias=False)
            self.down = nn.Sequential(shortcut, nn.BatchNorm2d(wider))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        t = self.norms[1](self.second(self.relu(self.norms[0](self.first(x)))))
        t += self.down(x)
        result: torch.Tensor = self.relu(t)
        return result


class Encoder(nn.Module):
    """Embeddings and transformer layers, as in BERT, with padding that attention does not see."""

    def __init__(self, words: int, width: int) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width, padding_idx=0)
        self.places = nn.Embedding(16, width)
        self.norm = nn.LayerNorm(width)
        layer = nn.TransformerEncoderLayer(
            width, 4, 2 * width, dropout=0.0, activation="gelu", batch_first=True
        )
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(width, words)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        places = self.places(torch.arange(ids.shape[1], device=ids.device))
        t = self.norm(self.words(ids) + places)
        t = self.out(self.layers(t, src_key_padding_mask=ids == 0))
        return t.transpose(1, 2)


def _mlp() -> Case:
    layers = [nn.Linear(10, 20), nn.GELU(), nn.LayerNorm(20), nn.Dropout(0.0), nn.Linear(20, 5)]
    x, y = torch.randn(8, 10), torch.randint(0, 5, (8,))
    return nn.Sequential(*layers), nn.CrossEntropyLoss(), x, y


def _cnn() -> Case:
    network = nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 5),
    )
    return network, nn.CrossEntropyLoss(), torch.randn(4, 3, 16, 16), torch.randint(0, 5, (4,))


def _resnet() -> Case:
    network = nn.Sequential(
        nn.Conv2d(3, 8, 7, 2, 3, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
        Residual(8, 8, 1),
        Residual(8, 16, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 5),
    )
    loss = nn.CrossEntropyLoss(label_smoothing=0.1)
    return network, loss, torch.randn(4, 3, 32, 32), torch.randint(0, 5, (4,))


def _bert() -> Case:
    ids = torch.randint(1, 50, (4, 16))
    labels = torch.randint(1, 50, (4, 16))
    ids[:, 12:] = 0
    labels[:, 12:] = 0
    return Encoder(50, 32), nn.CrossEntropyLoss(ignore_index=0), ids, labels


@pytest.mark.parametrize("make_case", [_mlp, _cnn, _resnet, _bert])
def test_training_is_that_of_torch(make_case: Callable[[], Case]) -> None:
    torch.manual_seed(3)
    network, loss, x, y = make_case()
    reference = copy.deepcopy(network)
    optimizer = torch.optim.SGD(reference.parameters(), lr=0.05)
    module = WithLoss(network, loss)
    model = poptorch.trainingModel(module, optimizer=torch.optim.SGD(module.parameters(), lr=0.05))
    for _ in range(5):
        optimizer.zero_grad()
        wanted = reference(x)
        wanted_loss = loss(wanted, y)
        wanted_loss.backward()
        optimizer.step()
        given, given_loss = model(x, y)
        torch.testing.assert_close(given, wanted, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(given_loss, wanted_loss, rtol=1e-5, atol=1e-6)
    state = network.state_dict()
    for name, value in reference.state_dict().items():
        torch.testing.assert_close(state[name], value, rtol=1e-4, atol=1e-5, msg=name)
    module.eval()
    reference.eval()
    given, _ = poptorch.inferenceModel(module)(x, y)
    torch.testing.assert_close(given, reference(x), rtol=1e-4, atol=1e-5)
