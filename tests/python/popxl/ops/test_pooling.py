"""Rules of pooling that popxl does not have, against torch: ties, counted pads, adaptive sizes."""

import numpy as np
import pytest
import torch
from torch.nn import functional

import popart
import popxl
from popxl import ops
from tests.python.popxl.ops.op_testing import check, check_gradient, gradients, outputs, random

FUNCTIONS = {
    "max": (functional.max_pool1d, functional.max_pool2d, functional.max_pool3d),
    "average": (functional.avg_pool1d, functional.avg_pool2d, functional.avg_pool3d),
    "adaptive_max": (
        functional.adaptive_max_pool1d,
        functional.adaptive_max_pool2d,
        functional.adaptive_max_pool3d,
    ),
    "adaptive_average": (
        functional.adaptive_avg_pool1d,
        functional.adaptive_avg_pool2d,
        functional.adaptive_avg_pool3d,
    ),
}
# Data, kernel, stride, padding, dilation.
WINDOWS = [
    ((2, 3, 8), (3,), (2,), (1,), (1,)),
    ((2, 3, 8, 7), (2, 2), (2, 2), (0, 0), (1, 1)),
    ((1, 17, 9, 9), (3, 3), (2, 1), (1, 1), (1, 2)),
    ((1, 2, 6, 45), (3, 3), (1, 1), (1, 1), (1, 1)),
    ((1, 2, 8, 44), (2, 2), (2, 2), (0, 0), (1, 1)),
    ((2, 4, 5, 4, 6), (2, 3, 2), (1, 2, 1), (1, 1, 0), (1, 1, 1)),
]
LAYOUTS = pytest.mark.parametrize("channel_last", [False, True])


def ties(shape, dtype=np.float32):
    """Small whole numbers, of which many are equal."""
    return np.random.default_rng(3).integers(0, 3, shape).astype(dtype)


def last(x, channel_last):
    return np.ascontiguousarray(np.moveaxis(x, 1, -1)) if channel_last else x


def around(function, channel_last):
    """torch's function for data with its channels where the op has them."""

    def reference(x):
        x = torch.as_tensor(x)
        if not channel_last:
            return function(x)
        return torch.movedim(function(torch.movedim(x, -1, 1)), 1, -1)

    return reference


def values(reference):
    return lambda x: reference(x).numpy()


@LAYOUTS
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("shape", "kernel", "stride", "padding", "dilation"), WINDOWS)
def test_max_pool_gives_to_the_first_of_equals(
    shape, kernel, stride, padding, dilation, dtype, channel_last
):
    function = FUNCTIONS["max"][len(kernel) - 1]

    def build(t):
        return ops.max_pool(
            t,
            kernel,
            stride,
            padding * 2,
            dilation=dilation,
            ties="first",
            channel_last=channel_last,
        )

    reference = around(lambda x: function(x, kernel, stride, padding, dilation), channel_last)
    t = last(ties(shape, dtype), channel_last)
    check(build, values(reference), t)
    check_gradient(build, reference, t)


@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("rule", ["all", "first"])
def test_layouts_agree(rule, ceil_mode):
    t = ties((2, 5, 9, 8))

    def pooled(channel_last):
        return lambda x: ops.max_pool(
            x,
            (3, 2),
            (2, 2),
            (1, 0, 0, 1),
            ceil_mode=ceil_mode,
            ties=rule,
            channel_last=channel_last,
        )

    first = outputs(pooled(False), t)[0]
    np.testing.assert_array_equal(outputs(pooled(True), last(t, True))[0], last(first, True))
    # Weights that do not depend on the layout.
    wanted, given = (
        gradients(lambda x, f=function: ops.sum(f(x)), last(t, channel_last))[0][0]
        for function, channel_last in ((pooled(False), False), (pooled(True), True))
    )
    np.testing.assert_allclose(given, last(wanted, True), rtol=1e-6)


@LAYOUTS
def test_the_last_nan_gets_the_gradient(channel_last):
    t = random(1, 3, 6, 6)
    t[0, 1, 1, 1] = t[0, 1, 1, 2] = t[0, 2, 3, 5] = np.nan

    def build(x):
        return ops.max_pool(x, (3, 3), (1, 1), (1,) * 4, ties="first", channel_last=channel_last)

    reference = around(lambda x: functional.max_pool2d(x, 3, 1, 1), channel_last)
    check(build, values(reference), last(t, channel_last))
    check_gradient(build, reference, last(t, channel_last))


