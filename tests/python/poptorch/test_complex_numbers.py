"""Complex tensors in programs, against eager torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import poptorch
from poptorch._trace.complex_numbers import ComplexNumbers
from poptorch._trace.complex_rules import BY_PARTS, MAKERS, RULES

GENERATOR = torch.Generator().manual_seed(8)
X, Y = (torch.randn(3, 4, 2, generator=GENERATOR) for _ in range(2))
ROTATION = torch.polar(torch.ones(4), torch.arange(4.0))
INDICES = torch.tensor([2, 0])
MASK = torch.tensor([[True, False, True, True]])

Function = Callable[[torch.Tensor, torch.Tensor], Any]


def writes_in_place(z: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    z = z * 1
    z[0] = w[1]
    z[:, 1:3] *= w[:, :2]
    z.add_(w, alpha=2).neg_()
    z[1].mul_(2j)
    z[2].fill_(1 - 2j)
    z[0, :2].zero_()
    z[INDICES] = w[:2]
    return z.unsqueeze_(0)


def writes_real_tensors(z: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    pairs = torch.view_as_real(z * 1) * 1
    numbers = torch.view_as_complex(pairs)
    numbers.mul_(w)
    return pairs


def factories(z: torch.Tensor, w: torch.Tensor) -> list[torch.Tensor]:
    made = [torch.zeros(4, dtype=z.dtype), torch.full((3, 4), 2 - 1j), torch.ones_like(z)]
    made += [torch.zeros_like(w), torch.full_like(z, 3), torch.ones(4, dtype=torch.complex64)]
    made += [z.new_zeros(4), z.new_full((3, 4), 1 + 2j), w.new_ones(3, 4), z.new_zeros(3, 1).real]
    made += [z.real.new_full((3, 4), 2, dtype=z.dtype)]
    return [z * one + w for one in made]


def conversions(z: torch.Tensor, w: torch.Tensor) -> list[torch.Tensor]:
    return [z.real.to(torch.complex64) * w, z.to(torch.complex64), z.imag.to(z.dtype)]


def beside_real(z: torch.Tensor, w: torch.Tensor) -> list[torch.Tensor]:
    r = w.real
    made = [z + r, r - z, z * r, r * z, z / r, r / z, z + 2, 2 - z, z - 1j, 1j * z, z / 2j, 1 / z]
    return [*made, torch.where(MASK, z, w), torch.cat([z, r]), z.masked_fill(MASK, 2)]


def moves(z: torch.Tensor, w: torch.Tensor) -> list[torch.Tensor]:
    first = [
        z[:, :4],
        z.t(),
        z.reshape(4, 3),
        z.flatten(),
        z[1:],
        z[:, 1],
        z[..., None],
        z.permute(1, 0),
    ]
    more = [z.expand(2, 3, 4), z.repeat(2, 1), z.flip(0), z.roll(1, 1), z.narrow(1, 1, 2), z.mT]
    more += [*z.unbind(), *z.split(2), *z.chunk(2, 1), torch.stack([z, w]), torch.cat([z, w], 1)]
    more += [z[INDICES], z.index_select(1, INDICES), z.gather(1, INDICES.expand(3, 2))]
    more += [z.diagonal(), z.tril(), z.triu(), z.contiguous(), z.clone(), z.view(12).view(2, 6)]
    more += [z.unfold(1, 2, 1), z.rot90(), torch.diag(z[0]), torch.diag_embed(z), z.select(0, 1)]
    more += [z.repeat_interleave(2, 1), z.split([1, 3], 1)[1]]
    return first + more + [z.squeeze(), z.movedim(0, 1), torch.nn.functional.pad(z, (1, 2))]


def sums(z: torch.Tensor, w: torch.Tensor) -> list[torch.Tensor]:
    zeros = torch.zeros_like(z)
    scattered = zeros.scatter_add(1, INDICES.expand(3, 2), z[:, :2])
    scattered = scattered + zeros.scatter(1, INDICES.expand(3, 2), w[:, 2:])
    added = [zeros.index_add(0, INDICES, w[:2]), zeros.index_copy(0, INDICES, w[:2]), scattered]
    return [z.sum(), z.mean(1), z.cumsum(0), z.diff(), z.trace(), *added]


def products(z: torch.Tensor, w: torch.Tensor) -> list[torch.Tensor]:
    square, batch = z @ w.mT, z[None].expand(2, 3, 4)
    made = [square, z @ w[0], torch.einsum("ij,kj->ik", z, w.conj()), z[0].dot(w[0])]
    made += [torch.vdot(z[0], w[0]), torch.bmm(batch, batch.mT)]
    made += [torch.addmm(square, z, w.mT, beta=0.5, alpha=2), torch.outer(z[0], w[0])]
    return [*made, torch.baddbmm(square, batch, batch.mT), torch.mv(z, w[1])]


def lengths(z: torch.Tensor, w: torch.Tensor) -> list[torch.Tensor]:
    zero = torch.cat([z[:1], z[:1] * 0])
    return [z.abs(), zero.abs(), z.angle(), z.sgn(), torch.linalg.vector_norm(z, dim=1), z.norm()]


def predicates(z: torch.Tensor, w: torch.Tensor) -> list[torch.Tensor]:
    nan = torch.complex(z.real / 0, z.imag * 0)
    found = [z == z * 1, z != w, torch.isnan(nan), torch.isinf(nan), torch.isfinite(nan)]
    return [one * z.real for one in found]


def fourier(z: torch.Tensor, w: torch.Tensor) -> list[torch.Tensor]:
    fft = torch.fft
    made = [fft.fft(z), fft.ifft(z, norm="ortho"), fft.fft2(z), fft.fftn(z, s=(4, 6), dim=(0, 1))]
    made += [fft.rfft(z.real), fft.rfft2(z.imag, norm="forward"), fft.irfft(z), fft.irfft(z, n=5)]
    made += [fft.irfft2(z), fft.hfft(z), fft.ihfft(z.real), fft.fftshift(fft.fft(z.real))]
    return [*made, fft.fft(z, n=6), fft.fft(z, n=3, dim=0), fft.ifftshift(z)]


FUNCTIONS: dict[str, Function] = {
    "arithmetic": lambda z, w: [z * w, z / w, z + w, z - w, -z, torch.add(z, w, alpha=3), +z],
    "beside_real": beside_real,
    "parts": lambda z, w: (
        [z.real, w.imag, z.conj(), torch.real(z), z.conj().resolve_conj() * w, z.detach() * w]
    ),
    "conjugates": lambda z, w: [torch.conj_physical(z), torch.resolve_neg(z), z.conj() * w],
    "makers": lambda z, w: [torch.complex(z.real, w.real), torch.polar(z.abs(), w.real)],
    "constants": lambda z, w: [z * ROTATION, torch.view_as_real(ROTATION) * w.real[..., None]],
    "factories": factories,
    "conversions": conversions,
    "functions": lambda z, w: [z.exp(), z.log(), z.sqrt(), z.reciprocal(), z.square(), z.rsqrt()],
    "hyperbolic": lambda z, w: [z.sin(), z.cos(), z.sinh(), z.cosh(), z.tanh(), z.sigmoid()],
    "large": lambda z, w: [(z * 60).tanh(), (z * 30).sigmoid(), (w * 1e-25) / (z * 1e-25)],
    "powers": lambda z, w: [z**2, z**0.5, z**3, z**w, z**w.real, 2**z],
    "lengths": lengths,
    "predicates": predicates,
    "moves": moves,
    "sums": sums,
    "products": products,
    "writes": writes_in_place,
    "writes_of_real_tensors": writes_real_tensors,
    "fourier": fourier,
}


class Complex(nn.Module):
    """A function of complex numbers, whose parts are weights times inputs."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function
        self.weight = nn.Parameter(torch.linspace(0.5, 1.5, 8).reshape(4, 2))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        z, w = torch.view_as_complex(x * self.weight), torch.view_as_complex(y * self.weight)
        results = self.function(z, w)
        results = results if isinstance(results, list) else [results]
        real = [torch.view_as_real(r.resolve_conj()) if r.is_complex() else r for r in results]
        loss = torch.zeros(())
        for result in real:
            weights = torch.cos(torch.arange(result.numel(), dtype=torch.float32))
            loss = loss + (result * weights.reshape(result.shape)).sum()
        return real, poptorch.identity_loss(loss, "none")


