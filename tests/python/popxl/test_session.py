"""The life cycle of sessions and their transfers."""

import numpy as np
import pytest

import popart
import popxl
from popxl.context import create_op
from popxl.tensor import Tensor

DATA = np.arange(4, dtype=np.float32).reshape(2, 2)


def make(kind, inputs, attributes):
    op = create_op(kind, inputs, attributes)
    return Tensor._from_pb(op.outputs[0]) if op.outputs else None


def load(stream):
    attributes = {"shape": list(stream.shape), "dtype": stream.dtype._pb, "init_type": "undef"}
    return make("HostLoad", [make("Init", [], attributes)], {"stream": stream.tensor_id})


def store(stream, tensor):
    make("HostStore", [tensor], {"stream": stream.tensor_id})


@pytest.fixture
def program():
    """o = x + v; v += x."""
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        x = popxl.h2d_stream((2, 2), popxl.float32)
        o = popxl.d2h_stream((2, 2), popxl.float32)
        v = popxl.variable(np.ones((2, 2), np.float32), name="v")
        loaded = load(x)
        store(o, make("Add", [loaded, v], {}))
        make("AddLhsInplace", [v, loaded], {})
    return popxl.Session(ir, "cpu"), x, o, v


def test_run_and_variables(program):
    session, x, o, v = program
    assert not session.is_attached
    with pytest.raises(ValueError, match="with session"):
        session.run({x: DATA})
    with session:
        assert session.is_attached
        np.testing.assert_array_equal(session.run({x: DATA})[o], DATA + 1)
        assert not v.in_sync_with_ipu
        np.testing.assert_array_equal(session.run({x: DATA.tolist()})[o], 2 * DATA + 1)
        view = session.get_tensor_data(v)
        np.testing.assert_array_equal(view, 2 * DATA + 1)
        session.run({x: DATA})
        with session:
            assert session.is_attached
        assert session.is_attached
    assert not session.is_attached
    np.testing.assert_array_equal(view, 3 * DATA + 1)
    with session:
        np.testing.assert_array_equal(session.run({x: DATA})[o], 4 * DATA + 1)


def test_no_transfer_on_exit(program):
    session, x, _, v = program
    session.weights_to_host_on_exit = False
    with session:
        session.run({x: DATA})
    np.testing.assert_array_equal(session.get_tensor_data(v), np.ones((2, 2)))


def test_no_transfer_after_an_exception(program):
    session, x, _, v = program
    with pytest.raises(KeyError), session:
        session.run({x: DATA})
        raise KeyError
    assert not session.is_attached
    np.testing.assert_array_equal(session.get_tensor_data(v), np.ones((2, 2)))


def test_run_with_outputs(program):
    session, x, o, _ = program
    outputs = session.create_host_outputs()
    with session:
        session.run_with_outputs({x: DATA}, outputs)
        np.testing.assert_array_equal(outputs[o], DATA + 1)
        with pytest.raises(ValueError, match="Unexpected/Missing output"):
            session.run_with_outputs({x: DATA}, {})
        with pytest.raises(popart.popart_exception, match="C-contiguous"):
            session.run_with_outputs({x: DATA}, {o: np.empty((4, 4), np.float32)[::2, ::2]})


def test_input_errors(program):
    session, x, o, _ = program
    assert session.expected_inputs() == {x}
    with session:
        for wrong in ({}, {o: DATA}, {x: DATA, o: DATA}):
            with pytest.raises(ValueError, match="Unexpected/Missing input"):
                session.run(wrong)
        with pytest.raises(ValueError, match=r"\(3,\)"):
            session.run({x: np.ones(3, np.float32)})
        with pytest.raises(popart.popart_runtime_error, match="Type discrepancy for tensor"):
            session.run({x: np.ones((2, 2), np.int32)})
        # Other layouts and 64-bit floats are converted.
        np.testing.assert_array_equal(session.run({x: DATA.T.astype(np.float64)})[o], DATA.T + 1)


def test_writing_variables(program):
    session, x, o, v = program
    session.write_variable_data(v, np.full((2, 2), 5, np.float32))
    with session:
        np.testing.assert_array_equal(session.run({x: DATA})[o], DATA + 5)
        session.write_variable_data(v, np.zeros((2, 2), np.float32))
        np.testing.assert_array_equal(session.run({x: DATA})[o], DATA)
    with pytest.raises(TypeError, match="dtype"):
        session.write_variable_data(v, np.ones((2, 2)))
    with pytest.raises(ValueError, match="shape"):
        session.write_variable_data(v, np.ones(2, np.float32))
    with pytest.raises(TypeError, match="NumPy array"):
        session.write_variable_data(v, [[1.0, 2.0]])
    with pytest.raises(TypeError, match="not of type"):
        session.write_variable_data(x._stream_tensor, DATA)
    with pytest.raises(TypeError, match="not of type Constant or Variable"):
        session.get_tensor_data(x._stream_tensor)


def test_transfers_per_run():
    ir = popxl.Ir()
    ir.num_host_transfers = 3
    with ir.main_graph, popxl.in_sequence():
        x = popxl.h2d_stream((2,), popxl.float32)
        o = popxl.d2h_stream((2,), popxl.float32)
        for _ in range(3):
            store(o, load(x))
    data = np.arange(6, dtype=np.float32).reshape(3, 2)
    with popxl.Session(ir) as session:
        assert session._full_input_shape(x.shape) == (3, 2)
        np.testing.assert_array_equal(session.run({x: data})[o], data)
        np.testing.assert_array_equal(session.run({x: np.tile(data, (2, 1))})[o], data)
        with pytest.raises(ValueError, match="3 host transfers"):
            session.run({x: data[:2]})


