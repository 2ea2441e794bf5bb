"""Padding against NumPy, windows as columns against torch."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import popart
from popxl import ops
from tests.python.popxl.ops.op_testing import check, check_gradient, outputs, random

PADS = [(1, 2), (0, 0), (3, 1)]


def _numpy(mode, value=0.0):
    keywords = {"constant_values": value} if mode == "constant" else {}
    return lambda a: np.pad(a, PADS, mode=mode, **keywords)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32, np.uint8])
@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
def test_pad(mode, dtype):
    x = random(4, 3, 5, low=0.0, high=20.0).astype(dtype)
    check(lambda t: ops.pad(t, PADS, mode, 2.0), _numpy(mode, 2.0), x)


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate"])
def test_pad_gradient(mode):
    ours = {"replicate": "edge"}.get(mode, mode)
    pads = [(0, 0), (0, 0), (2, 1), (3, 2)]
    check_gradient(
        lambda t: ops.pad(t, pads, ours),
        lambda x: F.pad(x, (3, 2, 2, 1), mode=mode),
        random(2, 2, 3, 4),
    )


def test_negative_pads_leave_away():
    pads = [(-1, 2), (1, -3)]
    x = random(3, 5)
    check(
        lambda t: ops.pad(t, pads, value=1.0),
        lambda a: F.pad(torch.from_numpy(a), (1, -3, -1, 2), value=1.0).numpy(),
        x,
    )
    check_gradient(lambda t: ops.pad(t, pads), lambda a: F.pad(a, (1, -3, -1, 2)), x)


def test_special_values_are_moved():
    x = np.array([np.nan, np.inf, -np.inf, -0.0], np.float32)
    for mode in ["reflect", "edge"]:
        (given,) = outputs(lambda t, mode=mode: ops.pad(t, [(2, 3)], mode), x)
        np.testing.assert_array_equal(given, np.pad(x, (2, 3), mode=mode))


@pytest.mark.parametrize(
    ("pads", "mode", "words"),
    [
        ([(1, 1)], "constant", "wanted 4 pads"),
        ([(3, 0), (0, 0)], "reflect", "wanted pads smaller than what they reflect"),
        ([(-1, 0), (0, 0)], "edge", "wanted pads of at least 0 where the mode is not constant"),
        ([(-2, -2), (0, 0)], "constant", "leave away no more than there is"),
    ],
)
def test_pad_refuses(pads, mode, words):
    with pytest.raises(popart.popart_exception, match=words):
        outputs(lambda t: ops.pad(t, pads, mode), random(3, 4))
    with pytest.raises(ValueError, match="unknown mode 'wrap'"):
        outputs(lambda t: ops.pad(t, [(0, 0), (0, 0)], "wrap"), random(3, 4))


WINDOWS = [
    {"kernel_size": (2, 3)},
    {"kernel_size": (3, 2), "stride": (2, 1), "padding": (1, 2), "dilation": (2, 1)},
    {"kernel_size": (1, 1), "stride": (3, 2)},
]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("window", WINDOWS)
def test_unfold_and_fold(window, dtype):
    x = random(2, 3, 6, 7, dtype=dtype)
    check(
        lambda t: ops.unfold(t, **window),
        lambda a: F.unfold(torch.from_numpy(a), **window).numpy(),
        x,
    )
    columns = F.unfold(torch.from_numpy(x), **window).numpy()
    check(
        lambda t: ops.fold(t, (6, 7), **window),
        lambda a: F.fold(torch.from_numpy(a).double(), (6, 7), **window).numpy().astype(dtype),
        columns,
    )


@pytest.mark.parametrize("window", WINDOWS)
def test_gradients_of_unfold_and_fold(window):
    x = random(2, 3, 6, 7)
    check_gradient(lambda t: ops.unfold(t, **window), lambda a: F.unfold(a, **window), x)
    columns = F.unfold(torch.from_numpy(x), **window).numpy()
    check_gradient(
        lambda t: ops.fold(t, (6, 7), **window), lambda a: F.fold(a, (6, 7), **window), columns
    )


def test_unfold_of_integers_and_other_ranks():
    x = np.arange(12, dtype=np.int32).reshape(1, 2, 6)
    windows = np.lib.stride_tricks.sliding_window_view(x, 3, axis=2)
    check(
        lambda t: ops.unfold(t, (3,)),
        lambda _: windows.transpose(0, 1, 3, 2).reshape(1, 6, 4).astype(np.int32),
        x,
    )


def test_unfold_refuses():
    with pytest.raises(
        popart.popart_exception, match="the window does not fit spatial dimension 0"
    ):
        outputs(lambda t: ops.unfold(t, (7, 1)), random(1, 1, 5, 5))
    with pytest.raises(popart.popart_exception, match=r"wanted t of shape \(N, C \* 4, 16\)"):
        outputs(lambda t: ops.fold(t, (5, 5), (2, 2)), random(1, 4, 15))
