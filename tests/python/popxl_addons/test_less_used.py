"""The public interface that tutorials do not use."""

from __future__ import annotations

import sys
import types
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import popxl
import popxl_addons as addons
from popxl import ops
from popxl_addons import debugging, task_session, utils
from popxl_addons.graph import BoundGraph, GraphWithNamedArgs
from popxl_addons.named_tensors import NamedTensorData, NamedTensors, print_named_tensors
from popxl_addons.testing_utils import TensorInput, ops_of_type, run_module
from popxl_addons.transforms.autodiff import remap_grad_info
from popxl_addons.variable_factory import NamedVariableFactories, VariableFactory
from tests.python.popxl.replica_testing import store

SPEC = popxl.TensorSpec((2, 3), popxl.float32)
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_named_tensors_remap_and_print(capfd: pytest.CaptureFixture[str]) -> None:
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        a, b = (popxl.variable(X + i, name=name) for i, name in enumerate("ab"))
        tree = NamedTensors.from_dict({"one.two": a, "three": b})
        moved = tree.remap({a: b, b: a})
        assert moved.to_dict() == {"one.two": b, "three": a}
        with pytest.raises(KeyError):
            tree.remap({a: b})
        printed = print_named_tensors(tree)
        assert printed.keys_flat() == tree.keys_flat()
        out = store(printed.one.two)
    with popxl.Session(ir, "cpu") as session:
        np.testing.assert_array_equal(session.run()[out], X)
    text = "".join(capfd.readouterr())
    assert "one.two" in text and "three" in text
    assert NamedTensorData.from_dict({"a.b": X}).a.b is X


def test_factories_make_tensors_and_inputs() -> None:
    ir = popxl.Ir()
    with ir.main_graph:
        factory = VariableFactory(lambda: X, name="w")
        variable = factory.create_tensor("other")
        assert (variable.name, factory.create_tensor().name) == ("other", "w")
        buffer = popxl.remote_buffer((2, 3), popxl.float32, 2)
        remote = factory.create_remote_tensor(buffer, 1, "remote")
        loaded = ops.remote_load(buffer, 1)
        outs = store(variable), store(loaded)
        made: list[Any] = []

        def build() -> None:
            made.append(addons.add_variable_input("v", lambda: X, by_ref=True))
            made.append(addons.add_replica_sharded_variable_input("s", lambda: X))
            tree = NamedVariableFactories.from_dict({"a.b": factory})
            made.append(tree.init_undef())

        ir.create_graph(build)
    (v, v_factory), (s, s_factory), undefined = made
    assert (v.shape, v_factory.name, v_factory.by_ref) == ((2, 3), "v", True)
    assert (s.shape, s_factory.shape) == ((2, 3), (2, 3))
    assert undefined["a.b"].shape == (2, 3)
    with popxl.Session(ir, "cpu") as session:
        results = session.run()
    for out in outs:
        np.testing.assert_array_equal(results[out], X)
    np.testing.assert_array_equal(session.get_tensor_data(remote), X)


def test_sharded_inputs_have_the_shape_of_a_shard() -> None:
    class Sharded(addons.Module):
        def build(self) -> None:
            t = self.add_replica_sharded_variable_input("w", lambda: X)
            assert (t.shape, t.meta_shape) == ((3,), (2, 3))
            _, factory = addons.add_replica_sharded_variable_input("s", lambda: X)
            assert (factory.shape, factory.meta_shape) == ((3,), (2, 3))

    with popxl.Ir(replication=2).main_graph:
        facts, graph = Sharded().create_graph()
        assert facts.w.replica_sharded and graph.args.w.meta_shape == (2, 3)


class Scale(addons.Module):
    """x * w, with a factor of 10 in the gradient of x to tell it apart."""

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        w = self.add_variable_factory(VariableFactory(partial(np.full, (), 3.0, np.float32)), "w")
        self.aux["x"], self.aux["w"] = x, w
        return x * w

    def build_grad(self, dy: popxl.Tensor) -> popxl.Tensor:
        self.var_grad["w"] = ops.sum(dy * self.aux["x"])
        return dy * self.aux["w"] * 10.0


