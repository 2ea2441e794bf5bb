"""Operators of the specification against eager torch, on samples of torch's own database."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

import poptorch
from tests.python.poptorch.operator_database import NAMES, failing

X = torch.linspace(-2, 2, 24).reshape(2, 3, 4)
OTHERS = sorted(
    name for name in NAMES.read_text(encoding="utf-8").split() if not name.startswith("nn.")
)
PARTS = 4


@pytest.mark.parametrize("part", range(PARTS))
def test_first_samples_agree(part: int) -> None:
    """Results, and a step of SGD with them as the loss."""
    assert failing(OTHERS[part::PARTS], "float32", 2, True) == []


@pytest.mark.parametrize("part", range(PARTS))
def test_equal_elements_share_gradients_as_in_torch(part: int) -> None:
    """Also zeros and ends of ranges."""
    names = sorted(NAMES.read_text(encoding="utf-8").split())
    assert failing(names[part::PARTS], "float32", 2, True, tied=True) == []


def gradients(function: Callable[..., torch.Tensor], *values: list[float]) -> list[torch.Tensor]:
    """Those of eager torch and of a program, of the sum of a function's results."""
    module = Calls(lambda *weights: function(*(w.clone() for w in weights)).sum())
    weights = nn.ParameterList(nn.Parameter(torch.tensor(value)) for value in values)

    class Loss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weights = weights

        def forward(self) -> torch.Tensor:
            return poptorch.identity_loss(module(*self.weights), "none")

    model = Loss()
    model().backward()
    wanted = [weight.grad.clone() for weight in weights]
    trained = poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=1.0))
    before = [weight.detach().clone() for weight in weights]
    trained()
    found = [b - w.detach() for b, w in zip(before, weights, strict=True)]
    return [torch.cat(wanted), torch.cat(found)]


EDGES = {
    "clamp": (lambda t: t.clamp(0, 1), [0.0, 1.0, 0.5, 2.0]),
    "clamp_min": (lambda t: t.clamp(min=0), [0.0, 1.0, -1.0]),
    "empty range": (torch.clamp, [0.0, 3.0], [1.0, 2.0], [1.0, 1.0]),
    "asinh": (torch.asinh, [0.0, -2.0, 1.0]),
    "sinc": (torch.sinc, [0.0, 0.5, 1.0]),
    "xlogy": (torch.xlogy, [0.0, 0.0, 0.0, 1.0], [2.0, 0.5, 1.0, 3.0]),
    "xlog1py": (torch.special.xlog1py, [0.0, 0.0, 2.0], [2.0, -0.5, 3.0]),
    "logit": (torch.logit, [0.25, 0.5, 0.75]),
    "logit of a range": (lambda t: torch.logit(t, 0.1), [0.05, 0.5, 0.95]),
    "trunc": (lambda a, b: torch.div(a, b, rounding_mode="trunc") * a, [1.0, 3.0], [2.0, 2.0]),
    "saturated": (
        lambda p: nn.functional.binary_cross_entropy(p, torch.tensor([0.0, 1.0, 0.3, 1.0, 0.0])),
        [0.0, 1.0, 0.0, 0.0, 1.0],
    ),
    "margin": (
        lambda t: nn.functional.multi_margin_loss(t.reshape(1, 3), torch.tensor([1])),
        [1.0, 2.0, 0.5],
    ),
    "largest": (
        lambda t: torch.zeros(3).scatter_reduce(
            0, torch.tensor([0, 0, 1, 1, 1]), t, "amax", include_self=False
        ),
        [2.0, 2.0, 0.0, -1.0, 0.0],
    ),
    "smallest rows": (
        lambda t: torch.ones(2, 2).index_reduce(
            0, torch.tensor([0, 0, 1]), t.reshape(3, 2), "amin"
        ),
        [1.0, 0.5, 0.5, 0.5, 3.0, 1.0],
    ),
    "border": (
        lambda t: nn.functional.grid_sample(
            X[None, :, :, :2].reshape(1, 1, 4, 3)[:, :, :3],
            t.reshape(1, 1, 3, 2),
            padding_mode="border",
            align_corners=True,
        ),
        [-1.0, 0.3, 1.0, 1.0, 0.2, 0.1],
    ),
}


