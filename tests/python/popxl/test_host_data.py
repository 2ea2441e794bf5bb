"""Element types, conversion of host data, float8 and seeds."""

import collections
import math
from fractions import Fraction

import numpy as np
import pytest
import torch

import popart
import popxl
from popxl.fp8_utils import (
    host_fp8_mse_scale,
    host_pow2scale_cast_from_fp8,
    host_pow2scale_cast_to_fp8,
)
from popxl.random_seed import two_uint32_to_uint64, uint64_to_two_uint32
from popxl.testing import get_all_dtypes
from popxl.utils import table_to_string, to_numpy


def test_dtype_lookup():
    assert popxl.half is popxl.float16
    assert repr(popxl.float) == "popxl.dtypes.float32"
    for d in get_all_dtypes():
        assert popxl.dtype.as_dtype(d.name) is d
        assert popxl.dtype.as_dtype(d.as_numpy()) is d
    for value, wanted in (
        (float, popxl.float32),
        (bool, popxl.bool),
        (int, popxl.int64),
        ("double", popxl.float64),
        ("half", popxl.float16),
        (torch.float16, popxl.float16),
        (torch.bfloat16, popxl.bfloat16),
        (np.ones(2, np.uint8), popxl.uint8),
        (torch.ones(2), popxl.float32),
        (popart.DataType.FLOAT16, popxl.float16),
    ):
        assert popxl.dtype.as_dtype(value) is wanted
    for value in (torch.float8_e5m2, str):
        with pytest.raises(ValueError, match="no popxl dtype"):
            popxl.dtype.as_dtype(value)
    assert popxl.int8.as_torch() is torch.int8
    with pytest.raises(TypeError):
        popxl.uint32.as_torch()


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (1, "int32"),
        (1.0, "float32"),
        (True, "bool"),
        ([1, 2.5], "float32"),
        (np.ones(2, np.float64), "float32"),
        (np.ones(2, np.uint64), "uint32"),
        (np.ones(2, np.float16), "float16"),
        (torch.ones(2, dtype=torch.int64), "int32"),
        (torch.ones(2, requires_grad=True), "float32"),
    ],
)
def test_to_numpy_infers(value, wanted):
    assert to_numpy(value).dtype == wanted


def test_to_numpy_casts_and_copies():
    assert to_numpy(3.7, popxl.int32) == 3
    assert to_numpy(1, downcast=False).dtype == np.int64
    array = np.ones((2, 3), np.float32)
    assert not np.shares_memory(to_numpy(array), array)
    assert to_numpy(array, copy=False) is array
    turned = to_numpy(array.T, copy=False)
    assert turned.flags.c_contiguous
    with pytest.raises(RuntimeError, match="float8"):
        to_numpy(1.0, log2_scale=1)
    with pytest.raises(TypeError, match="float8_143"):
        to_numpy([1, 2], popxl.float8_143)


def test_to_numpy_memmap(tmp_path):
    mapped = np.memmap(tmp_path / "a", np.float32, "w+", shape=(4,))
    assert to_numpy(mapped, copy=False) is mapped
    with pytest.raises(ValueError, match="the `dtype` parameter"):
        to_numpy(mapped, popxl.float16)
    with pytest.raises(ValueError, match="C-ordered"):
        to_numpy(mapped[::2])
    with pytest.raises(ValueError, match="requires downcasting"):
        to_numpy(np.memmap(tmp_path / "b", np.int64, "w+", shape=(4,)))


@pytest.mark.parametrize(
    ("dtype", "largest", "smallest"),
    [(popxl.float8_143, 240.0, 2.0**-10), (popxl.float8_152, 57344.0, 2.0**-17)],
)
def test_float8_round_trip(dtype, largest, smallest):
    codes = np.arange(256, dtype=np.uint8).view(dtype.as_numpy())
    values = host_pow2scale_cast_from_fp8(codes)
    assert np.isnan(values[0x80])
    assert values[0x7F] == largest
    assert values[1] == smallest
    back = host_pow2scale_cast_to_fp8(values, dtype)
    np.testing.assert_array_equal(back.view(np.uint8), np.arange(256))
    saturated = host_pow2scale_cast_to_fp8(
        np.array([1e6, -1e6, np.inf], np.float32), dtype, nan_on_overflow=False
    )
    np.testing.assert_array_equal(saturated.view(np.uint8), [0x7F, 0xFF, 0x80])
    with pytest.raises(RuntimeError):
        host_pow2scale_cast_to_fp8(np.ones(2, np.int32), dtype)