@LAYOUTS
@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("case", [c for c in WINDOWS if max(c[4]) == 1])
def test_average_pool_counts_pads_if_asked(case, counted, ceil_mode, channel_last):
    shape, kernel, stride, padding, _ = case
    function = FUNCTIONS["average"][len(kernel) - 1]

    def build(t):
        return ops.average_pool(
            t,
            kernel,
            stride,
            padding * 2,
            ceil_mode=ceil_mode,
            count_include_pad=counted,
            channel_last=channel_last,
        )

    reference = around(
        lambda x: function(x, kernel, stride, padding, ceil_mode, counted), channel_last
    )
    t = last(random(*shape), channel_last)
    check(build, values(reference), t)
    check_gradient(build, reference, t)


def test_counted_pads_of_same_padding():
    t = random(1, 2, 5, 7)
    padded = functional.pad(torch.as_tensor(t), (1, 1, 1, 1))
    check(
        lambda x: ops.average_pool(x, (3, 3), auto_pad="same_upper", count_include_pad=True),
        lambda _: functional.avg_pool2d(padded, 3, 1).numpy(),
        t,
    )


ADAPTIVE = [
    ((2, 3, 11), (4,)),
    ((2, 3, 13, 9), (6, 5)),
    ((2, 70, 8, 6), (4, 3)),
    ((1, 4, 3, 2), (5, 7)),
    ((3, 5, 7, 7), (1, 1)),
    ((2, 3, 5, 6, 7), (2, 4, 3)),
]


@LAYOUTS
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(("shape", "size"), ADAPTIVE)
@pytest.mark.parametrize("name", ["adaptive_average", "adaptive_max"])
def test_adaptive_pools(name, shape, size, dtype, channel_last):
    function = FUNCTIONS[name][len(size) - 1]
    more = {"ties": "first"} if name == "adaptive_max" else {}

    def build(t):
        return getattr(ops, f"{name}_pool")(t, size, channel_last=channel_last, **more)

    reference = around(lambda x: function(x, size), channel_last)
    t = last(random(*shape, dtype=dtype), channel_last)
    check(build, lambda x: reference(x.astype(np.float64)).numpy().astype(dtype), t)
    if dtype != np.float16:
        check_gradient(build, reference, t)


def test_adaptive_maxima_give_to_all_unless_told():
    t = np.zeros((1, 1, 5), np.float32)
    # Windows 0..2 and 2..4: the middle is in both.
    given, weights = gradients(lambda x: ops.adaptive_max_pool(x, (2,)), t)
    a, b = weights.ravel()
    np.testing.assert_allclose(given[0].ravel(), [a, a, a + b, b, b], rtol=1e-6)
    given, _ = gradients(lambda x: ops.adaptive_max_pool(x, (2,), ties="first"), t)
    np.testing.assert_allclose(given[0].ravel(), [a, 0, b, 0, 0], rtol=1e-6)


def test_infinities_stay_in_their_windows():
    t = random(1, 1, 5)
    t[0, 0, 0], t[0, 0, 4] = np.inf, np.nan
    reference = around(lambda x: functional.adaptive_avg_pool1d(x, 3), False)
    check(lambda x: ops.adaptive_average_pool(x, (3,)), values(reference), t)


def test_errors_name_what_is_wrong():
    with popxl.Ir().main_graph:
        t = popxl.variable(random(1, 2, 4, 4))
        with pytest.raises(ValueError, match="ties: wanted one of all, first; given 'last'"):
            ops.max_pool(t, (2, 2), ties="last")
        with pytest.raises(ValueError, match="ties: wanted one of all, first; given ''"):
            ops.adaptive_max_pool(t, (2, 2), ties="")
        with pytest.raises(popart.popart_exception, match="output_size of 2 numbers, not 1"):
            ops.adaptive_average_pool(t, (2,))
        with pytest.raises(popart.popart_exception, match="dimension 1 of size 4 gets 0"):
            ops.adaptive_max_pool(t, (2, 0))
        with pytest.raises(popart.popart_exception, match="1 to 3 spatial dimensions"):
            ops.adaptive_max_pool(popxl.variable(random(2, 3)), ())
        with pytest.raises(TypeError, match="t"):
            ops.adaptive_max_pool(1.0, (2, 2))
    ints = np.zeros((1, 2, 4), np.int32)
    with pytest.raises(popart.popart_exception, match="AdaptiveAveragePool"):
        outputs(lambda t: ops.adaptive_average_pool(t, (2,)), ints)
