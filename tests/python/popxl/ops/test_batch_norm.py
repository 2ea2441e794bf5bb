"""Batch normalisation in training, forward and backward, against torch."""

import ml_dtypes
import numpy as np
import pytest
import torch
from torch.nn import functional

import popart
import popxl
from popxl import ops
from tests.python.popxl.ops.op_testing import check, check_gradient, gradients, outputs, random

SHAPES = [(4, 3), (2, 3, 5), (3, 17, 4, 6), (2, 70, 3, 3), (2, 3, 2, 3, 2), (1, 2, 90, 101)]
EPSILON = 1e-3


def moved(x, channel_last):
    """The data with its channels where the op wants them, for NumPy and torch."""
    if not channel_last:
        return x
    return torch.movedim(x, 1, -1) if isinstance(x, torch.Tensor) else np.moveaxis(x, 1, -1)


def ours(channel_last=False):
    return lambda *ts: ops.batch_norm_training(*ts, EPSILON, channel_last=channel_last)


def theirs(channel_last=False):
    """The result and what torch's running statistics are after one update from 0."""

    def reference(t, scale, bias):
        t, scale, bias = (torch.as_tensor(a) for a in (t, scale, bias))
        if channel_last:
            t = torch.movedim(t, -1, 1)
        statistics = torch.float64 if t.dtype == torch.float64 else torch.float32
        mean = torch.zeros(t.shape[1], dtype=statistics)
        variance = torch.zeros(t.shape[1], dtype=statistics)
        y = functional.batch_norm(
            t.to(statistics),
            mean,
            variance,
            scale.to(statistics),
            bias.to(statistics),
            True,
            1.0,
            EPSILON,
        )
        return moved(y.to(t.dtype), channel_last), mean, variance

    return reference


def arrays(shape, dtype, parameters=None, channel_last=False):
    parameters = parameters or dtype
    t = random(*shape, dtype=dtype) + dtype(1.5)
    scale = random(shape[1], dtype=parameters, seed=1)
    bias = random(shape[1], dtype=parameters, seed=2)
    return np.ascontiguousarray(moved(t, channel_last)), scale, bias


@pytest.mark.parametrize("channel_last", [False, True])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES)
def test_values_and_statistics(shape, dtype, channel_last):
    reference = theirs(channel_last)
    check(
        ours(channel_last),
        lambda *a: [r.numpy() for r in reference(*a)],
        *arrays(shape, dtype, channel_last=channel_last),
    )


@pytest.mark.parametrize("channel_last", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES)
def test_gradients(shape, dtype, channel_last):
    reference = theirs(channel_last)
    check_gradient(
        ours(channel_last),
        lambda *a: reference(*a)[0],
        *arrays(shape, dtype, channel_last=channel_last),
    )


@pytest.mark.parametrize("channel_last", [False, True])
@pytest.mark.parametrize("in_float32", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float16, 1e-2), (ml_dtypes.bfloat16, 6e-2)])
def test_gradients_of_half_precision(dtype, tolerance, in_float32, channel_last):
    given = arrays((3, 17, 4, 6), dtype, np.float32 if in_float32 else dtype, channel_last)
    ours_, weights = gradients(ours(channel_last), *given)
    leaves = [torch.tensor(a.astype(np.float64), requires_grad=True) for a in given]
    theirs(channel_last)(*leaves)[0].backward(torch.tensor(weights.astype(np.float64)))
    for gradient, leaf, array in zip(ours_, leaves, given, strict=True):
        assert gradient.dtype == array.dtype
        gradient = gradient.astype(np.float64)
        np.testing.assert_allclose(gradient, leaf.grad.numpy(), tolerance, 2 * tolerance)


def test_float32_parameters_of_float16_data():
    reference = theirs()
    given = arrays((3, 5, 4), np.float16, np.float32)
    check(ours(), lambda *a: [r.numpy() for r in reference(*a)], *given)


@pytest.mark.parametrize("channel_last", [False, True])
@pytest.mark.parametrize("channels", [1, 2, 3, 5, 31, 64, 600])
def test_any_number_of_channels(channels, channel_last):
    reference = theirs(channel_last)
    given = arrays((5, channels, 3, 7), np.float32, channel_last=channel_last)
    check(ours(channel_last), lambda *a: [r.numpy() for r in reference(*a)], *given)
    check_gradient(ours(channel_last), lambda *a: reference(*a)[0], *given)


