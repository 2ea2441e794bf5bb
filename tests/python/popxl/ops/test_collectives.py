"""Collectives of several replicas against NumPy."""

from functools import reduce

import numpy as np
import pytest

import popart
import popxl
from popxl import ops
from popxl.ops import collectives
from tests.python.popxl.replica_testing import (
    GROUPINGS,
    load,
    members,
    replicated_values,
    run_replicas,
    store,
)

DTYPES = [np.float32, np.float16, np.int32, np.uint32]
REDUCTIONS = {
    "add": lambda xs: reduce(np.add, xs),
    "mean": lambda xs: reduce(np.add, xs) / len(xs),
    "mul": lambda xs: reduce(np.multiply, xs),
    "min": lambda xs: reduce(np.minimum, xs),
    "max": lambda xs: reduce(np.maximum, xs),
    "and": lambda xs: reduce(np.logical_and, xs),
    "or": lambda xs: reduce(np.logical_or, xs),
    "square_add": lambda xs: reduce(np.add, [x * x for x in xs]),
}


def reduced(x, grouping, op):
    """The reduction of x[member] over the group of each replica, exact in float64."""
    result = []
    for r, group in enumerate(members(*grouping)):
        if len(group) == 1 and op != "square_add":
            result.append(x[r].astype(np.float64))
            continue
        result.append(np.asarray(REDUCTIONS[op]([x[q].astype(np.float64) for q in group]), float))
    values = np.stack(result)
    return np.trunc(values) if x.dtype.kind in "iu" else values


def group_of(ir, grouping):
    return ir.replica_grouping(grouping[1], grouping[2])