def _check(function: Function) -> None:
    model, reference = Complex(function), Complex(function)
    wanted, loss = reference(X, Y)
    loss.backward()
    assert reference.weight.grad is not None
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    given, _ = poptorch.trainingModel(model, optimizer=optimizer)(X, Y)
    for index, (one, other) in enumerate(zip(given, wanted, strict=True)):
        torch.testing.assert_close(
            one, other.detach(), rtol=1e-4, atol=1e-4, msg=lambda m, i=index: f"{i}: {m}"
        )
    after = reference.weight.detach() - 0.01 * reference.weight.grad
    torch.testing.assert_close(model.state_dict()["weight"], after, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("case", FUNCTIONS)
def test_complex_functions_train(case: str) -> None:
    _check(FUNCTIONS[case])


def test_every_rule_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that no rule is without a comparison."""
    called = set()
    call = ComplexNumbers.call

    def noted(self: ComplexNumbers, function: Any, *rest: Any) -> Any:
        called.add(function._schema.name.removeprefix("aten::").removesuffix("_"))
        return call(self, function, *rest)

    monkeypatch.setattr(ComplexNumbers, "call", noted)
    for function in FUNCTIONS.values():
        poptorch.inferenceModel(Complex(function))(X, Y)
    assert sorted({*BY_PARTS, *RULES, *MAKERS} - called) == []


class Table(nn.Module):
    """A module with a complex buffer, as rotary embeddings have."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.register_buffer("rotation", ROTATION.clone())
        self.weight = nn.Parameter(torch.ones(()))
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        z = torch.view_as_complex(x * self.weight)
        return torch.view_as_real(self.function(z, self.rotation))


def test_complex_buffers_are_constants() -> None:
    model = Table(lambda z, rotation: z * rotation)
    given = poptorch.inferenceModel(model)(X)
    torch.testing.assert_close(given, model(X).detach())
    assert torch.equal(model.rotation, ROTATION)


class ComplexWeight(nn.Module):
    """A module with a complex parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.turn = nn.Parameter(ROTATION.clone())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (torch.view_as_complex(x) * self.turn).real


class Plain(nn.Module):
    """A function of one input."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


def write_real_view(x: torch.Tensor) -> torch.Tensor:
    z = torch.view_as_complex(x * 1)
    torch.view_as_real(z)[..., 0].mul_(2)
    return z.abs()


def write_behind_real_view(x: torch.Tensor) -> torch.Tensor:
    z = torch.view_as_complex(x * 1)
    pairs = torch.view_as_real(z)
    z.mul_(2)
    return pairs + 1


def write_around_real_views(x: torch.Tensor) -> torch.Tensor:
    z = torch.view_as_complex(x * 1)
    copy = torch.view_as_real(z).clone().mul_(3)
    z.mul_(2j)
    return torch.view_as_real(z) + copy


ERRORS: dict[str, tuple[nn.Module, torch.Tensor, str]] = {
    "written_buffer": (
        Table(lambda z, rotation: z * rotation.mul_(2)),
        X,
        "The complex buffer rotation is written; in a program it is a constant",
    ),
    "parameter": (ComplexWeight(), X, "The parameter turn is complex, torch.complex64"),
    "result": (
        Plain(torch.view_as_complex),
        X,
        r"A result of the model is complex, torch.complex64 of shape \[3, 4\]",
    ),
    "input": (
        Plain(torch.abs),
        torch.view_as_complex(X),
        "Unsupported input type torch.complex64.* Use torch.view_as_real",
    ),
    "operator": (
        Plain(lambda x: torch.view_as_complex(x).cumprod(0).real),
        X,
        r"aten::cumprod: at .*test_complex_numbers.py:\d+",
    ),
    "type": (
        Plain(lambda x: torch.view_as_complex(x).view(torch.float32)),
        X,
        "A complex tensor as torch.float32: use torch.view_as_real",
    ),
    "written_view": (
        Plain(write_real_view),
        X,
        r"A view that torch.view_as_real made is written at .*test_complex_numbers.py:\d+",
    ),
    "view_of_what_is_written": (
        Plain(write_behind_real_view),
        X,
        r"A view that torch.view_as_real made is read at .*test_complex_numbers.py:\d+, after",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors_of_complex_numbers(case: str) -> None:
    model, x, message = ERRORS[case]
    with pytest.raises(poptorch.Error, match=message):
        poptorch.inferenceModel(model)(x)


@pytest.mark.parametrize("size", [2, 96, 131, 1000, 1024, 1009])
def test_transforms_of_any_length(size: int) -> None:
    x = torch.randn(2, size, generator=torch.Generator().manual_seed(size))

    def transform(x: torch.Tensor) -> torch.Tensor:
        spectrum = torch.fft.fft(torch.fft.rfft(x)[:, : size // 2 + 1])
        return torch.cat(
            [torch.view_as_real(spectrum).flatten(1), torch.fft.irfft(spectrum, n=size)], 1
        )

    given = poptorch.inferenceModel(Plain(transform))(x)
    wanted = transform(x.double())
    assert (given - wanted).abs().max() < 1e-6 * wanted.abs().max()


def test_spectrograms_of_sounds() -> None:
    window = torch.hann_window(64)

    def spectrogram(x: torch.Tensor) -> torch.Tensor:
        return torch.stft(x, 64, 16, window=window, return_complex=True).abs()

    x = torch.randn(2, 400, generator=torch.Generator().manual_seed(3))
    given = poptorch.inferenceModel(Plain(spectrogram))(x)
    torch.testing.assert_close(given, spectrogram(x), rtol=1e-4, atol=1e-4)


def test_writes_around_real_views() -> None:
    given = poptorch.inferenceModel(Plain(write_around_real_views))(X)
    torch.testing.assert_close(given, write_around_real_views(X))
