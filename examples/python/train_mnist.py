"""Trains a network on the images of an MNIST-format folder and measures its accuracy.

    python examples/python/train_mnist.py [--data DIR] [--steps N]

Four linear layers with GELU, Adam at batch 8 with a learning rate that falls linearly to zero, one
pass over the training images; then a second program with the trained weights classifies the test
images.
"""

import argparse
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

import popxl
import popxl_addons as addons
from pando.datasets import DEFAULT_FOLDER, Batches, load_mnist_format
from popxl import ops

BATCH_SIZE = 8
TEST_BATCH_SIZE = 80
LEARNING_RATE = 1e-3


class Linear(addons.Module):
    """A linear layer: the module carries its variables."""

    def __init__(self, out_features: int) -> None:
        super().__init__()
        self.out_features = out_features

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        shape = (x.shape[-1], self.out_features)
        weight = self.add_variable_input(
            "weight", partial(np.random.normal, 0, 0.02, shape), x.dtype
        )
        bias = self.add_variable_input("bias", partial(np.zeros, self.out_features), x.dtype)
        return x @ weight + bias


class Network(addons.Module):
    """Images (n, 28, 28) to scores (n, 10)."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = addons.Module.from_list([Linear(512) for _ in range(3)])
        self.head = Linear(10)

    def build(self, images: popxl.Tensor) -> popxl.Tensor:
        x = images.reshape((-1, 28 * 28))
        for layer in self.hidden:
            x = ops.gelu(layer(x))
        return self.head(x)


class Adam(addons.Module):
    """One step of Adam for one variable. Everything it changes is passed by reference, and
    `in_sequence` keeps the changes in the order in which they are written here."""

    @popxl.in_sequence()
    def build(self, weight: popxl.TensorByRef, grad: popxl.Tensor, *, lr: popxl.Tensor) -> None:
        zeros = partial(np.zeros, weight.shape)
        mean = self.add_variable_input("mean", zeros, popxl.float16, by_ref=True)
        ops.var_updates.accumulate_moving_average_(mean, grad, f=0.9)
        square = self.add_variable_input("square", zeros, popxl.float32, by_ref=True)
        ops.var_updates.accumulate_moving_average_square_(square, grad, f=0.999)
        step = ops.var_updates.adam_updater(mean, square, epsilon=1e-5)
        ops.scaled_add_(weight, step, b=-lr)


class TrainingProgram:
    """Loads a batch, runs the network forward and backward and updates every variable."""

    def __init__(self) -> None:
        ir = popxl.Ir()
        with ir.main_graph:
            self.images = popxl.h2d_stream((BATCH_SIZE, 28, 28), popxl.float32, "images")
            self.labels = popxl.h2d_stream((BATCH_SIZE,), popxl.int32, "labels")
            self.rate = popxl.h2d_stream((), popxl.float32, "learning_rate")
            images, labels = ops.host_load(self.images), ops.host_load(self.labels)

            factories, forward = Network().create_graph(images)
            backward = addons.autodiff(forward, grads_required=forward.args.tensors)
            self.variables = factories.init()

            call = forward.bind(self.variables).call_with_info(images)
            loss, gradient = addons.ops.cross_entropy_with_grad(call.outputs[0], labels)
            self.loss = addons.ops.host_store(loss)

            # What the backward pass needs of the forward pass is found by the graphs themselves.
            info = backward.grad_graph_info
            backward_call = backward.call_with_info(gradient, args=info.inputs_dict(call))
            self._update(info.fwd_parent_ins_to_grad_parent_outs(call, backward_call))
        self.session = popxl.Session(ir, "cpu")

    def _update(self, grads: Mapping[popxl.Tensor, popxl.Tensor]) -> None:
        """Variables of one shape share one Adam graph, each with its own state."""
        adam, rate = Adam(cache=True), ops.host_load(self.rate)
        for variable in self.variables.tensors:
            factories, graph = adam.create_graph(variable, variable.spec, lr=rate.spec)
            graph.bind(factories.init()).call(variable, grads[variable], rate)

    def train(self, batches: Batches, steps: int) -> None:
        with self.session:
            for step, (images, labels) in zip(range(steps), batches, strict=False):
                rate = np.float32(LEARNING_RATE * (1 - step / steps))
                inputs = {self.images: images, self.labels: labels, self.rate: rate}
                loss = self.session.run(inputs)[self.loss]
                if (step + 1) % 500 == 0:
                    print(f"step {step + 1}/{steps}: loss {float(loss):.4f}")


class InferenceProgram:
    """Classifies images with given weights."""

    def __init__(self) -> None:
        ir = popxl.Ir()
        with ir.main_graph:
            self.images = popxl.h2d_stream((TEST_BATCH_SIZE, 28, 28), popxl.float32, "images")
            images = ops.host_load(self.images)
            factories, graph = Network().create_graph(images)
            self.variables = factories.init(empty=True)
            (scores,) = graph.bind(self.variables).call(images)
            self.scores = addons.ops.host_store(scores)
        self.session = popxl.Session(ir, "cpu")

    def accuracy(self, trained: TrainingProgram, batches: Batches) -> float:
        """The share of images whose highest score is the label's."""
        values = trained.session.get_tensors_data(trained.variables.tensors)
        mapping = trained.variables.to_mapping(self.variables)
        self.session.write_variables_data({mine: values[his] for his, mine in mapping.items()})
        hits = 0
        with self.session:
            for images, labels in batches:
                scores = self.session.run({self.images: images})[self.scores]
                hits += int(np.sum(np.argmax(scores, axis=-1) == labels))
        return hits / (len(batches) * TEST_BATCH_SIZE)


def main(arguments: Sequence[str] | None = None) -> float:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=str(DEFAULT_FOLDER), help="an MNIST-format folder")
    parser.add_argument("--steps", type=int, help="at most this many steps (default: one epoch)")
    options = parser.parse_args(arguments)

    np.random.seed(42)
    data = load_mnist_format(options.data)
    mean, deviation = data.mean_and_deviation()
    batches = Batches(data.train, BATCH_SIZE, mean, deviation, shuffle_seed=42)
    program = TrainingProgram()
    program.train(batches, min(len(batches), options.steps or len(batches)))

    test_batches = Batches(data.test, TEST_BATCH_SIZE, mean, deviation)
    accuracy = InferenceProgram().accuracy(program, test_batches)
    print(f"accuracy on the test images: {100 * accuracy:.2f} %")
    return accuracy


if __name__ == "__main__":
    main()
