"""Recurrent layers, forward and backward, against torch."""

import numpy as np
import pytest
import torch

import popart
import popxl
from popxl import ops
from tests.python.popxl.ops.op_testing import check, check_gradient, outputs, random

KINDS = {"lstm": (4, torch.nn.LSTM), "gru": (3, torch.nn.GRU), "rnn": (1, torch.nn.RNN)}


def _weights(gates, features, hidden, layers, directions, bias):
    arrays = []
    for layer in range(layers):
        inputs = features if layer == 0 else hidden * directions
        for _ in range(directions):
            shapes = [(gates * hidden, inputs), (gates * hidden, hidden)]
            shapes += [(gates * hidden,)] * (2 if bias else 0)
            arrays += [
                random(*shape, seed=len(arrays) + i, low=-0.6, high=0.6)
                for i, shape in enumerate(shapes)
            ]
    return arrays


def _ours(name, layers, directions, bias, states):
    count = 4 if bias else 2

    def build(t, *tensors):
        initial, flat = tensors[:states], tensors[states:]
        weights = [ops.RecurrentWeights(*flat[i : i + count]) for i in range(0, len(flat), count)]
        assert len(weights) == layers * directions
        return getattr(ops, name)(t, weights, *initial, bidirectional=directions == 2)

    return build


def _theirs(name, layers, directions, bias, states):
    def reference(x, *tensors):
        x = torch.as_tensor(x)
        initial = [torch.as_tensor(t) for t in tensors[:states]]
        flat = [torch.as_tensor(t) for t in tensors[states:]]
        hidden = flat[1].shape[1]
        module = KINDS[name][1](
            x.shape[2], hidden, num_layers=layers, bias=bias, bidirectional=directions == 2
        )
        names = [n for n, _ in module.named_parameters()]
        given = None
        if initial:
            given = tuple(initial) if name == "lstm" else initial[0]
        y, last = torch.func.functional_call(
            module, dict(zip(names, flat, strict=True)), (x, given) if initial else (x,)
        )
        return (y, *last) if name == "lstm" else (y, last)

    return reference


CASES = [(1, 1, True, False), (2, 2, True, True), (1, 2, False, True), (3, 1, True, False)]


@pytest.mark.parametrize(("layers", "directions", "bias", "with_states"), CASES)
@pytest.mark.parametrize("name", KINDS)
def test_layers(name, layers, directions, bias, with_states):
    gates = KINDS[name][0]
    hidden, batch = 19, 3
    states = (2 if name == "lstm" else 1) if with_states else 0
    arrays = [random(5, batch, 7)]
    arrays += [random(layers * directions, batch, hidden, seed=50 + i) for i in range(states)]
    arrays += _weights(gates, 7, hidden, layers, directions, bias)
    arguments = (name, layers, directions, bias, states)
    reference = _theirs(*arguments)
    check(_ours(*arguments), lambda *a: [t.numpy() for t in reference(*a)], *arrays)
    check_gradient(_ours(*arguments), lambda *a: reference(*a)[0], *arrays)


@pytest.mark.parametrize("which", [1, 2])
def test_gradients_of_last_states(which):
    arguments = ("lstm", 2, 2, True, 0)
    arrays = [random(4, 2, 3), *_weights(4, 3, 6, 2, 2, True)]
    check_gradient(
        lambda *t: _ours(*arguments)(*t)[which], lambda *t: _theirs(*arguments)(*t)[which], *arrays
    )


def test_relu():
    arrays = [random(6, 2, 3), *_weights(1, 3, 5, 1, 1, True)]

    def reference(x, *flat):
        module = torch.nn.RNN(3, 5, nonlinearity="relu")
        names = [n for n, _ in module.named_parameters()]
        return torch.func.functional_call(module, dict(zip(names, flat, strict=True)), (x,))[0]

    def build(t, *flat):
        return ops.rnn(t, [ops.RecurrentWeights(*flat)], nonlinearity="relu")[0]

    check(build, lambda *a: reference(*map(torch.from_numpy, a)).numpy(), *arrays)
    check_gradient(build, reference, *arrays)