def test_gradients_by_hand() -> None:
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        x = popxl.variable(X)
        module = Scale()
        assert isinstance(Scale, addons.NameScopeMeta) and module.implements_grad_graph
        assert not addons.Module().implements_grad_graph
        facts, graph = module.create_graph(x)
        grad = module.create_grad_graph(graph)
        info = graph.bind(facts.init()).call_with_info(x)
        dy = popxl.variable(X + 1)
        args = grad.grad_graph_info.inputs_dict(info)
        dx, dw = GraphWithNamedArgs.from_grad_graph(grad.grad_graph_info).call(dy, args=args)
        outs = store(dx), store(dw)
        assert graph.called_graphs_grad_info == {}
    with popxl.Session(ir, "cpu") as session:
        results = session.run()
    np.testing.assert_allclose(results[outs[0]], (X + 1) * 30)
    np.testing.assert_allclose(results[outs[1]], np.sum((X + 1) * X))


def test_name_scopes_and_inputs_from_a_list() -> None:
    class Scoped(addons.Module):
        def build(self, x: popxl.Tensor) -> popxl.Tensor:
            return x + self.add_variable_input("w", lambda: X)

    class Listed(addons.Module):
        def build(self, x: popxl.Tensor) -> popxl.Tensor:
            inputs = addons.Module.from_variable_factories(factories)
            return x + inputs[0] + inputs[1]

    with popxl.Ir().main_graph:
        module = Scoped()
        module.set_name_scope("scope")
        _, graph = module.create_graph(SPEC)
        assert graph.args.w.name == "scope/w"
        factories = [VariableFactory(lambda: X, name=name) for name in "ab"]
        _, graph = Listed().create_graph(SPEC)
        assert [t.name for t in graph.graph.inputs] == ["x", "0", "1"]


def test_grad_graph_info_by_hand_and_moved() -> None:
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        x = popxl.variable(X)
        squares = [ir.create_graph(lambda t: t * t, x) for _ in range(2)]
        slope = ir.create_graph(lambda dy, t: dy * t * 2.0, x, x)
        square = squares[0]
        dy_in, t_in = slope.inputs
        info = addons.create_grad_graph_info(
            ir,
            square,
            slope,
            {dy_in: square.outputs[0], t_in: square.inputs[0]},
            {slope.outputs[0]: square.inputs[0]},
            [square.inputs[0]],
        )
        moved = remap_grad_info(info, squares[1], slope)
        assert moved.forward_graph == squares[1]
        call = ops.call_with_info(squares[1], x)
        (dx,) = ops.call_with_info(
            slope, popxl.variable(X + 1), inputs_dict=moved.inputs_dict(call)
        ).outputs
        out = store(dx)

        def build() -> None:
            forward, gradient, expected = addons.add_recompute_inputs(info)
            assert list(forward) == list(square.inputs) and set(gradient) == {dy_in, t_in}
            assert len(expected) == 2

        ir.create_graph(build)
    with popxl.Session(ir, "cpu") as session:
        np.testing.assert_allclose(session.run()[out], (X + 1) * 2 * X)


def test_hashes_of_graphs_and_arguments() -> None:
    def function(x: Any, n: int = 2) -> Any:
        return x

    ir = popxl.Ir()
    with ir.main_graph:
        a, b = popxl.variable(X), popxl.variable(X + 1)
        other = popxl.variable(X[0])
        assert addons.tensor_hash(a) == addons.tensor_hash(b) == addons.tensor_hash(SPEC)
        assert addons.tensor_hash(a) != addons.tensor_hash(other)
        graph = ir.create_graph(lambda t: t + 1.0, a)
        for first, second in (([a, 1], [b, 1]), ({"k": a}, {"k": b}), (1, True)):
            assert addons.argument_hash(first) == addons.argument_hash(second)
        bound = BoundGraph(graph, {graph.inputs[0]: a})
        assert addons.argument_hash(bound) == addons.argument_hash(BoundGraph(graph, bound.args))
        with pytest.raises(TypeError):
            addons.argument_hash(np.zeros(2))
        one = addons.get_function_hash(function, a)
        assert one == addons.get_function_hash(function, b)
        assert one != addons.get_function_hash(function, other)
        with popxl.ipu(1):
            assert one != addons.get_function_hash(function, a)
        assert addons.bound_arguments(function, 1).args == (1,)
        cache = addons.GraphCache()

        def double(t: popxl.Tensor) -> popxl.Tensor:
            return t + t

        assert cache.create_graph(double, a) is cache.create_graph(double, b)
        assert cache.create_graph(double, a) is not cache.create_graph(double, other)


