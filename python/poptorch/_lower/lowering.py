"""From nodes of a recording to ops of a popxl graph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

import popxl
from poptorch._impl import createPoptorchError
from poptorch._lower.dtypes import host_array, popxl_dtype
from poptorch._lower.registry import find
from poptorch._lower.values import Inverse, Values
from poptorch._lower.views import INVERSES, with_gradient_of
from poptorch._trace.recording import Node, Recording, tensors_in
from popxl import ops
from popxl.ops.random_seed import create_random_seed
from popxl.ops.utils import make
from popxl.transforms.autodiff import GradGraphInfo

# Where tensors are and how they lie in memory is not for the program to say.
IGNORED_ARGUMENTS = frozenset(
    ("device", "layout", "pin_memory", "memory_format", "generator", "non_blocking", "out")
)


# Gradient graphs of functions that have one of their own, by the graph that calls run.
Gradients = dict[popxl.Graph, GradGraphInfo]


@dataclass
class Call:
    """What a lowering is told besides the arguments of its operator.

    Attributes:
        lowering: The lowering that is in progress.
        node: The call of the operator.
    """

    lowering: GraphLowering
    node: Node

    @property
    def outputs(self) -> list[torch.Tensor]:
        """The meta tensors of the results."""
        return self.node.outputs

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the first result."""
        return tuple(self.outputs[0].shape)

    @property
    def dtype(self) -> popxl.dtype:
        """The element type of the first result in the program."""
        return popxl_dtype(self.outputs[0].dtype)

    def argument(self, name: str) -> Any:
        """An argument as torch gave it: a meta tensor in place of its value.

        Args:
            name: The name in the schema.

        Returns:
            The argument.
        """
        return self.node.arguments[name]

    def seed(self) -> popxl.Tensor:
        """Make the seed of a random op, one of its own for each op, micro-batch and replica.

        Returns:
            A uint32 tensor of shape (2,).
        """
        return self.lowering.next_seed()

    def write(self, name: str, value: popxl.Tensor) -> None:
        """Change an argument that the operator writes without its schema saying so.

        Args:
            name: The name of the argument.
            value: Its new value.
        """
        self.lowering.write(self.node, self.node.arguments[name], value)


