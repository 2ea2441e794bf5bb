"""Programs that call Python functions while they run."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import numpy as np
import pytest
import torch

import popxl
from popart import popart_exception
from popxl import ops
from tests.python.in_time import WAIT, run_in_time

RNG = np.random.default_rng(5)
PAIR = popxl.TensorSpec((2,), popxl.float32)


def run(ir: popxl.Ir, inputs: dict[Any, Any] | None = None) -> list[np.ndarray]:
    """What `stored` stores, in its order."""
    with popxl.Session(ir) as session:
        outputs = session.run(inputs or {})
    return [outputs[stream] for stream in sorted(outputs, key=lambda stream: stream.tensor_id)]


def stored(*tensors: popxl.Tensor) -> None:
    for k, t in enumerate(tensors):
        ops.host_store(popxl.d2h_stream(t.shape, t.dtype, name=f"out{k}"), t)


DTYPES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
DTYPES += ["float16", "float32", "float64"]


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("shape", [(), (5,), (3, 4), (2, 1, 3), (0, 4)])
def test_every_dtype_and_shape(name: str, shape: tuple[int, ...]) -> None:
    data = (RNG.random(shape) * 100).astype(name)
    seen: list[np.ndarray] = []

    def flipped(x: np.ndarray) -> np.ndarray:
        seen.append(x)
        return np.flip(x)

    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.constant(data, popxl.dtype.as_dtype(name), downcast=False)
        stored(*ops.host_call(flipped, x, outputs=[x.spec]))
    (value,) = run(ir)
    assert value.dtype == seen[0].dtype == data.dtype
    np.testing.assert_array_equal(seen[0], data)
    np.testing.assert_array_equal(value, np.flip(data))


def test_tensors_of_bfloat16_go_through() -> None:
    given = torch.tensor([1.0, -0.5, 3.0], dtype=torch.bfloat16)
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.constant(given, popxl.bfloat16)
        (y,) = ops.host_call(lambda a: 2 * torch.from_dlpack(a), x, outputs=[x.spec])
        stored(y)
    (value,) = run(ir)
    assert torch.equal(torch.from_dlpack(value), 2 * given)


def test_several_inputs_and_outputs_of_views() -> None:
    ir = popxl.Ir()
    data = RNG.normal(size=(4, 3)).astype(np.float32)
    counts = np.array([3, 1, 2], np.int32)

    def function(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return a @ a.T, np.cumsum(b, dtype=np.int32), a[0]

    with ir.main_graph:
        x, n = popxl.variable(data), popxl.variable(counts)
        specs = [
            popxl.TensorSpec((3, 3), popxl.float32),
            popxl.TensorSpec((3,), popxl.int32),
            popxl.TensorSpec((4,), popxl.float32),
        ]
        product, sums, first = ops.host_call(function, x.transpose(), n[::-1], outputs=specs)
        stored(product + 1.0, sums * 2, first)
    product, sums, first = run(ir)
    np.testing.assert_allclose(product, data.T @ data + 1.0, rtol=1e-6)
    np.testing.assert_array_equal(sums, np.cumsum(counts[::-1]) * 2)
    np.testing.assert_array_equal(first, data[:, 0])


def test_it_is_called_though_nothing_is_used_and_in_order() -> None:
    seen: list[float] = []
    ir = popxl.Ir()
    with ir.main_graph:
        for k in range(20):
            assert ops.host_call(lambda x: seen.append(float(x)), popxl.constant(float(k))) == ()
        stored(popxl.constant(1.0) + 1)
    with popxl.Session(ir) as session:
        for _ in range(2):
            session.run()
    assert seen == [*range(20), *range(20)]


def test_loops_and_called_graphs_call_it() -> None:
    """x <- f(x), 3 times in a graph that is called twice in each of 4 iterations."""
    ir = popxl.Ir()
    threads: set[threading.Thread] = set()

    def double_and_one(x: np.ndarray) -> np.ndarray:
        threads.add(threading.current_thread())
        return 2 * x + 1

    def inner(x: popxl.Tensor) -> popxl.Tensor:
        for _ in range(3):
            (x,) = ops.host_call(double_and_one, x, outputs=[x.spec])
        return x

    with ir.main_graph:
        x = popxl.variable(np.zeros(2, np.float32))
        graph = ir.create_graph(inner, x)

        def outer(x: popxl.Tensor) -> popxl.Tensor:
            return ops.call(graph, ops.call(graph, x)[0])[0]

        stored(*ops.repeat(ir.create_graph(outer, x), 4, x))
    (value,) = run(ir)
    np.testing.assert_array_equal(value, np.full(2, 2.0**24 - 1))
    assert len(threads) == 1 and threading.main_thread() not in threads


def test_a_function_may_end_a_while_loop() -> None:
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(np.float32(1))
        flag = popxl.TensorSpec((), popxl.bool)
        condition = ir.create_graph(
            lambda x: ops.host_call(lambda x: x < 100, x, outputs=[flag])[0], x
        )
        stored(*ops.while_loop(condition, ir.create_graph(lambda x: x * 3, x), x))
    assert run(ir)[0] == 243


def test_each_replica_calls_it_for_itself() -> None:
    replicas, times = 4, 10
    ir = popxl.Ir(replication=replicas)
    running = threading.Lock()

    def function(x: np.ndarray) -> np.ndarray:
        assert running.acquire(blocking=False), "calls come one after the other"
        result = np.sqrt(x)
        running.release()
        return result

    with ir.main_graph:
        x_in = popxl.h2d_stream((3,), popxl.float32)
        x = ops.host_load(x_in)

        def body(x: popxl.Tensor) -> popxl.Tensor:
            return ops.host_call(function, x, outputs=[x.spec])[0] + 1.0

        (y,) = ops.repeat(ir.create_graph(body, x), times, x)
        stored(y)
    data = RNG.random((replicas, 3)).astype(np.float32) * 50
    wanted = data
    for _ in range(times):
        wanted = np.sqrt(wanted) + 1
    np.testing.assert_allclose(run(ir, {x_in: data})[0], wanted, rtol=1e-6)


def test_pieces_on_several_devices() -> None:
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(np.arange(3, dtype=np.float32))
        for device in (1, 0, 2):
            with popxl.ipu(device):
                (x,) = ops.host_call(lambda x: x + 1, x + 1.0, outputs=[x.spec])
        stored(x)
    np.testing.assert_array_equal(run(ir)[0], np.arange(3) + 6)


def gradient_program(
    integer: bool,
) -> tuple[popxl.Ir, popxl.Tensor, popxl.HostToDeviceStream, list[tuple[np.ndarray, ...]]]:
    """Gradients of sum(seed * f(x, n) + 2 * (x * y)) for a function with two outputs."""
    ir = popxl.Ir()
    given: list[tuple[np.ndarray, ...]] = []

    def function(x: np.ndarray, n: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
        return [np.sin(x) * y * np.float32(n), n, x * y]

    def gradient(*arrays: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        given.append(arrays)
        x, n, y, _, _, _, dz, dw = arrays
        k = np.float32(n)
        return np.cos(x) * y * k * dz + y * dw, np.sin(x) * k * dz + x * dw

    with ir.main_graph:
        x_in = popxl.h2d_stream((2, 3), popxl.float32)
        x = ops.host_load(x_in)
        n, y = popxl.variable(np.int32(3)), popxl.variable(YS)

        def forward(x: popxl.Tensor, n: popxl.Tensor, y: popxl.Tensor) -> popxl.Tensor:
            specs = [x.spec, popxl.TensorSpec((), popxl.int32), x.spec]
            z, _, w = ops.host_call(function, x, n, y, outputs=specs, gradient=gradient)
            return z + 2.0 * w if not integer else z

        graph = ir.create_graph(forward, x, n, y)
        call = ops.call_with_info(graph, x, n, y)
        info = popxl.transforms.autodiff(graph, grads_required=[graph.inputs[0], graph.inputs[2]])
        seed = popxl.constant(SEED)
        grads = ops.call(info.graph, seed, inputs_dict=info.inputs_dict(call))
        stored(*grads)
    return ir, seed, x_in, given


XS, YS, SEED = (RNG.normal(size=(2, 3)).astype(np.float32) for _ in range(3))


@pytest.mark.parametrize("one_output", [False, True])
def test_gradients_equal_torch(one_output: bool) -> None:
    ir, _, x_in, given = gradient_program(one_output)
    dx, dy = run(ir, {x_in: XS})
    x, y = (torch.tensor(a, requires_grad=True) for a in (XS, YS))
    z = torch.sin(x) * y * 3
    (z if one_output else z + 2 * x * y).backward(torch.tensor(SEED))
    np.testing.assert_allclose(dx, x.grad, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(dy, y.grad, rtol=1e-5, atol=1e-6)
    assert len(given) == 1
    np.testing.assert_array_equal(given[0][-1], np.zeros((2, 3)) if one_output else 2 * SEED)


def test_a_gradient_that_is_not_given_is_an_error() -> None:
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(XS)
        graph = ir.create_graph(lambda x: ops.host_call(np.sin, x, outputs=[x.spec])[0], x)
        with pytest.raises(NotImplementedError, match="'sin' has no gradient: give the function"):
            popxl.transforms.autodiff(graph)
        detached = ir.create_graph(
            lambda x: x * ops.host_call(np.sin, ops.detach(x), outputs=[x.spec])[0], x
        )
        call = ops.call_with_info(detached, x)
        info = popxl.transforms.autodiff(detached)
        seed = popxl.constant(SEED)
        stored(*ops.call(info.graph, seed, inputs_dict=info.inputs_dict(call)))
    np.testing.assert_allclose(run(ir)[0], np.sin(XS) * SEED, rtol=1e-6)


def counting_program(function: Any, specs: list[popxl.TensorSpec]) -> tuple[popxl.Ir, popxl.Tensor]:
    """v += 1, then a call of the function with v."""
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        v = popxl.variable(np.zeros(2, np.float32), name="v")
        ops.add_(v, popxl.constant(1.0))
        ops.host_call(function, v, outputs=specs)
    return ir, v


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (
            np.zeros(3, np.float32),
            r"output 0 of shape \(2,\) and dtype float32; given shape \(3,\)",
        ),
        (np.zeros(2), "dtype float32; given shape .* and dtype float64"),
        (None, "output 0 of .* given shape .* and dtype object"),
        ((), "'function': wanted 1 outputs; given 0"),
        ([np.zeros(2, np.float32)] * 2, "wanted 1 outputs; given 2"),
    ],
)
def test_wrong_results_are_refused_and_the_state_stays(result: Any, message: str) -> None:
    is_wrong = [False]

    def function(v: np.ndarray) -> Any:
        return result if is_wrong[0] else v

    ir, _ = counting_program(function, [PAIR])
    with popxl.Session(ir) as session:
        session.run()
        is_wrong[0] = True
        with pytest.raises(ValueError, match=message):
            session.run()
        is_wrong[0] = False
        session.run()
        np.testing.assert_array_equal(session.get_variable("v"), [3, 3])


def test_what_it_raises_is_raised_by_the_run() -> None:
    class Odd(Exception):
        pass

    fails = [True]

    def function(v: np.ndarray) -> np.ndarray:
        if fails[0]:
            raise Odd("no more")
        return v

    ir, v = counting_program(function, [PAIR])
    with popxl.Session(ir) as session:
        for _ in range(2):
            with pytest.raises(Odd, match="no more") as raised:
                session.run()
            assert "'function' failed: Odd: no more" in str(raised.value.__cause__)
        fails[0] = False
        session.run()
    np.testing.assert_array_equal(session.get_tensor_data(v), [3, 3])


def test_it_cannot_call_the_session_that_runs() -> None:
    calls = [True]

    def function(v: np.ndarray) -> np.ndarray:
        return session.get_tensor_data(variable) if calls[0] else v

    def work() -> None:
        message = "a function that its own run waits for, 'host function function'"
        with pytest.raises(RuntimeError, match=message):
            session.run()

    ir, variable = counting_program(function, [PAIR])
    with popxl.Session(ir) as session:
        run_in_time(work)
        calls[0] = False
        session.run()
        np.testing.assert_array_equal(session.get_tensor_data(variable), [2, 2])


def test_an_error_of_one_replica_ends_all() -> None:
    ir = popxl.Ir(replication=3)

    def function(x: np.ndarray) -> np.ndarray:
        if x == 1:
            raise RuntimeError("not this one")
        return x

    with ir.main_graph:
        x_in = popxl.h2d_stream((), popxl.float32)
        (x,) = ops.host_call(function, ops.host_load(x_in), outputs=[PAIR_SCALAR])
        stored(ops.collectives.replicated_all_reduce(x))
    with popxl.Session(ir) as session:
        with pytest.raises(RuntimeError, match="not this one"):
            session.run({x_in: np.arange(3, dtype=np.float32)})
        (value,) = session.run({x_in: np.arange(2, 5, dtype=np.float32)}).values()
    np.testing.assert_array_equal(value, np.full(3, 9))


PAIR_SCALAR = popxl.TensorSpec((), popxl.float32)


def test_ctrl_c_ends_a_run_that_waits_for_it() -> None:
    begun, forever = threading.Event(), threading.Event()

    def function(v: np.ndarray) -> np.ndarray:
        begun.set()
        forever.wait(WAIT)
        return v

    def interrupt() -> None:
        assert begun.wait(WAIT)
        os.kill(os.getpid(), signal.SIGINT)

    ir, _ = counting_program(function, [PAIR])
    with popxl.Session(ir) as session:
        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            session.run()
        thread.join(WAIT)
        forever.set()
        session.run()
        np.testing.assert_array_equal(session.get_variable("v"), [2, 2])


def test_functions_of_one_name_are_told_apart() -> None:
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.constant(np.float32(2))
        results = [ops.host_call(lambda x, k=k: x**k, x, outputs=[x.spec])[0] for k in range(1, 4)]
        results += ops.host_call(np.negative, x, outputs=[x.spec], name="my function")
        stored(*results)
    assert [float(v) for v in run(ir)] == [2, 4, 8, -2]
    assert set(ir._host_functions) == {"_lambda_", "_lambda__1", "_lambda__2", "my_function"}


def test_what_cannot_be_called_is_refused() -> None:
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.constant(np.float32(2))
        with pytest.raises(TypeError, match="wanted a function as function; given 3"):
            ops.host_call(3, x)
        with pytest.raises(TypeError, match="wanted a function as gradient; given 'f'"):
            ops.host_call(np.sin, x, gradient="f")
        with pytest.raises(TypeError, match=r"wanted a TensorSpec for each output; given \(2,\)"):
            ops.host_call(np.sin, x, outputs=[(2,)])
        with pytest.raises(TypeError, match="not a Tensor"):
            ops.host_call(np.sin, 1.0, outputs=[PAIR])
        with pytest.raises((ValueError, popart_exception), match="-1"):
            ops.host_call(np.sin, x, outputs=[popxl.TensorSpec((-1,), popxl.float32)])


def test_a_program_out_of_the_cache_calls_it(tmp_path: Any, monkeypatch: Any) -> None:
    values = []
    for offset in (1.0, 2.0):
        ir, _ = counting_program(lambda v, offset=offset: values.append(v + offset), [])
        ir._options.enableEngineCaching = True
        ir._options.cachePath = str(tmp_path)
        run(ir)
    np.testing.assert_array_equal(values, [[2, 2], [3, 3]])
    assert any(tmp_path.iterdir())
