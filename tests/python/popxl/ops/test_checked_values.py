"""Values that are checked when a program is lowered or runs, and how exact GeluErf is."""

import numpy as np
import pytest
from scipy.special import erfc

import popart
import popxl
from popxl import ops
from tests.python.popxl.ops.op_testing import gradients, outputs


def scaled(kind, scale, check=True):
    """One value through a float8 op with a scale that is known only when the program runs."""
    ir = popxl.Ir()
    ir._pb_ir.getSessionOptions().throwIfLog2ScaleTensorNotInRange = check
    with ir.main_graph, popxl.in_sequence():
        scale_stream = popxl.h2d_stream((), popxl.int32)
        s = ops.host_load(scale_stream)
        ones = popxl.variable(np.ones((2, 2), np.float32), popxl.float8_143)
        if kind == "to":
            t = ops.pow2scale_cast_to_fp8(
                popxl.variable(np.ones((2, 2), np.float16)), s, popxl.float8_143
            )
        elif kind == "from":
            t = ops.pow2scale_cast_from_fp8(ones, s, popxl.float32)
        else:
            t = ops.matmul_pow2scaled(ones, ones, s)
        out = popxl.d2h_stream(t.shape, t.dtype)
        ops.host_store(out, t)
        count = popxl.variable(0.0, name="count")
        ops.add_(count, popxl.constant(1.0))
    session = popxl.Session(ir)
    with session:
        session.run({scale_stream: np.array(0, np.int32)})
        try:
            return session.run({scale_stream: np.array(scale, np.int32)})[out]
        finally:
            # The session still runs, and the steps before the error are not lost.
            session.run({scale_stream: np.array(1, np.int32)})
            assert session.get_tensor_data(count) in (2, 3)


@pytest.mark.parametrize("kind", ["to", "from", "matmul"])
def test_log2_scales_are_checked_when_they_run(kind):
    for scale in (-32, 31):
        scaled(kind, scale)
    for scale in (-33, 32, 2**31 - 1, -(2**31)):
        message = rf"log2 scale of .*test_checked_values.*a value of -32 to 31, given {scale}$"
        with pytest.raises(popart.poplar_application_runtime_error, match=message) as error:
            scaled(kind, scale)
        assert isinstance(error.value, popart.poplar_runtime_error)
        assert isinstance(error.value, popart.poplar_exception)
        assert not isinstance(error.value, popart.popart_exception)
    # Without the check the scale is used as it is: 2^-40 is no float8, and 2^40 is a float32.
    values = scaled(kind, 40, check=False)
    if kind == "from":
        np.testing.assert_array_equal(values, np.full((2, 2), 2.0**40, np.float32))


def test_a_constant_scale_is_checked_when_it_runs():
    def build(x):
        scale = popxl.constant(50, popxl.int32)
        return ops.pow2scale_cast_to_fp8(x, scale, popxl.float8_152)

    with pytest.raises(popart.poplar_application_runtime_error, match="given 50"):
        outputs(build, np.ones(3, np.float16))


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("dtype", ["int64", "uint64", "float64", "bool"])
def test_increment_mod_refuses_other_dtypes_when_it_is_lowered(dtype, in_place):
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(np.ones(3), popxl.dtype.as_dtype(dtype), downcast=False)
        stream = popxl.d2h_stream(x.shape, x.dtype)
        ops.host_store(stream, (ops.increment_mod_ if in_place else ops.increment_mod)(x, 1, 3))
    with pytest.raises(popart.popart_internal_exception, match=rf"given 't' \(3,\) {dtype}") as e:
        popxl.Session(ir)
    assert "please report" not in str(e.value)


@pytest.mark.parametrize("in_place", [False, True])
def test_increment_mod_takes_the_other_dtypes(in_place):
    for dtype in (np.int8, np.uint8, np.int32, np.uint32, np.float16, np.float32):
        op = ops.increment_mod_ if in_place else ops.increment_mod
        (result,) = outputs(lambda x, op=op: op(x, 2, 3), np.array([0, 1, 2], dtype))
        np.testing.assert_array_equal(result, np.array([2, 0, 1], dtype))


def test_gelu_erf_is_exact_where_it_is_small():
    x = np.concatenate([np.linspace(-6, 0, 20001), np.linspace(-13, 6, 5001)]).astype(np.float32)
    wide = x.astype(np.float64)
    (result,) = outputs(ops.geluerf, x)
    wanted = wide * 0.5 * erfc(-wide / np.sqrt(2))
    # The relative error of erfc at z = x / sqrt 2 is 2 z^2 times that of z, half a last place.
    bound = (8 + wide**2) * np.finfo(np.float32).eps
    # Denormal intermediate results count as zero.
    smallest = np.abs(wide) * np.finfo(np.float32).tiny
    np.testing.assert_array_less(np.abs(result - wanted), bound * np.abs(wanted) + smallest + 1e-45)


def test_gelu_erf_gradient_is_exact_where_it_is_small():
    x = np.linspace(-6, -3, 2001).astype(np.float32)
    (gradient,), weights = gradients(ops.geluerf, x)
    wide = x.astype(np.float64)
    density = np.exp(-(wide**2) / 2) / np.sqrt(2 * np.pi)
    wanted = weights * (0.5 * erfc(-wide / np.sqrt(2)) + wide * density)
    np.testing.assert_allclose(gradient, wanted, rtol=2e-5)
