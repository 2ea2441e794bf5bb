"""Chains of ops on images, whose layouts are chosen together, against torch."""

import pytest
import torch
from torch.nn import functional

from popxl import ops
from tests.python.popxl.ops.op_testing import check, check_gradient, random

EPSILON = 1e-3


def filters(*shape, seed):
    return random(*shape, seed=seed, low=-0.3, high=0.3)


def arrays(channels, width):
    """An image and the weights of the networks below."""
    return [
        random(2, channels, 9, 10, seed=1),
        filters(width, channels, 3, 3, seed=2),
        random(width, 1, 1, seed=3),
        filters(width, width, 3, 3, seed=4),
        random(width, seed=5, low=0.5, high=1.5),
        random(width, seed=6),
        filters(width + 4, width, 1, 1, seed=7),
    ]


def residual(x, stem, bias, inner, scale, shift, head):
    y = ops.relu(ops.conv(x, stem, padding=(1, 1, 1, 1)) + bias)
    z, _, _ = ops.batch_norm_training(
        ops.conv(y, inner, padding=(1, 1, 1, 1)), scale, shift, epsilon=EPSILON
    )
    y = ops.relu(y + z)
    y = ops.max_pool(y, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1, 1, 1))
    y = ops.conv(y, head)
    return ops.mean(y.reshape((*y.shape[:2], -1)), axis=2)


def torch_residual(x, stem, bias, inner, scale, shift, head):
    y = functional.relu(functional.conv2d(x, stem, padding=1) + bias)
    z = functional.conv2d(y, inner, padding=1)
    z = functional.batch_norm(z, None, None, scale, shift, training=True, eps=EPSILON)
    y = functional.relu(y + z)
    y = functional.max_pool2d(y, 3, stride=2, padding=1)
    return functional.conv2d(y, head).flatten(2).mean(2)


@pytest.mark.parametrize(("channels", "width"), [(3, 16), (1, 20), (16, 32), (5, 7), (64, 1)])
def test_residual_network(channels, width):
    given = arrays(channels, width)

    def reference(*values):
        return torch_residual(*map(torch.from_numpy, values)).numpy()

    check(residual, reference, *given)
    check_gradient(residual, torch_residual, *given)


def branches(x, stem, bias, inner, scale, head):
    """Values that are needed in both layouts, gates per sample and channel, and other ranks."""
    y = ops.conv(x, stem, padding=(1, 1, 1, 1)) + bias
    gate = ops.tanh(ops.mean(y, axis=(2, 3), keepdims=True))
    y = ops.conv(y * gate, inner, padding=(1, 1, 1, 1))
    flat = ops.softmax(y.reshape((y.shape[0], y.shape[1], -1)), axis=2)
    y = y * flat.reshape(y.shape) + ops.average_pool(
        y, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1, 1, 1)
    )
    y = ops.conv(y, inner, padding=(1, 1, 1, 1)) * scale.reshape((-1, 1, 1))
    return ops.conv(ops.tanh(y), head)


@pytest.mark.parametrize("width", [16, 20])
def test_branches(width):
    given = arrays(4, width)
    del given[5]  # the shift

    def reference(x, stem, bias, inner, scale, head):
        y = functional.conv2d(x, stem, padding=1) + bias
        gate = torch.tanh(y.mean((2, 3), keepdim=True))
        y = functional.conv2d(y * gate, inner, padding=1)
        flat = torch.softmax(y.flatten(2), 2).reshape(y.shape)
        pooled = functional.avg_pool2d(y, 3, 1, 1, count_include_pad=False)
        y = y * flat + pooled
        y = functional.conv2d(y, inner, padding=1) * scale.reshape(-1, 1, 1)
        return functional.conv2d(torch.tanh(y), head)

    def values(*given):
        return reference(*map(torch.from_numpy, given)).numpy()

    check(branches, values, *given)
    check_gradient(branches, reference, *given)