def test_float16():
    arrays = [a.astype(np.float16) for a in [random(5, 2, 4), *_weights(4, 4, 8, 1, 1, True)]]
    wide = _theirs("lstm", 1, 1, True, 0)(*[a.astype(np.float32) for a in arrays])
    given = outputs(_ours("lstm", 1, 1, True, 0), *arrays)
    for g, w in zip(given, wide, strict=True):
        assert g.dtype == np.float16
        np.testing.assert_allclose(g, w.detach().numpy(), atol=4e-3)


@pytest.mark.parametrize("shape", [(1, 1, 3), (2, 130, 3)])
def test_many_rows_and_one_step(shape):
    """A batch that is split among threads, and a sequence without a step before."""
    arrays = [random(*shape), *_weights(4, 3, 33, 1, 1, True)]
    reference = _theirs("lstm", 1, 1, True, 0)
    check(_ours("lstm", 1, 1, True, 0), lambda *a: [t.numpy() for t in reference(*a)], *arrays)


@pytest.mark.parametrize(("batch", "hidden"), [(20, 150), (133, 33), (17, 200)])
@pytest.mark.parametrize("name", KINDS)
def test_gradients_of_many_rows(name, batch, hidden):
    """Weights are packed once for all steps, in several blocks where there are many gates."""
    gates, states = KINDS[name][0], 2 if name == "lstm" else 1
    arrays = [random(5, batch, 3)]
    arrays += [random(2, batch, hidden, seed=50 + i) for i in range(states)]
    small = [a / np.float32(hidden**0.5) for a in _weights(gates, 3, hidden, 1, 2, True)]
    arguments = (name, 1, 2, True, states)
    reference = _theirs(*arguments)
    check_gradient(_ours(*arguments), lambda *a: reference(*a)[0], *arrays, *small)


def test_large_sums_saturate():
    x = np.array([[[1e4, -1e4]]], np.float32)
    w, u = np.ones((8, 2), np.float32) * [[1.0, 0.0]], np.zeros((8, 2), np.float32)
    y, _, c = outputs(lambda t, a, b: ops.lstm(t, [(a, b)]), x, w.astype(np.float32), u)
    np.testing.assert_allclose(c, np.ones((1, 1, 2)))
    np.testing.assert_allclose(y, np.tanh(np.ones((1, 1, 2))), rtol=1e-6)


def test_what_is_refused():
    ir = popxl.Ir()
    with ir.main_graph:
        t = popxl.variable(random(3, 2, 4))
        w = ops.RecurrentWeights(popxl.variable(random(20, 4)), popxl.variable(random(20, 5)))
        with pytest.raises(ValueError, match=r"lstm: wanted t of shape \(steps, batch, features\)"):
            ops.lstm(w.input, [w])
        with pytest.raises(ValueError, match="gru: wanted weights, one for each layer; given 0"):
            ops.gru(t, [])
        with pytest.raises(ValueError, match="lstm: wanted weights, two for each layer; given 1"):
            ops.lstm(t, [w], bidirectional=True)
        with pytest.raises(ValueError, match=r"lstm: wanted initial states of shape \(1, batch"):
            ops.lstm(t, [w], popxl.variable(random(2, 2, 5)))
        with pytest.raises(ValueError, match="rnn: wanted the nonlinearity tanh or relu"):
            ops.rnn(t, [w], nonlinearity="gelu")
        with pytest.raises(
            popart.popart_exception, match=r"weights of shape \(3 \* hidden, hidden\)"
        ):
            ops.gru(t, [w])
        with pytest.raises(popart.popart_exception, match=r"the first state of shape \(2, 5\)"):
            ops.lstm(t, [w], popxl.variable(random(1, 3, 5)))
