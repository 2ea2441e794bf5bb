"""A GPT-2 style decoder as popxl_addons modules, and its sizes."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

import popxl
import popxl_addons as addons
from popxl import ops

# Every byte, and the mark between texts.
VOCABULARY = 257
WEIGHT_DEVIATION = 0.02
POSITION_DEVIATION = 0.01
# Added to the scores of later positions.
MASKED = -1e9
# The variables of a CachedBlock that a Block does not have.
CACHES = ("keys", "values")


@dataclass(frozen=True)
class GptShape:
    """The sizes of a decoder.

    Attributes:
        layers: Blocks.
        hidden: Numbers per position.
        heads: The heads of attention; they divide `hidden`.
        sequence: Positions.
        vocabulary: Tokens.

    Raises:
        ValueError: A size is less than 1, or the heads do not divide `hidden`.
    """

    layers: int
    hidden: int
    heads: int
    sequence: int = 256
    vocabulary: int = VOCABULARY

    def __post_init__(self) -> None:
        for name in ("layers", "hidden", "heads", "sequence", "vocabulary"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1; given {getattr(self, name)}")
        if self.hidden % self.heads:
            raise ValueError(f"{self.heads} heads do not divide a hidden size of {self.hidden}")

    @property
    def layer_parameters(self) -> int:
        """The numbers of one block, 12 hidden^2 in matrices and 13 hidden in biases and norms."""
        return (12 * self.hidden + 13) * self.hidden

    @property
    def parameters(self) -> int:
        """All trained numbers."""
        tables = 2 * self.vocabulary + self.sequence + 2
        return self.layers * self.layer_parameters + tables * self.hidden + self.vocabulary

    def with_changes(self, **changes: int | None) -> GptShape:
        """Another shape with some sizes replaced.

        Args:
            **changes: Size by name; None keeps it.

        Returns:
            The new shape.
        """
        return replace(self, **{k: v for k, v in changes.items() if v is not None})


# The widths of GPT-2. Its 50,257 word pieces are bytes here: the parameters that this saves are in
# more layers.
SHAPES: Mapping[str, GptShape] = {
    "25M": GptShape(8, 512, 8),
    "124M": GptShape(17, 768, 12),
    "350M": GptShape(28, 1024, 16),
    "774M": GptShape(39, 1280, 20),
    "1.5B": GptShape(49, 1600, 25),
}


def parse_count(text: str) -> float:
    """A number of parameters as users write it.

    Args:
        text: "1.5B", "25M", "300K" or "1000".

    Returns:
        The number.

    Raises:
        ValueError: It is anything else.
    """
    units = {"K": 1e3, "M": 1e6, "B": 1e9}
    unit = units.get(text[-1:].upper())
    number = text[:-1] if unit else text
    try:
        count = float(number) * (unit or 1)
    except ValueError:
        count = 0.0
    if not (count > 0 and math.isfinite(count)):
        raise ValueError(f"wanted a number of parameters such as 25M or 1.5B; given {text!r}")
    return count


def shape_of(params: str) -> tuple[str, GptShape]:
    """The shape for a number of parameters.

    Args:
        params: A name of `SHAPES`, or a number as `parse_count` takes it.

    Returns:
        The name and shape: that one, or the one whose number of parameters is nearest.

    Raises:
        ValueError: It is no number.
    """
    if params in SHAPES:
        return params, SHAPES[params]
    count = parse_count(params)
    name = min(SHAPES, key=lambda known: abs(math.log(SHAPES[known].parameters / count)))
    return name, SHAPES[name]


def _values_come_later(*shape: int) -> np.ndarray:
    """A value that takes no memory: the true ones are written row by row (initial_values)."""
    return np.broadcast_to(np.float32(0), shape)


class _Layer(addons.Module):
    def add(self, name: str, *shape: int) -> popxl.Tensor:
        """Adds a float32 variable.

        Args:
            name: Its key.
            *shape: Its axes.

        Returns:
            The graph input.
        """
        return self.add_variable_input(name, lambda: _values_come_later(*shape), popxl.float32)


class LayerNorm(_Layer):
    """Rows with mean 0 and variance 1, scaled and shifted."""

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        """Normalises.

        Args:
            x: float32 (n, hidden).

        Returns:
            (n, hidden).
        """
        weight, bias = self.add("weight", x.shape[-1]), self.add("bias", x.shape[-1])
        return ops.layer_norm(x, weight, bias, eps=1e-5)


class Linear(_Layer):
    """x @ weight + bias.

    Args:
        out_features: The size of the last axis of the result.
    """

    def __init__(self, out_features: int) -> None:
        super().__init__()
        self.out_features = out_features

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        """Applies the layer.

        Args:
            x: float32 (n, in).

        Returns:
            (n, out_features).
        """
        weight = self.add("weight", x.shape[-1], self.out_features)
        return x @ weight + self.add("bias", self.out_features)


class Embedding(_Layer):
    """A vector for each byte plus one for its position.

    Args:
        shape: The sizes of the decoder.
    """

    def __init__(self, shape: GptShape) -> None:
        super().__init__()
        self.sizes = shape

    def build(self, tokens: popxl.Tensor) -> popxl.Tensor:
        """Looks vectors up.

        Args:
            tokens: int32 (batch, sequence).

        Returns:
            float32 (batch * sequence, hidden).
        """
        sizes = self.sizes
        vectors = self.add("tokens", sizes.vocabulary, sizes.hidden)
        positions = self.add("positions", sizes.sequence, sizes.hidden)
        return (ops.gather(vectors, tokens) + positions).reshape((-1, sizes.hidden))


class EmbeddingAt(_Layer):
    """The variables of Embedding, for one position.

    Args:
        shape: The sizes of the decoder.
    """

    def __init__(self, shape: GptShape) -> None:
        super().__init__()
        self.sizes = shape

    def build(self, tokens: popxl.Tensor, position: popxl.Tensor) -> popxl.Tensor:
        """Looks vectors up.

        Args:
            tokens: int32 (batch, 1).
            position: Where they stand, int32 (1,).

        Returns:
            float32 (batch, hidden).
        """
        sizes = self.sizes
        vectors = self.add("tokens", sizes.vocabulary, sizes.hidden)
        positions = self.add("positions", sizes.sequence, sizes.hidden)
        both = ops.gather(vectors, tokens) + ops.gather(positions, position)
        return both.reshape((-1, sizes.hidden))


class _AnyBlock(addons.Module):
    """One pre-norm decoder layer, but for what positions see of each other.

    Args:
        shape: The sizes of the decoder.
    """

    def __init__(self, shape: GptShape) -> None:
        super().__init__()
        self.sizes = shape
        self.norm1, self.norm2 = LayerNorm(), LayerNorm()
        self.qkv, self.proj = Linear(3 * shape.hidden), Linear(shape.hidden)
        self.ff1, self.ff2 = Linear(4 * shape.hidden), Linear(shape.hidden)

    def apply(
        self, x: popxl.Tensor, attention: Callable[[popxl.Tensor], popxl.Tensor]
    ) -> popxl.Tensor:
        """Applies the layer.

        Args:
            x: float32 (n, hidden).
            attention: Takes queries, keys and values (n, 3 * hidden), gives (n, hidden).

        Returns:
            (n, hidden).
        """
        x = x + self.proj(attention(self.qkv(self.norm1(x))))
        return x + self.ff2(ops.gelu(self.ff1(self.norm2(x))))

    def split_heads(self, qkv: popxl.Tensor, positions: int) -> list[popxl.Tensor]:
        """Takes queries, keys and values apart.

        Args:
            qkv: (batch * positions, 3 * hidden).
            positions: Those of a sequence.

        Returns:
            Three of (batch, heads, positions, hidden // heads).
        """
        sizes = self.sizes
        split = (-1, positions, sizes.heads, sizes.hidden // sizes.heads)
        return [part.reshape(split).transpose((0, 2, 1, 3)) for part in ops.split(qkv, 3, axis=-1)]

    def join_heads(self, x: popxl.Tensor) -> popxl.Tensor:
        """Undoes `split_heads`.

        Args:
            x: (batch, heads, positions, hidden // heads).

        Returns:
            (batch * positions, hidden).
        """
        return x.transpose((0, 2, 1, 3)).reshape((-1, self.sizes.hidden))


class Block(_AnyBlock):
    """One pre-norm decoder layer.

    Args:
        shape: The sizes of the decoder.
    """

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        """Applies the layer.

        Args:
            x: float32 (batch * sequence, hidden).

        Returns:
            The same shape.
        """
        return self.apply(x, self.attention)

    def attention(self, qkv: popxl.Tensor) -> popxl.Tensor:
        """Causal attention: every position looks at itself and those before it.

        Args:
            qkv: Queries, keys and values, float32 (batch * sequence, 3 * hidden).

        Returns:
            (batch * sequence, hidden).
        """
        sizes = self.sizes
        q, k, v = self.split_heads(qkv, sizes.sequence)
        mask = popxl.constant(
            np.triu(np.full((sizes.sequence, sizes.sequence), MASKED, np.float32), k=1), name="mask"
        )
        scores = (q @ k.transpose((0, 1, 3, 2))) * (sizes.hidden // sizes.heads) ** -0.5 + mask
        return self.join_heads(ops.softmax(scores, axis=-1) @ v)


class CachedBlock(_AnyBlock):
    """The variables of Block, and the keys and values of every position so far.

    Args:
        shape: The sizes of the decoder.
    """

    def build(self, x: popxl.Tensor, position: popxl.Tensor) -> popxl.Tensor:
        """Applies the layer to one position, which looks at itself and those before it.

        Args:
            x: float32 (batch, hidden).
            position: Where it stands, int32 (1,); its keys and values are written there.

        Returns:
            The same shape.
        """
        sizes = self.sizes
        size = (x.shape[0], sizes.heads, sizes.sequence, sizes.hidden // sizes.heads)

        def attention(qkv: popxl.Tensor) -> popxl.Tensor:
            q, *new = self.split_heads(qkv, 1)
            caches = (
                self.add_variable_input(name, partial(np.zeros, size), popxl.float32, by_ref=True)
                for name in CACHES
            )
            keys, values = (
                ops.dynamic_update_(cache, position, now, [2], [1], True)
                for cache, now in zip(caches, new, strict=True)
            )
            seen = ops.scaled_dot_product_attention(q, keys, values, length=position + 1)
            return self.join_heads(seen)

        return self.apply(x, attention)


class Head(addons.Module):
    """Scores for the next token.

    Args:
        shape: The sizes of the decoder.
    """

    def __init__(self, shape: GptShape) -> None:
        super().__init__()
        self.norm = LayerNorm()
        self.output = Linear(shape.vocabulary)

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        """Applies the head.

        Args:
            x: float32 (n, hidden).

        Returns:
            (n, vocabulary).
        """
        return self.output(self.norm(x))


class HeadLoss(addons.Module):
    """The loss, with the variables of Head.

    Args:
        shape: The sizes of the decoder.
    """

    def __init__(self, shape: GptShape) -> None:
        super().__init__()
        self.norm = LayerNorm()
        self.output = Linear(shape.vocabulary)

    def build(self, x: popxl.Tensor, labels: popxl.Tensor) -> popxl.Tensor:
        """Applies head and loss.

        Args:
            x: float32 (n, hidden).
            labels: The n tokens that come next, int32 of any shape.

        Returns:
            A scalar.
        """
        return addons.ops.cross_entropy(self.output(self.norm(x)), labels.reshape((-1,)))


# Initial values --------------------------------------------------------------------------------


def variable_shapes(shape: GptShape) -> dict[str, tuple[tuple[int, ...], int]]:
    """What variables a decoder has.

    Args:
        shape: The sizes of the decoder.

    Returns:
        Key -> shape and number of rows (one per layer).
    """
    h = shape.hidden
    block: dict[str, tuple[int, ...]] = {}
    for name in ("norm1", "norm2"):
        block |= {f"{name}.weight": (h,), f"{name}.bias": (h,)}
    for name, (rows, columns) in {
        "qkv": (h, 3 * h),
        "proj": (h, h),
        "ff1": (h, 4 * h),
        "ff2": (4 * h, h),
    }.items():
        block |= {f"{name}.weight": (rows, columns), f"{name}.bias": (columns,)}
    return {
        "embedding.tokens": ((shape.vocabulary, h), 1),
        "embedding.positions": ((shape.sequence, h), 1),
        **{f"block.{name}": (size, shape.layers) for name, size in block.items()},
        "head.norm.weight": ((h,), 1),
        "head.norm.bias": ((h,), 1),
        "head.output.weight": ((h, shape.vocabulary), 1),
        "head.output.bias": ((shape.vocabulary,), 1),
    }


def _deviation(key: str, layers: int) -> float:
    if key == "embedding.positions":
        return POSITION_DEVIATION
    # What is added to the residual stream, twice per layer.
    if key in ("block.proj.weight", "block.ff2.weight"):
        return WEIGHT_DEVIATION / math.sqrt(2 * layers)
    return WEIGHT_DEVIATION


def initial_values(shape: GptShape, seed: int) -> Iterator[tuple[str, int, np.ndarray]]:
    """Draws the values of every variable of every layer, one at a time.

    Args:
        shape: The sizes of the decoder.
        seed: The seed of the weights; biases are 0 and scales of norms 1.

    Yields:
        Key, row and value.
    """
    for key, (size, rows) in variable_shapes(shape).items():
        for row in range(rows):
            if key.endswith("bias"):
                value = np.zeros(size, np.float32)
            elif "norm" in key:
                value = np.ones(size, np.float32)
            else:
                # One generator per variable: the values do not hang on the order.
                rng = np.random.default_rng([seed, zlib.crc32(key.encode()), row])
                value = rng.standard_normal(size, np.float32)
                value *= np.float32(_deviation(key, shape.layers))
            yield key, row, value
