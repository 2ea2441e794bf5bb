"""Programs of several replicas: variables, streams and remote memory."""

import re

import numpy as np
import pytest

import popart
import popxl
from popxl import ops
from popxl.ops import collectives, var_updates
from tests.python.popxl.replica_testing import GROUPINGS, load, members, replicated_values, store


def assignment(replicas, stride, size):
    return [r % stride + stride * (r // (stride * size)) for r in range(replicas)]


# Variables.


@pytest.mark.parametrize("grouping", GROUPINGS)
@pytest.mark.parametrize("mode", ["one_per_group", "all_replicas"])
def test_variable_by_group(grouping, mode):
    replicas, stride, size = grouping
    groups = replicas // size
    data = replicated_values(*((groups,) if groups > 1 else ()), 2, 3)
    delta = replicated_values(replicas, 2, 3, seed=1)
    ir = popxl.Ir(replication=replicas)
    with ir.main_graph, popxl.in_sequence():
        group = ir.replica_grouping(stride, size)
        v = popxl.variable(data, replica_grouping=group, retrieval_mode=mode)
        assert v.shape == v.shape_on_replica == (2, 3)
        assert v.shape_on_host == data.shape
        before = store(v)
        stream, x = load((2, 3), popxl.float32)
        var_updates.accumulate_(v, x)
    entries = data.reshape(groups, 2, 3)[assignment(*grouping)]
    with popxl.Session(ir) as session:
        np.testing.assert_array_equal(session.run({stream: delta})[before], entries)
        np.testing.assert_array_equal(session.run({stream: delta})[before], entries + delta)
    after = entries + 2 * delta
    if mode == "one_per_group":
        lowest = [assignment(*grouping).index(g) for g in range(groups)]
        wanted = after[lowest].reshape(data.shape)
    else:
        wanted = after if size > 1 else after.reshape(data.shape)
    np.testing.assert_array_equal(session.get_tensor_data(v), wanted)
    if mode == "all_replicas" and size > 1:
        with session:  # every replica goes on with its own value
            given = session.run({stream: delta})[before]
            np.testing.assert_array_equal(given, after)
            with pytest.raises(NotImplementedError, match="all_replicas"):
                session.write_variable_data(v, data)
        return
    with session:
        session.write_variable_data(v, data)
        np.testing.assert_array_equal(session.run({stream: delta})[before], entries)


def test_all_replicas_before_a_run():
    ir = popxl.Ir(replication=4)
    with ir.main_graph:
        group = ir.replica_grouping(2, 2)
        v = popxl.variable(
            np.array([1, 2], np.float32), replica_grouping=group, retrieval_mode="all_replicas"
        )
        store(v)
    session = popxl.Session(ir)
    np.testing.assert_array_equal(session.get_tensor_data(v), [1, 2, 1, 2])


def test_variable_of_a_grouping_without_constant_stride():
    ir = popxl.Ir(replication=8)
    data = np.array([10, 20], np.float32)
    with ir.main_graph:
        group = ir.replica_grouping_from_assignments([0, 0, 1, 1, 0, 0, 1, 1])
        v = popxl.variable(data, replica_grouping=group)
        output = store(v)
    with popxl.Session(ir) as session:
        given = session.run()[output]
    np.testing.assert_array_equal(given, [10, 10, 20, 20, 10, 10, 20, 20])
    np.testing.assert_array_equal(session.get_tensor_data(v), data)


def test_variable_of_the_wrong_number_of_groups():
    ir = popxl.Ir(replication=4)
    with ir.main_graph:
        with pytest.raises(popart.popart_exception, match="one entry per replica group"):
            popxl.variable(np.zeros(3, np.float32), replica_grouping=ir.replica_grouping(2, 2))
        v = popxl.variable(np.zeros(2, np.float32), replica_grouping=ir.replica_grouping(2, 2))
        store(v)
    ir.replication_factor = 2
    with pytest.raises(ValueError, match="another number of replicas"):
        popxl.Session(ir)


# Streams.


@pytest.mark.parametrize("replicas", [2, 4])
@pytest.mark.parametrize("transfers", [1, 3])
def test_streams(replicas, transfers):
    ir = popxl.Ir(replication=replicas)
    ir.num_host_transfers = transfers
    with ir.main_graph, popxl.in_sequence():
        source = popxl.h2d_stream((2,), popxl.int32)
        target = popxl.d2h_stream((2,), popxl.int32)
        for _ in range(transfers):
            ops.host_store(target, ops.host_load(source) + 1)
    session = popxl.Session(ir)
    shape = (*((transfers,) if transfers > 1 else ()), replicas, 2)
    assert session._full_input_shape((2,)) == shape
    data = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    with session:
        np.testing.assert_array_equal(session.run({source: data})[target], data + 1)
        outputs = session.create_host_outputs()
        assert outputs[target].shape == shape
        session.run_with_outputs({source: data}, outputs)
        np.testing.assert_array_equal(outputs[target], data + 1)
        with pytest.raises(ValueError, match=f"must have the {replicas} replicas"):
            session.run({source: np.repeat(data, 2, -2)})
        if transfers > 1:
            # More elements than transfers are accepted; the rest is ignored.
            longer = np.concatenate([data, data])
            np.testing.assert_array_equal(session.run({source: longer})[target], data + 1)


def test_print_names_the_replica(capfd):
    ir = popxl.Ir(replication=2)
    with ir.main_graph:
        ops.print_tensor(popxl.constant([1.0, 2.0], name="y"), digits=2)
    with popxl.Session(ir) as session:
        session.run()
    printed = capfd.readouterr().err
    assert "print_y_replica_0: [1.0 2.0]" in printed
    assert "print_y_replica_1: [1.0 2.0]" in printed


# Remote memory.


def test_remote_buffers_are_of_each_replica():
    ir = popxl.Ir(replication=2)
    with ir.main_graph, popxl.in_sequence():
        buffer = popxl.remote_buffer((2,), popxl.float32, entries=3)
        stream, x = load((2,), popxl.float32)
        entry_stream, entry = load((), popxl.int32)
        ops.remote_store(buffer, entry, x)
        output = store(ops.remote_load(buffer, entry))
        first = store(ops.remote_load(buffer, 0))
    x = replicated_values(2, 2)
    with popxl.Session(ir) as session:
        results = session.run({stream: x, entry_stream: np.array([0, 2], np.int32)})
    np.testing.assert_array_equal(results[output], x)
    np.testing.assert_array_equal(results[first], [x[0], [0, 0]])


@pytest.mark.parametrize("grouping", GROUPINGS)
@pytest.mark.parametrize("mode", ["one_per_group", "all_replicas"])
def test_remote_variable(grouping, mode):
    replicas, stride, size = grouping
    groups = replicas // size
    data = replicated_values(*((groups,) if groups > 1 else ()), 3)
    ir = popxl.Ir(replication=replicas)
    with ir.main_graph, popxl.in_sequence():
        buffer = popxl.remote_buffer((3,), popxl.float32, entries=2)
        v = popxl.remote_variable(
            data,
            buffer,
            1,
            replica_grouping=ir.replica_grouping(stride, size),
            retrieval_mode=mode,
        )
        t = ops.remote_load(buffer, 1)
        output = store(t)
        stream, x = load((3,), popxl.float32)
        ops.remote_store(buffer, 1, t + x)
    delta = replicated_values(replicas, 3, seed=1)
    entries = data.reshape(groups, 3)[assignment(*grouping)]
    with popxl.Session(ir) as session:
        np.testing.assert_array_equal(session.run({stream: delta})[output], entries)
    after = entries + delta
    lowest = [assignment(*grouping).index(g) for g in range(groups)]
    wanted = after if mode == "all_replicas" and size > 1 else after[lowest].reshape(data.shape)
    np.testing.assert_array_equal(session.get_tensor_data(v), wanted)


def test_a_remote_variable_takes_no_device_memory():
    ir = popxl.Ir()
    with ir.main_graph:
        buffer = popxl.remote_buffer((1000,), popxl.float32)
        popxl.remote_variable(np.ones(1000, np.float32), buffer)
        store(ops.sum(ops.remote_load(buffer, 0), 0))
    session = popxl.Session(ir)
    assert session._pb_session.program.memory.persistent_bytes < 1000
    assert "RemoteLoad" in session._pb_session.program.disassembly()


def test_a_remote_variable_is_no_op_input():
    ir = popxl.Ir()
    with ir.main_graph:
        buffer = popxl.remote_buffer((3,), popxl.float32)
        store(popxl.remote_variable(np.ones(3, np.float32), buffer) + 1)
    with pytest.raises(popart.popart_exception, match=r"load it with ops.remote_load"):
        popxl.Session(ir)


@pytest.mark.parametrize("slot,shape,text", [(2, (3,), "2 entries"), (0, (4,), "3 elements")])
def test_a_remote_variable_that_does_not_fit(slot, shape, text):
    ir = popxl.Ir()
    with ir.main_graph:
        buffer = popxl.remote_buffer(shape, popxl.float32, entries=2)
        popxl.remote_variable(np.ones(3, np.float32), buffer, slot)
        store(ops.remote_load(buffer, 0))
    with pytest.raises(popart.popart_exception, match=text):
        popxl.Session(ir)


SHARDINGS = [
    (replicas, stride, size, over)
    for replicas, stride, size in GROUPINGS
    for over in (1, 2, 4)
    if size > 1 and size % over == 0
]


@pytest.mark.parametrize("sharding", SHARDINGS)
@pytest.mark.parametrize("mode", ["one_per_group", "all_replicas"])
@pytest.mark.parametrize("elements", [8, 7, 1])
def test_sharded_variable(sharding, mode, elements):
    replicas, stride, size, over = sharding
    groups = replicas // size
    data = replicated_values(*((groups,) if groups > 1 else ()), elements)
    ir = popxl.Ir(replication=replicas)
    with ir.main_graph, popxl.in_sequence():
        group = ir.replica_grouping(stride, size)
        v, shard = popxl.replica_sharded_variable(
            data, replica_grouping=group, shard_over=over, retrieval_mode=mode
        )
        assert shard.shape == (-(-elements // over),)
        assert shard.meta_shape == (elements,)
        holders = ir.replica_grouping(stride if over > 1 else 1, over)
        whole = store(collectives.replicated_all_gather(shard, group=holders))
        raw = store(collectives.replicated_all_gather(shard, group=holders, output_shape="concat"))
        var_updates.accumulate_(shard, shard)
    entries = data.reshape(groups, elements)[assignment(replicas, stride, size)]
    with popxl.Session(ir) as session:
        results = session.run()
        np.testing.assert_array_equal(results[whole], entries)
        padded = np.pad(entries, ((0, 0), (0, results[raw].shape[1] - elements)))
        np.testing.assert_array_equal(results[raw], padded)
        np.testing.assert_array_equal(session.run()[whole], 2 * entries)
    wanted = 4 * (entries if mode == "all_replicas" else data)
    np.testing.assert_array_equal(session.get_tensor_data(v), wanted)
    if mode == "one_per_group":
        with session:
            session.write_variable_data(v, data)
            np.testing.assert_array_equal(session.run()[whole], entries)


def test_reduce_scatter_matches_a_sharded_variable():
    """The gradient's shard belongs to the variable's shard: one data parallel step."""
    ir = popxl.Ir(replication=4)
    with ir.main_graph, popxl.in_sequence():
        v, shard = popxl.replica_sharded_variable(np.arange(6, dtype=np.float32).reshape(2, 3))
        stream, gradient = load((2, 3), popxl.float32)
        part = collectives.replicated_reduce_scatter(
            gradient, "mean", configure_output_for_replicated_tensor_sharding=True
        )
        assert part.spec == shard.spec
        ops.scaled_add_(shard, part, b=-1.0)
    g = replicated_values(4, 2, 3)
    with popxl.Session(ir) as session:
        session.run({stream: g})
    wanted = np.arange(6, dtype=np.float32).reshape(2, 3) - g.sum(0) / 4
    np.testing.assert_array_equal(session.get_tensor_data(v), wanted)


def test_bad_shardings():
    one = popxl.Ir()
    with one.main_graph, pytest.raises(ValueError, match="more than one replica"):
        popxl.replica_sharded_variable(np.zeros(4, np.float32))
    ir = popxl.Ir(replication=4)
    with ir.main_graph:
        with pytest.raises(ValueError, match="shard_over must divide"):
            popxl.replica_sharded_buffer((4,), popxl.float32, shard_over=3)
        buffer = popxl.replica_sharded_buffer((8,), popxl.float32)
        with pytest.raises(ValueError, match="for shards of a tensor of shape"):
            popxl.remote_replica_sharded_variable(np.zeros(7, np.float32), buffer)
        buffer = popxl.replica_sharded_buffer((4, 8), popxl.float32, ir.replica_grouping(1, 1))
        with pytest.raises(ValueError, match="do not divide the group size 1"):
            pairs = popxl.replica_sharded_buffer((8,), popxl.float32)
            popxl.remote_replica_sharded_variable(
                np.zeros((4, 8), np.float32), pairs, replica_grouping=ir.replica_grouping(1, 1)
            )


@pytest.mark.parametrize("slot", [2, 3, 5])
def test_slots_that_are_larger_than_the_parts(slot):
    """A part is as large as the slot; the last ones are padded, or empty."""
    data = np.arange(1, 8, dtype=np.float32)
    ir = popxl.Ir(replication=4)
    with ir.main_graph, popxl.in_sequence():
        buffer = popxl.remote_buffer((slot,), popxl.float32)
        v = popxl.remote_replica_sharded_variable(data, buffer)
        shard = ops.remote_load(buffer, 0)
        assert shard.shape == (slot,) and shard.meta_shape == (7,)
        raw = store(collectives.replicated_all_gather(shard, output_shape="concat"))
        ops.add_(shard, shard)
        ops.remote_store(buffer, 0, shard)
    with popxl.Session(ir) as session:
        results = session.run()
    padded = np.pad(data, (0, 4 * slot - 7))
    np.testing.assert_array_equal(results[raw], np.tile(padded, (4, 1)))
    np.testing.assert_array_equal(session.get_tensor_data(v), 2 * data)


def test_slots_that_are_smaller_than_the_parts():
    """The variable can be made, but not compiled: its value has no place."""
    ir = popxl.Ir(replication=4)
    with ir.main_graph, popxl.in_sequence():
        buffer = popxl.remote_buffer((3,), popxl.float32)
        popxl.remote_replica_sharded_variable(np.zeros(16, np.float32), buffer)
        ops.remote_store(buffer, 0, ops.remote_load(buffer, 0))
    with pytest.raises(
        popart.popart_exception, match=r"a slot holds \(3,\) float32; each of 4 parts has 4 elem"
    ):
        popxl.Session(ir)


# Settings of popart.


def test_comm_groups_and_variable_settings():
    group = popart.CommGroup(popart.CommGroupType.Orthogonal, 2)
    settings = popart.VariableSettings(group, popart.VariableRetrievalMode.AllReplicas)
    assert settings.groups(4) == [[0, 2], [1, 3]]
    assert settings.getGroupCount(4) == 2
    assert settings.getRealGroupSize(4) == 2
    assert settings.numReplicasReturningVariable(4) == 4
    assert [settings.getGroupRepresentative(g) for g in range(2)] == [0, 1]
    consecutive = popart.VariableSettings(popart.CommGroup(popart.CommGroupType.Consecutive, 2))
    assert consecutive.groups(4) == members_by_group(4, 1, 2)
    assert [consecutive.getGroupRepresentative(g) for g in range(2)] == [0, 2]
    strided = popart.VariableSettings(2, 2, popart.VariableRetrievalMode.OnePerGroup)
    assert strided.groups(4) == members_by_group(4, 2, 2)
    assert strided.shapeOnReplica([2, 3], 4, "v") == (3,)
    assert strided.shapeOnHost([3], 4) == (2, 3)
    alone = popart.VariableSettings(popart.CommGroup(popart.CommGroupType.Ungrouped, 0))
    assert alone.groups(2) == [[0], [1]]
    for size, wanted in ((2, (2, 2)), (4, (1, 4)), (1, (1, 1))):
        grouping = popxl.Ir(replication=4).replica_grouping(wanted[0], size)
        assert popart.CommGroup(grouping).toReplicaGrouping(4).getGroupSize() == size
    with pytest.raises(ValueError, match=re.escape("AllReduceReplicas is not supported")):
        popart.VariableSettings(popart.VariableRetrievalMode.AllReduceReplicas)


def members_by_group(replicas, stride, size):
    return sorted({tuple(group): group for group in members(replicas, stride, size)}.values())
