"""A module with weights of many shapes and layers of `torch.nn`, and random lines that use them."""

from __future__ import annotations

import random

import torch
from torch import nn

from tests.python.poptorch.random_programs import Program, random_line

SHAPES = {
    "p1": (5, 4), "p2": (4, 4), "p3": (2, 3, 4), "p4": (4, 3, 3), "p5": (3, 1), "p6": (),
    "p7": (1, 4), "p8": (33, 4), "p9": (2, 3, 1, 2),
}  # fmt: skip
_LAYERS = (
    "self.dense({a})", "self.lstm({a})[0]", "self.lstm({a})[1][{n}]", "self.gru({a})[{n}]",
    "self.rnn({a})[{n}]", "self.conv({a})", "self.deconv({a})", "self.batch({a})", "self.norm({a})",
    "self.group({a})", "self.words({i})", "self.attend({a}, {a}, {a})[{n}]", "self.scaled({a})",
    "self.pair({a}, {a})", "self.slope({a})", "self.layer({a})", "self.bag({i}[None])",
    "F.linear({a}, {w})", "F.linear({a}, {w}, p)", "F.linear({a}, {w}[{n}:])", "{a} @ {w}.mT",
    "F.linear({a}, {w}.abs().sqrt())", "F.linear({a}, self.dense.weight.T)", "{a} @ {w}",
    "F.linear({a}, self.words.weight)", "F.linear({a}, {w}.reshape(-1, 4))", "{a} + {w}",
    "{w} * {a}", "F.linear({a}, {w}.half().float())", "F.linear({a}, {w}.flip(0))",
    "F.conv1d({a}, {w}, padding=1)", "F.linear({a}.expand(3, *{a}.shape), {w})",
    "F.linear({a}, torch.cat([{w}, {w}]))", "F.linear({a}, {w}[{i}])", "F.embedding({i}, {w})",
    "{w}[{i}] + {a}", "{w}.softmax(0)", "F.linear({a}, {w} / {w}.norm())",
    "F.linear({a}, {w} * self.state)", "{w}.t() @ {w}", "F.linear({a}, {w}, {w}[:, 0])",
    "F.layer_norm({a}, (4,), {w}[0], p)", "self.dense({w})",
    "torch.einsum('...i,ji->...j', {a}, {w})", "F.conv2d({a}[None], {w}[:, :, None])",
    "F.linear({a}, {w}.repeat(2, 1))", "{w}.expand(3, *{w}.shape)", "{w}.double() * 2",
    "{w}.sum(0)", "F.batch_norm({a}, self.batch.running_mean, self.batch.running_var)",
    "{w}.long()", "{w} > 0", "F.linear({a}, {w}.view(-1, {a}.shape[-1]))", "{w}.mT.contiguous()",
    "F.softmax({a} @ {w}.mT, -1)",
)  # fmt: skip

