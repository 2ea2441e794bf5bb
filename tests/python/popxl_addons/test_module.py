"""Modules: graphs, names, reuse and what is left behind."""

import copy
import warnings
from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest

import popxl
import popxl_addons as addons
from popxl import ops
from popxl_addons.module import Module


@pytest.fixture(autouse=True)
def main_graph() -> Iterator[popxl.Graph]:
    with popxl.Ir().main_graph as graph:
        yield graph


class Linear(Module):
    def __init__(self, out_features: int, cache: bool = False) -> None:
        super().__init__(cache=cache)
        self.out_features = out_features

    def build(self, x: popxl.Tensor, bias: bool = True) -> popxl.Tensor:
        shape = (x.shape[-1], self.out_features)
        y = x @ self.add_variable_input("weight", partial(np.ones, shape), x.dtype)
        if bias:
            y = y + self.add_variable_input("bias", partial(np.zeros, shape[-1:]), x.dtype)
        return y


class Pair(Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = Linear(3)
        self.second = Linear(4)

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        return self.second(self.first(x))


SPEC = popxl.TensorSpec((2, 5), popxl.float32)


def variable(shape: tuple[int, ...] = (2, 5)) -> popxl.Tensor:
    return popxl.variable(np.ones(shape), popxl.float32, "x")


def test_a_graph_of_its_own() -> None:
    factories, graph = Linear(3).create_graph(SPEC)
    assert factories.keys_flat() == graph.args.keys_flat() == ["weight", "bias"]
    assert graph.graph.name == "Linear_subgraph(0)"
    assert [t.name for t in graph.graph.inputs] == ["x", "weight", "bias"]
    assert [t.shape for t in graph.graph.inputs] == [(2, 5), (5, 3), (3,)]
    (y,) = graph.bind(factories.init()).call(variable())
    assert y.shape == (2, 3)


def test_inlining_returns_what_build_returns() -> None:
    class Both(Module):
        def build(self, x: popxl.Tensor) -> dict[str, popxl.Tensor]:
            return {"x": x}

    x = variable()
    assert Both()(x) == {"x": x}


def test_names_of_nested_modules() -> None:
    factories, graph = Pair().create_graph(SPEC)
    keys = ["first.weight", "first.bias", "second.weight", "second.bias"]
    assert factories.keys_flat() == graph.args.keys_flat() == keys
    names = [t.name for t in graph.graph.inputs]
    assert names == ["x", *(key.replace(".", "/") for key in keys)]
    assert [t.name for t in factories.init("net").values_flat()] == [
        f"net.{key}" for key in sorted(keys)
    ]


def test_a_module_keeps_nothing() -> None:
    module = Pair()
    first, _ = module.create_graph(SPEC)
    second, graph = module.create_graph(SPEC)
    assert first.keys_flat() == second.keys_flat() == graph.args.keys_flat()
    assert graph.graph.name == "Pair_subgraph(1)"
    assert first["first.weight"] is not second["first.weight"]


def test_tensor_arguments_come_in_the_order_of_the_signature() -> None:
    class Step(Module):
        def build(
            self,
            weight: popxl.TensorByRef,
            others: list[popxl.Tensor],
            *,
            rate: float | popxl.Tensor = 1.0,
            scale: popxl.Tensor,
        ) -> None:
            self.add_variable_input("state", partial(np.zeros, weight.shape), by_ref=True)

    scalar = popxl.TensorSpec((), popxl.float32)
    _, graph = Step().create_graph(SPEC, [SPEC, SPEC], scale=scalar, rate=scalar)
    inputs = graph.graph.inputs
    assert [t.name for t in inputs] == ["weight", "others_0", "others_1", "rate", "scale", "state"]
    by_ref = graph.graph._by_ref_inputs
    assert inputs[0] in by_ref and inputs[5] in by_ref and len(by_ref) == 2
    assert Step().create_graph(SPEC, [SPEC], scale=scalar)[1].graph.inputs[2].name == "scale"


def test_equal_arguments_share_a_graph() -> None:
    linear = Linear(3, cache=True)
    facts_a, graph_a = linear.create_graph(SPEC)
    facts_b, graph_b = linear.create_graph(variable())
    assert graph_a.graph == graph_b.graph and graph_a is not graph_b
    assert facts_a["weight"] is facts_b["weight"]
    assert facts_a.init().tensors != facts_b.init().tensors
    others = [
        linear.create_graph(SPEC, False),
        linear.create_graph(SPEC, bias=False),
        linear.create_graph(popxl.TensorSpec((3, 5), popxl.float32)),
        linear.create_graph(popxl.TensorSpec((2, 5), popxl.float16)),
        Linear(3, cache=True).create_graph(SPEC),
    ]
    with popxl.ipu(1):
        others.append(linear.create_graph(SPEC))
    with popxl.name_scope("scope"):
        assert linear.create_graph(SPEC)[1].graph == graph_a.graph
    assert len({graph_a.graph, *(graph.graph for _, graph in others)}) == 7
    with pytest.raises(TypeError):
        linear.create_graph(SPEC, np.ones(3))


def test_every_ir_has_its_own_cache(main_graph: popxl.Graph) -> None:
    linear = Linear(3, cache=True)
    _, here = linear.create_graph(SPEC)
    main_graph.__exit__(None, None, None)
    with popxl.Ir().main_graph:
        _, elsewhere = linear.create_graph(SPEC)
    main_graph.__enter__()
    assert elsewhere.graph.ir != here.graph.ir


def test_numbers_that_hash_alike_do_not_share_a_graph() -> None:
    class Scaled(Module):
        def build(self, x: popxl.Tensor, factor: int) -> popxl.Tensor:
            return x * factor

    assert hash(-1) == hash(-2)
    module = Scaled(cache=True)
    assert module.create_graph(SPEC, -1)[1].graph != module.create_graph(SPEC, -2)[1].graph


def test_factories_can_be_added_as_inputs_several_times() -> None:
    class Twice(Module):
        def build(self, x: popxl.Tensor, linear: tuple[object, ...]) -> popxl.Tensor:
            factories, graph = linear
            for name in ("a", 0):
                inputs = self.add_variable_inputs(name, factories)
                (x,) = graph.bind(inputs).call(x)
            return x

    linear = Linear(5).create_graph(SPEC)
    module = Twice()
    factories, graph = module.create_graph(SPEC, linear)
    assert factories.keys_flat() == ["a.weight", "a.bias", "0.weight", "0.bias"]
    names = [t.name for t in graph.graph.inputs]
    assert names[:3] == ["x", "weight", "bias"] and names[3].startswith("weight__t")
    assert "Call.102(Linear_subgraph(0))" in graph.print_schedule()
    with pytest.raises(ValueError, match="already exists"):
        module.create_graph(SPEC, linear)


def test_lists_of_modules() -> None:
    class Chain(Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = Module.from_list([Linear(4), Linear(3)])

        def build(self, x: popxl.Tensor) -> popxl.Tensor:
            for layer in self.layers:
                x = layer(x)
            return x

    module = Chain()
    assert module.layers[1].out_features == module.layers.get("1").out_features == 3
    factories, graph = module.create_graph(SPEC)
    assert factories.keys() == ["layers"] and factories.layers.keys() == ["0", "1"]
    assert graph.graph.inputs[1].name == "0/weight", "only build pushes a name scope"
    with pytest.raises(AttributeError, match="not iterable"):
        iter(module)


def test_two_modules_cannot_have_one_name() -> None:
    pair = Pair()
    with pytest.raises(ValueError, match="already exists"):
        pair.first = Linear(1)


def test_calls_of_a_graph() -> None:
    class Three(Module):
        def build(self, xs: list[popxl.Tensor], y: popxl.Tensor) -> popxl.Tensor:
            return xs[0] + xs[1] + y

    _, graph = Three().create_graph([SPEC, SPEC], SPEC)
    x = variable()
    (out,) = graph.call([x, x], np.ones((2, 5)))
    assert out.shape == (2, 5)
    y = graph.graph.inputs[2]
    assert len(addons.BoundGraph(graph.graph).bind({y: x}).call([x, x])) == 1
    bound = addons.BoundGraph(graph.graph, {y: out})
    assert bound.call_with_info(x, x, args={y: x}).inputs[2] is x
    with pytest.raises(ValueError, match="Not enough inputs"):
        graph.call(x, x)
    with pytest.raises(ValueError, match="Too many inputs"):
        graph.call(x, x, x, x)
    with pytest.raises(ValueError, match="twice"):
        graph.call(x, x, x, args={y: x})
    with pytest.raises(TypeError, match="Input 2"):
        graph.call(x, x, "text")
    mapping = bound.subgraph_io_map(x, x, outs=[out])
    assert mapping == {
        graph.graph.outputs[0]: out,
        graph.graph.inputs[0]: x,
        graph.graph.inputs[1]: x,
        y: out,
    }


def test_an_empty_graph_prints_one_blank_line() -> None:
    graph = addons.GraphWithNamedArgs(popxl.gcg().ir.create_empty_graph("empty"))
    assert graph.print_schedule() == "Graph : empty_subgraph(0)\n  () -> () {\n    \n  }"


class Square(Module):
    """x * w * w with a gradient of its own, which doubles the true one so that it shows."""

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        w = self.add_variable_input("w", partial(np.full, x.shape, 3.0), x.dtype)
        self.aux["x"] = x
        self.aux["w"] = w
        self.aux["doubled"] = True
        return x * w * w

    def build_grad(self, dy: popxl.Tensor) -> popxl.Tensor:
        factor = 4.0 if self.aux["doubled"] else 2.0
        self.var_grad["w"] = dy * self.aux["x"] * self.aux["w"] * factor
        return dy * self.aux["w"] * self.aux["w"] * 2.0


def test_a_gradient_by_hand() -> None:
    factories, graph = Square().create_graph(SPEC)
    assert len(graph.graph.outputs) == 1
    grad = graph.autodiff()
    assert len(graph.graph.outputs) == 3
    info = grad.grad_graph_info
    kinds = [str(c.connection_type.value) for c in info.expected_inputs]
    assert kinds == ["FwdGrad", "Fwd", "Fwd"]
    x = variable()
    call = graph.bind(factories.init()).call_with_info(x)
    grads = grad.call(call.outputs[0], args=info.inputs_dict(call))
    assert [g.shape for g in grads] == [(2, 5), (2, 5)]
    with pytest.raises(Exception, match="differentiated already"):
        graph.autodiff()


def test_errors_of_gradients_by_hand() -> None:
    with pytest.raises(ValueError, match="cannot be cached"):
        Square(cache=True)
    with pytest.raises(ValueError, match="grad_inlining_error"):
        Square(grad_inlining_error="maybe")
    with pytest.raises(Exception, match="built in place"):
        Square()(variable())
    with pytest.warns(UserWarning, match="built in place"):
        popxl.gcg().ir.create_graph(Square(grad_inlining_error="warning"), SPEC)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        popxl.gcg().ir.create_graph(Square(grad_inlining_error="none"), SPEC)
    with pytest.raises(Exception, match="inside build_grad"):
        Square().var_grad["w"] = variable()
    _, graph = Linear(3).create_graph(SPEC)
    with pytest.raises(Exception, match="does not come from a module that overrides"):
        graph.autodiff(method="build_grad")
    with pytest.raises(ValueError, match="Unknown method"):
        graph.autodiff(method="other")
    with pytest.raises(AttributeError, match="not a gradient graph"):
        _ = graph.grad_graph_info


class Unprepared(Linear):
    """Never calls the constructor of its base classes."""

    def __init__(self, out_features: int) -> None:
        self.out_features = out_features


def test_a_module_that_does_not_call_the_constructor_of_its_base() -> None:
    for module in (Unprepared(3), copy.copy(Unprepared(3)), copy.deepcopy(Unprepared(3))):
        factories, graph = module.create_graph(SPEC)
        assert factories.keys_flat() == graph.args.keys_flat() == ["weight", "bias"]
        (y,) = graph.bind(factories.init()).call(variable())
        assert y.shape == (2, 3)
        assert module.create_graph(SPEC)[1].graph != graph.graph
    assert Unprepared(3)._variable_factories is not Unprepared(3)._variable_factories


def failing_gradient(build_grad: object) -> None:
    cls = type("Failing", (Square,), {"build_grad": build_grad})
    _, graph = cls().create_graph(SPEC)
    graph.autodiff()


@pytest.mark.parametrize(
    ("build_grad", "error", "message"),
    [
        (lambda self: None, ValueError, r"1 positional parameters.*signature is \(\)"),
        (lambda self, dy, more=None: dy, ValueError, "1 positional parameters"),
        (lambda self, *dy: dy, TypeError, r"given \*dy"),
        (lambda self, dy, *, other=1: dy, TypeError, "given other=1"),
        (lambda self, dy, **others: dy, TypeError, r"given \*\*others"),
        (lambda self, dy: None, Exception, "0 gradients; 1 are required"),
        (lambda self, dy: dy.reshape((10,)), ValueError, r"shape \(10,\)"),
        (lambda self, dy: dy, Exception, "no var_grad"),
        (lambda self, dy: self.var_grad.__setitem__("v", dy), KeyError, "'w'"),
        (lambda self, dy: self.var_grad.__setitem__("w", 1.0), TypeError, "float"),
        (
            lambda self, dy: self.var_grad.__setitem__("w", dy.reshape((10,))),
            ValueError,
            r"\(10,\).*\(2, 5\)",
        ),
    ],
)
def test_a_wrong_build_grad_is_refused(
    build_grad: object, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        failing_gradient(build_grad)


def test_call_module_registers_variables_and_gradients() -> None:
    class Outer(Module):
        def build(self, x: popxl.Tensor) -> popxl.Tensor:
            self.square = Square()
            call = self.call_module(Square(), "inner")
            outputs = call(x)
            assert len(outputs) == call.n_outputs_pre_autodiff == 1
            (y,) = self.call_module(Linear(3))(outputs[0])
            return y

    factories, graph = Outer().create_graph(SPEC)
    assert factories.keys_flat() == ["inner.w", "Linear.weight", "Linear.bias"]
    assert len(graph.called_graphs_grad_info) == 1
    grad = addons.autodiff(graph)
    text = grad.print_schedule()
    assert "Square.build_grad_subgraph" in text


def test_a_hand_written_gradient_must_be_supplied() -> None:
    class Outer(Module):
        def build(self, x: popxl.Tensor) -> popxl.Tensor:
            return self.call_module(Square(), autodiff="none")(x)[0]

    _, graph = Outer().create_graph(SPEC)
    with pytest.raises(Exception, match="has been marked as unsafe to autodiff"):
        addons.autodiff(graph)


def test_the_function_decorator_reuses_its_graph() -> None:
    @addons.function
    def double(x: popxl.Tensor) -> popxl.Tensor:
        return ops.add(x, x)

    (y,) = double(variable())
    (z,) = double(y)
    assert z.shape == (2, 5)
    assert len(popxl.gcg().called_graphs) == 1


def test_reachable_graphs() -> None:
    class Outer(Module):
        def build(self, x: popxl.Tensor) -> popxl.Tensor:
            return self.call_module(Linear(3))(x)[0]

    _, outer = Outer().create_graph(SPEC)
    (inner,) = outer.graph.called_graphs
    assert addons.is_subgraph(outer, inner) and addons.is_subgraph(inner, inner)
    assert not addons.is_subgraph(inner, outer)
    main = popxl.gcg()
    assert not addons.is_subgraph(main, inner)
    factories, graph = Outer().create_graph(SPEC)
    graph.bind(factories.init()).call(variable())
    assert addons.is_subgraph(main, graph) and not addons.is_subgraph(main, inner)
