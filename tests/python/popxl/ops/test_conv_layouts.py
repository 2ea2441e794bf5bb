"""Convolutions with channels last and with many groups, forward and backward, against torch."""

import numpy as np
import pytest
import torch
from torch.nn import functional

import popart
import popxl
from popxl import ops
from tests.python.popxl.ops.op_testing import check, check_gradient, random

FUNCTIONS = (functional.conv1d, functional.conv2d, functional.conv3d)
TRANSPOSED = (
    functional.conv_transpose1d,
    functional.conv_transpose2d,
    functional.conv_transpose3d,
)
# Data, weight, stride, padding, dilation, groups.
CASES = [
    ((2, 3, 11), (5, 3, 4), (3,), (2,), (1,), 1),
    ((2, 3, 8, 7), (4, 3, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((3, 16, 8, 8), (32, 16, 3, 3), (2, 2), (1, 1), (1, 1), 1),
    ((1, 16, 9, 9), (16, 16, 1, 1), (1, 1), (0, 0), (1, 1), 1),
    ((1, 4, 9, 9), (6, 2, 3, 2), (2, 1), (1, 0), (1, 2), 2),
    ((2, 24, 10, 9), (24, 1, 3, 3), (1, 1), (1, 1), (1, 1), 24),
    ((2, 24, 10, 9), (24, 1, 5, 5), (2, 2), (2, 2), (1, 1), 24),
    ((1, 6, 7, 7), (12, 1, 3, 3), (1, 1), (0, 0), (1, 1), 6),
    ((1, 32, 8, 8), (64, 8, 3, 3), (1, 1), (1, 1), (1, 1), 4),
    ((1, 2, 5, 4, 6), (3, 2, 2, 3, 2), (1, 2, 1), (0, 1, 0), (1, 1, 2), 1),
]


def last(x):
    return np.ascontiguousarray(np.moveaxis(x, 1, -1))


def setting(stride, padding, dilation, groups, channel_last):
    return {
        "stride": stride,
        "padding": padding * 2,
        "dilation": dilation,
        "groups": groups,
        "channel_last": channel_last,
    }


@pytest.mark.parametrize("channel_last", [False, True])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(("shape", "kernel", "stride", "padding", "dilation", "groups"), CASES)
def test_values_and_gradients(
    shape, kernel, stride, padding, dilation, groups, dtype, channel_last
):
    function = FUNCTIONS[len(stride) - 1]
    settings = setting(stride, padding, dilation, groups, channel_last)
    precise = np.float64 if dtype == np.float64 else np.float32

    def build(t, w):
        return ops.conv(t, w, **settings)

    def reference(x, w):
        x, w = torch.as_tensor(x), torch.as_tensor(w)
        if channel_last:
            x = torch.movedim(x, -1, 1)
        y = function(x, w, None, stride, padding, dilation, groups)
        return torch.movedim(y, 1, -1) if channel_last else y

    t, w = random(*shape, dtype=dtype, low=-1, high=1), random(*kernel, dtype=dtype, low=-1, high=1)
    t = last(t) if channel_last else t
    check(
        build,
        lambda x, w: reference(x.astype(precise), w.astype(precise)).numpy().astype(dtype),
        t,
        w,
    )
    if dtype != np.float16:
        check_gradient(build, reference, t, w)


@pytest.mark.parametrize("given", ["padding", "spatial shape", "whole shape"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_transposed(rank, given):
    t, w = random(2, 4, *(5, 6, 3)[:rank]), random(4, 3, *(3, 2, 3)[:rank])
    stride, padding = (2,) * rank, (1,) * rank
    wanted = TRANSPOSED[rank - 1](torch.as_tensor(t), torch.as_tensor(w), None, stride, padding)
    wanted = torch.movedim(wanted, 1, -1).numpy()
    more = {
        "padding": {"padding": padding * 2},
        "spatial shape": {"padding": (), "output_shape": wanted.shape[1:-1]},
        "whole shape": {"padding": (), "output_shape": wanted.shape},
    }[given]
    check(
        lambda t, w: ops.conv_transpose(
            t, w, stride=stride, dilation=(), channel_last=True, **more
        ),
        lambda t, w: wanted,
        last(t),
        w,
    )


def test_same_padding():
    t, w = random(1, 3, 7, 6), random(4, 3, 3, 3)
    wanted = functional.conv2d(torch.as_tensor(t), torch.as_tensor(w), padding="same")
    check(
        lambda t, w: ops.conv(t, w, pad_type="same_upper", channel_last=True),
        lambda t, w: torch.movedim(wanted, 1, -1).numpy(),
        last(t),
        w,
    )


def test_channels_are_looked_for_at_the_end():
    with popxl.Ir().main_graph:
        t, w = popxl.variable(random(1, 3, 5, 5)), popxl.variable(random(4, 3, 3, 3))
        with pytest.raises(popart.popart_exception, match="weight with 5 / 1"):
            ops.conv(t, w, channel_last=True)
        with pytest.raises(popart.popart_exception, match="wanted a weight of shape"):
            ops.conv_transpose(t, w, channel_last=True)