# Products and convolutions that are large enough for kernels which pack weights.
_LARGE = (
    "F.linear({a}.repeat(1, 12), self.wide)[..., :5]",
    "F.linear({a}.repeat({r}, 12), self.wide).sum(0)[:6]",
    "({a}.repeat({r}, 12) @ self.wide.T)[:3, :7]",
    "({a}.repeat({r}, 12) @ self.wide[{n}:, :].mT)[{n}]",
    "({a}.repeat({r}, 12) @ self.wide[:48])[-2:, :5]",
    "({a}.repeat({r}, 10) @ self.wide[:, :40].T[:, 3:])[:2, :9]",
    "F.linear({a}.repeat(2, {r}), self.wide[:, :{r} * 4])[..., -3:]",
    "F.linear({a}.repeat({r}, 12), self.wide.view(-1, 48)[::2])[1, :8]",
    "F.linear({a}.repeat({r}, 12), self.wide, self.wide[:, 0])[-3:, :3]",
    "F.linear({a}.repeat({r}, 12), torch.tanh(self.wide)).amax(0)[:9]",
    "F.conv2d({a}.repeat(3, 3)[None, None].expand({n} + 1, 16, -1, -1), self.kernel).mean((2, 3))",
    "F.conv2d({a}.repeat(3, 3)[None, None].expand("
    "1, 32, -1, -1), self.kernel, groups=2).sum((2, 3))",
    "F.conv2d({a}.repeat(3, 3)[None, None].expand("
    "1, 16, -1, -1), self.kernel, padding=1, stride=2)[0, :5, 1]",
    "F.conv2d({a}.repeat(3, 3)[None, None].expand(1, 16, -1, -1), self.kernel[::2].flip(2))[0, 3]",
    "F.conv_transpose2d({a}.repeat(2, 2)[None, None].expand("
    "1, 16, -1, -1), self.kernel.mT[:16])[0, 2]", "F.linear(self.wide, {a}.repeat(2, 12)[:2])[:5]",
    "self.wide.mean({n})[:4] * {a}",
    "torch.bmm({a}.repeat({r}, 12).expand(2, -1, -1), self.wide.view(2, -1, 48).mT)[:, :2, :7]",
    "self.long({a}.repeat({r}, 1)[None])[0][0, -2:, :5]", "(self.wide @ self.wide.T)[:3, :6]",
)  # fmt: skip


class Model(Program):
    """A program with weights of many shapes, and layers that have more.

    Args:
        lines: Its lines.
        seed: Of its weights.
    """

    def __init__(self, lines: list[str], seed: int = 0) -> None:
        super().__init__(lines)
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.shaped = nn.ParameterDict({k: torch.randn(s) for k, s in SHAPES.items()})
            self._make_layers()
        self.words.weight = self.q
        self.dense.weight = self.shaped["p2"]
        self.shaped["p5"].requires_grad_(False)

    def _make_layers(self) -> None:
        self.dense = nn.Linear(4, 4)
        self.lstm = nn.LSTM(4, 3, batch_first=True)
        self.gru = nn.GRU(4, 2)
        self.rnn = nn.RNN(4, 4, batch_first=True)
        self.conv, self.deconv = nn.Conv1d(3, 2, 3, padding=1), nn.ConvTranspose1d(3, 3, 2)
        self.batch, self.norm, self.group = nn.BatchNorm1d(3), nn.LayerNorm(4), nn.GroupNorm(1, 3)
        self.words, self.bag = nn.Embedding(3, 4), nn.EmbeddingBag(3, 4)
        self.attend = nn.MultiheadAttention(4, 2, batch_first=True)
        self.scaled = nn.utils.parametrizations.weight_norm(nn.Linear(4, 5))
        self.pair, self.slope = nn.Bilinear(4, 4, 3), nn.PReLU()
        self.wide = nn.Parameter(torch.randn(70, 48) * 0.2)
        self.kernel = nn.Parameter(torch.randn(24, 16, 3, 3) * 0.1)
        self.long = nn.LSTM(4, 20, 2, batch_first=True, bidirectional=True)
        self.layer = nn.TransformerEncoderLayer(4, 2, 5, dropout=0.0, batch_first=True)

    def start(self, inputs: tuple[torch.Tensor, ...]) -> dict[str, torch.Tensor]:
        return {**super().start(inputs), **dict(self.shaped.items())}


def line_with_weights(draw: random.Random, names: list[str], number: int) -> str:
    """A line of a program, often one with weights or a layer."""
    if draw.random() < 0.5:
        return random_line(draw, names, number)
    a, b = (names[max(draw.randrange(len(names)) for _ in range(2))] for _ in range(2))
    weight = draw.choice(["q", *SHAPES])
    fields = {"a": a, "b": b, "i": "i", "n": draw.randrange(2), "w": weight}
    fields["r"] = draw.choice([1, 2, 5, 11])
    made = draw.choice([_LAYERS, _LAYERS, _LARGE])
    return f"v{number} = {draw.choice(made).format(**fields)}"
