"""Losses of class probabilities."""

from __future__ import annotations

from typing import Literal, get_args

from popxl import dtypes
from popxl.context import create_op
from popxl.ops.utils import check_inputs, make, outputs_of
from popxl.tensor import Tensor, constant

ReductionType = Literal["mean", "sum", "none"]


def _attributes(reduction: str, ignore_index: int | None) -> dict[str, object]:
    if reduction not in get_args(ReductionType):
        raise ValueError(
            f"Not a valid reduction: {reduction}. Must choose from: "
            f"{', '.join(get_args(ReductionType))}"
        )
    attributes: dict[str, object] = {"reduction": reduction}
    if ignore_index is not None:
        attributes["ignore_index"] = int(ignore_index)
    return attributes


def nll_loss(
    probs: Tensor,
    labels: Tensor,
    ignore_index: int | None = None,
    reduction: ReductionType = "mean",
    log_prob: bool = False,
) -> Tensor:
    """-ln of the probability of each label; `log_prob`: `probs` are logarithms already."""
    check_inputs(probs=probs, labels=labels)
    attributes = _attributes(reduction, ignore_index)
    attributes["log_prob"] = bool(log_prob)
    return make("Nll", [probs, labels], attributes, name="loss", settings="nll")


def nll_loss_with_softmax_grad(
    probs: Tensor,
    labels: Tensor,
    loss_grad: float | Tensor = 1,
    ignore_index: int | None = None,
    reduction: ReductionType = "mean",
) -> tuple[Tensor, Tensor]:
    """The loss of probs = softmax(logits) and its gradient with respect to the logits.

    `loss_grad` scales the gradient only.
    """
    check_inputs(probs=probs, labels=labels)
    attributes = _attributes(reduction, ignore_index)
    if not isinstance(loss_grad, Tensor):
        loss_grad = constant(loss_grad, dtypes.float32)
    check_inputs(probs=probs, labels=labels, loss_grad=loss_grad)
    op = create_op(
        "NlllWithSoftmaxGradDirect",
        [probs, labels, loss_grad],
        attributes,
        names=["loss", "dx"],
        settings_name="nll_loss_with_softmax_grad",
    )
    loss, gradient = outputs_of(op)
    return loss, gradient
