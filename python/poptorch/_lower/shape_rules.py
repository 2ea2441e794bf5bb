"""Results on meta tensors of operators whose own rule torch lacks, by name with overload."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from poptorch._impl import createPoptorchError

SHAPE_RULES: dict[str, Callable[..., Any]] = {}


def shape_rule(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function that takes the place of operators on meta tensors.

    Args:
        *names: The operators, such as `aten::add.Tensor`.

    Returns:
        A decorator.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            if name in SHAPE_RULES:
                raise ValueError(f"{name} has two shape rules")
            SHAPE_RULES[name] = function
        return function

    return register


def _losses_of_labels(operator: Callable[..., Any]) -> Callable[..., Any]:
    """Torch's rule under its Python dispatcher reads labels of single samples, which have no
    values here, and forgets the axes of unreduced losses.
    """

    def rule(
        self: torch.Tensor,
        target: torch.Tensor,
        weight: torch.Tensor | None = None,
        reduction: int = 1,
        *rest: Any,
        **more: Any,
    ) -> torch.Tensor:
        if reduction != 0 and self.dim() > 1:
            result: torch.Tensor = operator(self, target, weight, reduction, *rest, **more)
            return result
        scores = self * target if target.is_floating_point() else self
        return scores.sum(1) if self.dim() > 1 else scores.sum()

    return rule


for _name in ("nll_loss", "nll_loss2d", "nll_loss_nd", "cross_entropy_loss"):
    shape_rule(f"aten::{_name}")(_losses_of_labels(getattr(torch.ops.aten, _name).default))


@shape_rule("aten::ctc_loss.IntList", "aten::ctc_loss.Tensor")
def ctc_loss(
    log_probs: torch.Tensor,
    targets: torch.Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: int = 1,
    zero_infinity: bool = False,
) -> torch.Tensor:
    """Torch's rule reads the lengths."""
    del targets, input_lengths, target_lengths, blank, zero_infinity
    return log_probs.sum((0, 2)) if reduction == 0 and log_probs.dim() == 3 else log_probs.sum()


@shape_rule("aten::one_hot")
def one_hot(self: torch.Tensor, num_classes: int = -1) -> torch.Tensor:
    """Torch's rule reads the largest class."""
    if num_classes < 1:
        raise createPoptorchError("OneHot num classes must be specified and must be constant.")
    return self.new_empty((*self.shape, num_classes), dtype=torch.int64)


@shape_rule("aten::multilabel_margin_loss")
def multilabel_margin_loss(
    self: torch.Tensor, target: torch.Tensor, reduction: int = 1
) -> torch.Tensor:
    """Torch's rule reads the labels."""
    del target
    return self.sum(1) if reduction == 0 and self.dim() == 2 else self.sum()


# Torch's rules for these know reductions as words only.


@shape_rule("aten::margin_ranking_loss")
def margin_ranking_loss(
    input1: torch.Tensor,
    input2: torch.Tensor,
    target: torch.Tensor,
    margin: float = 0.0,
    reduction: int = 1,
) -> torch.Tensor:
    """The shape of its inputs, or none."""
    losses = (input1 - input2) * target + margin
    return losses if reduction == 0 else losses.sum()


@shape_rule("aten::hinge_embedding_loss")
def hinge_embedding_loss(
    self: torch.Tensor, target: torch.Tensor, margin: float = 1.0, reduction: int = 1
) -> torch.Tensor:
    """The shape of its inputs, or none."""
    del margin
    losses = self * target
    return losses if reduction == 0 else losses.sum()


@shape_rule("aten::cdist")
def cdist(
    x1: torch.Tensor, x2: torch.Tensor, p: float = 2.0, compute_mode: int | None = None
) -> torch.Tensor:
    """Torch's rule forgets that small distances have gradients."""
    del p, compute_mode
    return (x1.unsqueeze(-2) - x2.unsqueeze(-3)).sum(-1)


@shape_rule("aten::bincount")
def bincount(
    self: torch.Tensor, weights: torch.Tensor | None = None, minlength: int = 0
) -> torch.Tensor:
    """As many counts as are asked for: torch's rule reads the largest number."""
    dtype = torch.int64 if weights is None else torch.float32
    return self.new_empty((minlength,), dtype=dtype)


