"""Remote buffers as objects, location types, variables' host side."""

import numpy as np
import pytest

import popxl
from popxl import ops

DATA = np.array([1.0, 2.0, 3.0], np.float32)


def test_members_of_a_buffer():
    ir = popxl.Ir()
    with ir.main_graph:
        buffer = popxl.RemoteBuffer([2, 3], popxl.float16, 4)
        second = popxl.remote_buffer((5,), popxl.int32)
    assert isinstance(second, popxl.RemoteBuffer)
    assert (buffer.remote_buffer_id, second.remote_buffer_id) == (1, 2)
    assert (buffer.tensor_shape, buffer.tensor_dtype, buffer.entries) == (
        (2, 3),
        popxl.float16,
        4,
    )
    assert (second.entries, buffer.meta_shape) == (1, ())
    for name in ("remote_buffer_id", "tensor_shape", "tensor_dtype"):
        with pytest.raises(AttributeError):
            setattr(buffer, name, 1)
    buffer.entries = 7
    buffer.meta_shape = [11]
    assert (buffer.entries, buffer.meta_shape) == (7, (11,))
    for wrong in (0, -1):
        with pytest.raises(ValueError, match=r"^Entries must be a non-zero, positive integer"):
            buffer.entries = wrong
    assert buffer.entries == 7
    assert buffer != second
    assert {buffer: 1, second: 2}[buffer] == 1
    assert buffer._current_ir == ir._pb_ir


def test_creation():
    with pytest.raises(RuntimeError, match="no graph"):
        popxl.RemoteBuffer((2,), popxl.float32, 1)
    for _ in range(2):
        with popxl.Ir().main_graph:
            # Numbers are by Ir.
            assert popxl.remote_buffer((2,), popxl.float32).remote_buffer_id == 1
            with pytest.raises(ValueError, match=r"^Entries must be a non-zero, positive integer"):
                popxl.remote_buffer((2,), popxl.float32, 0)


def test_set_remote_buffer_info():
    ir = popxl.Ir()
    with ir.main_graph:
        buffer = popxl.remote_buffer((9,), popxl.int32)
        buffer.set_remote_buffer_info(popxl.float32, (3,), 2)
        assert (buffer.tensor_dtype, buffer.tensor_shape, buffer.entries) == (
            popxl.float32,
            (3,),
            2,
        )
        with pytest.raises(ValueError, match="Entries must be"):
            buffer.set_remote_buffer_info(popxl.float32, (3,), 0)
        with popxl.in_sequence():
            ops.remote_store(buffer, 1, popxl.variable(DATA))
            stream = popxl.d2h_stream((3,), popxl.float32)
            ops.host_store(stream, ops.remote_load(buffer, 1))
    with popxl.Session(ir) as session:
        np.testing.assert_array_equal(session.run()[stream], DATA)


def test_validate_tensor_matches_buffer():
    with popxl.Ir().create_empty_graph() as graph:
        buffer = popxl.remote_buffer((3,), popxl.float32)
        buffer.meta_shape = (6,)
        fits = popxl.graph_input((3,), popxl.float32)
        shard = popxl.graph_input((1,), popxl.float32, meta_shape=(6,))
        buffer.validate_tensor_matches_buffer(fits)
        buffer.validate_tensor_matches_buffer(shard, num_shards=2)
        for shape, dtype in (((4,), popxl.float32), ((3,), popxl.float16), ((), popxl.float32)):
            wrong = popxl.graph_input(shape, dtype)
            with pytest.raises(ValueError) as error:
                buffer.validate_tensor_matches_buffer(wrong)
            assert str(error.value).startswith(f"Tensor {wrong.id} does not match buffer.")
        with pytest.raises(ValueError, match="does not match buffer"):
            buffer.validate_tensor_matches_buffer(fits, num_shards=2)
        before = len(graph._pb_graph.getOps())
        with pytest.raises(ValueError, match="does not match buffer"):
            ops.remote_store(buffer, 0, wrong)
        assert len(graph._pb_graph.getOps()) == before


