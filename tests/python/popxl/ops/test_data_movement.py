"""Streams, remote buffers, placement, printing and collectives of one replica."""

import numpy as np
import pytest

import popxl
from popxl import ops
from popxl.ops import collectives
from tests.python.popxl.ops.op_testing import check, outputs, random

X = random(2, 3)


def test_streams():
    ir = popxl.Ir()
    with ir.main_graph:
        source = popxl.h2d_stream((2, 3), popxl.float32, "source")
        target = popxl.d2h_stream((2, 3), popxl.float32, "target")
        loaded = ops.host_load(source)
        assert loaded.name == "source_hostload"
        assert "source_init" in [t.name for t in ir.main_graph.tensors]
        assert ops.host_store(target, ops.add(loaded, loaded)) is None
        with pytest.raises(ValueError, match="dtype of stream"):
            ops.host_store(target, ops.cast(loaded, popxl.float16))
        with pytest.raises(ValueError, match="shape of stream"):
            ops.host_store(target, ops.flatten(loaded))
    with popxl.Session(ir, "cpu") as session:
        np.testing.assert_array_equal(session.run({source: X})[target], 2 * X)


def test_remote_buffers():
    def build(x):
        buffer = popxl.remote_buffer((2, 3), popxl.float32, 2)
        assert ops.remote_store(buffer, 1, x) is None
        loaded = ops.remote_load(buffer, 1, "n")
        assert loaded.name == "n_remote_loaded"
        other = ops.init((2, 3), popxl.float32)
        ops.remote_load_(buffer, 1, other)
        with pytest.raises(ValueError, match="does not match buffer"):
            ops.remote_store(buffer, 0, ops.flatten(x))
        return loaded, other

    for value in outputs(build, X):
        np.testing.assert_array_equal(value, X)


def test_init():
    (y,) = outputs(lambda _: ops.init((2, 2), popxl.int32, "n"), X)
    np.testing.assert_array_equal(y, np.zeros((2, 2)))
    with popxl.Ir().main_graph, pytest.raises(ValueError, match="Unknown init_type"):
        ops.init((2,), popxl.int32, init_type="one")


def test_placement():
    def build(x):
        y = ops.ipu_copy(ops.exp(x), 1)
        assert y.name == "exp_out_c1"
        assert y.ipu == 1
        return ops.io_tile_copy(y)

    check(build, np.exp, X)
    with popxl.Ir().main_graph:
        with pytest.raises(ValueError, match="Could not infer the ipu"):
            ops.ipu_copy(popxl.variable(X), 1)
        with pytest.raises(ValueError, match="graph it resides in"):
            ops.remote_code_load(popxl.gcg(), "executable")
        graph = popxl.gcg().ir.create_empty_graph()
        assert ops.remote_code_load(graph, "executable") is None
        for place in ("compute_buffer", "elsewhere"):
            with pytest.raises(NotImplementedError):
                ops.remote_code_load(graph, place)


def test_print_tensor(capfd):
    check(lambda t: ops.print_tensor(t, "name", digits=2), lambda x: x, np.ones((2, 2), np.float32))
    assert capfd.readouterr().err == "name: [\n [1.0 1.0]\n [1.0 1.0]\n]\n\n"
    check(lambda t: ops.print_tensor(t, "name", print_self=False), lambda x: x, X)
    assert capfd.readouterr().err == ""
    with popxl.Ir().main_graph:
        x = popxl.variable(X)
        with pytest.raises(KeyError):
            ops.print_tensor(x, float_format="hex")
        with pytest.raises(ValueError, match="must be 1 character exactly"):
            ops.print_tensor(x, separator=", ")


def test_collectives_of_one_replica():
    check(collectives.replicated_all_reduce, lambda x: x, X)
    check(lambda t: collectives.replicated_all_reduce(t, "square_add"), np.square, X)
    check(collectives.replicated_all_reduce_, lambda x: x, X)
    check(collectives.replicated_reduce_scatter, np.ravel, X)
    check(collectives.replicated_all_gather, lambda x: x, X)
    check(
        lambda t: collectives.replicated_all_gather(t, output_shape="new_axis"),
        lambda x: x[None],
        X,
    )

    def there_and_back(t):
        shard = collectives.replica_sharded_slice(t)
        assert shard.shape == (6,)
        assert shard.meta_shape == (2, 3)
        whole = collectives.replicated_all_gather(shard)
        assert whole.meta_shape == ()
        return whole

    check(there_and_back, lambda x: x, X)
    with popxl.Ir().main_graph:
        x = popxl.variable(X)
        with pytest.raises(ValueError, match="Not a valid op: local"):
            collectives.replicated_all_reduce(x, "local")
        with pytest.raises(ValueError):
            collectives.replicated_all_gather(x, output_shape="other")
