"""Lowerings of margin losses of classes, and of connectionist temporal classification."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import popxl
from poptorch._impl import createPoptorchError
from poptorch._lower.lowering import Call, broadcast_to, cast
from poptorch._lower.ops_activation import shifted
from poptorch._lower.ops_loss import MEAN, NONE, finish, wide
from poptorch._lower.ops_pointwise import number
from poptorch._lower.registry import lowers
from poptorch._trace.recorder import memory_of
from popxl import ops


def _class_numbers(count: int) -> popxl.Tensor:
    return popxl.constant(np.arange(count, dtype=np.int32), popxl.int32)


@lowers("aten::multi_margin_loss")
def multi_margin_loss(
    call: Call,
    self: popxl.Tensor,
    target: popxl.Tensor,
    p: float = 1,
    margin: float = 1,
    weight: popxl.Tensor | None = None,
    reduction: int = MEAN,
) -> popxl.Tensor:
    """How far scores of other classes come, within a margin, to that of the label."""
    (scores,) = wide(self)
    classes = scores.shape[-1] if scores.rank else 1
    scores = ops.reshape(scores, (-1, classes))
    labels = ops.reshape(cast(target, popxl.int32), (-1,))
    of_label = ops.nll_loss(scores, labels, None, "none", log_prob=True)
    excess = shifted(ops.add(scores, ops.reshape(of_label, (-1, 1))), margin)
    losses = ops.relu(excess)
    if p == 2:
        losses = ops.mul(losses, losses)
    is_label = ops.equal(ops.reshape(labels, (-1, 1)), _class_numbers(classes))
    losses = ops.where(is_label, number(0, losses.dtype), losses)
    if weight is not None:
        weights = ops.gather(cast(weight, losses.dtype), labels, 0)
        losses = ops.mul(losses, ops.reshape(weights, (-1, 1)))
    losses = ops.mul(ops.sum(losses, [1]), number(1 / classes, losses.dtype))
    return finish(call, ops.reshape(losses, call.shape) if reduction == NONE else losses, reduction)


@lowers("aten::multilabel_margin_loss")
def multilabel_margin_loss(
    call: Call, self: popxl.Tensor, target: popxl.Tensor, reduction: int = MEAN
) -> popxl.Tensor:
    """Margins of each label of a sample to each other class; labels end at the first -1."""
    (scores,) = wide(self)
    classes = scores.shape[-1] if scores.rank else 1
    scores = ops.reshape(scores, (-1, classes))
    labels = ops.reshape(cast(target, popxl.int32), (-1, classes))
    ends = cast(ops.equal(labels, number(-1, popxl.int32)), popxl.int32)
    counts = ops.greater(number(1, popxl.int32), ops.cumsum(ends, 1))
    label = ops.where(counts, labels, number(0, popxl.int32))
    # (samples, label, class): whether the label is that class.
    matches = ops.equal(ops.reshape(label, (-1, classes, 1)), _class_numbers(classes))
    counted = ops.reshape(counts, (-1, classes, 1))
    zero, one = number(0, scores.dtype), number(1, scores.dtype)
    chosen = ops.where(ops.logical_and(matches, counted), one, zero)
    is_label = ops.greater(ops.sum(chosen, [1], True), zero)
    of_label = ops.sum(ops.mul(chosen, ops.reshape(scores, (-1, 1, classes))), [2], True)
    margins = ops.relu(shifted(ops.sub(ops.reshape(scores, (-1, 1, classes)), of_label), 1))
    skipped = ops.logical_or(is_label, ops.logical_not(counted))
    losses = ops.where(broadcast_to(skipped, margins.shape), zero, margins)
    losses = ops.mul(ops.sum(losses, [1, 2]), number(1 / classes, losses.dtype))
    return finish(call, ops.reshape(losses, call.shape) if reduction == NONE else losses, reduction)


def _lengths(lengths: popxl.Tensor | Sequence[int]) -> popxl.Tensor:
    if isinstance(lengths, popxl.Tensor):
        return ops.reshape(cast(lengths, popxl.int32), (-1,))
    return popxl.constant(np.array(lengths, np.int32), popxl.int32)


def _padded_targets(
    call: Call, targets: popxl.Tensor, lengths: popxl.Tensor | Sequence[int], batch: int
) -> popxl.Tensor:
    """Labels as (samples, labels), also where torch takes them one after the other."""
    if targets.rank == 2:
        return targets
    if batch == 1:
        return ops.reshape(targets, (1, -1))
    if isinstance(lengths, popxl.Tensor):
        raise createPoptorchError(
            f"ctc_loss at {call.node.location}: targets of several samples in one vector need "
            "lengths that are known while the model is traced; pass target_lengths as a tuple of "
            "numbers, or pad the targets to the shape (samples, labels)"
        )
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    places = starts[:, None] + np.arange(max(lengths))[None, :]
    places = np.minimum(places, targets.shape[0] - 1).astype(np.int32)
    return ops.gather(targets, popxl.constant(places, popxl.int32), 0)


def _is_log_softmax(call: Call) -> bool:
    """Whether the logarithms come out of a log softmax, also by way of a view."""
    memory = memory_of(call.argument("log_probs"))
    return any(
        node.name in ("aten::log_softmax", "aten::_log_softmax")
        and memory_of(node.outputs[0]) == memory
        for node in call.lowering.recording.nodes
    )


def _with_sums(
    losses: popxl.Tensor, log_probs: popxl.Tensor, lengths: popxl.Tensor, zero_infinity: bool
) -> popxl.Tensor:
    """Losses whose gradient also has the probabilities, as torch's has.

    A log softmax takes them away again; behind anything else they show.
    """
    zero = number(0, losses.dtype)
    steps = popxl.constant(np.arange(log_probs.shape[0], dtype=np.int32).reshape(-1, 1, 1))
    counts = ops.greater(ops.reshape(lengths, (1, -1, 1)), steps)
    sums = ops.sum(ops.where(counts, ops.exp(log_probs), zero), [0, 2])
    if zero_infinity:
        sums = ops.where(ops.equal(losses, zero), zero, sums)
    return ops.add(losses, ops.sub(sums, ops.detach(sums)))


@lowers("aten::ctc_loss")
def ctc_loss(
    call: Call,
    log_probs: popxl.Tensor,
    targets: popxl.Tensor,
    input_lengths: popxl.Tensor | Sequence[int],
    target_lengths: popxl.Tensor | Sequence[int],
    blank: int = 0,
    reduction: int = MEAN,
    zero_infinity: bool = False,
) -> popxl.Tensor:
    """The negative log-likelihood of labels over all alignments."""
    (steps,) = wide(log_probs)
    if steps.rank == 2:
        steps = ops.reshape(steps, (steps.shape[0], 1, steps.shape[1]))
    labels = _padded_targets(call, cast(targets, popxl.int32), target_lengths, steps.shape[1])
    lengths, of_targets = _lengths(input_lengths), _lengths(target_lengths)
    losses = ops.ctc_loss(steps, labels, lengths, of_targets, blank, "none", zero_infinity)
    if not _is_log_softmax(call):
        losses = _with_sums(losses, steps, lengths, zero_infinity)
    if reduction == MEAN:
        counted = ops.maximum(cast(of_targets, losses.dtype), number(1, losses.dtype))
        losses = ops.div(losses, counted)
    shaped = ops.reshape(losses, call.shape) if reduction == NONE else losses
    return finish(call, shaped, reduction)