def test_slots_keep_their_values_between_runs():
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        buffer = popxl.remote_buffer((3,), popxl.float32, 2)
        handle = popxl.remote_variable(DATA, buffer, 1, name="handle")
        value = ops.remote_load(buffer, 1)
        value += 1
        ops.remote_store(buffer, 1, value)
    assert handle.location_info.isRemote()
    assert not handle.location_info.isSharded()
    assert handle.location_info.getRemoteBufferInfo() == (buffer.remote_buffer_id, 1)
    with popxl.Session(ir) as session:
        for run in (1, 2):
            session.run()
            np.testing.assert_array_equal(session.get_tensor_data(handle), DATA + run)


def test_location_types():
    for kind, names in (
        (popxl.TensorStorage, ["OnChip", "OffChip"]),
        (popxl.ReplicatedTensorSharding, ["On", "Off"]),
    ):
        assert sorted(member.name for member in kind) == sorted(names)
        for name in names:
            assert kind[name].value == name
            assert kind(name) is kind[name]
    location = popxl.TensorLocation()
    assert location.storage is popxl.TensorStorage.OnChip
    assert location.replicated_tensor_sharding is popxl.ReplicatedTensorSharding.Off
    other = popxl.TensorLocation(
        popxl.TensorStorage.OffChip,
        replicated_tensor_sharding=popxl.ReplicatedTensorSharding.On,
    )
    assert other.storage is popxl.TensorStorage.OffChip
    assert other != location
    assert popxl.TensorLocation() == location
    assert len({location, popxl.TensorLocation(), other}) == 2
    with pytest.raises(AttributeError):
        location.storage = popxl.TensorStorage.OffChip
    assert {set_.name for set_ in popxl.TileSet} == {"Compute", "IO", "Undefined", "N"}


@pytest.mark.parametrize("mode", [None, "one_per_group", "all_replicas"])
def test_retrieval_mode_and_shapes(mode):
    ir = popxl.Ir(4)
    with ir.main_graph:
        pairs = ir.replica_grouping(1, 2)
        v = popxl.variable(np.zeros((2, 3)), replica_grouping=pairs, retrieval_mode=mode)
        alone = popxl.variable(np.zeros(3), retrieval_mode=mode)
        with pytest.raises(ValueError, match="retrieval_mode"):
            popxl.variable(1.0, retrieval_mode="some")
    assert v.retrieval_mode == alone.retrieval_mode == (mode or "one_per_group")
    assert (v.shape, v.shape_on_replica, v.shape_on_host) == ((3,), (3,), (2, 3))
    assert (alone.shape, alone.shape_on_host) == ((3,), (3,))
    assert v.replica_grouping == pairs
    assert alone.replica_grouping == ir.replica_grouping()


@pytest.mark.parametrize(
    ("stride", "size", "wanted"),
    [(1, None, (8, 1)), (1, 2, (2, 4)), (2, 4, (4, 2)), (4, 1, (1, 8))],
)
def test_group_sizes(stride, size, wanted):
    grouping = popxl.Ir(8).replica_grouping(stride, size)
    assert (grouping.group_size, grouping.num_groups) == wanted
    assert grouping.stride == (1 if wanted[0] == 1 else stride)
    assert repr(grouping) == (
        f"ReplicaGrouping(num_replicas=8, stride={grouping.stride}, group_size={wanted[0]}, "
        f"num_groups={wanted[1]})"
    )
    internal = grouping._pb_replica_grouping
    assert (internal.getGroupSize(), internal.getNumGroups()) == wanted
    assert (internal.getNumReplicas(), internal.getStride()) == (8, grouping.stride)


def test_group_sizes_without_constant_stride():
    grouping = popxl.Ir(8).replica_grouping_from_assignments([0, 0, 1, 1, 0, 0, 1, 1])
    assert (grouping.group_size, grouping.num_groups) == (4, 2)
    with pytest.raises(NotImplementedError):
        grouping._pb_replica_grouping  # noqa: B018
