"""What the process holds of the memory of the machine."""

from __future__ import annotations

import ctypes
import platform

import numpy as np
import pytest

import popxl
from pando.process_memory import resident_bytes
from popxl import ops

OPS = 20_000


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="malloc_trim is a function of glibc")
def test_what_a_compilation_frees_goes_back_to_the_system() -> None:
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(np.ones(3, np.float32))
        for _ in range(OPS // 2):
            x = ops.tanh(ops.add(x, x))
        ops.host_store(popxl.d2h_stream(x.shape, x.dtype), x)
    session = popxl.Session(ir, "cpu")
    before = resident_bytes()
    ctypes.CDLL(None).malloc_trim(0)
    assert before - resident_bytes() < 2_000_000, "left by a compilation that frees far more"
    del session
