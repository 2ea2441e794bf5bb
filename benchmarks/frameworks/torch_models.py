"""The programs as PyTorch modules, shared by the eager and the compiled adaptor."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks import data
from benchmarks.cases import Case
from benchmarks.models import families


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        sizes = zip(data.MLP_SIZES, data.MLP_SIZES[1:], strict=False)
        self.fc1, self.fc2, self.fc3, self.fc4 = (nn.Linear(i, o) for i, o in sizes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.reshape(-1, data.MLP_SIZES[0])
        for layer in (self.fc1, self.fc2, self.fc3):
            x = F.gelu(layer(x), approximate="tanh")
        return self.fc4(x)


class Cnn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        first, second, third = data.CNN_CHANNELS
        self.conv1 = nn.Conv2d(first, second, 3, padding=1)
        self.conv2 = nn.Conv2d(second, third, 3, padding=1)
        self.fc = nn.Linear(data.CNN_FEATURES, data.CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc(x.flatten(1))


class EncoderLayer(nn.Module):
    def __init__(self, of: data.Sizes) -> None:
        super().__init__()
        self.of = of
        self.norm1 = nn.LayerNorm(of.hidden)
        self.qkv = nn.Linear(of.hidden, 3 * of.hidden)
        self.proj = nn.Linear(of.hidden, of.hidden)
        self.norm2 = nn.LayerNorm(of.hidden)
        self.ff1 = nn.Linear(of.hidden, of.feed_forward)
        self.ff2 = nn.Linear(of.feed_forward, of.hidden)
        # Without a rate Dropout would still be an operator.
        self.dropout = nn.Dropout(of.dropout) if of.dropout else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        dropped = self.of.dropout if self.training else 0.0
        return self.around(
            x,
            partial(F.scaled_dot_product_attention, dropout_p=dropped, is_causal=self.of.causal),
        )

    def around(self, x: torch.Tensor, attend: Callable[..., torch.Tensor]) -> torch.Tensor:
        """The layer with this attention of q, k and v (batch, heads, tokens, depth)."""
        batch, sequence, hidden = x.shape
        heads = (batch, sequence, 3, self.of.heads, hidden // self.of.heads)
        read = x if self.of.post_norm else self.norm1(x)
        q, k, v = self.qkv(read).reshape(heads).permute(2, 0, 3, 1, 4)
        attended = attend(q, k, v).transpose(1, 2).reshape(batch, sequence, hidden)
        x = x + self.dropout(self.proj(attended))
        x = self.norm1(x) if self.of.post_norm else x
        read = x if self.of.post_norm else self.norm2(x)
        x = x + self.dropout(self.ff2(F.gelu(self.ff1(read), approximate="tanh")))
        return self.norm2(x) if self.of.post_norm else x


class Transformer(nn.Module):
    def __init__(self, layers: int) -> None:
        super().__init__()
        of = data.TRANSFORMER
        self.layers = nn.ModuleList(EncoderLayer(of) for _ in range(layers))
        self.head = nn.Linear(of.hidden, of.classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.head(x).flatten(0, 1)


class Decoder(nn.Module):
    def __init__(self, layers: int) -> None:
        super().__init__()
        of = data.DECODER
        self.tokens = nn.Parameter(torch.empty(of.classes, of.hidden))
        self.positions = nn.Parameter(torch.empty(of.sequence, of.hidden))
        self.layers = nn.ModuleList(EncoderLayer(of) for _ in range(layers))
        self.norm = nn.LayerNorm(of.hidden)
        self.head = nn.Linear(of.hidden, of.classes)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = F.embedding(tokens, self.tokens) + self.positions
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x)).flatten(0, 1)


def model(case: Case) -> nn.Module:
    """The case's network with the weights of ``data.weights``."""
    nets = {
        "mlp": Mlp,
        "cnn": Cnn,
        "transformer": lambda: Transformer(case.layers),
        "decoder": lambda: Decoder(case.layers),
    }
    net: nn.Module = (
        families.on("torch", case).Net(families.model(case))
        if case.variant
        else nets[case.family]()
    )
    # All but what counts the batches that a batch norm has seen.
    state = {key: value for key, value in net.state_dict().items() if value.ndim == 0}
    for name, value in data.weights(case).items():
        tensor = torch.from_numpy(value)
        dense = tensor.ndim == 2 and name.endswith("weight")
        key = name.replace("layer", "layers.", 1) if name.startswith("layer") else name
        state[key] = tensor.T.contiguous() if dense else tensor
    net.load_state_dict(state)
    return net


