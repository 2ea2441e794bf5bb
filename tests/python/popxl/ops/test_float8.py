"""Float8 casts and scaled products, against a decoding of all codes and exact arithmetic."""

import numpy as np
import pytest
import torch

import popart
import popxl
from popxl import ops
from popxl.fp8_utils import host_pow2scale_cast_from_fp8, host_pow2scale_cast_to_fp8
from tests.python.popxl.ops.op_testing import outputs, random

FORMATS = {popxl.float8_143: (3, 8), popxl.float8_152: (2, 16)}
formats = pytest.mark.parametrize("dtype", FORMATS)


def decode(codes, dtype):
    """Values of codes: sign, exponent and mantissa; 0x80 is the only NaN."""
    bits, bias = FORMATS[dtype]
    codes = codes.astype(np.int64)
    sign = np.where(codes & 0x80, -1.0, 1.0)
    exponent, mantissa = (codes & 0x7F) >> bits, codes & ((1 << bits) - 1)
    fraction = mantissa / 2.0**bits
    value = np.where(
        exponent == 0, fraction * 2.0 ** (1 - bias), (1 + fraction) * 2.0 ** (exponent - bias)
    )
    return np.where(codes == 0x80, np.nan, sign * value)


def encode(values, dtype):
    """The codes of the nearest values, ties to the even code, NaN out of range."""
    table = decode(np.arange(128), dtype)
    magnitudes = np.abs(values.astype(np.float64))
    upper = np.clip(np.searchsorted(table, magnitudes), 1, 127)
    low, high = table[upper - 1], table[upper]
    nearer_high = (magnitudes - low > high - magnitudes) | (
        (magnitudes - low == high - magnitudes) & (upper % 2 == 0)
    )
    codes = np.where(nearer_high, upper, upper - 1)
    # A step beyond the largest value is out of range from its middle on.
    limit = table[127] + (table[127] - table[126]) / 2
    negative = (values < 0) & (codes > 0)
    codes = np.where(negative, codes | 0x80, codes)
    return np.where((magnitudes >= limit) | np.isnan(values), 0x80, codes).astype(np.uint8)


def codes_of(array):
    return np.ascontiguousarray(array).view(np.uint8)


def as_float8(codes, dtype):
    return codes.view(dtype.as_numpy())


ALL = np.arange(256, dtype=np.uint8)


@formats
@pytest.mark.parametrize("target", [popxl.float16, popxl.float32])
@pytest.mark.parametrize("scale", [0, 3, -2])
def test_cast_from_every_code(dtype, target, scale):
    (given,) = outputs(
        lambda t, s: ops.pow2scale_cast_from_fp8(t, s, target),
        as_float8(ALL, dtype),
        np.array(scale, np.int32),
    )
    with np.errstate(over="ignore"):
        wanted = (decode(ALL, dtype) * 2.0**scale).astype(target.as_numpy())
    assert given.dtype == target.as_numpy()
    np.testing.assert_array_equal(given, wanted)
    if target is popxl.float32:
        host = host_pow2scale_cast_from_fp8(as_float8(ALL, dtype), popxl.float32, scale)
        np.testing.assert_array_equal(given, host)


@formats
@pytest.mark.parametrize("source", [np.float16, np.float32])
@pytest.mark.parametrize("scale", [0, 2, -3])
def test_cast_to_float8(dtype, source, scale):
    table = decode(np.arange(128), dtype)
    middles = (table[1:] + table[:-1]) / 2
    with np.errstate(over="ignore"):
        values = np.concatenate([table, -table, middles, -middles, 1.3 * table]) / 2.0**scale
        values = np.append(values, [np.nan, np.inf, -np.inf, 1e30]).astype(source)
        scaled = values.astype(np.float64) * 2.0**scale
    (given,) = outputs(
        lambda t, s: ops.pow2scale_cast_to_fp8(t, s, dtype), values, np.array(scale, np.int32)
    )
    assert given.dtype == dtype.as_numpy()
    host = host_pow2scale_cast_to_fp8(values, dtype, scale, nan_on_overflow=True)
    np.testing.assert_array_equal(codes_of(given), codes_of(host))
    representable = np.isin(np.abs(scaled), table)
    exact = codes_of(given)[representable]
    np.testing.assert_array_equal(decode(exact, dtype), scaled[representable])
    inside = np.abs(scaled) <= table[-1]
    np.testing.assert_array_equal(codes_of(given)[inside], encode(scaled[inside], dtype))
    assert (codes_of(given)[~inside][np.abs(scaled[~inside]) > 2 * table[-1]] == 0x80).all()


@pytest.mark.parametrize("scale", [-33, 32, 100])
@pytest.mark.parametrize("checked", [True, False])
def test_scale_out_of_range(scale, checked):
    ir = popxl.Ir()
    ir._pb_ir.getSessionOptions().throwIfLog2ScaleTensorNotInRange = checked
    with ir.main_graph:
        t = popxl.variable(np.ones(3, np.float16))
        log2_scale = popxl.variable(np.array(scale, np.int32))
        y = ops.pow2scale_cast_to_fp8(t, log2_scale, popxl.float8_143)
        stream = popxl.d2h_stream(y.shape, y.dtype)
        ops.host_store(stream, y)
    with popxl.Session(ir, "cpu") as session:
        if checked:
            with pytest.raises(popart.poplar_application_runtime_error):
                session.run()
        else:
            session.run()


PAIRS = [(a, b) for a in FORMATS for b in FORMATS]


