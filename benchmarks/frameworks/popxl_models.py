"""The programs as popxl_addons modules, the way a user of the tutorials writes them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import numpy as np

import popxl
import popxl.ops as ops
import popxl_addons as addons
from benchmarks import data

# Attention of queries, keys and values (batch, heads, tokens, depth).
Attend = Callable[[popxl.Tensor, popxl.Tensor, popxl.Tensor], popxl.Tensor]

_POOL = np.random.default_rng(42).standard_normal(2**17, dtype=np.float32)


@cache
def normal(scale: float, shape: tuple[int, ...]) -> data.Array:
    """Normal values, drawn once for all layers: drawing takes longer than compiling. Rows overlap,
    so that they take no memory: most are only there for their shape."""
    strides = (_POOL.itemsize,) * len(shape)
    return np.lib.stride_tricks.as_strided(_scaled_pool(scale), shape, strides, writeable=False)


@cache
def _scaled_pool(scale: float) -> data.Array:
    return scale * _POOL


class Adam(addons.Module):
    """One variable's update as PyTorch's: float32 moments, corrected for their bias."""

    @popxl.in_sequence()
    def build(
        self,
        weight: popxl.TensorByRef,
        grad: popxl.Tensor,
        *,
        lr: float,
        weight_decay: float = 0.0,
    ) -> None:
        first, second, steps = (
            self.add_variable_input(name, partial(np.zeros, shape), popxl.float32, by_ref=True)
            for name, shape in (
                ("first_order", weight.shape),
                ("second_order", weight.shape),
                ("steps", ()),
            )
        )
        ops.var_updates.accumulate_moving_average_(first, grad, f=data.BETA1)
        ops.var_updates.accumulate_moving_average_square_(second, grad, f=data.BETA2)
        move = ops.var_updates.adam_updater(
            first,
            second,
            weight=weight,
            weight_decay=weight_decay,
            time_step=steps,
            beta1=data.BETA1,
            beta2=data.BETA2,
            epsilon=data.EPSILON,
        )
        ops.scaled_add_(weight, move, b=-lr)


class Momentum(addons.Module):
    """One variable's update as that of ``torch.optim.SGD`` with momentum."""

    @popxl.in_sequence()
    def build(self, weight: popxl.TensorByRef, grad: popxl.Tensor, *, lr: float) -> None:
        zeros = partial(np.zeros, weight.shape)
        velocity = self.add_variable_input("velocity", zeros, popxl.float32, by_ref=True)
        ops.scaled_add_(velocity, grad, a=data.MOMENTUM, b=1.0)
        ops.scaled_add_(weight, velocity, b=-lr)


class TutorialAdam(addons.Module):
    """One variable's update, as in the tutorial: float16 first and float32 second moment. The
    moments of a shard are shards."""

    @popxl.in_sequence()
    def build(self, weight: popxl.TensorByRef, grad: popxl.Tensor, *, lr: float) -> None:
        sharded = bool(weight.meta_shape)
        add = self.add_replica_sharded_variable_input if sharded else self.add_variable_input
        zeros = partial(np.zeros, weight.meta_shape if sharded else weight.shape)
        first = add("first_order", zeros, popxl.float16, by_ref=True)
        ops.var_updates.accumulate_moving_average_(first, grad, f=data.BETA1)
        second = add("second_order", zeros, popxl.float32, by_ref=True)
        ops.var_updates.accumulate_moving_average_square_(second, grad, f=data.BETA2)
        move = ops.var_updates.adam_updater(
            first,
            second,
            weight=weight,
            weight_decay=0.0,
            time_step=None,
            beta1=data.BETA1,
            beta2=data.BETA2,
            epsilon=data.EPSILON,
        )
        ops.scaled_add_(weight, move, b=-lr)


class Linear(addons.Module):
    def __init__(self, out_features: int) -> None:
        super().__init__()
        self.out_features = out_features

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        shape = (x.shape[-1], self.out_features)
        w = self.add_variable_input("weight", partial(normal, 0.02, shape), x.dtype)
        b = self.add_variable_input("bias", partial(np.zeros, self.out_features), x.dtype)
        return x @ w + b


