"""Convolutions and pools in one to three dimensions, with every argument."""

import itertools

import numpy as np
import pytest
import torch
from torch.nn import functional

import popart
import popxl
from popxl import ops
from tests.python.popxl.ops.op_testing import check, check_gradient, gradients, outputs, random

CONV = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}
TRANSPOSED = {2: functional.conv_transpose2d, 1: functional.conv_transpose1d}
TRANSPOSED[3] = functional.conv_transpose3d
SIZES = {1: (9,), 2: (7, 6), 3: (5, 4, 6)}


def as_numpy(reference):
    return lambda *arrays: reference(*(torch.from_numpy(a) for a in arrays)).numpy()


def torch_pads(pads):
    """Begins and ends of all dimensions as torch's pairs, last dimension first."""
    half = len(pads) // 2
    return [p for i in reversed(range(half)) for p in (pads[i], pads[half + i])]


def padded_conv(pads, stride, dilation, groups):
    def reference(x, w):
        spatial = x.dim() - 2
        padded = functional.pad(x, torch_pads(pads))
        return CONV[spatial](padded, w, None, stride, 0, dilation, groups)

    return reference


# dimensions, groups, stride, dilation, pads
CASES = [
    (1, 1, (1,), (1,), (0, 0)),
    (1, 2, (2,), (1,), (1, 2)),
    (1, 4, (1,), (2,), (2, 2)),
    (2, 1, (2, 1), (1, 1), (0, 1, 2, 1)),
    (2, 2, (1, 2), (2, 1), (1, 1, 1, 1)),
    (2, 4, (1, 1), (1, 1), (1, 1, 1, 1)),
    (2, 1, (1, 1), (2, 2), (2, 0, 1, 2)),
    (3, 1, (1, 1, 1), (1, 1, 1), (0, 0, 0, 0, 0, 0)),
    (3, 2, (2, 1, 2), (1, 1, 1), (1, 0, 1, 1, 1, 0)),
]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(("spatial", "groups", "stride", "dilation", "pads"), CASES)
def test_conv(spatial, groups, stride, dilation, pads, dtype):
    t = random(2, 4, *SIZES[spatial], dtype=dtype)
    weight = random(8, 4 // groups, *[3, 2, 3][:spatial], dtype=dtype, seed=1, low=-1, high=1)
    reference = padded_conv(pads, stride, dilation, groups)
    (given,) = outputs(lambda x, w: ops.conv(x, w, stride, pads, dilation, groups), t, weight)
    wanted = as_numpy(reference)(t.astype(np.float64), weight.astype(np.float64))
    assert given.dtype == dtype
    tolerance = 1e-2 if dtype is np.float16 else 1e-5
    np.testing.assert_allclose(given, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("spatial", "groups", "stride", "dilation", "pads"), CASES)
def test_conv_gradient(spatial, groups, stride, dilation, pads):
    t = random(2, 4, *SIZES[spatial])
    weight = random(8, 4 // groups, *[3, 2, 3][:spatial], seed=1)
    reference = padded_conv(pads, stride, dilation, groups)
    check_gradient(
        lambda x, w: ops.conv(x, w, stride, pads, dilation, groups), reference, t, weight
    )


def test_conv_gradient_of_float16():
    t, weight = random(2, 4, 6, 6, dtype=np.float16), random(4, 4, 3, 3, dtype=np.float16, seed=1)
    given, seed = gradients(ops.conv, t, weight)
    leaves = [torch.from_numpy(a.astype(np.float32)).requires_grad_() for a in (t, weight)]
    functional.conv2d(*leaves).backward(torch.from_numpy(seed.astype(np.float32)))
    for g, leaf in zip(given, leaves, strict=True):
        assert g.dtype == np.float16
        np.testing.assert_allclose(g, leaf.grad, rtol=2e-2, atol=5e-2)


def same_pads(size, kernel, stride, upper):
    total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
    small, large = total // 2, total - total // 2
    return (small, large) if upper else (large, small)


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("pad_type", ["same_upper", "same_lower", "valid"])
def test_conv_pad_type(pad_type, stride):
    t, weight = random(1, 2, 7, 6), random(3, 2, 3, 2, seed=1)
    pads = [(0, 0), (0, 0)]
    if pad_type != "valid":
        upper = pad_type == "same_upper"
        pads = [same_pads(s, k, stride, upper) for s, k in ((7, 3), (6, 2))]
    flat = [p[0] for p in pads] + [p[1] for p in pads]
    reference = padded_conv(flat, (stride, stride), (1, 1), 1)

    def build(x, w):
        return ops.conv(x, w, (stride, stride), pad_type=pad_type)

    check(build, as_numpy(reference), t, weight)
    check_gradient(build, reference, t, weight)


def test_conv_takes_empty_lists_and_hints():
    t, weight = random(1, 2, 5, 5), random(3, 2, 3, 3, seed=1)

    def build(x, w):
        return ops.conv(
            x,
            w,
            stride=[],
            padding=[],
            dilation=[],
            available_memory_proportions=[0.3],
            partials_types=["half"],
            enable_conv_dithering=[1],
        )

    check(build, as_numpy(functional.conv2d), t, weight)


def test_conv_errors():
    with popxl.Ir().main_graph:
        t, weight = popxl.variable(random(1, 4, 6, 6)), popxl.variable(random(4, 4, 3, 3))
        wrong_count = "Unexpected number of (stride|pad|dilation) parameters"
        for arguments in ({"stride": (1,)}, {"padding": (0, 0)}, {"dilation": (1, 1, 1)}):
            with pytest.raises(popart.popart_exception, match=wrong_count):
                ops.conv(t, weight, **arguments)
        for groups in (0, -1, 2, 3):
            with pytest.raises(popart.popart_exception):
                ops.conv(t, weight, groups=groups)
        with pytest.raises(ValueError, match="pad type"):
            ops.conv(t, weight, pad_type="full")
        for bad in ({"stride": (0, 1)}, {"padding": (0, 0, -9, 0)}, {"dilation": (0, 1)}):
            with pytest.raises(popart.popart_exception):
                ops.conv(t, weight, **bad)
        with pytest.raises(popart.popart_exception):
            ops.conv(t, popxl.variable(random(4, 4, 9, 9)))
        with pytest.raises(popart.popart_exception):
            ops.conv(popxl.variable(random(4, 4)), popxl.variable(random(4, 4)))


# dimensions, groups, stride, pads, output padding
TRANSPOSED_CASES = [
    (1, 1, 2, 1, 1),
    (1, 2, 1, 0, 0),
    (2, 1, 2, 1, 0),
    (2, 2, 3, 1, 2),
    (2, 4, 1, 2, 0),
    (3, 1, 2, 1, 1),
    (3, 2, 2, 0, 0),
]


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize(("spatial", "groups", "stride", "pad", "extra"), TRANSPOSED_CASES)
def test_conv_transpose(spatial, groups, stride, pad, extra, dtype):
    t = random(2, 4, *[4, 5, 3][:spatial], dtype=dtype)
    weight = random(4, 3, *[3, 4, 3][:spatial], dtype=dtype, seed=1, low=-1, high=1)

    def build(x, w):
        return ops.conv_transpose(
            x,
            w,
            (stride,) * spatial,
            (pad,) * 2 * spatial,
            (1,) * spatial,
            groups,
            output_padding=(extra,) * spatial,
        )

    wanted = TRANSPOSED[spatial](
        *(torch.from_numpy(a.astype(np.float64)) for a in (t, weight)),
        stride=stride,
        padding=pad,
        output_padding=extra,
        groups=groups,
    )
    (given,) = outputs(build, t, weight)
    assert given.dtype == dtype
    tolerance = 2e-2 if dtype is np.float16 else 1e-5
    np.testing.assert_allclose(given, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("pad_type", ["not_set", "same_upper", "same_lower"])
@pytest.mark.parametrize("size", [(9, 9), (8, 9), (7, 8)])
def test_conv_transpose_output_shape(size, pad_type, whole):
    t, weight = random(1, 2, 4, 4), random(2, 3, 3, 3, seed=1)
    full = functional.conv_transpose2d(*map(torch.from_numpy, (t, weight)), stride=2).numpy()
    slices = []
    for wanted, given in zip(size, full.shape[2:], strict=True):
        total = given - wanted
        small, large = total // 2, total - total // 2
        begin = small if pad_type == "same_upper" else large
        slices.append(slice(begin, begin + wanted))
    shape = (1, 3, *size) if whole else size
    (result,) = outputs(
        lambda x, w: ops.conv_transpose(x, w, (2, 2), pad_type=pad_type, output_shape=shape),
        t,
        weight,
    )
    np.testing.assert_allclose(result, full[:, :, slices[0], slices[1]], rtol=1e-5, atol=1e-5)


def test_conv_transpose_errors():
    with popxl.Ir().main_graph as graph:
        t, weight = popxl.variable(random(1, 2, 4, 4)), popxl.variable(random(2, 3, 3, 3))
        with pytest.raises(popart.popart_exception, match="Non default value for dilations"):
            ops.conv_transpose(t, weight, dilation=(2, 2))
        with pytest.raises(popart.popart_exception):
            ops.conv_transpose(t, popxl.variable(random(3, 2, 3, 3)))
        with pytest.raises(popart.popart_exception):
            ops.conv_transpose(t, weight, pad_type="valid", output_shape=(6, 6))
        with pytest.raises(ValueError, match="pad type"):
            ops.conv_transpose(t, weight, pad_type="same")
        assert ops.conv_transpose(t, weight).name == "convtranspose_out"
        inner = graph.ir.create_graph(ops.conv_transpose, t, weight)
        with pytest.raises(popart.popart_exception, match="Unable to provide required gradient"):
            popxl.transforms.autodiff(inner)


def windows(x, kernel, stride, pads, ceil_mode):
    """Every window of a padded array, NaN where it is padding."""
    spatial = len(kernel)
    sizes, extra = [], []
    for i in range(spatial):
        room = x.shape[2 + i] + pads[i] + pads[spatial + i] - kernel[i]
        steps = -(-room // stride[i]) if ceil_mode else room // stride[i]
        sizes.append(steps + 1)
        extra.append(max(0, steps * stride[i] + kernel[i] - room - kernel[i]))
    widths = [(0, 0), (0, 0)] + [(pads[i], pads[spatial + i] + extra[i]) for i in range(spatial)]
    padded = np.pad(x, widths, constant_values=np.nan)
    result = np.empty((*x.shape[:2], *sizes, int(np.prod(kernel))), x.dtype)
    for position in itertools.product(*map(range, sizes)):
        cut = tuple(
            slice(p * s, p * s + k) for p, s, k in zip(position, stride, kernel, strict=True)
        )
        result[(slice(None), slice(None), *position)] = padded[
            (slice(None), slice(None), *cut)
        ].reshape(*x.shape[:2], -1)
    return result


# kernel, stride, pads
POOLS = [
    ((3,), (2,), (1, 1)),
    ((2,), (3,), (0, 1)),
    ((2, 3), (1, 2), (0, 1, 1, 0)),
    ((3, 3), (2, 2), (1, 1, 1, 1)),
    ((2, 2), (3, 3), (0, 0, 0, 0)),
    ((2, 2, 2), (2, 1, 2), (0, 0, 0, 1, 0, 1)),
]


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize(("kernel", "stride", "pads"), POOLS)
def test_pools(kernel, stride, pads, ceil_mode, dtype):
    x = random(2, 3, *SIZES[len(kernel)], dtype=dtype)
    cells = windows(x.astype(np.float32), kernel, stride, pads, ceil_mode)
    # A window without data gives the maximum of nothing, and the mean 0.
    inside = ~np.isnan(cells)
    largest = np.where(inside, cells, -np.inf).max(-1)
    mean = np.where(inside, cells, 0).sum(-1) / np.maximum(inside.sum(-1), 1)
    for op, result in ((ops.max_pool, largest), (ops.average_pool, mean)):
        wanted = result.astype(dtype)
        check(
            lambda t, op=op: op(t, kernel, stride, pads, ceil_mode=ceil_mode),
            lambda _, wanted=wanted: wanted,
            x,
        )


@pytest.mark.parametrize(("kernel", "stride", "pads"), POOLS)
def test_pool_gradients(kernel, stride, pads):
    x = random(2, 3, *SIZES[len(kernel)])
    spatial = len(kernel)

    def reference_of(kind):
        def reference(t):
            fill = float("-inf") if kind == "max" else 0.0
            padded = functional.pad(t, torch_pads(pads), value=fill)
            counts = functional.pad(torch.ones_like(t), torch_pads(pads))
            for i in range(spatial):
                padded = padded.unfold(2 + i, kernel[i], stride[i])
                counts = counts.unfold(2 + i, kernel[i], stride[i])
            axes = tuple(range(-spatial, 0))
            return padded.amax(axes) if kind == "max" else padded.sum(axes) / counts.sum(axes)

        return reference

    check_gradient(lambda t: ops.max_pool(t, kernel, stride, pads), reference_of("max"), x)
    check_gradient(lambda t: ops.average_pool(t, kernel, stride, pads), reference_of("mean"), x)


def test_max_pool_gives_every_tie_the_whole_gradient():
    given, weights = gradients(
        lambda t: ops.max_pool(t, (2,), (2,)), np.ones((1, 1, 4), np.float32)
    )
    np.testing.assert_array_equal(given[0][0, 0], np.repeat(weights[0, 0], 2))


@pytest.mark.parametrize("auto_pad", ["same_upper", "same_lower", "valid"])
def test_pool_auto_pad(auto_pad):
    x = random(1, 2, 7, 6)
    pads = [(0, 0), (0, 0)]
    if auto_pad != "valid":
        pads = [same_pads(s, 3, 2, auto_pad == "same_upper") for s in (7, 6)]
    flat = [p[0] for p in pads] + [p[1] for p in pads]
    cells = windows(x, (3, 3), (2, 2), flat, False)
    check(
        lambda t: ops.max_pool(t, (3, 3), (2, 2), auto_pad=auto_pad),
        lambda _: np.nanmax(cells, -1),
        x,
    )
    check(
        lambda t: ops.average_pool(t, (3, 3), (2, 2), auto_pad=auto_pad),
        lambda _: np.nanmean(cells, -1),
        x,
    )


def test_pool_defaults_and_errors():
    x = random(1, 2, 4, 4)
    # The stride is 1 unless given.
    check(
        lambda t: ops.max_pool(
            t, (2, 2), out_pads=(0, 0, 0, 0), dilation=(1, 1), in_dilations=(1, 1)
        ),
        lambda a: np.nanmax(windows(a, (2, 2), (1, 1), (0,) * 4, False), -1),
        x,
    )
    with popxl.Ir().main_graph:
        t = popxl.variable(x)
        assert ops.max_pool(t, (2, 2)).name == "maxpool_out"
        assert ops.average_pool(t, (2, 2)).name == "averagepool_out"
        for op in (ops.max_pool, ops.average_pool):
            with pytest.raises(popart.popart_exception, match="invalid kernel_shape"):
                op(t, (2, 2, 2))
            with pytest.raises(KeyError):
                op(t, (2, 2), auto_pad="full")
            for bad in ({"stride": (0, 1)}, {"padding": (1, 1)}, {"stride": (1, 1, 1)}):
                with pytest.raises(popart.popart_exception):
                    op(t, (2, 2), **bad)
            with pytest.raises(popart.popart_exception):
                op(t, (9, 9))
        with pytest.raises(popart.popart_exception, match="storage_order != 0, not supported"):
            ops.max_pool(t, (2, 2), storage_order="column")
