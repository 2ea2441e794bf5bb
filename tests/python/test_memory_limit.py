"""Programs that do not fit a memory limit are refused when they are compiled."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch

import popart
import popxl
from pando import session_info
from pando.settings import use_session_settings
from popxl import ops
from popxl.transforms import autodiff

ROWS = 100


def program() -> popxl.Ir:
    ir = popxl.Ir()
    with ir.main_graph:
        out = popxl.d2h_stream((ROWS, ROWS), popxl.float32)
        w = popxl.variable(np.ones((ROWS, ROWS), np.float32), name="w")
        with popxl.name_scope("layer"):
            power = ops.exp(w)
            product = power @ ops.transpose(power)
        ops.host_store(out, product)
    return ir


def needed_bytes() -> int:
    memory = popxl.Session(program())._pb_session.program.memory
    return int(memory.persistent_bytes + memory.peak_frame_bytes)


def refused(ir: popxl.Ir, device: Any = "cpu") -> popart.OutOfMemoryException:
    with pytest.raises(popart.OutOfMemoryException) as error:
        popxl.Session(ir, device)
    return error.value


def test_the_limit_is_exact() -> None:
    needed = needed_bytes()
    with use_session_settings(memory_limit_bytes=needed), popxl.Session(program()) as session:
        (result,) = session.run().values()
    np.testing.assert_allclose(result, np.full((ROWS, ROWS), ROWS * np.e**2), rtol=1e-5)
    with use_session_settings(memory_limit_bytes=needed - 1):
        error = refused(program())
    assert f"needs {needed} bytes of device memory; the limit is {needed - 1}" in str(error)
    # The limit ends with its context, and the process is as it was.
    with popxl.Session(program()) as session:
        session.run()


def test_the_report_lists_what_is_alive_at_the_peak() -> None:
    tensor_bytes = 4 * ROWS * ROWS
    with use_session_settings(memory_limit_bytes=1):
        error = refused(program())
    assert isinstance(error, popart.popart_exception)
    summary = error.getSummaryReport()
    assert summary in str(error)
    assert f"persistent memory (variables, constants): {tensor_bytes} bytes" in summary
    alive = {
        name: (int(size), place)
        for size, name, place in re.findall(r"^  (\d+) bytes  (.+?)  \((.+)\)$", summary, re.M)
    }
    for name in ("layer/exp_out", "layer/matmul_out"):
        size, place = alive[name]
        assert size == tensor_bytes
        assert re.search(r"test_memory_limit\.py:\d+", place)
    needed = needed_bytes()
    assert sum(size for size, _ in alive.values()) == needed - tensor_bytes
    # There are no profiles, so there is no file of one.
    assert error.getProfilePath() == ""


def test_a_device_model_has_the_memory_of_its_tiles() -> None:
    manager = popart.DeviceManager()
    tile = 624 * 1024
    tiles = -(-needed_bytes() // tile)
    fitting = manager.createIpuModelDevice({"numIPUs": 1, "tilesPerIPU": tiles})
    with popxl.Session(program(), fitting) as session:
        session.run()
    # Small tiles, then the tighter of two limits.
    old = manager.createIpuModelDevice({"numIPUs": 1, "tilesPerIPU": 1, "ipuVersion": "ipu1"})
    assert old.memory_limit_bytes == 256 * 1024
    with use_session_settings(device_memory_limit_bytes=1000):
        assert "the limit is 1000" in str(refused(program(), fitting))
    ir = popxl.Ir()
    with ir.main_graph:
        ops.add_(popxl.variable(np.ones(100_000, np.float32)), popxl.constant(1.0))
    assert f"the limit is {256 * 1024}" in str(refused(ir, old))
    assert manager.createIpuModelDevice({"numIPUs": 2}).memory_limit_bytes == 0


def test_what_runs_at_the_peak_is_named_after_a_conditional() -> None:
    """The branches have more ops than the main graph before the peak."""

    def branch(x: popxl.Tensor) -> popxl.Tensor:
        for _ in range(12):
            x = ops.softmax(x @ x, 1)
        return x

    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(np.ones((4, 4), np.float32))
        (chosen,) = ops.conditional(
            popxl.constant(True, popxl.bool),
            ir.create_graph(branch, x),
            ir.create_graph(branch, x),
            then_inputs=[x],
            else_inputs=[x],
        )
        with popxl.name_scope("early"):
            large = ops.concat([chosen] * 64, axis=0)
        with popxl.name_scope("late"):
            result = ops.sum(ops.softmax(large @ ops.transpose(large), 1))
        with popxl.name_scope("end"):
            for _ in range(3):
                result = ops.cumsum(result.reshape((1,)), 0).reshape(())
        ops.host_store(popxl.d2h_stream((), popxl.float32), result)
    with use_session_settings(memory_limit_bytes=1):
        error = refused(ir)
    assert "the phase 'late' needs most" in str(error)
    assert "alive at the peak, in the phase 'late', while" in error.getSummaryReport()


@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("large_first", [True, False])
def test_what_runs_at_the_peak_is_named_inside_a_branch(devices: int, large_first: bool) -> None:
    def large(x: popxl.Tensor) -> popxl.Tensor:
        with popxl.name_scope("early"):
            x = ops.exp(x)
        with popxl.name_scope("late"):
            x = ops.concat([x] * 64, axis=0)
            return ops.sum(ops.softmax(x @ ops.transpose(x), 1))

    def small(x: popxl.Tensor) -> popxl.Tensor:
        with popxl.name_scope("small"):
            return ops.sum(ops.softmax(x @ x, 1))

    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(np.ones((4, 4), np.float32))
        branches = [ir.create_graph(branch, x) for branch in (large, small)]
        condition = popxl.constant(large_first, popxl.bool)
        chosen = branches if large_first else branches[::-1]
        (result,) = ops.conditional(condition, *chosen, [x], [x])
        with popxl.name_scope("end"), popxl.ipu(devices - 1):
            if devices > 1:
                result = ops.ipu_copy(result, 1, 0)
            result = ops.cumsum(result.reshape((1,)), 0).reshape(())
            ops.host_store(popxl.d2h_stream((), popxl.float32), result)
    limit = "memory_limit_bytes" if devices == 1 else "device_memory_limit_bytes"
    with use_session_settings(**{limit: 1000}):
        error = refused(ir)
    assert "the phase 'late' needs most" in str(error)
    assert "alive at the peak, in the phase 'late', while" in error.getSummaryReport()
    assert "late/" in error.getSummaryReport().partition(" runs:")[0]


def training(layers: int = 6, rows: int = 256, width: int = 64) -> tuple[popxl.Ir, Any, Any]:
    """One step of residual layers, whose wide results wait for their gradients."""
    random = np.random.default_rng(3)
    ir = popxl.Ir()
    with ir.main_graph:
        stream = popxl.h2d_stream((rows, width), popxl.float32)
        weights = [
            popxl.variable(random.normal(0, 0.1, (width, 8 * width)).astype(np.float32))
            for _ in range(layers)
        ]
        narrow = popxl.variable(random.normal(0, 0.1, (8 * width, width)).astype(np.float32))

        def network(x: popxl.Tensor, back: popxl.Tensor, *weights: popxl.Tensor) -> popxl.Tensor:
            for weight in weights:
                x = x + ops.gelu(x @ weight) @ back
            return ops.sum(x * x)

        x = ops.host_load(stream)
        graph = ir.create_graph(network, x, narrow, *weights)
        gradients = autodiff(graph)
        call = ops.call_with_info(graph, x, narrow, *weights)
        found = ops.call(
            gradients.graph, popxl.constant(1.0), inputs_dict=gradients.inputs_dict(call)
        )
        for weight, gradient in zip(weights, found[2:], strict=True):
            ops.scaled_add_(weight, gradient, b=-1e-4)
    return ir, stream, weights


@pytest.mark.parametrize("setting", ["memory_limit_bytes", "device_memory_limit_bytes"])
def test_results_are_computed_again_where_a_program_does_not_fit(setting: str) -> None:
    data = np.random.default_rng(4).normal(size=(256, 64)).astype(np.float32)

    def trained(limit: int) -> tuple[int, list[Any]]:
        ir, stream, weights = training()
        with use_session_settings(**{setting: limit}), popxl.Session(ir) as session:
            session.run({stream: data})
            values = session.get_tensors_data(weights)
        plan = session_info.memory_plan(session)
        return plan.persistent_bytes + plan.peak_frame_bytes, [values[w] for w in weights]

    needed, wanted = trained(0)
    wide = 4 * 256 * 8 * 64
    needed_again, values = trained(needed - 3 * wide)
    assert needed_again <= needed - 3 * wide
    for one, other in zip(values, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5 * np.abs(other).max())
    # Variables stay where they are, so there is an end to it.
    ir, _, _ = training()
    with use_session_settings(**{setting: needed // 8}):
        assert f"the limit is {needed // 8}" in str(refused(ir))


def two_devices(in_graph: bool) -> popxl.Ir:
    """Device 1 makes a small tensor that device 4 blows up, perhaps in a called graph."""

    def blow_up(x: popxl.Tensor, w: popxl.Tensor) -> popxl.Tensor:
        with popxl.ipu(4):
            big = ops.exp(x @ w)
            return ops.sum(big @ ops.transpose(big))

    ir = popxl.Ir()
    with ir.main_graph:
        out = popxl.d2h_stream((), popxl.float32)
        with popxl.ipu(1):
            x = ops.exp(popxl.variable(np.ones((8, 8), np.float32), name="small"))
            x = ops.ipu_copy(x, 4, 1)
        with popxl.ipu(4):
            w = popxl.variable(np.ones((8, 64), np.float32), name="w")
            if in_graph:
                (result,) = ops.call(ir.create_graph(blow_up, x, w), x, w)
            else:
                result = blow_up(x, w)
            ops.host_store(out, result)
    return ir


@pytest.mark.parametrize("in_graph", [False, True])
def test_every_device_has_a_limit_of_its_own(in_graph: bool) -> None:
    memory = popxl.Session(two_devices(in_graph))._pb_session.program.memory
    first, second = memory.devices
    assert (first.device, second.device) == (1, 4)
    assert (first.persistent_bytes, second.persistent_bytes) == (4 * 8 * 8, 4 * 8 * 64)
    assert first.persistent_bytes + second.persistent_bytes == memory.persistent_bytes
    needed = [device.persistent_bytes + device.peak_frame_bytes for device in memory.devices]
    # Device 1 needs one small result, device 4 at least one large one.
    assert 4 * 8 * 8 <= first.peak_frame_bytes < 4 * 8 * 64 <= second.peak_frame_bytes
    with (
        use_session_settings(device_memory_limit_bytes=needed[1]),
        popxl.Session(two_devices(in_graph)) as session,
    ):
        session.run()
    with use_session_settings(device_memory_limit_bytes=needed[1] - 1):
        error = refused(two_devices(in_graph))
    assert f"device 4 needs {needed[1]} bytes of memory; the limit is {needed[1] - 1}" in str(error)
    # Each is less than both together.
    with use_session_settings(memory_limit_bytes=needed[1]):
        assert "the program needs" in str(refused(two_devices(in_graph)))


def test_unknown_options_of_a_device_model() -> None:
    manager = popart.DeviceManager()
    with pytest.raises(ValueError, match=r"unknown options \['tiles'\]"):
        manager.createIpuModelDevice({"tiles": 3})
    with pytest.raises(ValueError, match=r"ipuVersion.*'ipu9'"):
        manager.createIpuModelDevice({"ipuVersion": "ipu9"})


def test_a_chain_of_ops_in_place_needs_one_storage() -> None:
    """softmax may write over its input: every result of a chain takes the storage of the last."""
    data = np.linspace(-1, 1, 4096, dtype=np.float32).reshape(4, 1024)
    ir = popxl.Ir()
    with ir.main_graph:
        t = ops.host_load(source := popxl.h2d_stream(data.shape, popxl.float32))
        for _ in range(4):
            t = ops.softmax(t, 1)
        ops.host_store(result := popxl.d2h_stream(t.shape, t.dtype), t)
    session = popxl.Session(ir, "cpu")
    assert session._pb_session.program.memory.peak_frame_bytes == data.nbytes
    with session:
        value = session.run({source: data})[result]
    wanted = torch.from_numpy(data)
    for _ in range(4):
        wanted = torch.softmax(wanted, 1)
    np.testing.assert_allclose(value, wanted.numpy(), rtol=1e-5)
