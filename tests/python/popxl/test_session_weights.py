"""When weights move between host and device."""

import numpy as np
import pytest

import popart
import popxl
from popxl import ops

START = np.array([1.0, 2.0], np.float32)


@pytest.fixture
def program():
    """Every run adds 1 to `v` and stores it; `c` is a constant, `other` is never changed."""
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        v = popxl.variable(START, name="v")
        other = popxl.variable(START, name="other")
        c = popxl.constant(1.0, name="c")
        v += c
        stream = popxl.d2h_stream((2,), popxl.float32)
        ops.host_store(stream, v + other)
    return popxl.Session(ir), v, other, c, stream


def test_weights_to_host(program):
    session, v, _, _, _ = program
    with pytest.raises(ValueError, match="with session"):
        session.weights_to_host()
    with session:
        session.run()
        assert not v.in_sync_with_ipu
        # Before the transfer the host has the old value.
        np.testing.assert_array_equal(v._record.data, START)
        session.weights_to_host()
        assert v.in_sync_with_ipu
        np.testing.assert_array_equal(v._record.data, START + 1)


def test_weights_from_host(program):
    session, v, other, _, stream = program
    with pytest.raises(ValueError, match="with session"):
        session.weights_from_host()
    with session:
        session.run()
        session.run()
        # Every variable is sent: what the device did is undone.
        session.weights_from_host()
        np.testing.assert_array_equal(session.run()[stream], 2 * START + 1)
        session.write_variable_data(other, START * 10)
        np.testing.assert_array_equal(session.run()[stream], START + 2 + START * 10)
        np.testing.assert_array_equal(session.get_tensor_data(v), START + 2)


def test_enter_and_exit_without_with(program):
    """Interactive programs enter once and leave by hand."""
    session, v, _, _, stream = program
    assert not session.is_attached
    assert session.__enter__() is session
    assert session.is_attached
    np.testing.assert_array_equal(session.run()[stream], 2 * START + 1)
    assert session._was_attached_stack == [False]
    with session as inner:
        assert inner is session
        assert session._was_attached_stack == [False, True]
    assert session.is_attached
    assert session.__exit__(None, None, None) is None
    assert not session.is_attached
    assert session._was_attached_stack == []
    np.testing.assert_array_equal(session.get_tensor_data(v), START + 1)


def test_exit_lets_exceptions_through(program):
    session, v, _, _, _ = program
    with pytest.raises(ZeroDivisionError), session:
        session.run()
        1 / 0  # noqa: B018
    assert not session.is_attached
    np.testing.assert_array_equal(session.get_tensor_data(v), START)
    with session:
        session.run()
    np.testing.assert_array_equal(session.get_tensor_data(v), START + 1)


def test_a_user_attached_device_stays_attached(program):
    ir = program[0].ir
    device = popart.DeviceManager().createCpuDevice()
    device.attach()
    session = popxl.Session(ir, device)
    # Weights are uploaded at once.
    assert session.is_attached
    with session:
        session.run()
    assert session.is_attached
    assert device.isAttached


def test_reading_transfers_only_for_variables(program):
    session, v, other, c, _ = program
    with session:
        session.run()
        np.testing.assert_array_equal(session.get_tensor_data(c), np.float32(1))
        assert not v.in_sync_with_ipu
        values = session.get_tensors_data([v, other, c])
        assert v.in_sync_with_ipu
        np.testing.assert_array_equal(values[v], START + 1)
        np.testing.assert_array_equal(values[other], START)
        view = values[v]
        session.run()
        session.weights_to_host()
        np.testing.assert_array_equal(view, START + 2)


def test_raw_session(program):
    """What programs reach through `session._pb_session`."""
    session, v, other, _, stream = program
    session._pb_session.writeWeights(popart.PyWeightsIO({other.id: np.array([5.0, 5.0])}))
    with session:
        np.testing.assert_array_equal(session.run()[stream], START + 1 + 5)
        session._pb_session.weightsToHost()
        read = popart.PyWeightsIO({v.id: np.zeros(2, np.float32)})
        session._pb_session.readWeights(read)
        np.testing.assert_array_equal(read.weights[v.id], START + 1)
        session._pb_session.writeWeights(popart.PyWeightsIO({v.id: START * 100}))
        session._pb_session.weightsFromHost()
        np.testing.assert_array_equal(session.run()[stream], START * 100 + 1 + 5)
        # The next enter loads and uploads again, also within one context.
        session._pb_session.setEngineIsLoaded(False)
        assert not session.is_attached
        with session:
            np.testing.assert_array_equal(session.run()[stream], START * 100 + 1 + 5)
    with pytest.raises(popart.popart_exception):
        session._pb_session.getReport()
    assert "persistent memory" in session._pb_session.getSummaryReport()


def test_sessions_that_share_a_device(program):
    session, v, _, _, _ = program
    device = session._device
    assert isinstance(device, popart.DeviceInfo)
    assert not isinstance("cpu", popart.DeviceInfo)
    ir = popxl.Ir()
    with ir.main_graph:
        w = popxl.variable(START)
        w += 3
    second = popxl.Session(ir)
    second._set_device(device)
    assert second._device is device
    with session:
        session.run()
        with second:
            second.run()
            # Weights move between programs by the host.
            session.write_variable_data(v, second.get_tensor_data(w).copy())
    np.testing.assert_array_equal(session.get_tensor_data(v), START + 3)
    assert not device.isAttached


