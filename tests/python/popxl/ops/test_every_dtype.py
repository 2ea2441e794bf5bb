"""Every op wrapper with every kind of element type: what builds, what runs, and that it runs right.

What builds and does not run is refused by the session, with the op and the user's line. Every
element type of the ops that run, at length: test_dtypes.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

import popart
import popxl
from popxl import ops
from popxl.fp8_utils import host_pow2scale_cast_from_fp8, host_pow2scale_cast_to_fp8
from popxl.ops import var_updates
from tests.python.popxl.ops.dtype_table import ALL, TABLE

# Wrappers of graphs and of users' ops, which take the dtypes of those; seeds; classes and modules.
WITHOUT_DTYPE = {
    "CallSiteInfo",
    "ConditionalSiteInfo",
    "PadType",
    "RecurrentWeights",
    "call",
    "call_with_info",
    "collectives",
    "conditional",
    "conditional_with_info",
    "custom",
    "host_call",
    "remote_code_load",
    "repeat",
    "repeat_with_info",
    "split_random_seed",
    "var_updates",
    "while_loop",
}


def test_the_table_has_every_wrapper():
    wrappers = {*ops.__all__, "floor", "log2"} - WITHOUT_DTYPE
    assert wrappers - set(TABLE) == set()
    updates = {f"var_updates.{n}" for n in vars(var_updates) if n.endswith(("_", "updater"))}
    assert {n for n in updates if not n.startswith("var_updates._")} - set(TABLE) == set()


def encoded(values: Any, dtype: popxl.dtypes.dtype) -> Any:
    if dtype == popxl.float8_143:
        return host_pow2scale_cast_to_fp8(values.astype(np.float32), dtype, 0, True)
    return (values % 2 if dtype == popxl.bool else values).astype(dtype.as_numpy())


def decoded(values: Any, dtype: popxl.dtypes.dtype) -> Any:
    if dtype == popxl.float8_143:
        return host_pow2scale_cast_from_fp8(values, popxl.float32, 0).astype(np.float64)
    return np.asarray(values).astype(np.float64)


def in_dtype(values: Any, dtype: popxl.dtypes.dtype) -> Any:
    """What an element type makes of exact values: truncated, wrapped, or not 0."""
    values = np.asarray(values, np.float64)
    if dtype == popxl.bool:
        return (values != 0).astype(np.float64)
    if dtype.is_int:
        return np.trunc(values).astype(np.int64).astype(dtype.as_numpy()).astype(np.float64)
    return values


def kinds_of(ir: popxl.Ir) -> Iterable[str]:
    return {op.kind for graph in ir._pb.graphs for op in graph.ops}


@pytest.mark.parametrize("dtype_name", ALL)
@pytest.mark.parametrize("name", TABLE)
def test_dtype(name: str, dtype_name: str) -> None:
    entry, dtype = TABLE[name], popxl.dtype.from_name(dtype_name)
    arrays = [encoded(np.asarray(a), dtype) for a in entry.arrays]
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        variables = [popxl.variable(a) for a in arrays]
        if dtype_name in entry.unbuilt:
            with pytest.raises(entry.fault):
                entry.build(*variables)
            return
        result = entry.build(*variables)
        stream = popxl.d2h_stream(result.shape, result.dtype)
        ops.host_store(stream, result)
    if dtype_name not in entry.runs:
        with pytest.raises(popart.popart_exception) as refusal:
            popxl.Session(ir, "cpu")
        text = str(refusal.value)
        # The line is that of the table, or here where the table names the wrapper itself.
        assert re.search(r"made at .*(dtype_table|test_every_dtype)\.py:\d+", text)
        assert any(f"{kind} '" in text for kind in kinds_of(ir)), text
        assert "(internal error" not in text
        return
    with popxl.Session(ir, "cpu") as session:
        given = session.run()[stream]
    wanted = in_dtype(entry.reference(*(decoded(a, dtype) for a in arrays)), result.dtype)
    names = (dtype_name, result.dtype.name)
    tolerance = 2e-2 if "bfloat16" in names else 5e-3 if "float16" in names else 1e-5
    np.testing.assert_allclose(decoded(given, result.dtype), wanted, rtol=tolerance)
