"""The table of element types, and the search for float8 scales."""

import copy
import pickle

import numpy as np
import pytest
import torch

import popart
import popxl
from popxl.dtypes import np_dtype_float8_143, np_dtype_float8_152
from popxl.fp8_utils import (
    host_fp8_mse_scale,
    host_fp8_mse_scale_pb,
    host_pow2scale_cast_from_fp8,
    host_pow2scale_cast_to_fp8,
)
from popxl.random_seed import MAX_UINT64, two_uint32_to_uint64, uint64_to_two_uint32
from popxl.testing import get_all_dtypes, get_all_int_dtypes
from popxl.utils import downcast_np_dtypes, to_numpy

FLOAT8 = {"float8_143": np_dtype_float8_143, "float8_152": np_dtype_float8_152}
# name: (integer, floating point, signed, complex), torch's name, the internal name
TABLE = {
    "bool": ("----", "bool", "BOOL"),
    "int8": ("i-s-", "int8", "INT8"),
    "int16": ("i-s-", "int16", "INT16"),
    "int32": ("i-s-", "int32", "INT32"),
    "int64": ("i-s-", "int64", "INT64"),
    "uint8": ("i---", "uint8", "UINT8"),
    "uint16": ("i---", None, "UINT16"),
    "uint32": ("i---", None, "UINT32"),
    "uint64": ("i---", None, "UINT64"),
    "float8_143": ("-fs-", None, "FLOAT8_143"),
    "float8_152": ("-fs-", None, "FLOAT8_152"),
    "float16": ("-fs-", "float16", "FLOAT16"),
    "bfloat16": ("-fs-", "bfloat16", "BFLOAT16"),
    "float32": ("-fs-", "float32", "FLOAT"),
    "float64": ("-fs-", "float64", "DOUBLE"),
    "complex64": ("--sc", "complex64", "COMPLEX64"),
    "complex128": ("--sc", "complex128", "COMPLEX128"),
}


@pytest.mark.parametrize("name", TABLE)
def test_facts(name):
    flags, torch_name, internal = TABLE[name]
    d = getattr(popxl, name)
    given = (d.is_int, d.is_floating_point, d.is_signed, d.is_complex)
    assert given == tuple(letter != "-" for letter in flags)
    assert d.name == name
    assert repr(d) == f"popxl.dtypes.{name}"
    assert d.as_numpy() == FLOAT8.get(name, np.dtype(None if name in FLOAT8 else name))
    assert d._pb_dtype is popart.DataType[internal]
    assert popxl.dtype.from_name(name) is d
    for value in (name, d.as_numpy(), d._pb_dtype, np.zeros(2, d.as_numpy()), d):
        assert popxl.dtype.as_dtype(value) is d
    if torch_name is None:
        with pytest.raises(TypeError, match=name):
            d.as_torch()
    else:
        assert d.as_torch() is getattr(torch, torch_name)
        assert popxl.dtype.as_dtype(d.as_torch()) is d


def test_all_types_are_listed():
    assert {d.name for d in get_all_dtypes()} == set(TABLE)
    unsigned = {popxl.uint8, popxl.uint16, popxl.uint32, popxl.uint64}
    signed = {popxl.int8, popxl.int16, popxl.int32, popxl.int64}
    assert set(get_all_int_dtypes()) == signed | unsigned
    assert set(get_all_int_dtypes(include_signed=False)) == unsigned
    assert set(get_all_int_dtypes(include_unsigned=False)) == signed
    assert get_all_int_dtypes(False, False) == []


def test_aliases_and_singletons():
    assert popxl.half is popxl.float16
    assert popxl.float is popxl.float32
    assert popxl.double is popxl.float64
    assert popxl.double.as_numpy() == np.float64
    for d in get_all_dtypes():
        assert copy.deepcopy(d) is d
        assert pickle.loads(pickle.dumps(d)) is d
    with pytest.raises(TypeError):
        popxl.dtype()