class Mlp(addons.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2, self.fc3, self.fc4 = (Linear(size) for size in data.MLP_SIZES[1:])

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        x = x.reshape((-1, data.MLP_SIZES[0]))
        x = ops.gelu(self.fc1(x))
        x = ops.gelu(self.fc2(x))
        x = ops.gelu(self.fc3(x))
        return self.fc4(x)


class Conv(addons.Module):
    """3x3 convolution, relu, 2x2 max pool."""

    def __init__(self, out_channels: int) -> None:
        super().__init__()
        self.out_channels = out_channels

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        shape = (self.out_channels, x.shape[1], 3, 3)
        w = self.add_variable_input("weight", partial(normal, 0.1, shape), x.dtype)
        zeros = partial(np.zeros, (1, self.out_channels, 1, 1))
        b = self.add_variable_input("bias", zeros, x.dtype)
        y = ops.relu(ops.conv(x, w, padding=(1, 1, 1, 1)) + b)
        return ops.max_pool(y, (2, 2), stride=(2, 2))


class Cnn(addons.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = (Conv(channels) for channels in data.CNN_CHANNELS[1:])
        self.fc = Linear(data.CLASSES)

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        x = self.conv2(self.conv1(x))
        return self.fc(x.reshape((x.shape[0], -1)))


class LayerNorm(addons.Module):
    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        w = self.add_variable_input("weight", partial(np.ones, x.shape[-1]), x.dtype)
        b = self.add_variable_input("bias", partial(np.zeros, x.shape[-1]), x.dtype)
        return ops.layer_norm(x, w, b, eps=1e-5)


class TransformerLayer(addons.Module):
    """Pre-norm or post-norm layer on (batch * tokens, hidden); what attends is given."""

    def __init__(self, of: data.Sizes) -> None:
        super().__init__()
        self.of = of
        self.norm1, self.norm2 = LayerNorm(), LayerNorm()
        self.qkv, self.proj = Linear(3 * of.hidden), Linear(of.hidden)
        self.ff1, self.ff2 = Linear(of.feed_forward), Linear(of.hidden)

    def around(self, x: popxl.Tensor, tokens: int, attend: Attend) -> popxl.Tensor:
        read = x if self.of.post_norm else self.norm1(x)
        split = (-1, tokens, self.of.heads, self.of.hidden // self.of.heads)
        q, k, v = (
            part.reshape(split).transpose((0, 2, 1, 3))
            for part in ops.split(self.qkv(read), 3, axis=-1)
        )
        merged = attend(q, k, v).transpose((0, 2, 1, 3)).reshape((-1, self.of.hidden))
        x = x + self.proj(merged)
        x = self.norm1(x) if self.of.post_norm else x
        read = x if self.of.post_norm else self.norm2(x)
        x = x + self.ff2(ops.gelu(self.ff1(read)))
        return self.norm2(x) if self.of.post_norm else x


class EncoderLayer(TransformerLayer):
    """Sequences that see themselves, or of themselves what is not later."""

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        attend = partial(ops.scaled_dot_product_attention, causal=self.of.causal)
        return self.around(x, self.of.sequence, attend)


def table(module: addons.Module, name: str, rows: int, columns: int) -> popxl.Tensor:
    """A variable input of embeddings."""
    return module.add_variable_input(name, partial(normal, 0.02, (rows, columns)), popxl.float32)


class Embedding(addons.Module):
    """Tokens (batch, sequence) to (batch * sequence, hidden)."""

    def __init__(self, of: data.Sizes) -> None:
        super().__init__()
        self.of = of

    def build(self, tokens: popxl.Tensor) -> popxl.Tensor:
        words = table(self, "tokens", self.of.classes, self.of.hidden)
        positions = table(self, "positions", self.of.sequence, self.of.hidden)
        return (ops.gather(words, tokens) + positions).reshape((-1, self.of.hidden))


class DecoderHead(addons.Module):
    """(n, hidden) to scores of the next token."""

    def __init__(self, of: data.Sizes) -> None:
        super().__init__()
        self.norm, self.output = LayerNorm(), Linear(of.classes)

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        return self.output(self.norm(x))
