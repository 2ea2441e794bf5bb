"""Trees of remote buffers, graphs over them, and replicated sharding on one replica."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import popxl
import popxl_addons as addons
from popxl import ops
from popxl_addons.named_replica_grouping import (
    NamedReplicaGrouping,
    fill_none_group,
    get_ild_replica_grouping,
    get_ild_size_from_popdist,
    get_instance_replica_grouping,
    is_cross_ild,
    is_cross_instance,
)
from popxl_addons.ops.replicated_strided_collectives import replicated_all_reduce_strided_graph
from popxl_addons.remote import NamedRemoteBuffers, load_remote, store_remote
from popxl_addons.rts import (
    all_gather_replica_sharded_graph,
    gather_replica_sharded_tensor,
    reduce_replica_sharded_graph,
    reduce_replica_sharded_tensor,
    replica_sharded_slice_graph,
    replica_sharded_spec,
)

RNG = np.random.default_rng(2)
VALUES = {"b": RNG.normal(size=4), "a.w": RNG.normal(size=(2, 3))}


def factories() -> addons.NamedVariableFactories:
    return addons.NamedVariableFactories.from_dict(
        {
            key: addons.VariableFactory(lambda v=value: v, popxl.float32, key)
            for key, value in VALUES.items()
        }
    )


def test_loading_and_storing_through_graphs() -> None:
    """Entry 1 = 10 x entry 0, tied buffers, and what the host reads back."""
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        facts = factories()
        buffers = addons.named_variable_buffers(facts, entries=2)
        assert isinstance(buffers, NamedRemoteBuffers) and buffers.keys_flat() == ["b", "a.w"]
        variables = [facts.init_remote(buffers, entry, f"e{entry}") for entry in range(2)]
        assert variables[0].a.w.name == "e0.a.w"
        load, names = addons.load_remote_graph(buffers, entries=3)
        assert names == ["a.w", "b"] and load.args.keys() == []
        assert load.graph.name == "load_remote_subgraph(0)"
        assert [t.name for t in load.graph.inputs] == ["load_index"]
        assert [t.name for t in load.graph.outputs] == ["w_remote_loaded", "b_remote_loaded"]
        assert all(buffer.entries == 3 for buffer in buffers.values_flat())
        store = addons.store_remote_graph(buffers, entries=1)
        assert store.graph.name == "store_remote_subgraph(1)"
        assert [t.name for t in store.graph.inputs] == ["store_index", "a.w", "b"]
        assert store.args.keys_flat() == ["a.w", "b"] and not store.graph.outputs
        loaded = addons.NamedTensors.pack(names, load.call(0))
        scaled = loaded.map(lambda t: t * 10.0)
        scaled.insert("ignored", loaded.b)
        assert store.bind(scaled).call(1) == ()

        # The same without graphs, into entry 2 through a second name of one buffer.
        tied = NamedRemoteBuffers(other=buffers.b)
        value = load_remote(tied, popxl.constant(1, popxl.uint32))
        assert value.keys() == ["other"]
        store_remote(buffers, addons.NamedTensors(b=value.other * 2.0), 2)
        stream = addons.host_store(ops.remote_load(buffers.b, 2))
    session = popxl.Session(ir, "cpu")
    with session:
        outputs = session.run()
    for key, value in VALUES.items():
        wanted = value.astype(np.float32)
        got = [session.get_tensor_data(tree[key]) for tree in variables]
        np.testing.assert_array_equal(got[0], wanted)
        np.testing.assert_allclose(got[1], 10 * wanted, rtol=1e-6)
    np.testing.assert_allclose(outputs[stream], 20 * VALUES["b"], rtol=1e-6)


def test_buffers_have_the_shape_of_what_goes_into_them() -> None:
    ir = popxl.Ir()
    with ir.main_graph:
        spec = popxl.TensorSpec((2, 3), popxl.float16)
        buffer = addons.create_remote_buffer(spec, 4)
        assert (buffer.tensor_shape, buffer.meta_shape, buffer.entries) == ((2, 3), (), 4)
        shard = popxl.TensorSpec((3,), popxl.float16, (2, 3))
        buffer = addons.create_remote_buffer(shard)
        assert (buffer.tensor_shape, buffer.meta_shape, buffer.entries) == ((3,), (2, 3), 1)
        named = addons.named_buffers(addons.NamedTensors(w=popxl.variable(np.ones((2, 3)))))
        assert named.w.tensor_shape == (2, 3)
        named = addons.named_buffers(addons.NamedTensors(), sharded_threshold=1)
        assert named.keys() == []
        for rule in (True, False, 1, {"b": 1}, addons.NamedTensors()):
            buffers = addons.named_variable_buffers(factories(), 1, rule)
            assert buffers.a.w.tensor_shape == (2, 3)
        old = addons.named_variable_buffers(factories(), sharded_threshold=1)
        assert old.a.w.tensor_shape == (2, 3) and not old.a.w.meta_shape


def test_buffers_over_two_replicas() -> None:
    ir = popxl.Ir(replication=2)
    with ir.main_graph:
        spec = popxl.TensorSpec((2, 3), popxl.float32)
        buffer = addons.create_remote_buffer(spec, 2)
        assert (buffer.tensor_shape, buffer.meta_shape, buffer.entries) == ((3,), (2, 3), 2)
        assert addons.create_remote_buffer(spec, shard_over=1).tensor_shape == (2, 3)
        assert addons.create_remote_buffer(spec, sharded_threshold=7).tensor_shape == (2, 3)
        assert addons.create_remote_buffer(spec, sharded_threshold=6).tensor_shape == (3,)
        odd = popxl.TensorSpec((3,), popxl.float32)
        with pytest.raises(ValueError, match="3 elements of shape \\(3,\\) cannot be sharded"):
            addons.create_remote_buffer(odd)
        assert addons.create_remote_buffer(odd, sharded_threshold=1).tensor_shape == (3,)
        facts = factories()
        sharded, whole = [(2,), (3,)], [(4,), (2, 3)]
        for rule, wanted in ((True, sharded), (False, whole), (2, sharded), (1, whole)):
            buffers = addons.named_variable_buffers(facts, 1, rule)
            assert [b.tensor_shape for b in buffers.values_flat()] == wanted
        buffers = addons.named_variable_buffers(facts, 1, {"b": 1})
        assert [b.tensor_shape for b in buffers.values_flat()] == [(4,), (3,)]
        buffers = addons.named_variable_buffers(facts, sharded_threshold=5)
        assert [b.tensor_shape for b in buffers.values_flat()] == [(4,), (3,)]
        with pytest.raises(ValueError, match="over 3 replicas; its replica group has 2"):
            addons.named_variable_buffers(facts, 1, 3)
        with pytest.raises(ValueError, match="a bool, an int or a mapping; given str"):
            addons.named_variable_buffers(facts, 1, "all")  # type: ignore[arg-type]
        batch = addons.batch_serial_buffer(spec, 2, 3, ir.replica_grouping())
        assert (batch.tensor_shape, batch.meta_shape, batch.entries) == ((3,), (2, 3), 6)
        assert addons.batch_serial_buffer(spec, 2, 3).tensor_shape == (2, 3)


def spec_of(t: popxl.Tensor, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
    spec = replica_sharded_spec(t, *args, **kwargs)
    assert spec.dtype == t.dtype
    return spec.shape, spec.meta_shape


def test_the_tensor_spec_of_a_shard() -> None:
    ir = popxl.Ir(replication=4)
    with ir.main_graph:
        t = popxl.variable(np.ones((64, 32), np.float32))
        small = popxl.variable(np.ones(6, np.float32))
        everyone, pairs = ir.replica_grouping(), ir.replica_grouping(group_size=2)
        whole = ((64, 32), ())
        assert spec_of(t, everyone) == ((512,), (64, 32))
        assert spec_of(t, pairs) == ((1024,), (64, 32))
        assert spec_of(t, ir.replica_grouping(group_size=1)) == whole
        assert spec_of(small, everyone) == ((6,), ())
        assert spec_of(small, pairs) == ((3,), (6,))
        # The rule of older releases.
        assert spec_of(t) == ((512,), (64, 32))
        assert spec_of(small) == ((6,), ())
        assert spec_of(t, 2048) == spec_of(t, threshold=2048) == ((512,), (64, 32))
        assert spec_of(t, 2049) == whole
        assert spec_of(t, threshold=1, replica_grouping=pairs) == ((1024,), (64, 32))
        with pytest.raises(TypeError, match="given str"):
            replica_sharded_spec(t, "all")  # type: ignore[arg-type]


def test_gather_reduce_and_slice_on_one_replica() -> None:
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        w = popxl.variable(RNG.normal(size=(2, 3)).astype(np.float32), name="w")
        shard = ops.init((6,), popxl.float32, "shard", "zero", meta_shape=(2, 3))
        tree = addons.NamedTensors.from_dict({"x.w": w, "b": shard})
        gather, names = all_gather_replica_sharded_graph(tree)
        assert names == ["b", "x.w"] and gather.args.keys_flat() == ["b", "x.w"]
        assert gather.graph.name == "all_gather_subgraph(0)"
        assert gather.graph.outputs[0].shape == (2, 3)
        assert gather.graph.outputs[1] is gather.graph.inputs[1]
        gathered = addons.NamedTensors.pack(names, gather.bind(tree).call())
        reduced = {}
        for key, arguments in {
            "new": {},
            "old": {"threshold": 1},
            "grouped": {"replica_group": ir.replica_grouping()},
        }.items():
            graph, names = reduce_replica_sharded_graph(gathered, "mean", **arguments)
            assert graph.graph.name.startswith("replica_reduce_subgraph(")
            reduced[key] = addons.NamedTensors.pack(names, graph.bind(gathered).call())
            assert reduced[key].x.w.shape == (2, 3)
        graph, names = replica_sharded_slice_graph(gathered, threshold=1)
        sliced = addons.NamedTensors.pack(names, graph.bind(gathered).call())
        assert sliced.b.shape == (2, 3)
        streams = [addons.host_store(tree.x.w) for tree in (*reduced.values(), sliced)]
        assert gather_replica_sharded_tensor(w) is w
        groups = NamedReplicaGrouping.build_groups(["b", "x.w"], ir.replica_grouping())
        all_gather_replica_sharded_graph(tree, replica_groups=groups)
        with pytest.raises(ValueError, match="'add' or 'mean'; given 'max'"):
            reduce_replica_sharded_tensor(w, "max")
    with popxl.Session(ir, "cpu") as session:
        outputs = session.run()
        value = session.get_tensor_data(w)
    for stream in streams:
        np.testing.assert_array_equal(outputs[stream], value)


def test_graphs_of_factories_are_those_of_their_variables() -> None:
    ir = popxl.Ir(replication=2)
    with ir.main_graph:
        w = addons.VariableFactory(partial(np.ones, (2, 3)), popxl.float32, "w", shard_over=2)
        b = addons.VariableFactory(partial(np.ones, 4), popxl.float16)
        factories = addons.NamedVariableFactories.from_dict({"x.w": w, "b": b})
        for make, shapes in (
            (reduce_replica_sharded_graph, [(2,), (3,)]),
            (all_gather_replica_sharded_graph, [(4,), (2, 3)]),
            (partial(replica_sharded_slice_graph, threshold=4), [(2,), (3,)]),
            (replicated_all_reduce_strided_graph, [(4,), (3,)]),
        ):
            if make is reduce_replica_sharded_graph:
                make = partial(make, replica_group=ir.replica_grouping(), threshold=4)
            graph, names = make(factories)
            inputs = graph.graph.inputs
            assert names == ["b", "x.w"] and inputs == (graph.args.b, graph.args.x.w)
            assert [t.spec for t in inputs] == [
                popxl.TensorSpec((4,), popxl.float16),
                popxl.TensorSpec((3,), popxl.float32, (2, 3)),
            ]
            assert inputs[1].name == "w"
            assert [t.shape for t in graph.graph.outputs] == shapes


def test_groupings_limited_to_parts_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    ir = popxl.Ir(replication=8)
    with ir.main_graph:
        everyone = ir.replica_grouping()
        pairs = ir.replica_grouping(group_size=2)
        assert (
            fill_none_group(None, pairs) is pairs and fill_none_group(everyone, pairs) == everyone
        )
        assert get_instance_replica_grouping() == everyone
        assert not is_cross_instance(everyone)
        monkeypatch.delenv("POPLAR_TARGET_OPTIONS", raising=False)
        assert get_ild_size_from_popdist() == 8 and not is_cross_ild(everyone)
        assert get_ild_replica_grouping(pairs) is pairs
        monkeypatch.setenv("POPLAR_TARGET_OPTIONS", '{"ipuLinkDomainSize": 4}')
        assert get_ild_size_from_popdist() == 4
        assert is_cross_ild(everyone) and not is_cross_ild(pairs)
        assert get_ild_replica_grouping().assignment == [0, 0, 0, 0, 1, 1, 1, 1]
        assert get_ild_replica_grouping(pairs) is pairs
        for wrong in ("[" * 100_000, "{", "[4]", '{"ipuLinkDomainSize": "many"}'):
            monkeypatch.setenv("POPLAR_TARGET_OPTIONS", wrong)
            with pytest.raises(ValueError, match="POPLAR_TARGET_OPTIONS"):
                get_ild_size_from_popdist()
        monkeypatch.setenv("POPLAR_TARGET_OPTIONS", '{"ipuLinkDomainSize": 4}')
        apart = ir.replica_grouping(stride=2)
        assert get_ild_replica_grouping(apart).assignment == [0, 1, 0, 1, 2, 3, 2, 3]
        with pytest.raises(ValueError, match="further than the 2 replicas"):
            monkeypatch.setenv("POPLAR_TARGET_OPTIONS", '{"ipuLinkDomainSize": 2}')
            get_ild_replica_grouping(ir.replica_grouping(stride=4))


def test_sharded_factories_use_the_shape_of_the_shard() -> None:
    ir = popxl.Ir(replication=2)
    with ir.main_graph:
        factory = addons.VariableFactory(
            partial(np.zeros, (2, 3)), popxl.float32, "w", shard_over=2
        )
        facts = addons.NamedVariableFactories(w=factory)
        buffers = addons.named_variable_buffers(facts, 2, False)
        assert (buffers.w.tensor_shape, buffers.w.meta_shape) == ((3,), (2, 3))
        load, _ = addons.load_remote_graph(buffers)
        assert load.graph.outputs[0].meta_shape == (2, 3)
        store = addons.store_remote_graph(buffers)
        assert (store.args.w.shape, store.args.w.meta_shape) == ((3,), (2, 3))