def test_names_that_are_not_registered():
    for name in ("half", "float", "double", "int", "nothing"):
        with pytest.raises(ValueError, match=name):
            popxl.dtype.from_name(name)
    # Looked up as NumPy's names instead.
    assert popxl.dtype.as_dtype("half") is popxl.float16
    assert popxl.dtype.as_dtype("float") is popxl.float64
    assert popxl.dtype.as_dtype(None) is popxl.float64
    assert popxl.dtype.as_dtype("f4") is popxl.float32
    with pytest.raises(AttributeError):
        popxl.int16.name = "other"


@pytest.mark.parametrize("name", ["int16", "uint16", "uint64", "int64", "double"])
def test_types_outside_everyday_use_hold_their_values(name):
    d = getattr(popxl, name)
    values = np.array([0, 1, 7, 120], d.as_numpy())
    ir = popxl.Ir()
    with ir.main_graph:
        v = popxl.variable(values, downcast=False)
        c = popxl.constant([1, 2, 3, 4], d)
        stream = popxl.d2h_stream((4,), d)
        popxl.ops.host_store(stream, v + c)
    assert (v.dtype, c.dtype) == (d, d)
    with popxl.Session(ir) as session:
        given = session.run()[stream]
    assert given.dtype == d.as_numpy()
    np.testing.assert_array_equal(given, values + np.arange(1, 5))


def test_complex_tensors_are_refused():
    for d in (popxl.complex64, popxl.complex128):
        with popxl.Ir().main_graph, pytest.raises(ValueError, match=d.name):
            popxl.variable(np.ones(2, d.as_numpy()))
        with popxl.Ir().create_empty_graph(), pytest.raises(ValueError, match=d.name):
            popxl.graph_input((2,), d)


@pytest.mark.parametrize("d", [popxl.float8_143, popxl.float8_152])
@pytest.mark.parametrize("magnitude", [1e-4, 1.0, 1e5])
def test_scale_search(d, magnitude):
    """The scale found has the least error of all in [-31, 31]."""
    values = (np.random.default_rng(3).normal(size=500) * magnitude).astype(np.float32)
    scale = host_fp8_mse_scale_pb(values, d)
    assert isinstance(scale, int)
    assert host_fp8_mse_scale(values, d)[1] == scale

    def error(log2_scale):
        codes = host_pow2scale_cast_to_fp8(values, d, log2_scale, False)
        back = host_pow2scale_cast_from_fp8(codes, popxl.float64, -log2_scale)
        return np.mean((back - values.astype(np.float64)) ** 2)

    assert error(scale) <= min(error(other) for other in range(-31, 32)) * (1 + 1e-8)


def test_scale_search_refuses_other_data():
    for wrong in (np.ones(3), np.ones(3, np.int32)):
        with pytest.raises(RuntimeError, match="float"):
            host_fp8_mse_scale_pb(wrong, popxl.float8_143)


def test_downcast_types():
    assert downcast_np_dtypes == {
        np.dtype(np.int64): np.dtype(np.int32),
        np.dtype(np.uint64): np.dtype(np.uint32),
        np.dtype(np.float64): np.dtype(np.float32),
    }
    for d in get_all_dtypes():
        source = d.as_numpy()
        given = to_numpy(np.ones(2, source)).dtype
        assert given == downcast_np_dtypes.get(source, source)


def test_seed_words_at_the_ends_of_the_range():
    assert np.iinfo(np.uint64).max == MAX_UINT64
    top = np.iinfo(np.uint32).max
    assert uint64_to_two_uint32(MAX_UINT64) == (top, top)
    assert two_uint32_to_uint64(top, top) == MAX_UINT64
    # The most significant word first.
    assert tuple(uint64_to_two_uint32(2**32 + 5)) == (1, 5)
    for wrong in (MAX_UINT64 + 1, -1):
        with pytest.raises(ValueError):
            uint64_to_two_uint32(wrong)
    for wrong in ((top + 1, 0), (0, top + 1), (-1, 0)):
        with pytest.raises(ValueError):
            two_uint32_to_uint64(*wrong)


def test_numpy_types_of_float8():
    assert np_dtype_float8_143 == np.dtype([("float8_143", "u1")])
    assert np_dtype_float8_152 == np.dtype([("float8_152", "u1")])