@pytest.mark.parametrize("function, values", [(f, v) for f, *v in EDGES.values()], ids=EDGES)
def test_gradients_at_edges_are_those_of_torch(
    function: Callable[..., torch.Tensor], values: list[list[float]]
) -> None:
    wanted, given = gradients(function, *values)
    torch.testing.assert_close(given, wanted, rtol=1e-5, atol=1e-6)


def test_operators_of_integers_agree() -> None:
    names = "bitwise_and bitwise_or bitwise_xor bitwise_not nn.functional.one_hot index_fill"
    for dtype in ("int64", "bool"):
        assert failing(names.split(), dtype, 3, False) == []


class Calls(nn.Module):
    """A module that calls a function."""

    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.function(*inputs)


def run(function: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> torch.Tensor:
    return poptorch.inferenceModel(Calls(function))(*inputs)


def reshaped_in_place(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    z = y[0]
    y.unsqueeze_(0)
    y.transpose_(0, 1)
    y.squeeze_(1)
    z.t_()
    z.add_(1)
    return y


def written_at_a_list(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[:, [0, 2]] = 3.0
    return y


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[:, [0, 2]],
        lambda x: x[[0, 1], [2, 0]],
        lambda x: x[:, np.array([2, 0])],
        lambda x: x[:, [True, False, True]],
        lambda x: x[0].masked_select(torch.eye(3, 4) > 0),
        lambda x: x[:, torch.arange(3) > 0],
        lambda x: x.repeat_interleave(torch.tensor([1, 0, 2]), 1),
        lambda x: torch.cat(torch.tensor_split(x, torch.tensor([1, 3]), dim=2)[:2], 2),
        written_at_a_list,
        reshaped_in_place,
        lambda x: x.bfloat16() + 1,
        lambda x: torch.combinations(x[0, 0], 2, True),
    ],
)
def test_indices_and_shapes_that_the_trace_knows(
    function: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    given, wanted = run(function, X), function(X.clone())
    assert given.dtype == wanted.dtype
    torch.testing.assert_close(given, wanted)


@pytest.mark.parametrize(
    ("operator", "function"),
    [
        ("index", lambda x: x[x > 0]),
        ("nonzero", torch.nonzero),
        ("masked_select", lambda x: x.masked_select(x > 0)),
        ("_unique2", torch.unique),
        ("bincount", lambda x: torch.bincount(x.reshape(-1).int())),
        ("repeat_interleave", lambda x: x.repeat_interleave(x[:, 0, 0].long(), 0)),
        ("tensor_split", lambda x: torch.tensor_split(x, x[0, 0].long())[0]),
    ],
)
def test_dynamic_shapes_are_refused_with_the_line(
    operator: str, function: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    match = rf"aten::{operator} at .*:\d+ gives a tensor of a dynamic shape"
    with pytest.raises(poptorch.Error, match=match):
        run(function, X)


TABLE = torch.arange(30.0).reshape(5, 6)


def sliced_after_a_write(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    end = i + 2
    i.add_(1)
    return x[i:end]


@pytest.mark.parametrize("start", [0, 2, -4])
@pytest.mark.parametrize(
    "function",
    [
        lambda x, i: x[i : i + 2],
        lambda x, i: x[:, i[0] : 3 + i[0] : 2],
        lambda x, i: x[None, ..., i : i + 1, 1],
        lambda x, i: x[0][..., i.int() : i.long() + 3],
        lambda x, i: x[:, i[0] - 1 + 2 : 3 + i[0]],
        lambda x, i: TABLE[i : i + 2] + x[0, 0],
    ],
)
def test_slices_with_a_start_of_the_run(
    function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], start: int
) -> None:
    index = torch.tensor([start])
    model = poptorch.inferenceModel(Calls(function))
    torch.testing.assert_close(model(TABLE, index), function(TABLE, index))


def test_bounds_that_are_products() -> None:
    def block(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return x[:, 2 * i[0] : (i[0] + 1) * 2]

    index = torch.tensor([1])
    torch.testing.assert_close(run(block, TABLE, index), block(TABLE, index))


def test_slices_go_on_at_the_beginning_behind_the_end() -> None:
    given = run(lambda x, i: x[i : i + 3], TABLE, torch.tensor([3]))
    torch.testing.assert_close(given, TABLE[[3, 4, 0]])


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda x, i: x[i : 2 * i], "a constant distance"),
        (lambda x, i: x[i:], "a constant distance"),
        (sliced_after_a_write, "a constant distance"),
        (lambda x, i: x[i : i + 9], "0 to 5 elements, which dimension 0 has; given one of 9"),
        (lambda x, i: x.clone().__setitem__(slice(i, i + 2), 0), "poptorch.dynamic_update"),
    ],
)
def test_slices_of_no_constant_size_are_refused(
    function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], text: str
) -> None:
    with pytest.raises(poptorch.Error, match=text):
        run(function, TABLE, torch.tensor([1]))


