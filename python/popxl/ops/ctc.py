"""Connectionist temporal classification: labels of a sequence without an alignment."""

from __future__ import annotations

from popxl.constants import constant
from popxl.context import create_op
from popxl.ops.binary import div, maximum
from popxl.ops.cast import cast
from popxl.ops.reduction import mean, sum
from popxl.ops.utils import check_inputs, make, outputs_of
from popxl.tensor_base import Tensor


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Compute -ln p(targets) over all alignments, with the formulas of `torch.nn.CTCLoss`.

    The gradient of `log_probs` is the derivative itself: -p(step t stands for class c | targets).
    `torch` adds exp(log_probs), which the gradient of a log softmax takes away again: behind one
    both are equal.

    Args:
        log_probs: ln of the probabilities (steps, batch, classes); float16, bfloat16, float32 or
            float64.
        targets: The labels (batch, labels), integers; those behind `target_lengths` are not read.
        input_lengths: The number of steps of each sample (batch,), integers.
        target_lengths: The number of labels of each sample (batch,), integers.
        blank: The class that stands for no label.
        reduction: "none"; "sum" of the losses; "mean" of each loss over its number of labels (at
            least 1).
        zero_infinity: Whether a loss is 0, with a gradient of 0, where no alignment exists because
            there are too few steps. Otherwise it is infinite and its gradient NaN.

    Returns:
        A new tensor with the dtype of `log_probs`: (batch,) with "none", else a scalar. NaN for
        samples whose length or label is out of range.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph; the reduction is unknown.
        popart_exception: A shape does not fit, or `blank` is no class; dtypes do not fit, found
            when a session is made.
    """
    check_inputs(
        log_probs=log_probs,
        targets=targets,
        input_lengths=input_lengths,
        target_lengths=target_lengths,
    )
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"ctc_loss: wanted the reduction mean, sum or none; given {reduction!r}")
    attributes: dict[str, object] = {"blank": int(blank), "zero_infinity": bool(zero_infinity)}
    inputs = [log_probs, targets, input_lengths, target_lengths]
    losses = make("CtcLoss", inputs, attributes, name="ctc_loss_out", settings="ctc_loss")
    if reduction == "none":
        return losses
    if reduction == "sum":
        return sum(losses)
    lengths = maximum(cast(target_lengths, losses.dtype), constant(1, losses.dtype))
    return mean(div(losses, lengths))


def ctc_beam_search(
    log_probs: Tensor,
    lengths: Tensor,
    blank: int = 0,
    beam_width: int = 100,
    top_paths: int = 1,
) -> tuple[Tensor, Tensor, Tensor]:
    """Find the most probable label sequences by prefix beam search. There is no gradient.

    Args:
        log_probs: ln of the probabilities (steps, batch, classes); float16, bfloat16, float32 or
            float64.
        lengths: The number of steps of each sample (batch,), integers; those out of range count as
            the nearest one in range.
        blank: The class that stands for no label.
        beam_width: How many sequences are kept at each step.
        top_paths: How many of them are wanted; at most `beam_width`.

    Returns:
        Best path first: ln of the probabilities (batch, top_paths) with the dtype of `log_probs`,
        the int32 numbers of labels (batch, top_paths), and the int32 labels
        (batch, top_paths, steps) with blanks behind them. Where there are fewer paths, the rest has
        -inf and no labels.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph.
        popart_exception: A shape does not fit, `blank` is no class, or `top_paths` is larger than
            `beam_width`; dtypes do not fit, found when a session is made.
    """
    check_inputs(log_probs=log_probs, lengths=lengths)
    attributes: dict[str, object] = {
        "blank": int(blank),
        "beam_width": int(beam_width),
        "top_paths": int(top_paths),
    }
    names = ["ctc_log_probs", "ctc_lengths", "ctc_labels"]
    op = create_op(
        "CtcBeamSearch",
        [log_probs, lengths],
        attributes,
        names=names,
        settings_name="ctc_beam_search",
    )
    scores, counts, labels = outputs_of(op)
    return scores, counts, labels
