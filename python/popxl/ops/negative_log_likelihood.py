"""Losses of class probabilities."""

from __future__ import annotations

from typing import Literal, get_args

from popxl import dtypes
from popxl.constants import constant
from popxl.context import create_op
from popxl.ops.utils import check_inputs, make, outputs_of
from popxl.tensor_base import Tensor

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
    """Compute the negative logarithm of the probability of each label.

    The loss of a label is -ln(max(p, e)) with e 1e-7, for float16 6.104e-5. A label that is no
    class has p = 0. The mean is over the labels that are not ignored.

    Args:
        probs: Probabilities of shape (..., classes); float16, bfloat16, float32 or float64.
        labels: The class of each row, of shape (...) and any integer dtype. Labels have no
            gradient.
        ignore_index: A class whose labels count nothing; None: all labels count.
        reduction: `mean`, `sum`, or `none` for one loss a label.
        log_prob: Whether `probs` are logarithms already, so that the loss of a label is -p.

    Returns:
        A new tensor with the dtype of `probs`: of rank 0, or of the shape of `labels` for `none`.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets; the reduction is another word.
        popart_exception: The labels are not integers, or their shape is another one.
    """
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
    """Compute the loss of probs = softmax(logits) and its gradient with respect to the logits.

    The loss of a label is -ln(p + 1e-7). The gradient is (probs - onehot(labels)) * loss_grad,
    divided by the number of labels that are not ignored for `mean`; rows of ignored labels are 0.
    The op itself has no gradient.

    Args:
        probs: Probabilities of shape (..., classes); float16, bfloat16, float32 or float64.
        labels: The class of each row, of any integer dtype and of any shape with as many elements
            as there are rows, in row-major order.
        loss_grad: The gradient of the loss, or a loss scale: a number, a tensor of one element, or
            for `none` one of the shape of the labels. It scales the gradient only.
        ignore_index: A class whose labels count nothing; None: all labels count.
        reduction: `mean`, `sum`, or `none` for one loss a label.

    Returns:
        The loss, of rank 0 or for `none` of the shape of `labels`, and the gradient, of the shape
        of `probs`; both of the dtype of `probs`.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets; the reduction is another word.
        popart_exception: The shapes or dtypes do not fit, here or when a session is made.
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
