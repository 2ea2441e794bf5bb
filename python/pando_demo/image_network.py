"""The demo's network: four linear layers with GELU, trained with Adam."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

import popxl
import popxl_addons as addons
from popxl import ops

HIDDEN = 512
WEIGHT_DEVIATION = 0.02


class Linear(addons.Module):
    """x @ weight + bias, with normally distributed weights of deviation 0.02.

    Args:
        out_features: The size of the last axis of the result.
        rng: Draws the weights.
    """

    def __init__(self, out_features: int, rng: np.random.Generator) -> None:
        super().__init__()
        self._out_features = out_features
        self._rng = rng

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        """Applies the layer.

        Args:
            x: (n, in), float32.

        Returns:
            (n, out_features).
        """
        shape = (x.shape[-1], self._out_features)
        draw = partial(self._rng.normal, 0, WEIGHT_DEVIATION, shape)
        weight = self.add_variable_input("weight", draw, x.dtype)
        bias = self.add_variable_input("bias", partial(np.zeros, shape[-1:]), x.dtype)
        return x @ weight + bias


class Network(addons.Module):
    """Images to class scores: four linear layers with GELU between them.

    Args:
        num_classes: The number of scores.
        rng: Draws the weights.
    """

    def __init__(self, num_classes: int, rng: np.random.Generator) -> None:
        super().__init__()
        self.fc1 = Linear(HIDDEN, rng)
        self.fc2 = Linear(HIDDEN, rng)
        self.fc3 = Linear(HIDDEN, rng)
        self.fc4 = Linear(num_classes, rng)

    def build(self, images: popxl.Tensor) -> popxl.Tensor:
        """Applies the network.

        Args:
            images: float32 (n, height, width).

        Returns:
            Scores (n, classes).
        """
        x = images.reshape((images.shape[0], -1))
        for layer in (self.fc1, self.fc2, self.fc3):
            x = ops.gelu(layer(x))
        return self.fc4(x)


class Adam(addons.Module):
    """One Adam step for one variable, without bias correction.

    The first moment is kept in float16, the second in float32.
    """

    @popxl.in_sequence()
    def build(
        self,
        weight: popxl.TensorByRef,
        grad: popxl.Tensor,
        *,
        lr: float | popxl.Tensor,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-5,
    ) -> None:
        """Updates the variable.

        Args:
            weight: The variable, changed in place.
            grad: Its gradient, of the same shape.
            lr: The learning rate.
            beta1: The decay of the first moment.
            beta2: The decay of the second moment.
            epsilon: Added to the root of the second moment.
        """
        zeros = partial(np.zeros, weight.shape)
        first = self.add_variable_input("first_order", zeros, popxl.float16, by_ref=True)
        ops.var_updates.accumulate_moving_average_(first, grad, f=beta1)
        second = self.add_variable_input("second_order", zeros, popxl.float32, by_ref=True)
        ops.var_updates.accumulate_moving_average_square_(second, grad, f=beta2)
        step = ops.var_updates.adam_updater(
            first, second, weight=weight, weight_decay=0.0, epsilon=epsilon
        )
        ops.scaled_add_(weight, step, b=-lr)


def _update(
    variables: addons.NamedTensors, grads: Mapping[popxl.Tensor, popxl.Tensor], lr: popxl.Tensor
) -> None:
    adam = Adam(cache=True)
    for variable in variables.named_tensors.values():
        factories, graph = adam.create_graph(variable, variable.spec, lr=lr.spec)
        graph.bind(factories.init()).call(variable, grads[variable], lr)


@dataclass(frozen=True)
class TrainingProgram:
    """A step of training: images, labels and learning rate in, loss out.

    Attributes:
        ir: The program.
        images: float32 (batch, height, width).
        labels: int32 (batch,).
        learning_rate: float32 scalar.
        loss: float32 scalar.
        variables: The weights.
    """

    ir: popxl.Ir
    images: popxl.HostToDeviceStream
    labels: popxl.HostToDeviceStream
    learning_rate: popxl.HostToDeviceStream
    loss: popxl.DeviceToHostStream
    variables: addons.NamedTensors


@dataclass(frozen=True)
class InferenceProgram:
    """Class scores of a batch of images per run.

    Attributes:
        ir: The program.
        images: float32 (batch, height, width).
        scores: float32 (batch, classes).
        variables: The weights.
    """

    ir: popxl.Ir
    images: popxl.HostToDeviceStream
    scores: popxl.DeviceToHostStream
    variables: addons.NamedTensors


def training_program(
    batch_size: int,
    image_shape: tuple[int, int],
    num_classes: int,
    rng: np.random.Generator,
) -> TrainingProgram:
    """Forward, loss, backward and update of every variable.

    Args:
        batch_size: Images in a step.
        image_shape: Height and width.
        num_classes: The number of scores.
        rng: Draws the weights.

    Returns:
        The program with its streams.
    """
    ir = popxl.Ir()
    with ir.main_graph:
        images_in = popxl.h2d_stream((batch_size, *image_shape), popxl.float32, "images")
        images = ops.host_load(images_in)
        labels_in = popxl.h2d_stream((batch_size,), popxl.int32, "labels")
        labels = ops.host_load(labels_in)
        rate_in = popxl.h2d_stream((), popxl.float32, "learning_rate")
        rate = ops.host_load(rate_in)

        factories, forward = Network(num_classes, rng).create_graph(images)
        backward = addons.autodiff(forward, grads_required=forward.args.tensors)
        variables = factories.init()

        call = forward.bind(variables).call_with_info(images)
        loss, gradient = addons.ops.cross_entropy_with_grad(call.outputs[0], labels)
        loss_out = popxl.d2h_stream(loss.shape, loss.dtype, "loss")
        ops.host_store(loss_out, loss)

        info = backward.grad_graph_info
        backward_call = backward.call_with_info(gradient, args=info.inputs_dict(call))
        grads = info.fwd_parent_ins_to_grad_parent_outs(call, backward_call)
        _update(variables, grads, rate)
    return TrainingProgram(ir, images_in, labels_in, rate_in, loss_out, variables)


def inference_program(
    batch_size: int, image_shape: tuple[int, int], num_classes: int
) -> InferenceProgram:
    """The forward pass; its weights are to be written from a trained program.

    Args:
        batch_size: Images in a run.
        image_shape: Height and width.
        num_classes: The number of scores.

    Returns:
        The program with its streams.
    """
    ir = popxl.Ir()
    with ir.main_graph:
        images_in = popxl.h2d_stream((batch_size, *image_shape), popxl.float32, "images")
        images = ops.host_load(images_in)
        factories, graph = Network(num_classes, np.random.default_rng(0)).create_graph(images)
        variables = factories.init()
        (scores,) = graph.bind(variables).call(images)
        scores_out = popxl.d2h_stream(scores.shape, scores.dtype, "scores")
        ops.host_store(scores_out, scores)
    return InferenceProgram(ir, images_in, scores_out, variables)