ADAM_OPTIONS = {
    "lr": data.LEARNING_RATE,
    "betas": (data.BETA1, data.BETA2),
    "eps": data.EPSILON,
}


class TutorialAdam(torch.optim.Optimizer):
    """The tutorial's Adam: float16 first moment, no correction for the bias, several tensors a call
    where PyTorch has such a function."""

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        super().__init__(parameters, {})
        self._weights: list[torch.Tensor] = self.param_groups[0]["params"]
        self._first = [torch.zeros_like(w, dtype=torch.float16) for w in self._weights]
        self._second = [torch.zeros_like(w) for w in self._weights]

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        del closure
        grads = [weight.grad for weight in self._weights]
        torch._foreach_mul_(self._second, data.BETA2)
        torch._foreach_addcmul_(self._second, grads, grads, value=1 - data.BETA2)
        moves = [first.float() for first in self._first]
        torch._foreach_lerp_(moves, grads, 1 - data.BETA1)
        torch._foreach_copy_(self._first, moves)
        denominators = torch._foreach_sqrt(self._second)
        torch._foreach_add_(denominators, data.EPSILON)
        torch._foreach_div_(moves, denominators)
        torch._foreach_add_(self._weights, moves, alpha=-data.LEARNING_RATE)


def loss_of(case: Case) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """The loss of outputs and labels."""
    losses = {
        "cross_entropy": F.cross_entropy,
        "binary": F.binary_cross_entropy_with_logits,
    }
    return losses[data.loss_kind(case)]


def host_batches(case: Case) -> list[tuple[Any, ...]]:
    """NumPy arrays, the labels last; int64 classes, since that is what ``cross_entropy`` takes."""
    binary = data.loss_kind(case) == "binary"
    return [
        (*batch.inputs, batch.labels if binary else batch.labels.astype("int64"))
        for batch in data.batches(case)
    ]


def tensors(batch: Iterable[Any]) -> list[torch.Tensor]:
    return [torch.from_numpy(array) for array in batch]


def micro_batches(case: Case, batch: Iterable[torch.Tensor]) -> list[tuple[torch.Tensor, ...]]:
    """A batch in the parts whose gradients are added up."""
    if case.accumulation == 1:
        return [tuple(batch)]
    return list(zip(*(tensor.chunk(case.accumulation) for tensor in batch), strict=True))


def optimizer(case: Case, net: nn.Module, **options: Any) -> torch.optim.Optimizer:
    """``torch.optim``'s, but for the tutorial's Adam, which takes no options."""
    rate: dict[str, Any] = {"lr": data.LEARNING_RATE}
    makes: dict[str, Callable[..., torch.optim.Optimizer]] = {
        "tutorial_adam": TutorialAdam,
        "adam": partial(torch.optim.Adam, **ADAM_OPTIONS),
        "adamw": partial(torch.optim.AdamW, **ADAM_OPTIONS, weight_decay=data.WEIGHT_DECAY),
        "momentum": partial(torch.optim.SGD, **rate, momentum=data.MOMENTUM),
        "sgd": partial(torch.optim.SGD, **rate),
    }
    return makes[case.optimizer](net.parameters(), **options)


def chain(case: Case) -> tuple[Callable[[torch.Tensor], torch.Tensor], torch.Tensor]:
    """The pointwise or norm function of one argument, and the argument."""
    vectors = data.row_vectors()
    a, b, c = (torch.from_numpy(v) for v in (vectors.a, vectors.b, vectors.c))

    def light(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x * a + b) * c + x * 0.5 - 1.0

    def gelu(x: torch.Tensor) -> torch.Tensor:
        return F.gelu(x * a + b, approximate="tanh") * c + x

    def norm(x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(F.softmax(x, dim=-1), (data.ROW,), a, b)

    functions = {"light": light, "gelu": gelu, "norm": norm}
    return functions[case.family], torch.from_numpy(data.plane(case))