def test_remote_variable():
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        buffer = popxl.remote_buffer((2,), popxl.float32, 3)
        remote = popxl.remote_variable(np.array([1, 2], np.float32), buffer, 1)
        offset = popxl.constant(1, popxl.uint32)
        attributes = {"shape": [2], "dtype": popxl.float32._pb, "init_type": "undef"}
        value = make(
            "RemoteLoad",
            [make("Init", [], attributes), offset],
            {"buffer": buffer.remote_buffer_id},
        )
        doubled = make("Add", [value, value], {})
        make("RemoteStore", [doubled, offset], {"buffer": buffer.remote_buffer_id})
    num_ops = len(ir.main_graph._pb_graph.getOps())
    with popxl.Session(ir) as session:
        session.run()
        session.run()
        np.testing.assert_array_equal(session.get_tensor_data(remote), [4, 8])
    assert remote.location_info.getRemoteBufferInfo() == (1, 1)
    assert len(ir.main_graph._pb_graph.getOps()) == num_ops


def test_memory_mapped_variable(tmp_path):
    mapped = np.memmap(tmp_path / "weights", np.float32, "w+", shape=(2,))
    mapped[:] = 1
    ir = popxl.Ir()
    with ir.main_graph:
        v = popxl.variable(mapped)
        assert v._memmap_arr is mapped
        assert popxl.variable(np.ones(2))._memmap_arr is None
        make("AddLhsInplace", [v, popxl.constant(2.0)], {})
    with popxl.Session(ir) as session:
        session.run()
    assert session.get_tensor_data(v) is mapped
    np.testing.assert_array_equal(np.fromfile(tmp_path / "weights", np.float32), [3, 3])


def test_construction_errors(program):
    ir = popxl.Ir()
    with pytest.raises(RuntimeError, match="has no graphs"):
        popxl.Session(ir)
    with pytest.raises(ValueError, match="ipu_model"):
        popxl.Session(program[0].ir, "gpu")
    with pytest.raises(RuntimeError, match="replication factor"):
        program[0].ir.replication_factor = 2


def test_ambiguity():
    ir = popxl.Ir()
    with ir.main_graph:
        v = popxl.variable(1.0)
        x = popxl.variable(2.0)
        make("AddLhsInplace", [v, x], {})
        make("AddLhsInplace", [v, x], {})
    with pytest.raises(
        popart.popart_exception,
        match=r"^Inplacing ambiguity detected.*`popxl.in_sequence\(\)`.*enableInplaceAmbiguity",
    ):
        popxl.Session(ir)
    ir._pb_ir.getSessionOptions().enableInplaceAmbiguityChecking = False
    with popxl.Session(ir) as session:
        session.run()
    assert session.get_tensor_data(v) == 5


def test_dot_checkpoint(tmp_path, program):
    program[0].ir.dot_checkpoint("Start", tmp_path)
    text = (tmp_path / "Start_r.dot").read_text()
    assert text.startswith("digraph net {")
    assert "AddLhsInplace" in text


@pytest.mark.parametrize("kind", [">f4", [("a", "<f4")], np.int32, np.float64, "S4"])
def test_outputs_of_another_dtype_are_refused(program, kind):
    session, x, o, _ = program
    given = np.zeros((2, 2), kind)
    before = given.tobytes()
    with session, pytest.raises(popart.popart_exception, match="must have dtype float32"):
        session.run_with_outputs({x: DATA}, {o: given})
    assert given.tobytes() == before


def test_outputs_that_cannot_be_filled(program):
    session, x, o, _ = program
    fixed = np.zeros((2, 2), np.float32)
    fixed.flags.writeable = False
    with session:
        with pytest.raises(popart.popart_exception, match="writable"):
            session.run_with_outputs({x: DATA}, {o: fixed})
        with pytest.raises(ValueError, match=r"shape \(3, 2\)"):
            session.run_with_outputs({x: DATA}, {o: np.zeros((3, 2), np.float32)})
        with pytest.raises(TypeError, match="must be a NumPy array"):
            session.run_with_outputs({x: DATA}, {o: [[0.0, 0.0], [0.0, 0.0]]})
        # At an address that is no multiple of four.
        unaligned = np.frombuffer(bytearray(17), np.float32, 4, offset=1).reshape(2, 2)
        session.run_with_outputs({x: DATA}, {o: unaligned})
        np.testing.assert_array_equal(unaligned, DATA + 1)


def test_float8_outputs_may_be_raw_bytes():
    ir = popxl.Ir()
    data = popxl.utils.to_numpy(np.array([1.0, -2.0], np.float32), popxl.float8_143)
    with ir.main_graph:
        v = popxl.variable(data, popxl.float8_143)
        o = popxl.d2h_stream((2,), popxl.float8_143)
        store(o, v)
    with popxl.Session(ir) as session:
        for target in (np.zeros(2, np.uint8), np.zeros(2, popxl.float8_143.as_numpy())):
            session.run_with_outputs({}, {o: target})
            assert target.tobytes() == data.tobytes()
        with pytest.raises(popart.popart_exception, match="must have dtype"):
            session.run_with_outputs({}, {o: np.zeros(2, np.int8)})


@pytest.mark.parametrize("kind", [">f4", [("a", "<f4")]])
def test_data_of_another_byte_order_is_refused_and_named(program, kind):
    session, x, _, v = program
    given = np.zeros((2, 2), kind)
    with session:
        with pytest.raises(popart.popart_runtime_error, match=r"wanted float32; given .*f4"):
            session.run({x: given})
        with pytest.raises(TypeError, match=r"wanted data of dtype float32; given .*f4"):
            session.write_variable_data(v, given)
    with popxl.Ir().main_graph, pytest.raises(ValueError, match=r"no popxl dtype for .*f4"):
        popxl.variable(given)
