"""Programs of several replicas: variables, streams, remote memory, training, failures."""

import re
import signal
import threading

import numpy as np
import pytest

import popart
import popxl
from pando.settings import use_session_settings
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
        buffer = popxl.remote_buffer((3,), popxl.float32)
        with pytest.raises(ValueError, match="do not give parts of 3 elements"):
            popxl.remote_replica_sharded_variable(np.zeros(8, np.float32), buffer)
        buffer = popxl.replica_sharded_buffer((8,), popxl.float32)
        with pytest.raises(ValueError, match="for shards of a tensor of shape"):
            popxl.remote_replica_sharded_variable(np.zeros(7, np.float32), buffer)


# Training.


def training_program(replicas, batch, steps):
    """A two-layer network with a mean loss; gradients are averaged over the replicas."""
    rng = np.random.default_rng(5)
    weights = [
        rng.standard_normal(shape).astype(np.float32) * 0.3 for shape in ((8, 16), (16,), (16, 4))
    ]
    ir = popxl.Ir(replication=replicas)
    ir.num_host_transfers = steps
    with ir.main_graph:
        variables = [popxl.variable(w, name=f"w{i}") for i, w in enumerate(weights)]
        images = popxl.h2d_stream((batch, 8), popxl.float32)
        labels = popxl.h2d_stream((batch,), popxl.int32)
        losses = popxl.d2h_stream((), popxl.float32)

        def network(x, y, w0, b0, w1):
            hidden = ops.relu(x @ w0 + b0)
            return ops.nll_loss(ops.softmax(hidden @ w1, 1), y)

        def step(*ws):
            with popxl.in_sequence():
                x, y = ops.host_load(images), ops.host_load(labels)
                specs = [x.spec, y.spec, *(w.spec for w in ws)]
                graph = ir.create_graph(network, *(popxl.TensorSpec(**s) for s in specs))
                info = popxl.transforms.autodiff(graph, grads_required=graph.inputs[2:])
                call = ops.call_with_info(graph, x, y, *ws)
                gradients = ops.call(
                    info.graph,
                    popxl.constant(1.0, popxl.float32),
                    inputs_dict=info.inputs_dict(call),
                )
                ops.host_store(losses, call.outputs[0])
                for w, gradient in zip(ws, gradients, strict=True):
                    mean = collectives.replicated_all_reduce(gradient, "mean")
                    ops.scaled_add_(w, mean, b=-0.5)

        graph = ir.create_empty_graph("step")
        with graph:
            inputs = [popxl.graph_input(v.shape, v.dtype, by_ref=True) for v in variables]
            step(*inputs)
        ops.repeat(graph, steps, *variables)
    return ir, variables, images, labels, losses


def train(replicas, x, y):
    steps, batch = x.shape[0], x.shape[1] // replicas
    ir, variables, images, labels, losses = training_program(replicas, batch, steps)
    if replicas > 1:
        x = x.reshape(steps, replicas, batch, 8)
        y = y.reshape(steps, replicas, batch)
    with popxl.Session(ir) as session:
        loss = session.run({images: x, labels: y})[losses]
    return [session.get_tensor_data(v).copy() for v in variables], loss


def batches(steps=20, batch=12):
    rng = np.random.default_rng(6)
    x = rng.standard_normal((steps, batch, 8)).astype(np.float32)
    return x, np.argmax(x[..., :4], -1).astype(np.int32)