@shape_rule("aten::_grouped_mm", "transformers::grouped_mm_fallback")
def grouped_mm(
    left: torch.Tensor,
    right: torch.Tensor,
    offs: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """Torch's rule has only the dtype of its kernels of GPUs; that of the CPU has others too.

    That of transformers makes results of which torch does not know that they have gradients.
    """
    if bias is not None:
        raise RuntimeError("Bias not supported yet")
    if offs is None:
        return torch.bmm(left, right).to(out_dtype or left.dtype)
    if left.dim() == right.dim():
        shape = [len(offs), left.shape[0], right.shape[1]]
    elif left.dim() == 2:
        shape = [left.shape[0], right.shape[2]]
    else:
        shape = [left.shape[1], right.shape[1]]
    return (left.sum() + right.sum()).to(out_dtype or left.dtype).expand(shape).clone()


@shape_rule("aten::repeat_interleave.Tensor")
def repeat_interleave(repeats: torch.Tensor, *, output_size: int) -> torch.Tensor:
    """As many positions as are asked for."""
    return repeats.new_empty((output_size,))


@shape_rule("aten::narrow.Tensor")
def narrow(self: torch.Tensor, dim: int, start: torch.Tensor, length: int) -> torch.Tensor:
    """Torch's rule reads the start."""
    del start
    return self.narrow(dim, 0, length).clone()


@shape_rule("aten::std_mean.dim")
def std_mean(
    self: torch.Tensor, dim: list[int] | None, unbiased: bool = True, keepdim: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Torch's rule takes fewer arguments by position than the operator has."""
    return torch.std_mean(self, dim, correction=int(unbiased), keepdim=keepdim)


@shape_rule("aten::take")
def take(self: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Torch's rule reads the index of a tensor without axes."""
    return self.reshape(-1)[:1].expand(index.numel()).reshape(index.shape).clone()


@shape_rule("aten::mode")
def mode(
    self: torch.Tensor, dim: int = -1, keepdim: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """The shapes of the extremes along an axis."""
    values, places = torch.max(self, dim, keepdim)
    return values, places


@shape_rule("aten::combinations")
def combinations(self: torch.Tensor, r: int = 2, with_replacement: bool = False) -> torch.Tensor:
    """As many rows as there are choices: torch's rule reads a mask."""
    count = math.comb(len(self) + (r - 1 if with_replacement else 0), r)
    return self[:1].expand(count, r).clone()


@shape_rule("aten::prelu")
def prelu(self: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Torch's rule under its Python dispatcher loses the gradient of the weight."""
    return self * weight.sum()


def _in_the_dtype_of(activation: int, operator: Callable[..., Any]) -> Callable[..., Any]:
    """Torch's rule refuses half beside float, or promotes them: weights follow activations."""

    def rule(*args: Any, **kwargs: Any) -> Any:
        dtype = args[activation].dtype

        def follow(value: Any) -> Any:
            is_mixed = isinstance(value, torch.Tensor) and {value.dtype, dtype} == _HALF_AND_FLOAT
            return value.to(dtype) if is_mixed else value

        return operator(*map(follow, args), **{key: follow(v) for key, v in kwargs.items()})

    return rule


_HALF_AND_FLOAT = {torch.float16, torch.float32}
# Products, by the position of their activation.
_PRODUCTS = {
    0: (
        *("conv1d", "conv2d", "conv3d", "convolution", "_convolution"),
        *("conv1d.padding", "conv2d.padding", "conv3d.padding"),
        *("conv_transpose1d", "conv_transpose2d.input", "conv_transpose3d.input"),
        *("linear", "matmul", "linalg_matmul", "mm", "bmm", "mv", "dot"),
        "scaled_dot_product_attention",
    ),
    1: ("addmm", "baddbmm", "addmv", "addbmm"),
}
for _activation, _names in _PRODUCTS.items():
    for _name in _names:
        _packet, _, _overload = _name.partition(".")
        _operator = getattr(getattr(torch.ops.aten, _packet), _overload or "default")
        shape_rule(f"aten::{_name}")(_in_the_dtype_of(_activation, _operator))
