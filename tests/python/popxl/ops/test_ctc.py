"""CTC against torch, and the search against all paths."""

import itertools

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import popart
from popxl import ops
from tests.python.popxl.ops.op_testing import check, check_gradient, outputs, random

TARGETS = np.array([[2, 2, 1], [3, 4, 0], [1, 2, 3], [4, 0, 0]], np.int32)
STEPS = np.array([7, 6, 7, 5], np.int32)
LABELS = np.array([3, 2, 0, 1], np.int32)


def _log_probs(dtype=np.float32):
    logits = torch.from_numpy(random(7, 4, 5))
    return F.log_softmax(logits, dim=2).numpy().astype(dtype)


def _torch_loss(x, targets, steps, labels, **keywords):
    tensors = [torch.as_tensor(a) for a in (x, targets, steps, labels)]
    return F.ctc_loss(tensors[0], *[t.long() for t in tensors[1:]], **keywords)


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_loss(reduction, dtype):
    check(
        lambda *t: ops.ctc_loss(*t, reduction=reduction),
        lambda *a: _torch_loss(*a, reduction=reduction).numpy(),
        _log_probs(dtype),
        TARGETS,
        STEPS,
        LABELS,
    )


def test_loss_in_float16():
    x = _log_probs(np.float16)
    (given,) = outputs(lambda *t: ops.ctc_loss(*t, reduction="none"), x, TARGETS, STEPS, LABELS)
    wanted = _torch_loss(x.astype(np.float32), TARGETS, STEPS, LABELS, reduction="none")
    np.testing.assert_allclose(given, wanted.numpy(), rtol=1e-3)


def test_another_blank():
    targets = np.where(TARGETS == 3, 0, TARGETS)
    check(
        lambda *t: ops.ctc_loss(*t, blank=3, reduction="none"),
        lambda *a: _torch_loss(*a, blank=3, reduction="none").numpy(),
        _log_probs(),
        targets,
        STEPS,
        LABELS,
    )


@pytest.mark.parametrize("reduction", ["none", "mean"])
def test_gradient_behind_log_softmax(reduction):
    """Only there torch's is that of the loss."""
    integers = (TARGETS, STEPS, LABELS)

    def build(t, *rest):
        probabilities = ops.softmax(t, 2)
        return ops.ctc_loss(ops.log(probabilities), *rest, reduction=reduction)

    def reference(x, *rest):
        return _torch_loss(F.log_softmax(x, dim=2), *rest, reduction=reduction)

    check_gradient(build, reference, random(7, 4, 5), *integers)


@pytest.mark.parametrize("zero_infinity", [False, True])
def test_too_few_steps(zero_infinity):
    steps, labels = np.array([3, 0, 0, 1], np.int32), np.array([3, 1, 0, 1], np.int32)
    check(
        lambda *t: ops.ctc_loss(*t, reduction="none", zero_infinity=zero_infinity),
        lambda *a: _torch_loss(*a, reduction="none", zero_infinity=zero_infinity).numpy(),
        _log_probs(),
        TARGETS,
        steps,
        labels,
    )


def test_what_is_out_of_range_gives_nan():
    x = _log_probs()
    targets, steps, labels = TARGETS.copy(), STEPS.copy(), LABELS.copy()
    targets[0, 1], steps[1], labels[3] = 5, 8, -1
    (given,) = outputs(lambda *t: ops.ctc_loss(*t, reduction="none"), x, targets, steps, labels)
    np.testing.assert_array_equal(np.isnan(given), [True, True, False, True])


def _all_paths(x, blank):
    """The probability of every label sequence, from all alignments."""
    scores = {}
    steps, classes = x.shape
    for alignment in itertools.product(range(classes), repeat=steps):
        merged = [k for k, _ in itertools.groupby(alignment) if k != blank]
        probability = np.exp(sum(x[t, c] for t, c in enumerate(alignment)))
        scores[tuple(merged)] = scores.get(tuple(merged), 0.0) + probability
    return sorted(scores.items(), key=lambda item: -item[1])


@pytest.mark.parametrize("blank", [0, 2])
def test_wide_beams_find_the_best_paths(blank):
    x = F.log_softmax(torch.from_numpy(random(5, 3, 4)), dim=2).numpy()
    lengths = np.array([5, 3, 0], np.int32)
    scores, counts, labels = outputs(
        lambda t, n: ops.ctc_beam_search(t, n, blank, beam_width=2000, top_paths=4), x, lengths
    )
    for b, steps in enumerate(lengths):
        best = _all_paths(x[:steps, b].astype(np.float64), blank)[:4]
        for i in range(4):
            if i >= len(best):
                assert scores[b, i] == -np.inf and counts[b, i] == 0
                continue
            path, probability = best[i]
            np.testing.assert_allclose(scores[b, i], np.log(probability), rtol=1e-5, atol=1e-6)
            assert tuple(labels[b, i, : counts[b, i]]) == path
            assert np.all(labels[b, i, counts[b, i] :] == blank)


def test_narrow_beam_of_a_sure_sequence():
    x = np.full((6, 1, 4), -20.0, np.float32)
    for t, c in enumerate([1, 1, 0, 1, 3, 3]):
        x[t, 0, c] = 0.0
    _, counts, labels = outputs(
        lambda t, n: ops.ctc_beam_search(t, n, beam_width=1), x, np.array([6], np.int32)
    )
    assert counts.tolist() == [[3]]
    assert labels[0, 0, :3].tolist() == [1, 1, 3]


def test_what_is_refused():
    x = _log_probs()
    with pytest.raises(popart.popart_exception, match="wanted a blank from 0 to below 5, not 5"):
        outputs(lambda *t: ops.ctc_loss(*t, blank=5), x, TARGETS, STEPS, LABELS)
    with pytest.raises(popart.popart_exception, match=r"wanted targets of shape \(4, labels\)"):
        outputs(ops.ctc_loss, x, TARGETS[:2], STEPS, LABELS)
    with pytest.raises(ValueError, match="ctc_loss: wanted the reduction mean, sum or none"):
        outputs(lambda *t: ops.ctc_loss(*t, reduction="max"), x, TARGETS, STEPS, LABELS)
    with pytest.raises(popart.popart_exception, match="1 <= top_paths <= beam_width, not 3 and 2"):
        outputs(lambda t, n: ops.ctc_beam_search(t, n, 0, 2, 3), x, STEPS)