def test_print_text_depends_on_the_level(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        addons.print_text("quiet words")
        addons.print_text("loud words", level="WARN")
        addons.print_text("a number", popxl.constant(77, popxl.uint32), "INFO")
        monkeypatch.setattr(debugging, "_CURRENT", 0)
        addons.print_text("detailed words", level="TRACE")
    with popxl.Session(ir, "cpu") as session:
        session.run()
    text = "".join(capfd.readouterr())
    assert all(words in text for words in ("loud words", "a number", "77", "detailed words"))
    assert "quiet" not in text


def test_write_variables_and_copy_memmaps(tmp_path: Path) -> None:
    ir = popxl.Ir()
    with ir.main_graph:
        v = popxl.variable(X)
        out = store(v)
    session = popxl.Session(ir, "cpu")
    weights = addons.WeightsDict({v: X * 2})
    addons.write_variables_pb(session, weights)
    with session:
        np.testing.assert_array_equal(session.run()[out], X * 2)
        addons.write_variables_pb(session, addons.WeightsDict({v: X * 3}))
        np.testing.assert_array_equal(session.run()[out], X * 3)
    with pytest.raises(ValueError, match=r"shape|dtype"):
        weights[v] = X[0]
    model = tmp_path / "checkpoint" / "model"
    model.mkdir(parents=True)
    (model / "w.npy").write_bytes(b"raw")
    (model / "w.npz").write_bytes(b"other")
    task_session.initialise_memmap_dir_from_checkpoint(tmp_path / "checkpoint", tmp_path / "maps")
    assert [path.name for path in (tmp_path / "maps").iterdir()] == ["w.npy"]


def test_histograms_go_to_wandb(monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[Any] = []
    fake = types.SimpleNamespace(
        Histogram=lambda values: sorted(values.tolist()),
        log=lambda values, step: logged.append((values, step)),
        run=None,
    )
    monkeypatch.setitem(sys.modules, "wandb", fake)
    ir = popxl.Ir()
    with ir.main_graph:
        v = popxl.variable(np.array([2, np.inf, 1, np.nan], np.float32))
        store(v)
        session = addons.TaskSession([], [], NamedTensors(w=v), ir=ir, device_desc="cpu")
    session.wandb_variable_histograms(3)
    assert logged == [({"w:histogram": [1.0, 2.0], "w:not_finite": 2}, 3)]
    session.wandb_histogram("x", 4, np.zeros(1))
    assert logged[1] == ({"x:histogram": [0.0], "x:not_finite": 0}, 4)


def test_helpers() -> None:
    class Twice(addons.Module):
        def build(self, x: popxl.Tensor) -> popxl.Tensor:
            return x + x

    (y,) = run_module(Twice(), TensorInput(X))
    np.testing.assert_array_equal(y, X + X)
    assert ops_of_type([1, "a", 2, True], int) == 3
    with utils.null_context() as nothing:
        assert nothing is None


def test_flops_of_calls_and_loops() -> None:
    ir = popxl.Ir(replication=2)
    with ir.main_graph, popxl.in_sequence():
        x = popxl.variable(np.zeros((4, 4), np.float32))
        (x,) = ops.call(ir.create_graph(lambda t: t @ t, x), x)
        (x,) = ops.repeat(ir.create_graph(lambda t: t * t, x), 3, x)
        store(x + x)
    breakdown = addons.evaluate_FLOPs(ir.main_graph)
    # Product 2 * 4 * 16, three times 16, and 16.
    assert breakdown["TOT"] == 128 + 48 + 16
    assert list(breakdown["Add"].values()) == [16]
    assert addons.total_FLOPs(ir) == addons.evaluate_ir_FLOPs(ir)["TOT"] == 2 * 192