def test_inputs_keep_their_shape() -> None:
    with pytest.raises(poptorch.Error, match=r"An input of shape \[2, 3, 4\] is changed to shape"):
        run(lambda x: x.unsqueeze_(0) + 1, X)


def test_numbers_of_classes_and_counts_must_be_given() -> None:
    numbers = torch.tensor([1, 0, 3])
    wanted = torch.nn.functional.one_hot(numbers, 4)
    assert torch.equal(run(lambda x: torch.nn.functional.one_hot(x, 4), numbers), wanted.int())
    with pytest.raises(poptorch.Error) as caught:
        run(torch.nn.functional.one_hot, numbers)
    text = "OneHot num classes must be specified and must be constant."
    assert text in str(caught.value)


def test_counts_have_the_size_that_is_asked_for() -> None:
    numbers = torch.tensor([1, 5, 5, 2])
    wanted = torch.bincount(numbers, minlength=8).int()
    assert torch.equal(run(lambda x: torch.bincount(x, minlength=8), numbers), wanted)
    weights = torch.tensor([0.5, 1.0, 2.0, 4.0])
    given = run(lambda x, w: torch.bincount(x, w, minlength=8), numbers, weights)
    torch.testing.assert_close(given, torch.bincount(numbers, weights, minlength=8).float())
    # What is beyond the size is left out.
    assert torch.equal(run(lambda x: torch.bincount(x, minlength=3), numbers), wanted[:3])


def test_equal_gives_a_tensor() -> None:
    assert bool(run(torch.equal, X, X.clone())) is True
    assert bool(run(torch.equal, X, X + 1)) is False
    assert bool(run(lambda a, b: torch.equal(a, b[0]), X, X)) is False