def test_buffer_shapes():
    ir = popxl.Ir(2)
    ir.num_host_transfers = 3
    with ir.main_graph:
        x, out = popxl.h2d_stream((4,), popxl.float32), popxl.d2h_stream((4,), popxl.float32)
        ops.host_store(out, ops.host_load(x))
    session = popxl.Session(ir)
    assert session._full_input_shape((4,)) == (3, 2, 4)
    assert session._full_input_shape([]) == (3, 2)
    assert session._extra_input_dims == (3, 2)
    assert session._expected_outputs() == {out}
    assert session.create_host_outputs()[out].shape == (3, 2, 4)
    assert (session._get_ipus_per_replica(), session._get_ipu_count()) == (1, 2)
    good = {x: np.zeros((3, 2, 4), np.float32)}
    session._validate_run_inputs(good)
    session._validate_run_outputs({out: good[x]})
    for wrong in ({}, {x: np.zeros((2, 2, 4))}, {x: np.zeros((3, 1, 4))}, {x: np.zeros((3, 2, 5))}):
        with pytest.raises(ValueError):
            session._validate_run_inputs(wrong)
    with pytest.raises(ValueError, match=r"Unexpected/Missing output\."):
        session._validate_run_outputs({})


def test_read_only_memory_maps(tmp_path):
    """Such a variable is the storage itself, and its Ir never sends weights to the host."""
    path = tmp_path / "weights"
    START.tofile(path)
    ir = popxl.Ir()
    assert ir._has_read_only_memmap is False
    with ir.main_graph, popxl.in_sequence():
        v = popxl.variable(np.memmap(path, np.float32, "r", shape=(2,)))
        stream = popxl.d2h_stream((2,), popxl.float32)
        v += 1
        ops.host_store(stream, v)
    assert ir._has_read_only_memmap is True
    session = popxl.Session(ir)
    assert session.weights_to_host_on_exit is False
    with session:
        np.testing.assert_array_equal(session.run()[stream], START + 1)
        with pytest.raises(Exception, match="read-only"):
            session.weights_to_host()
    np.testing.assert_array_equal(np.fromfile(path, np.float32), START)


def test_one_variable_by_name(program):
    session, v, _, _, stream = program
    np.testing.assert_array_equal(session.get_variable("v"), START)
    with session:
        session.run()
        np.testing.assert_array_equal(session.get_variable("v"), START + 1)
        # The others were not moved, and the host's arrays are not handed out.
        assert not v.in_sync_with_ipu
        session.get_variable("v")[:] = 7
        session.set_variable("other", START * 10)
        np.testing.assert_array_equal(session.run()[stream], START + 2 + START * 10)
        values = session.get_variables()
        assert set(values) == {"v", "other"}
        np.testing.assert_array_equal(values["v"], START + 2)
        session.set_variables({"v": 100.0, "other": START})
        np.testing.assert_array_equal(session.run()[stream], 101 + START)
    np.testing.assert_array_equal(session.get_tensor_data(v), [101, 101])
    session.set_variable("v", START)
    with session:
        np.testing.assert_array_equal(session.run()[stream], 2 * START + 1)


def test_names_and_values_that_do_not_fit(program):
    session, _, _, _, stream = program
    for access in (
        lambda: session.get_variable("othr"),
        lambda: session.get_variables(["v", "othr"]),
        lambda: session.set_variables({"v": START, "othr": START}),
    ):
        with pytest.raises(ValueError, match=r"called 'othr'.*nearest names are other"):
            access()
    with pytest.raises(ValueError, match=r"called 'weight'.*it has other, v"):
        session.set_variable("weight", START)
    with session:
        session.run()
        # Nothing is written unless all can be.
        with pytest.raises(ValueError, match=r"wanted data of shape \(2,\); given \(3,\)"):
            session.set_variables({"v": START * 5, "other": np.zeros(3, np.float32)})
        with pytest.raises(TypeError, match="wanted data of dtype float32; given float64"):
            session.set_variables({"v": START * 5, "other": np.zeros(2)})
        np.testing.assert_array_equal(session.get_variable("v"), START + 1)
        np.testing.assert_array_equal(session.run()[stream], 2 * START + 2)


def test_names_of_replicated_remote_and_unused_variables():
    ir = popxl.Ir(replication=4)
    groups = ir.replica_grouping(group_size=2)
    with ir.main_graph, popxl.in_sequence():
        per_group = popxl.variable(
            np.arange(4, dtype=np.float32).reshape(2, 2), name="per_group", replica_grouping=groups
        )
        buffer = popxl.remote_buffer((3,), popxl.float32, 2)
        popxl.remote_variable(np.ones(3, np.float32), buffer, 1, name="remote")
        popxl.variable(START, name="unused")
        per_group += popxl.constant(1.0)
        row = ops.remote_load(buffer, 1)
        ops.remote_store(buffer, 1, row * 2.0)
    with popxl.Session(ir) as session:
        session.run()
        values = session.get_variables()
        np.testing.assert_array_equal(values["per_group"], [[1, 2], [3, 4]])
        np.testing.assert_array_equal(values["remote"], [2, 2, 2])
        np.testing.assert_array_equal(values["unused"], START)
        session.set_variables({"remote": np.full(3, 5, np.float32), "unused": 0.0})
        session.set_variable("per_group", np.zeros((2, 2), np.float32))
        session.run()
        np.testing.assert_array_equal(session.get_variable("remote"), [10, 10, 10])
        np.testing.assert_array_equal(session.get_variable("per_group"), np.ones((2, 2)))
        np.testing.assert_array_equal(session.get_variable("unused"), [0, 0])
