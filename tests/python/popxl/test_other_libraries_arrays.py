"""Host data of other libraries, and results for them: torch tensors, DLPack, ml_dtypes."""

import ml_dtypes
import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import popart
import popxl
from pando import _core, checkpoint
from pando.host_arrays import BFloat16Array
from popxl import ops
from popxl.utils import to_numpy

BFLOAT16 = ml_dtypes.bfloat16
DTYPES = {
    "bool": torch.bool,
    "int8": torch.int8,
    "int16": torch.int16,
    "int32": torch.int32,
    "int64": torch.int64,
    "uint8": torch.uint8,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "float64": torch.float64,
}


class Exported:
    """Only the DLPack protocol of a tensor."""

    def __init__(self, tensor):
        self._tensor = tensor

    def __dlpack__(self, **settings):
        return self._tensor.__dlpack__(**settings)

    def __dlpack_device__(self):
        return self._tensor.__dlpack_device__()


def twice(dtype, given):
    """A stream of `dtype`, a variable of the same values; both are run through the device."""
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        source = popxl.h2d_stream((2, 3), dtype)
        output = popxl.d2h_stream((2, 3), dtype)
        ops.host_store(output, ops.host_load(source))
        v = popxl.variable(given, downcast=False)
        c = popxl.constant(given, downcast=False)
        stored = [popxl.d2h_stream((2, 3), dtype) for _ in range(2)]
        ops.host_store(stored[0], v)
        ops.host_store(stored[1], c)
    assert v.dtype is c.dtype is dtype
    with popxl.Session(ir, "cpu") as session:
        results = session.run({source: given}, downcast_inputs=False)
        return [results[s] for s in (output, *stored)], session.get_tensor_data(v)


@pytest.mark.parametrize("wrap", [lambda t: t, Exported], ids=["tensor", "dlpack"])
@pytest.mark.parametrize("name", DTYPES)
def test_tensors_of_torch_in_and_out(name, wrap):
    tensor = torch.tensor([[0.0, 1.0, 2.0], [3.0, 4.0, 120.0]]).to(DTYPES[name])
    results, held = twice(popxl.dtype.from_name(name), wrap(tensor))
    for array in (*results, held):
        back = torch.from_dlpack(array)
        assert back.dtype == tensor.dtype
        assert torch.equal(back, tensor)


def test_a_tensor_that_is_no_contiguous_block():
    tensor = torch.arange(12, dtype=torch.float32).reshape(3, 4).to(torch.bfloat16).T[1:]
    for given in (tensor, Exported(tensor), tensor.clone().requires_grad_()):
        array = to_numpy(given)
        assert array.dtype == BFLOAT16
        np.testing.assert_array_equal(array.astype(np.float32), tensor.to(torch.float32).numpy())


def test_results_are_shared_not_copied():
    array = np.arange(6).astype(BFLOAT16).reshape(2, 3).view(BFloat16Array)
    tensor = torch.from_dlpack(array)
    tensor[1, 2] = 77
    assert float(array[1, 2]) == 77
    assert torch.equal(torch.from_dlpack(array[:, ::2]), tensor[:, ::2])
    # What is computed from it has the protocol of its own dtype.
    assert torch.from_dlpack(array.astype(np.float32)).dtype == torch.float32
    assert torch.from_dlpack(array * array).dtype == torch.bfloat16
    del array
    assert float(tensor[1, 2]) == 77


def test_what_cannot_be_shared():
    array = np.zeros(3, BFLOAT16).view(BFloat16Array)
    assert torch.from_dlpack(array, copy=True).dtype == torch.bfloat16
    array.flags.writeable = False
    with pytest.raises(BufferError, match="read-only"):
        array.__dlpack__()
    with pytest.raises(TypeError):
        _core.share_bfloat16(np.zeros(3, np.float32))
    with pytest.raises(TypeError, match="NumPy can hold"):
        to_numpy(Exported(torch.zeros(3, dtype=torch.float8_e5m2)))


def test_numbers_and_lists_become_bfloat16():
    ir = popxl.Ir()
    with ir.main_graph:
        v = popxl.variable([1.0, 2.00390625], popxl.bfloat16)
        ops.host_store(popxl.d2h_stream((2,), popxl.bfloat16), v + 1.5)
    assert v.dtype.as_numpy() == BFLOAT16
    assert popxl.dtype.as_dtype(torch.bfloat16) is popxl.bfloat16
    with popxl.Session(ir, "cpu") as session:
        session.write_variable_data(v, np.full(2, 3.0, BFLOAT16))
        given = session.get_tensor_data(v)
        assert given.dtype == BFLOAT16
        assert given.astype(float).tolist() == [3.0, 3.0]
        session.write_variable_data(v, torch.tensor([5, 6], dtype=torch.bfloat16))
        assert session.get_tensor_data(v).astype(float).tolist() == [5.0, 6.0]
        with pytest.raises(TypeError, match="bfloat16"):
            session.write_variable_data(v, np.zeros(2, np.float16))


def test_streams_refuse_other_dtypes():
    ir = popxl.Ir()
    with ir.main_graph:
        source = popxl.h2d_stream((2,), popxl.bfloat16)
        output = popxl.d2h_stream((2,), popxl.bfloat16)
        ops.host_store(output, ops.host_load(source))
    with popxl.Session(ir, "cpu") as session:
        for wrong in (np.float16, np.uint16, np.float32):
            with pytest.raises(popart.popart_runtime_error, match="bfloat16"):
                session.run({source: np.zeros(2, wrong)})
        target = np.zeros(2, BFLOAT16)
        session.run_with_outputs({source: np.ones(2, BFLOAT16)}, {output: target})
        assert target.astype(float).tolist() == [1.0, 1.0]


def test_remote_rows_and_checkpoints(tmp_path):
    values = np.random.default_rng(2).normal(size=(3, 4)).astype(BFLOAT16)
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        v = popxl.variable(values, name="v")
        buffer = popxl.remote_buffer((4,), popxl.bfloat16, 3)
        for row in range(3):
            ops.remote_store(buffer, row, v[row] + v[row])
        ops.add_(v, ops.concat([ops.reshape(ops.remote_load(buffer, r), (1, 4)) for r in range(3)]))
        ops.host_store(popxl.d2h_stream((3, 4), popxl.bfloat16), v)
    with popxl.Session(ir, "cpu") as session:
        session.run()
        checkpoint.save(session, tmp_path / "c", step=1)
        kept = session.get_tensor_data(v).copy()
        session.run()
        checkpoint.load(session, tmp_path / "c")
        np.testing.assert_array_equal(session.get_tensor_data(v), kept)
    wanted = values.astype(np.float32) * 3
    np.testing.assert_allclose(kept.astype(np.float32), wanted, rtol=2.0**-8)
    tensors = {}
    for path in (tmp_path / "c").rglob("*.safetensors"):
        tensors |= load_file(path)
    read = next(tensor for name, tensor in tensors.items() if name.endswith("v"))
    assert read.dtype == torch.bfloat16
    np.testing.assert_array_equal(read.to(torch.float32).numpy(), kept.astype(np.float32))


def test_printing(capfd):
    ir = popxl.Ir()
    with ir.main_graph:
        ops.print_tensor(popxl.variable([1.5, -2.25], popxl.bfloat16), "seen")
    with popxl.Session(ir, "cpu") as session:
        session.run()
    text = capfd.readouterr().err
    assert "1.5" in text and "-2.25" in text