def operands(a, b, *shapes):
    codes = [
        encode(random(*shape, seed=i, low=-1.5, high=1.5), dtype)
        for i, (shape, dtype) in enumerate(zip(shapes, (a, b), strict=True))
    ]
    arrays = [as_float8(c, dtype) for c, dtype in zip(codes, (a, b), strict=True)]
    exact = [decode(c, dtype) for c, dtype in zip(codes, (a, b), strict=True)]
    return arrays, exact


@pytest.mark.parametrize(("a", "b"), PAIRS)
@pytest.mark.parametrize("scale", [0, -2, 3])
def test_matmul_pow2scaled(a, b, scale):
    for shapes in (((3, 5), (5, 4)), ((2, 3, 5), (5, 4)), ((5,), (5, 2))):
        arrays, (x, y) = operands(a, b, *shapes)
        (given,) = outputs(ops.matmul_pow2scaled, *arrays, np.array(scale, np.int32))
        assert given.dtype == np.float16
        np.testing.assert_allclose(given, (x @ y) * 2.0**scale, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_conv_pow2scaled(a, b):
    arrays, (x, w) = operands(a, b, (2, 4, 6, 5), (6, 2, 3, 2))
    (given,) = outputs(
        lambda t, weight, s: ops.conv_pow2scaled(
            t, weight, s, (2, 1), (1, 0, 1, 1), (1, 1), groups=2
        ),
        *arrays,
        np.array(-1, np.int32),
    )
    padded = torch.nn.functional.pad(torch.from_numpy(x), (0, 1, 1, 1))
    wanted = torch.nn.functional.conv2d(padded, torch.from_numpy(w), None, (2, 1), 0, 1, 2) / 2
    assert given.dtype == np.float16
    np.testing.assert_allclose(given, wanted, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_conv_transpose_pow2scaled(a, b):
    arrays, (x, w) = operands(a, b, (1, 4, 3, 4), (4, 3, 3, 2))
    (given,) = outputs(
        lambda t, weight, s: ops.conv_transpose_pow2scaled(
            t, weight, s, (2, 2), groups=2, output_padding=(1, 0)
        ),
        *arrays,
        np.array(1, np.int32),
    )
    wanted = 2 * torch.nn.functional.conv_transpose2d(
        torch.from_numpy(x), torch.from_numpy(w), stride=2, output_padding=(1, 0), groups=2
    )
    assert given.dtype == np.float16
    np.testing.assert_allclose(given, wanted, rtol=2e-3, atol=4e-3)


def test_names_and_errors():
    with popxl.Ir().main_graph as graph:
        half = popxl.variable(np.ones((2, 2), np.float16), name="x")
        scale = popxl.variable(np.array(0, np.int32))
        small = ops.pow2scale_cast_to_fp8(half, scale, popxl.float8_143)
        assert small.name == "x_float8_143"
        assert ops.pow2scale_cast_from_fp8(small, scale, popxl.float16).name.endswith("_float16")
        assert ops.matmul_pow2scaled(small, small, scale).name == "matmul_pow2scaled_out"
        kinds = [op.opType() for op in graph._pb_graph.getOps()]
        assert kinds == ["Pow2ScaleThenCast", "CastThenPow2Scale", "MatMul"]
        vector = popxl.variable(np.zeros(1, np.int32))
        for op in (
            lambda s: ops.pow2scale_cast_to_fp8(half, s, popxl.float8_143),
            lambda s: ops.pow2scale_cast_from_fp8(small, s, popxl.float16),
            lambda s: ops.matmul_pow2scaled(small, small, s),
        ):
            with pytest.raises(ValueError, match="Log2 scale argument must be a scalar tensor"):
                op(vector)
            with pytest.raises(TypeError, match=r"must be of type popxl\.int32"):
                op(popxl.variable(np.array(0, np.uint32)))
        with pytest.raises(TypeError):
            ops.pow2scale_cast_to_fp8(half, scale, popxl.float16)
        with pytest.raises(TypeError):
            ops.pow2scale_cast_from_fp8(small, scale, popxl.float8_143)
        with pytest.raises(popart.popart_exception):
            ops.pow2scale_cast_from_fp8(half, scale, popxl.float16)
        with pytest.raises(popart.popart_exception):
            ops.matmul(small, small)
        image = popxl.variable(np.ones((1, 1, 3, 3), np.float16))
        for op in (ops.conv_pow2scaled, ops.conv_transpose_pow2scaled):
            with pytest.raises(TypeError, match="Scaled conv operands must be of dtype"):
                op(image, image, scale)


@pytest.mark.parametrize("name", ["to", "matmul", "conv"])
def test_no_gradient(name):
    ir = popxl.Ir()

    def forward(t, w, s):
        small = ops.pow2scale_cast_to_fp8(t, s, popxl.float8_143)
        if name == "to":
            return ops.pow2scale_cast_from_fp8(small, s, popxl.float16)
        other = ops.pow2scale_cast_to_fp8(w, s, popxl.float8_143)
        op = ops.matmul_pow2scaled if name == "matmul" else ops.conv_pow2scaled
        return op(small, other, s)

    with ir.main_graph:
        shape = (2, 2) if name != "conv" else (1, 1, 2, 2)
        x = popxl.variable(np.ones(shape, np.float16))
        graph = ir.create_graph(forward, x, x, popxl.variable(np.array(0, np.int32)))
        with pytest.raises(popart.popart_exception):
            popxl.transforms.autodiff(graph, grads_required=[graph.inputs[0]])