class Weighted(nn.Module):
    """A weight that goes through a function."""

    def __init__(self, function: Callable[..., torch.Tensor], *shape: int) -> None:
        super().__init__()
        self.function = function
        self.weight = nn.Parameter(torch.linspace(-2, 3, math.prod(shape)).reshape(shape))

    def forward(self) -> tuple[torch.Tensor, torch.Tensor]:
        result = self.function(self.weight)
        factors = torch.arange(result.numel(), device=result.device).reshape(result.shape)
        loss = (result * factors.float().sin()).sum()
        if poptorch.isRunningOnIpu():
            loss = poptorch.identity_loss(loss, "sum")
        return loss, result


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda w: (w * 2).index_fill_(1, torch.tensor([0, 2]), 7.0), (3, 4)),
        (lambda w: torch.nn.functional.fold(w, (4, 5), 2, padding=1, stride=2), (2, 12, 9)),
        (lambda w: torch.nn.functional.fold(w, (4, 6), (2, 3), dilation=(1, 2)), (12, 6)),
        (lambda w: torch.native_group_norm(w, None, None, 2, 4, 6, 2, 1e-5)[0], (2, 4, 2, 3)),
        (
            lambda w: torch.native_group_norm(w, 2 * w[0, :, 0], -w[1, :, 0], 2, 4, 6, 2, 1e-5)[0],
            (2, 4, 6),
        ),
        (lambda w: torch.nn.functional.prelu(w.detach() + 0.1, w[:, 0]), (4, 4)),
    ],
)
def test_results_and_gradients_are_those_of_torch(
    function: Callable[..., torch.Tensor], shape: tuple[int, ...]
) -> None:
    reference, module = Weighted(function, *shape), Weighted(function, *shape)
    loss, result = reference()
    loss.backward()
    optimizer = torch.optim.SGD(module.parameters(), lr=1.0)
    given_loss, given = poptorch.trainingModel(module, optimizer=optimizer)()
    torch.testing.assert_close(given, result.detach(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(given_loss, loss.detach(), rtol=1e-4, atol=1e-4)
    wanted = (reference.weight - reference.weight.grad).detach()
    torch.testing.assert_close(module.state_dict()["weight"], wanted, rtol=1e-4, atol=1e-4)


class Overwritten(nn.Module):
    """A loss that a weight has a part in for torch, but no value of it."""

    def __init__(self) -> None:
        super().__init__()
        self.gone = nn.Parameter(torch.ones(4))
        self.used = nn.Parameter(torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.gone.clone().fill_(2.0)
        loss = ((y + self.used) * x).sum()
        return poptorch.identity_loss(loss, "sum") if poptorch.isRunningOnIpu() else loss


@pytest.mark.parametrize("accumulation", [1, 2])
def test_weights_that_are_overwritten_get_a_gradient_of_zero(accumulation: int) -> None:
    reference, module = Overwritten(), Overwritten()
    x = torch.arange(4.0)
    reference(x).backward()
    torch.optim.SGD(reference.parameters(), lr=0.1, weight_decay=0.5).step()
    options = poptorch.Options()
    options.Training.gradientAccumulation(accumulation)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, weight_decay=0.5)
    poptorch.trainingModel(module, options, optimizer)(x.repeat(accumulation))
    for name, value in reference.named_parameters():
        torch.testing.assert_close(module.state_dict()[name], value.detach())


class Norms(nn.Module):
    """Norms of zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 2.0]]))

    def forward(self) -> torch.Tensor:
        norms = [torch.linalg.vector_norm(self.weight, p, dim=1) for p in (2, 3, 0.5, -1)]
        loss = torch.cat([*norms, self.weight.norm(dim=1)]).sum()
        return poptorch.identity_loss(loss, "sum") if poptorch.isRunningOnIpu() else loss


def test_norms_of_zeros_have_the_gradients_of_torch() -> None:
    reference, module = Norms(), Norms()
    reference().backward()
    wanted = reference.weight.detach() - reference.weight.grad
    assert torch.isfinite(wanted).all()
    optimizer = torch.optim.SGD(module.parameters(), lr=1.0)
    poptorch.trainingModel(module, optimizer=optimizer)()
    torch.testing.assert_close(module.state_dict()["weight"], wanted)


@pytest.mark.parametrize("limits", [(0, 4), (-1, 1), (0, 0), (2, 2), ()])
@pytest.mark.parametrize(
    "values", [[0.0, 4.0, 3.99, -1.0, 5.0, 2.0], [1.5, 1.5, 1.5], [0.8, 0.79999995, 1.6]]
)
def test_histc_counts_in_parts_of_a_range(limits: tuple[float, ...], values: list[float]) -> None:
    def counts(x: torch.Tensor) -> torch.Tensor:
        return torch.histc(x, 5, *limits)

    x = torch.tensor(values)
    torch.testing.assert_close(run(counts, x), counts(x))
