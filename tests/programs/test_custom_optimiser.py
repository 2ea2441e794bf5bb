"""An Adam written as a module: its schedules, its state, and training with it.

No `from __future__ import annotations` here: popxl recognises TensorByRef as an object only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
from image_batches import image_batches
from torch_reference import Batch, Moments, train_with_adam

import popxl
import popxl_addons as addons
from popxl import ops

DEVICES = ["cpu", "ipu_model", "ipu_hw"]


class Adam(addons.Module):
    @popxl.in_sequence()
    def build(
        self,
        weight: popxl.TensorByRef,
        grad: popxl.Tensor,
        *,
        lr: float | popxl.Tensor,
        bias_correction: bool = True,
        weight_decay: float = 0.0,
    ) -> None:
        zeros = partial(np.zeros, weight.shape)
        first = self.add_variable_input("first_order", zeros, popxl.float16, by_ref=True)
        ops.var_updates.accumulate_moving_average_(first, grad, f=0.9)
        second = self.add_variable_input("second_order", zeros, popxl.float32, by_ref=True)
        ops.var_updates.accumulate_moving_average_square_(second, grad, f=0.999)
        step = None
        if bias_correction:
            step = self.add_variable_input("step", partial(np.zeros, ()), popxl.float32, True)
        update = ops.var_updates.adam_updater(
            first,
            second,
            weight=weight,
            weight_decay=weight_decay,
            time_step=step,
            beta1=0.9,
            beta2=0.999,
            epsilon=1e-5,
        )
        ops.scaled_add_(weight, update, b=-lr)


WITH_FLOAT = """\
Graph : Adam_subgraph(0)
  (%1, %2, first_order=%3, second_order=%4, step=%5) -> () {
    Accumulate.100 (%3 [(2, 2) float16], %2 [(2, 2) float32]) -> (%6 [(2, 2) float16])
    Accumulate.101 (%4 [(2, 2) float32], %2 [(2, 2) float32]) -> (%7 [(2, 2) float32])
    AdamUpdater.102 (%3 [(2, 2) float16], %4 [(2, 2) float32], %5 [() float32]) -> \
(%8 [(2, 2) float16])
    ScaledAddLhsInplace.103 (%1 [(2, 2) float32], %8 [(2, 2) float16]) -> (%9 [(2, 2) float32])
  }"""

WITH_TENSOR = """\
Graph : Adam_subgraph(1)
  (%1, %2, %3, first_order=%4, second_order=%5, step=%6) -> () {
    Accumulate.104 (%4 [(2, 2) float16], %2 [(2, 2) float32]) -> (%7 [(2, 2) float16])
    Accumulate.105 (%5 [(2, 2) float32], %2 [(2, 2) float32]) -> (%8 [(2, 2) float32])
    AdamUpdater.106 (%4 [(2, 2) float16], %5 [(2, 2) float32], %6 [() float32]) -> \
(%9 [(2, 2) float16])
    Neg.107 (%3 [() float32]) -> (%10 [() float32])
    ScaledAddLhsInplace.108 (%1 [(2, 2) float32], %9 [(2, 2) float16], %10 [() float32]) -> \
(%11 [(2, 2) float32])
  }"""


@pytest.mark.parametrize("device", DEVICES)
def test_one_update_and_what_is_printed(device: str) -> None:
    ir = popxl.Ir(replication=1)
    with ir.main_graph:
        var = popxl.variable(np.ones((2, 2)), popxl.float32)
        grad = popxl.variable(np.full((2, 2), 0.1), popxl.float32)
        assert [t.name for t in (var, grad)] == ["t", "t__t0"]
        factories, graph = Adam(cache=True).create_graph(var, var.spec, lr=1e-3)
        rate_spec = popxl.TensorSpec((), popxl.float32)
        rate_factories, rate_graph = Adam().create_graph(var, var.spec, lr=rate_spec)
        assert graph.print_schedule() == WITH_FLOAT
        assert rate_graph.print_schedule() == WITH_TENSOR
        assert list(factories.to_dict()) == ["first_order", "second_order", "step"]
        names = [t.name for t in rate_graph.graph.inputs]
        assert names == ["weight", "grad", "lr", "first_order", "second_order", "step"]

        state, rate_state = factories.init(), rate_factories.init()
        assert [t.name for t in state.tensors] == ["first_order", "second_order", "step"]
        suffixes = [t.name.rpartition("__t")[0] for t in rate_state.tensors]
        assert suffixes == ["first_order", "second_order", "step"]
        with popxl.in_sequence():
            assert graph.bind(state).call(var, grad) == ()
            assert rate_graph.bind(rate_state).call(var, grad, popxl.constant(1e-3)) == ()
    assert repr(var).endswith("[t popxl.dtypes.float32 (2, 2)]")

    ir.num_host_transfers = 1
    session = popxl.Session(ir, device)
    before = session.get_tensors_data(state.tensors)
    assert list(before) == list(state.tensors)
    assert all(not data.any() for data in before.values())
    with session:
        assert session.run() == {}
    for tensors in (state.tensors, rate_state.tensors):
        first, second, step = session.get_tensors_data(tensors).values()
        assert (str(first[0, 0]), str(second[1, 1]), str(step)) == (
            "0.009995",
            "9.9998715e-06",
            "1.0",
        )
        assert (first.dtype, second.dtype, step.shape) == (np.float16, np.float32, ())
    # Both moments cancel in a first corrected step, which moves by nearly the rate, twice here.
    np.testing.assert_allclose(session.get_tensor_data(var), 1 - 2e-3, atol=2e-6)


class Linear(addons.Module):
    def __init__(self, out_features: int) -> None:
        super().__init__()
        self.out_features = out_features

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        shape = (x.shape[-1], self.out_features)
        weight = self.add_variable_input(
            "weight", partial(np.random.normal, 0, 0.02, shape), x.dtype
        )
        bias = self.add_variable_input("bias", partial(np.zeros, shape[-1:]), x.dtype)
        return x @ weight + bias


class Net(addons.Module):
    def __init__(self) -> None:
        super().__init__(cache=None)
        self.fc1 = Linear(512)
        self.fc2 = Linear(512)
        self.fc3 = Linear(512)
        self.fc4 = Linear(10)

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        x = x.reshape((-1, 28 * 28))
        for layer in (self.fc1, self.fc2, self.fc3):
            x = ops.gelu(layer(x))
        return self.fc4(x)


@dataclass
class Training:
    session: popxl.Session
    inputs: tuple[popxl.HostToDeviceStream, popxl.HostToDeviceStream]
    loss: popxl.DeviceToHostStream
    variables: addons.NamedTensors
    optimiser_graphs: set[str]
    optimiser_state: dict[str, addons.NamedTensors]
    factories: addons.NamedVariableFactories
    forward: addons.GraphWithNamedArgs


def update_all(
    variables: addons.NamedTensors, grads: Mapping[popxl.Tensor, popxl.Tensor], lr: float
) -> tuple[set[str], dict[str, addons.NamedTensors]]:
    """The names of the graphs, and the moments by the name of the variable."""
    names, states = set(), {}
    adam = Adam(cache=True)
    for key, var in variables.named_tensors.items():
        factories, graph = adam.create_graph(var, var.spec, lr=lr, bias_correction=False)
        assert list(factories.to_dict()) == ["first_order", "second_order"]
        states[key] = factories.init()
        graph.bind(states[key]).call(var, grads[var])
        names.add(graph.graph.name)
    return names, states


def training(batch_size: int, lr: float = 1e-3, device: str = "cpu", seed: int = 42) -> Training:
    np.random.seed(seed)
    ir = popxl.Ir(replication=1)
    with ir.main_graph:
        images_in = popxl.h2d_stream((batch_size, 28, 28), popxl.float32, "image")
        images = ops.host_load(images_in)
        labels_in = popxl.h2d_stream((batch_size,), popxl.int32, "labels")
        labels = ops.host_load(labels_in, "labels")
        factories, forward = Net().create_graph(images)
        backward = addons.autodiff(forward)
        variables = factories.init()
        call = forward.bind(variables).call_with_info(images)
        loss, gradient = addons.ops.cross_entropy_with_grad(call.outputs[0], labels)
        loss_out = popxl.d2h_stream(loss.shape, loss.dtype, "loss")
        ops.host_store(loss_out, loss)
        info = backward.grad_graph_info
        backward_call = backward.call_with_info(gradient, args=info.inputs_dict(call))
        grads = info.fwd_parent_ins_to_grad_parent_outs(call, backward_call)
        assert images in grads
        names, states = update_all(variables, grads, lr)
    ir.num_host_transfers = 1
    session = popxl.Session(ir, device)
    inputs = (images_in, labels_in)
    return Training(session, inputs, loss_out, variables, names, states, factories, forward)


def test_names_of_the_network() -> None:
    program = training(8)
    layers = [f"fc{i}" for i in range(1, 5)]
    keys = [f"{layer}.{part}" for layer in layers for part in ("weight", "bias")]
    assert program.factories.keys_flat() == keys
    graph = program.forward.graph
    names = [t.name for t in graph.inputs]
    assert names == ["x", *(key.replace(".", "/") for key in keys)]
    assert graph.inputs[0].shape == (8, 28, 28) and graph.outputs[0].shape == (8, 10)
    assert len(graph.outputs) > 1, "activations for the backward graph"
    assert list(program.variables.named_tensors) == sorted(keys)
    assert [t.name for t in program.variables.tensors] == sorted(keys)
    assert len(program.optimiser_graphs) == 5, "one graph per shape of variable"


def test_weights_come_from_the_second_draw() -> None:
    program = training(8)
    np.random.seed(42)
    first_draws = [np.random.normal(0, 0.02, (784, 512)) for _ in range(2)]
    weight = program.session.get_tensor_data(program.variables["fc1.weight"])
    np.testing.assert_array_equal(weight, first_draws[1].astype(np.float32))


def start_weights(program: Training) -> dict[str, np.ndarray]:
    keys = list(program.variables.named_tensors)
    values = program.session.get_tensors_data(program.variables.tensors)
    return {key: values[program.variables[key]].copy() for key in keys}


def state_of(program: Training) -> tuple[dict[str, np.ndarray], Moments]:
    """Weights and moments by the name of the weight."""
    moments = {
        key: (state.first_order, state.second_order)
        for key, state in program.optimiser_state.items()
    }
    tensors = [*program.variables.tensors, *(t for pair in moments.values() for t in pair)]
    values = program.session.get_tensors_data(tensors)
    weights = {key: values[t].copy() for key, t in program.variables.named_tensors.items()}
    return weights, {
        key: (values[first].copy(), values[second].copy())
        for key, (first, second) in moments.items()
    }


def losses_of(program: Training, batches: Sequence[Batch]) -> list[float]:
    losses = []
    with program.session as session:
        for batch in batches:
            outputs = session.run(dict(zip(program.inputs, batch, strict=True)))
            loss = outputs[program.loss]
            assert loss.shape == ()
            assert loss.dtype == np.float32
            losses.append(float(loss))
    return losses


def compare_with_pytorch(lr: float, steps: int, rtol: float, device: str = "cpu") -> list[float]:
    program = training(8, lr, device)
    keys = list(program.variables.named_tensors)
    start = start_weights(program)
    batches = image_batches(steps, 8, seed=1)
    losses = losses_of(program, batches)
    wanted, final = train_with_adam(start, batches, lr)
    np.testing.assert_allclose(losses, wanted, rtol=rtol, atol=rtol)
    values = program.session.get_tensors_data(program.variables.tensors)
    for key in keys:
        # A float16 moment rounded the other way moves a weight by up to a thousandth of a step.
        np.testing.assert_allclose(values[program.variables[key]], final[key], atol=lr)
    return losses


def test_200_steps_agree_with_pytorch() -> None:
    # At this rate a difference of one rounding in the weights grows 60-fold in 200 steps; at the
    # tutorial's 1e-3 it would reach the size of the loss itself within 50.
    losses = compare_with_pytorch(lr=2e-5, steps=200, rtol=1e-4)
    assert np.mean(losses[-20:]) < 0.3 * np.mean(losses[:20]), "the network must learn"


@pytest.mark.parametrize("seed", [42, 7])
def test_200_steps_at_the_tutorials_rate_agree_with_pytorch_from_where_they_are(seed: int) -> None:
    # At 1e-3 training is chaotic: PyTorch in float32 leaves PyTorch in float64 by half the loss
    # within 100 steps, so no whole curve can be met, nor a multiple of that distance. Instead
    # PyTorch starts again from this program's weights and moments every few steps: all 200 steps
    # are checked in the state that they are really in, and differences cannot grow beyond them.
    window = 5
    program = training(8, 1e-3, seed=seed)
    batches = image_batches(200, 8, seed=seed)
    means = []
    with program.session as session:
        for first in range(0, len(batches), window):
            some = batches[first : first + window]
            start, moments = state_of(program)
            losses = [
                float(session.run(dict(zip(program.inputs, batch, strict=True)))[program.loss])
                for batch in some
            ]
            wanted, final = train_with_adam(start, some, 1e-3, moments)
            np.testing.assert_allclose(losses, wanted, rtol=1e-3, atol=1e-4)
            for key, weight in state_of(program)[0].items():
                distance = np.linalg.norm(weight - final[key])
                moved = np.linalg.norm(final[key] - start[key])
                assert distance <= 1e-2 * moved + 1e-7, f"{key} from step {first}"
            means.append(np.mean(losses))
    assert np.mean(means[-4:]) < 0.6 * np.mean(means[:4]), "the network must learn"


@pytest.mark.parametrize("device", DEVICES)
def test_the_first_steps_at_the_tutorials_rate_agree_with_pytorch(device: str) -> None:
    compare_with_pytorch(lr=1e-3, steps=5, rtol=1e-4, device=device)


def test_trained_weights_classify_in_a_second_program() -> None:
    # At the tutorial's 1e-3 the last step may land anywhere: 84 to 95 % by the processor's width.
    program = training(8, lr=1e-4)
    with program.session as session:
        for batch in image_batches(150, 8, seed=1):
            session.run(dict(zip(program.inputs, batch, strict=True)))
    trained = program.session.get_tensors_data(program.variables.tensors)

    ir = popxl.Ir(replication=1)
    with ir.main_graph:
        images_in = popxl.h2d_stream((80, 28, 28), popxl.float32, "image")
        images = ops.host_load(images_in)
        factories, graph = Net().create_graph(images)
        variables = factories.init()
        (scores,) = graph.bind(variables).call(images)
        scores_out = popxl.d2h_stream(scores.shape, scores.dtype, "scores")
        ops.host_store(scores_out, scores)
    session = popxl.Session(ir, "cpu")
    mapping = program.variables.to_mapping(variables)
    session.write_variables_data({new: trained[old].copy() for old, new in mapping.items()})
    # The same patterns come from the same seed; later batches have not been seen.
    unseen = [image_batches(400, 8, seed=1)[i] for i in range(390, 400)]
    test_images, labels = (np.concatenate(part) for part in zip(*unseen, strict=True))
    with session:
        predictions = np.argmax(session.run({images_in: test_images})[scores_out], axis=-1)
    assert np.mean(predictions == labels) > 0.9