def test_float8_rounding_matches_torch():
    # torch's float8_e4m3fnuz and e5m2fnuz have the same biases and the same single NaN.
    values = np.random.default_rng(0).normal(size=4096).astype(np.float32)
    for dtype, name in (
        (popxl.float8_143, torch.float8_e4m3fnuz),
        (popxl.float8_152, torch.float8_e5m2fnuz),
    ):
        ours = host_pow2scale_cast_from_fp8(host_pow2scale_cast_to_fp8(values, dtype))
        np.testing.assert_array_equal(ours, torch.from_numpy(values).to(name).float().numpy())


def test_float8_scale_search():
    values = np.random.default_rng(1).normal(size=1000).astype(np.float32) * 1e-3
    error, scale = host_fp8_mse_scale(values, popxl.float8_143)
    errors = histogram_errors(values, 3, -10, 7)
    assert errors[scale] == min(errors.values())
    np.testing.assert_allclose(error, float(errors[scale]), rtol=1e-12)
    assert scale > 5


def histogram_errors(values, mantissa_bits, min_exp, max_exp):
    """The estimated mean square error by scale, in exact arithmetic."""
    counts = collections.Counter(math.frexp(abs(v))[1] - 1 for v in values.tolist() if v)
    share = Fraction(1, 4 ** (10 - mantissa_bits))

    def error(exponent, scale):
        edge, last = Fraction(2) ** exponent, Fraction(2) ** (max_exp - scale)
        if exponent + scale > max_exp:
            return (last - edge) ** 2
        return edge**2 * (1 if exponent + scale < min_exp else share)

    return {
        scale: sum(n * error(exponent, scale) for exponent, n in counts.items()) / len(values)
        for scale in range(-30, 32)
    }


@pytest.mark.parametrize(
    ("dtype", "facts"), [("float8_143", (3, -10, 7)), ("float8_152", (2, -17, 15))]
)
@pytest.mark.parametrize("data", ["narrow", "normal", "wide", "large", "one", "zeros"])
def test_the_middle_of_equally_good_scales(dtype, facts, data):
    rng = np.random.default_rng(4)
    values = {
        "narrow": rng.uniform(32, 64, 300),
        "normal": rng.normal(size=300),
        "wide": rng.normal(size=300) * np.exp(6 * rng.normal(size=300)),
        "large": 1e9 * rng.normal(size=300),
        "one": np.ones(1),
        "zeros": np.zeros(5),
    }[data].astype(np.float32)
    errors = histogram_errors(values, *facts)
    best = sorted((s for s in errors if errors[s] == min(errors.values())), reverse=True)
    scale = host_fp8_mse_scale(values, getattr(popxl, dtype))[1]
    assert scale == best[len(best) // 2]
    if data == "narrow" and dtype == "float8_143":
        assert scale < 0


def test_seeds():
    seeds = popxl.create_seeds(7)
    assert seeds.shape == (2,)
    assert seeds.dtype == np.uint32
    expected = np.random.default_rng(7).integers(0, 2**64 - 1, endpoint=True, dtype="uint64")
    assert two_uint32_to_uint64(*map(int, seeds)) == expected
    assert popxl.create_seeds(7, batches_per_step=3, replicas=4).shape == (3, 4, 2)
    assert two_uint32_to_uint64(*uint64_to_two_uint32(2**40 + 5)) == 2**40 + 5
    with pytest.raises(ValueError, match="-1"):
        uint64_to_two_uint32(-1)


def test_table():
    assert table_to_string([["a", "bb"], ["ccc", "d"]]) == "a   | bb\n---------\nccc | d \n"
    assert table_to_string([["a"]]) == "a\n"