@pytest.mark.parametrize("replicas", [2, 4])
def test_data_parallel_training_equals_one_replica(replicas):
    x, y = batches()
    single, loss = train(1, x, y)
    parallel, losses = train(replicas, x, y)
    np.testing.assert_allclose(losses.mean(1), loss, rtol=1e-5)
    assert loss[-1] < 0.6 * loss[0]
    for a, b in zip(single, parallel, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("replicas", [2, 4])
def test_training_gives_the_same_bits_every_time(replicas):
    x, y = batches()
    first = train(replicas, x, y)
    for _ in range(3):
        again = train(replicas, x, y)
        np.testing.assert_array_equal(again[1], first[1])
        for a, b in zip(again[0], first[0], strict=True):
            np.testing.assert_array_equal(a, b)


# Failures.


def failing_program(replicas=2):
    """Every replica loads the remote entry it is given, then all reduce."""
    ir = popxl.Ir(replication=replicas)
    with ir.main_graph, popxl.in_sequence():
        buffer = popxl.remote_buffer((2,), popxl.float32, entries=3)
        stream, entry = load((), popxl.int32)
        total = collectives.replicated_all_reduce(ops.remote_load(buffer, entry))
        output = store(total)
    return ir, stream, output


@pytest.mark.parametrize("replica", [0, 1, 3])
def test_a_failure_in_one_replica_stops_all(replica):
    ir, stream, output = failing_program(4)
    entries = np.zeros(4, np.int32)
    with popxl.Session(ir) as session:
        for _ in range(3):
            entries[replica] = 7
            with pytest.raises(
                popart.popart_runtime_error,
                match=rf"^replica {replica}: remote buffer 1 has 3 entries.*entry 7",
            ):
                session.run({stream: entries})
            entries[replica] = 0
            np.testing.assert_array_equal(session.run({stream: entries})[output], np.zeros((4, 2)))


def diverging_program(different_collective):
    """Replicas with a true flag reduce in the one branch; the others do something else."""
    ir = popxl.Ir(replication=2)
    with ir.main_graph:
        stream, flag = load((), popxl.bool)
        x = popxl.constant(np.ones(2, np.float32))

        def one(t: popxl.Tensor):
            return collectives.replicated_all_reduce(t)

        def other(t: popxl.Tensor):
            return collectives.replicated_all_reduce(t, "max") if different_collective else t * 2

        branches = [ir.create_graph(branch, x) for branch in (one, other)]
        output = store(ops.conditional(flag, *branches, [x], [x])[0])
    return ir, stream, output


def test_replicas_in_different_collectives():
    ir, stream, output = diverging_program(True)
    with popxl.Session(ir) as session:
        with pytest.raises(
            popart.popart_runtime_error,
            match=r"replica \d is in ReplicatedAllReduce .*test_replicas.py.* but replica \d is in",
        ):
            session.run({stream: np.array([True, False])})
        result = session.run({stream: np.array([True, True])})[output]
        np.testing.assert_array_equal(result, np.full((2, 2), 2))


def test_a_replica_that_ends_before_the_others():
    ir, stream, output = diverging_program(False)
    with popxl.Session(ir) as session:
        with pytest.raises(
            popart.popart_runtime_error, match=r"replica 1 waits for replica 0 .* has ended"
        ):
            session.run({stream: np.array([False, True])})
        result = session.run({stream: np.array([False, False])})[output]
        np.testing.assert_array_equal(result, np.full((2, 2), 2))


def slow_program(collective_first):
    """Replica 1 computes for a long time (billions of iterations); replica 0 does not."""
    ir = popxl.Ir(replication=2)
    with ir.main_graph, popxl.in_sequence():
        stream, flag = load((), popxl.bool)
        x = popxl.constant(np.ones(2, np.float32))

        def increment(t: popxl.Tensor):
            return t + 1

        step = ir.create_graph(increment, x)

        def forever(t: popxl.Tensor):
            return ops.repeat(step, 2_000_000_000, t)[0]

        slow, fast = ir.create_graph(forever, x), ir.create_graph(increment, x)
        result = ops.conditional(flag, slow, fast, [x], [x])[0]
        if collective_first:
            result = collectives.replicated_all_reduce(result)
        output = store(result)
    return ir, stream, output


def test_a_replica_that_does_not_arrive_in_time():
    ir, stream, _ = slow_program(True)
    with use_session_settings(collective_timeout_seconds=0.05):
        session = popxl.Session(ir)
    with (
        session,
        pytest.raises(
            popart.popart_runtime_error,
            match=r"^replica 0 waited 0.05 seconds for replica 1 in ReplicatedAllReduce",
        ),
    ):
        session.run({stream: np.array([False, True])})


@pytest.mark.parametrize("collective", [True, False])
@pytest.mark.parametrize("slow", [0, 1])
def test_interrupt_stops_all(collective, slow):
    ir, stream, _ = slow_program(collective)
    flags = np.zeros(2, bool)
    flags[slow] = True
    with popxl.Session(ir) as session:
        timer = threading.Timer(0.2, signal.raise_signal, [signal.SIGINT])
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            session.run({stream: flags})
        timer.join()


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