def pieces(flat, size):
    """The flat array padded with zeros and cut into `size` equal parts."""
    length = -(-flat.size // size)
    return np.pad(flat, (0, length * size - flat.size)).reshape(size, length)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", REDUCTIONS)
@pytest.mark.parametrize("grouping", GROUPINGS)
def test_all_reduce(grouping, op, dtype):
    x = replicated_values(grouping[0], 3, 7, dtype=dtype)

    def build(ir, t):
        group = group_of(ir, grouping)
        result = collectives.replicated_all_reduce(t, op, group)
        assert (result.shape, result.dtype) == (t.shape, t.dtype)
        collectives.replicated_all_reduce_(t, op, group)
        return result, t

    wanted = reduced(x, grouping, op).astype(dtype)
    for given in run_replicas(build, x):
        np.testing.assert_array_equal(given, wanted)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", ["add", "mean", "max", "square_add"])
@pytest.mark.parametrize("grouping", GROUPINGS)
@pytest.mark.parametrize("shape", [(3, 7), (4, 2), (1,), ()])
def test_reduce_scatter(grouping, op, dtype, shape):
    x = replicated_values(grouping[0], *shape, dtype=dtype)

    def build(ir, t):
        part = collectives.replicated_reduce_scatter(t, op, group_of(ir, grouping))
        assert part.meta_shape == ()
        return part

    wanted = []
    for r, (value, group) in enumerate(
        zip(reduced(x, grouping, op), members(*grouping), strict=True)
    ):
        wanted.append(pieces(value.ravel(), grouping[2])[group.index(r)])
    np.testing.assert_array_equal(run_replicas(build, x), np.array(wanted, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("grouping", GROUPINGS)
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_all_gather(grouping, dtype, axis):
    x = replicated_values(grouping[0], 2, 3, 5, dtype=dtype)

    def build(ir, t):
        group = group_of(ir, grouping)
        return (
            collectives.replicated_all_gather(t, axis, group),
            collectives.replicated_all_gather(t, 0, group, output_shape="new_axis"),
        )

    joined, stacked = run_replicas(build, x)
    groups = members(*grouping)
    np.testing.assert_array_equal(joined, [np.concatenate(x[g], axis) for g in groups])
    np.testing.assert_array_equal(stacked, [x[g] for g in groups])


@pytest.mark.parametrize("grouping", GROUPINGS)
def test_sharded_slice_and_gather(grouping):
    x = replicated_values(grouping[0], 3, 5)

    def build(ir, t):
        group = group_of(ir, grouping)
        shard = collectives.replica_sharded_slice(t, group)
        assert shard.meta_shape == (3, 5)
        whole = collectives.replicated_all_gather(shard, group=group)
        assert (whole.shape, whole.meta_shape) == ((3, 5), ())
        return ops.reshape(shard, shard.shape), whole

    with pytest.raises(popart.popart_exception, match="gather it first"):
        run_replicas(lambda ir, t: collectives.replica_sharded_slice(t), x)
    whole = run_replicas(lambda ir, t: build(ir, t)[1], x)
    wanted = []
    for group in members(*grouping):
        parts = [pieces(x[q].ravel(), len(group))[i] for i, q in enumerate(group)]
        wanted.append(np.concatenate(parts)[:15].reshape(3, 5))
    np.testing.assert_array_equal(whole, wanted)


@pytest.mark.parametrize("grouping", GROUPINGS)
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("scale", [1, 2])
def test_slice(grouping, axis, scale):
    shape = [3, 4, 5]
    shape[axis] = scale * grouping[2]
    x = replicated_values(grouping[0], *shape)
    given = run_replicas(
        lambda ir, t: collectives.replicated_slice(t, axis, group_of(ir, grouping)), x
    )
    wanted = []
    for r, group in enumerate(members(*grouping)):
        part = np.split(x[r], len(group), axis)[group.index(r)]
        wanted.append(part if scale > 1 else part.squeeze(axis))
    np.testing.assert_array_equal(given, wanted)


def gradient_program(build, *arrays):
    """Gradients of build's output, weighted by the last array, for the first one."""

    def whole(ir, t, weights):
        graph = ir.create_empty_graph("forward")
        with graph:
            x = popxl.graph_input(t.shape, t.dtype)
            popxl.graph_output(build(ir, x))
        info = popxl.transforms.autodiff(graph)
        call = ops.call_with_info(graph, t)
        return ops.call(info.graph, weights, inputs_dict=info.inputs_dict(call))

    return run_replicas(whole, *arrays)


@pytest.mark.parametrize("grouping", [g for g in GROUPINGS if g[2] > 1])
def test_gradient_of_all_gather_is_the_own_part(grouping):
    replicas, _, size = grouping
    x = replicated_values(replicas, 2, 3)
    weights = replicated_values(replicas, 2, 3 * size, seed=1)
    given = gradient_program(
        lambda ir, t: collectives.replicated_all_gather(t, 1, group_of(ir, grouping)), x, weights
    )
    wanted = [
        np.split(weights[r], size, 1)[group.index(r)] for r, group in enumerate(members(*grouping))
    ]
    np.testing.assert_array_equal(given, wanted)


@pytest.mark.parametrize("grouping", [g for g in GROUPINGS if g[2] > 1])
def test_gradient_of_slice_is_gathered(grouping):
    replicas, _, size = grouping
    x = replicated_values(replicas, 3, 2 * size)
    weights = replicated_values(replicas, 3, 2, seed=1)
    given = gradient_program(
        lambda ir, t: collectives.replicated_slice(t, 1, group_of(ir, grouping)), x, weights
    )
    wanted = [np.concatenate(weights[group], 1) for group in members(*grouping)]
    np.testing.assert_array_equal(given, wanted)


def test_gradient_through_a_sharded_slice_and_its_gather():
    x = replicated_values(4, 3, 3)
    weights = replicated_values(4, 3, 3, seed=1)
    given = gradient_program(
        lambda ir, t: collectives.replicated_all_gather(collectives.replica_sharded_slice(t)),
        x,
        weights,
    )
    flat = weights.reshape(4, 9)
    wanted = np.concatenate([flat[r, 3 * r : 3 * r + 3] for r in range(3)]).reshape(3, 3)
    np.testing.assert_array_equal(given, [wanted] * 4)


def test_reduce_scatter_has_no_gradient():
    x = replicated_values(2, 4)
    with pytest.raises(popart.popart_exception, match="reduce-scatter has no gradient"):
        gradient_program(
            lambda ir, t: collectives.replicated_reduce_scatter(t), x, replicated_values(2, 2)
        )


def test_large_tensors_and_nan():
    x = np.random.default_rng(3).standard_normal((4, 100_003)).astype(np.float32)
    x[1, 17] = np.nan
    total = run_replicas(lambda ir, t: collectives.replicated_all_reduce(t), x)
    np.testing.assert_array_equal(total, [((x[0] + x[1]) + x[2]) + x[3]] * 4)
    largest = run_replicas(lambda ir, t: collectives.replicated_all_reduce(t, "max"), x)
    np.testing.assert_array_equal(largest, [x.max(0)] * 4)


def test_float16_is_added_in_float32():
    x = np.array([[2048], [1], [1], [1]], np.float16)
    total = run_replicas(lambda ir, t: collectives.replicated_all_reduce(t), x)
    np.testing.assert_array_equal(total, np.full((4, 1), np.float16(2051)))


def test_collectives_in_loops_and_branches():
    x = replicated_values(2, 3)

    def build(ir, t):
        def step(value: popxl.Tensor):
            return collectives.replicated_all_reduce(value)

        graph = ir.create_graph(step, t)
        looped = ops.repeat(graph, 3, t)[0]
        always = popxl.constant(True, popxl.bool)
        return ops.conditional(always, graph, graph, [looped], [looped])[0]

    np.testing.assert_array_equal(run_replicas(build, x), [x.sum(0) * 8] * 2)


def test_lamb_square_sums_over_the_shards():
    x = replicated_values(4, 3, 3)
    x[:] = x[0]
    given = run_replicas(lambda ir, t: ops.lamb_square(collectives.replica_sharded_slice(t)), x)
    np.testing.assert_array_equal(given, np.full(4, np.square(x[0]).sum()))


def test_bad_arguments():
    ir = popxl.Ir(replication=4)
    with ir.main_graph:
        x = popxl.variable(np.zeros((3, 4), np.float32))
        with pytest.raises(ValueError, match="Not a valid op: local"):
            collectives.replicated_all_reduce(x, "local")
        with pytest.raises(ValueError, match="equally divide axis"):
            collectives.replicated_slice(x, 0)
        with pytest.raises(ValueError, match="out of range"):
            collectives.replicated_all_gather(x, 2)
        with pytest.raises(ValueError, match="int axis"):
            collectives.replicated_all_gather(x, "0")
        with pytest.raises(ValueError, match="output_shape"):
            collectives.replicated_all_gather(x, output_shape="other")
        with pytest.raises(ValueError, match="has no meta_shape"):
            collectives.replicated_all_gather(x, output_shape="meta_shape")
        shard = collectives.replica_sharded_slice(x)
        with pytest.raises(popart.popart_exception, match="as hold parts"):
            collectives.replicated_all_gather(shard, group=ir.replica_grouping(group_size=2))
        other = ir.replica_grouping_from_assignments([0, 1, 1, 0])
        with pytest.raises(NotImplementedError, match="constant stride"):
            collectives.replicated_all_reduce(x, group=other)
        with pytest.raises(ValueError, match="cannot be split into groups"):
            collectives.replicated_all_reduce(x, group=ir.replica_grouping(1, 3))


def test_what_cannot_be_reduced_is_refused_by_the_session():
    ir = popxl.Ir(replication=2)
    with ir.main_graph:
        _, flags = load((2,), popxl.bool)
        store(collectives.replicated_all_reduce(flags))
    with pytest.raises(
        popart.popart_exception,
        match=r"ReplicatedAllReduce.*wanted float32, float16, bfloat16, int32 or",
    ):
        popxl.Session(ir)


def test_a_group_of_another_number_of_replicas_is_refused():
    ir = popxl.Ir(replication=4)
    with ir.main_graph:
        _, x = load((3,), popxl.float32)
        store(collectives.replicated_all_reduce(x))
    ir.replication_factor = 2
    with pytest.raises(popart.popart_exception, match="2 replicas cannot be divided"):
        popxl.Session(ir)


def test_printed_ops():
    ir = popxl.Ir(replication=2)
    with ir.main_graph:
        x = popxl.variable(np.zeros((2, 4), np.float32), name="x")
        total = collectives.replicated_all_reduce(x)
        part = collectives.replicated_reduce_scatter(
            x, configure_output_for_replicated_tensor_sharding=True
        )
        collectives.replicated_all_gather(part)
        collectives.replicated_all_gather(x, 1)
        collectives.replicated_slice(x, 1)
    kinds = [op.kind for op in ir.main_graph._pb.ops]
    assert kinds == [
        "ReplicatedAllReduce",
        "ReplicatedReduceScatter",
        "ReplicatedAllGather",
        *["Transpose", "Reshape", "ReplicatedAllGather", "Reshape", "Transpose"],
        *["Transpose", "Reshape", "ReplicatedReduceScatter", "Reshape", "Transpose"],
    ]
    assert total.name == "x_all_reduce"
    assert part.name == "x_reduce_scattered"
    assert part.meta_shape == (2, 4)
