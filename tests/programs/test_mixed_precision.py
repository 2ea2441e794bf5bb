"""A network that is trained in 16 bits on real images is as good as the one in 32 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import popxl
import popxl_addons as addons
from pando.datasets import DEFAULT_FOLDER, load_mnist_format
from pando.settings import use_session_settings
from popxl import ops
from popxl_addons.layers import Linear
from popxl_addons.optimizers import AdamOptimizerStep, DynamicLossScaling, SGDOptimizerStep

pytestmark = pytest.mark.skipif(
    not DEFAULT_FOLDER.is_dir(), reason=f"the data set {DEFAULT_FOLDER} is not installed"
)

BATCH, BATCHES, EPOCHS = 50, 240, 8
# At a constant rate the accuracy of one instant is 1 % up or down: the last epochs count together.
LAST_EPOCHS = 5
# So large that the first steps overflow.
FIRST_SCALE = 2.0**24


class Net(addons.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2, self.fc3 = Linear(128), Linear(64), Linear(10)

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        return self.fc3(ops.gelu(self.fc2(ops.gelu(self.fc1(x)))))


class Training:
    """The program that trains, and the one that it is tested with."""

    def __init__(self, dtype: popxl.dtype, optimizer: addons.Module, **options: Any) -> None:
        self.dtype = dtype
        scales = dtype == popxl.float16
        self.ir = popxl.Ir()
        with self.ir.main_graph, popxl.in_sequence():
            self.images = popxl.h2d_stream((BATCH, 784), dtype)
            self.labels = popxl.h2d_stream((BATCH,), popxl.int32)
            x, labels = ops.host_load(self.images), ops.host_load(self.labels)
            np.random.seed(5)
            factories, forward = Net().create_graph(x)
            self.weights = factories.init()
            backward = addons.autodiff(forward, grads_required=forward.args.tensors)
            factories, adjust = DynamicLossScaling().create_graph(
                popxl.TensorSpec((), popxl.bool), initial_scale=FIRST_SCALE, growth_interval=50
            )
            self.scaling = factories.init()
            scale = self.scaling.scale if scales else popxl.constant(1.0, popxl.float32)
            call = forward.bind(self.weights).call_with_info(x)
            scores = ops.cast(call.outputs[0], popxl.float32)
            _, gradient = addons.ops.cross_entropy_with_grad(scores, labels, scale)
            info = backward.grad_graph_info
            back = backward.call_with_info(ops.cast(gradient, dtype), args=info.inputs_dict(call))
            grads = info.fwd_parent_ins_to_grad_parent_outs(call, back)
            finite = addons.ops.all_finite(grads.values())
            for weight, grad in grads.items():
                factories, step = optimizer.create_graph(
                    weight,
                    grad,
                    loss_scaling=scale.spec,
                    master_weight=dtype != popxl.float32,
                    finite=finite.spec,
                    **options,
                )
                step.bind(factories.init()).call(weight, grad, scale, finite)
            adjust.bind(self.scaling).call(finite)

    def train(
        self, images: np.ndarray, labels: np.ndarray
    ) -> tuple[list[dict[str, np.ndarray]], float]:
        """The weights after each of the last epochs, and the loss scale in the end."""
        images = images.astype(self.dtype.as_numpy())
        # The layers are too small to be shared by threads.
        with use_session_settings(num_threads=1), popxl.Session(self.ir, "cpu") as session:
            trained = []
            for epoch in range(EPOCHS):
                for first in range(0, BATCH * BATCHES, BATCH):
                    batch = slice(first, first + BATCH)
                    session.run({self.images: images[batch], self.labels: labels[batch]})
                if epoch >= EPOCHS - LAST_EPOCHS:
                    weights = self.weights.to_dict().items()
                    trained.append({k: session.get_tensor_data(t).copy() for k, t in weights})
            return trained, float(session.get_tensor_data(self.scaling.scale))


def accuracy(weights: dict[str, np.ndarray], images: np.ndarray, labels: np.ndarray) -> float:
    x = images.astype(np.float64)
    for layer in ("fc1", "fc2", "fc3"):
        x = x @ weights[f"{layer}.weight"].astype(np.float64) + weights[f"{layer}.bias"].astype(
            np.float64
        )
        if layer != "fc3":
            x = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return float(np.mean(x.argmax(-1) == labels))


@pytest.mark.parametrize(
    ("optimizer", "options"),
    [
        (AdamOptimizerStep, {"lr": 1e-3, "first_order_dtype": popxl.float32}),
        (SGDOptimizerStep, {"lr": 0.05, "momentum": 0.9}),
    ],
)
def test_half_precision_is_as_accurate(
    optimizer: type[addons.Module], options: dict[str, Any]
) -> None:
    data = load_mnist_format()

    def prepared(images: np.ndarray) -> np.ndarray:
        return ((images.reshape(len(images), -1) / 255 - 0.2860) / 0.3530).astype(np.float32)

    images, labels = prepared(data.train.images[: BATCH * BATCHES]), data.train.labels
    tested = prepared(data.test.images), data.test.labels
    found = {}
    for dtype in (popxl.float32, popxl.float16, popxl.bfloat16):
        training = Training(dtype, optimizer(cache=True), **options)
        trained, scale = training.train(images, labels.astype(np.int32))
        found[dtype.name] = np.mean([accuracy(weights, *tested) for weights in trained])
        if dtype == popxl.float16:
            assert 2.0**8 < scale < FIRST_SCALE  # some steps overflowed, then it grew
    assert found["float32"] > 0.82
    assert found["float16"] > found["float32"] - 0.01, found
    assert found["bfloat16"] > found["float32"] - 0.015, found