@pytest.mark.parametrize("channel_last", [False, True])
def test_large_means_keep_their_variance(channel_last):
    t, scale, bias = arrays((4, 3, 50, 50), np.float32, channel_last=channel_last)
    t = (t + np.float32(4096)).astype(np.float32)
    y, mean, variance = outputs(ours(channel_last), t, scale, bias)
    wanted = theirs(channel_last)(*(a.astype(np.float64) for a in (t, scale, bias)))
    np.testing.assert_allclose(mean, wanted[1].numpy(), rtol=1e-6)
    np.testing.assert_allclose(variance, wanted[2].numpy(), rtol=1e-4)
    np.testing.assert_allclose(y, wanted[0].numpy(), atol=2e-3)


def test_gradients_of_the_statistics():
    def weighted(batch_norm, add, total):
        def build(t, scale, bias):
            y, mean, variance = batch_norm(t, scale, bias)
            return add(add(total(y * y), total(mean * mean)), total(variance * scale))

        return build

    def direct(t, scale, bias):
        y = theirs()(t, scale, bias)[0]
        return y, t.mean((0, 2)), t.var((0, 2))

    check_gradient(
        weighted(ours(), ops.add, ops.sum),
        weighted(direct, torch.add, torch.sum),
        *arrays((3, 4, 5), np.float32),
    )


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("channel_last", [False, True])
def test_one_bad_value_spoils_its_channel_only(bad, channel_last):
    t, scale, bias = arrays((2, 3, 4, 5), np.float32)
    t[1, 1, 2, 3] = bad
    given = (np.ascontiguousarray(moved(t, channel_last)), scale, bias)
    y, mean, variance = outputs(ours(channel_last), *given)
    wanted = [r.numpy() for r in theirs(channel_last)(*given)]
    np.testing.assert_allclose(y, wanted[0], rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(np.isnan(variance), [False, True, False])
    np.testing.assert_array_equal(np.isfinite(mean), [True, False, True])


def test_running_statistics_as_torch_has_them():
    module = torch.nn.BatchNorm2d(3, eps=EPSILON)
    batches = [random(4, 3, 5, 6, seed=i) + np.float32(i) for i in range(3)]
    for batch in batches:
        module(torch.as_tensor(batch))

    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        one, zero = np.ones(3, np.float32), np.zeros(3, np.float32)
        running = [popxl.variable(zero, name="mean"), popxl.variable(one, name="variance")]
        scale, bias = popxl.variable(one), popxl.variable(zero)
        stream = popxl.h2d_stream((4, 3, 5, 6), popxl.float32)
        forward = ir.create_graph(ours(), ops.host_load(stream), scale, bias)
        data = ops.host_load(stream)
        _, *new = ops.call(forward, data, scale, bias)
        for variable, value in zip(running, new, strict=True):
            ops.var_updates.accumulate_moving_average_(variable, value, 0.9)
    ir.num_host_transfers = 2
    with popxl.Session(ir, "cpu") as session:
        for batch in batches:
            session.run({stream: np.stack([batch, batch])})
        ours_ = [session.get_tensor_data(v) for v in running]
    np.testing.assert_allclose(ours_[0], module.running_mean.numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(ours_[1], module.running_var.numpy(), rtol=1e-5)


def test_one_value_per_channel_is_refused():
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        functional.batch_norm(torch.zeros(1, 3), None, None, training=True)
    with popxl.Ir().main_graph:
        p = popxl.variable(random(3))
        for shape in ((1, 3), (1, 3, 1, 1)):
            with pytest.raises(popart.popart_exception, match="more than 1 value per channel"):
                ops.batch_norm_training(popxl.variable(random(*shape)), p, p)


def test_errors_name_what_is_wrong():
    with popxl.Ir().main_graph:
        t, p = popxl.variable(random(2, 3, 4)), popxl.variable(random(3))
        with pytest.raises(popart.popart_exception, match=r"wanted 'bias' of shape \(3,\)"):
            ops.batch_norm_training(t, p, popxl.variable(random(4)))
        with pytest.raises(popart.popart_exception, match=r"wanted 'scale' of shape \(4,\)"):
            ops.batch_norm_training(t, p, p, channel_last=True)
        with pytest.raises(popart.popart_exception, match="wanted data of shape"):
            ops.batch_norm_training(p, p, p)
        with pytest.raises(TypeError, match="bias"):
            ops.batch_norm_training(t, p, 1.0)
    with pytest.raises(
        popart.popart_exception, match=r"in the dtype of t, or float32.*not float16"
    ):
        outputs(ours(), random(2, 3), random(3, dtype=np.float16), random(3))


@pytest.mark.parametrize("shape", [(2, 4, 3), (2, 4, 5, 3)])
def test_inference_channel_last(shape):
    t = random(*shape)
    parameters = [random(3, seed=i, low=0.2) for i in range(4)]
    check(
        lambda *ts: ops.batch_norm_inference(*ts, channel_last=True),
        lambda x, s, b, m, v: (s * (x - m) / np.sqrt(v + 1e-5) + b).astype(np.float32),
        t,
        *parameters,
    )