class GraphLowering:
    """Lowers nodes into the current popxl graph.

    Args:
        recording: The recording that the nodes are of.
        seed: The seed of the micro-batch, of which random ops make theirs.
    """

    def __init__(self, recording: Recording, seed: popxl.Tensor | None) -> None:
        self.recording = recording
        self.values = Values()
        self.gradients: Gradients = {}
        self._seed = seed
        self._seeds = 0

    @property
    def uses_random_numbers(self) -> bool:
        """Whether an op has asked for a seed."""
        return self._seeds > 0

    def next_seed(self) -> popxl.Tensor:
        """Make a seed that no other op has.

        Returns:
            A uint32 tensor of shape (2,).
        """
        assert self._seed is not None
        self._seeds += 1
        return create_random_seed(self._seed, self._seeds)

    def holds(self, meta: torch.Tensor) -> bool:
        """Whether a traced tensor was made or read so far.

        Args:
            meta: The traced tensor.

        Returns:
            Whether it was; a constant that nobody has read was not.
        """
        return self.values.shares_memory(meta)

    def read(self, meta: torch.Tensor) -> popxl.Tensor:
        """The value of a traced tensor at this point of the program.

        Args:
            meta: The traced tensor.

        Returns:
            Its value.
        """
        if meta not in self.values and self.values.shares_memory(meta):
            # Factories of torch return a copy of the tensor that the operator made.
            self.values.adopt(meta)
        if meta not in self.values:
            if id(meta) not in self.recording.constants:
                raise createPoptorchError(
                    f"A tensor of shape {list(meta.shape)} and dtype {meta.dtype} is used that was "
                    "made outside of this trace. Tensors made in an earlier call of forward have "
                    "no value now"
                )
            data = self.recording.constants[id(meta)][1]
            self.values.define(meta, popxl.constant(host_array(data), popxl_dtype(data.dtype)))
        return self.values.read(meta)

    def lower(self, nodes: Iterable[Node]) -> None:
        """Make the ops of nodes.

        Args:
            nodes: The nodes in program order.
        """
        for node in nodes:
            with popxl.name_scope(node.scope) if node.scope else popxl.name_scope(""):
                self.lower_node(node)

    def lower_node(self, node: Node) -> None:
        """Make the ops of one node.

        Args:
            node: The node.
        """
        function = find(node.name)
        if function is None:
            raise createPoptorchError(f"internal error: no lowering of {node.name}")
        arguments = {
            name: self._values_of(value)
            for name, value in node.arguments.items()
            if name not in IGNORED_ARGUMENTS
            and not (name in node.written and len(node.written) > 1)
        }
        result = function(Call(self, node), **arguments)
        results = [result] if isinstance(result, popxl.Tensor) else list(result or ())
        targets = [target for name in node.written for target in tensors_in(node.arguments[name])]
        for target, value in zip(targets, results, strict=False):
            self.write(node, target, value)
        for index, meta in enumerate(node.outputs):
            if meta not in self.values:
                self._define(node, index, results[index])

    def _values_of(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            # A concatenation alone may be given tensors without elements, and leaves them out.
            return self.read(value) if value.numel() else None
        if isinstance(value, (list, tuple)):
            return type(value)(self._values_of(item) for item in value)
        return value

    def write(self, node: Node, target: torch.Tensor, value: popxl.Tensor) -> None:
        """Give a traced tensor, and all that share its memory, a new value.

        Args:
            node: The call that writes it.
            target: The traced tensor.
            value: Its new value, which is cast and broadcast to it.
        """
        self.read(target)
        value = cast(value, popxl_dtype(target.dtype))
        if value.shape != tuple(target.shape):
            value = broadcast_to(value, tuple(target.shape))
        if not _is_float(value):
            self.values.write(target, value)
        elif node.from_grad and not target.requires_grad:
            self.values.write(target, ops.detach(value))
        elif target.requires_grad and not node.grad_enabled:
            # Torch does not see such a write: the gradient is that of the value before.
            self.values.write(target, with_gradient_of(value, self.read(target)))
        else:
            self.values.write(target, value)

    def _define(self, node: Node, index: int, value: popxl.Tensor) -> None:
        meta = node.outputs[index]
        value = cast(value, popxl_dtype(meta.dtype))
        if value.shape != tuple(meta.shape):
            raise createPoptorchError(
                f"internal error: the lowering of {node.name} at {node.location} gave the shape "
                f"{list(value.shape)} for result {index}; torch gives {list(meta.shape)}"
            )
        cuts = node.from_grad and not node.requires_grad[index] and _is_float(value)
        if not self.values.shares_memory(meta):
            self.values.define(meta, ops.detach(value) if cuts else value)
            return
        parent = next(tensors_in(node.arguments), None)
        if parent is None or parent not in self.values:
            self.values.define_view(meta, None, value, None, None)
            return
        self._define_view(node, index, parent, value, cuts)

    def _define_view(
        self, node: Node, index: int, parent: torch.Tensor, value: popxl.Tensor, cuts: bool
    ) -> None:
        """A view is made again from its parent when the memory that they share is written."""
        meta = node.outputs[index]
        find_inverse = INVERSES.get(node.name)
        inverse: Inverse | None = None if find_inverse is None else find_inverse(node, index)

        def replay(base: popxl.Tensor) -> popxl.Tensor:
            if find_inverse is None:
                return value_by_position(base)
            arguments = {
                name: base if argument is parent else self._values_of(argument)
                for name, argument in node.arguments.items()
                if name not in IGNORED_ARGUMENTS
            }
            function = find(node.name)
            assert function is not None
            result = function(Call(self, node), **arguments)
            made = result if isinstance(result, popxl.Tensor) else list(result)[index]
            return ops.detach(made) if cuts else made

        value_by_position = self.values.by_position(parent, meta)
        self.values.define_view(meta, parent, ops.detach(value) if cuts else value, replay, inverse)


def _is_float(value: popxl.Tensor) -> bool:
    return bool(value.dtype.is_floating_point)


def cast(value: popxl.Tensor, dtype: popxl.dtype) -> popxl.Tensor:
    """A tensor in an element type.

    Args:
        value: The tensor.
        dtype: The element type.

    Returns:
        The tensor itself where it has the element type, a new one otherwise.
    """
    return value if value.dtype == dtype else ops.cast(value, dtype)


def broadcast_to(value: popxl.Tensor, shape: Sequence[int]) -> popxl.Tensor:
    """Repeat a tensor along axes of one element, and along new ones in front.

    Args:
        value: The tensor.
        shape: The shape that is wanted.

    Returns:
        A tensor of that shape.
    """
    if value.shape == tuple(shape):
        return value
    return make(
        "BroadcastTo",
        [value],
        {"shape": list(shape)},
        name=f"{value.name}_broadcast",
        settings="broadcast_to",
    )
