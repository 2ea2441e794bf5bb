"""What a trace leaves behind: the calls of ATen and poptorch operators, in program order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from poptorch._impl import createPoptorchError


@dataclass(frozen=True)
class Placement:
    """Where the ops of a block run.

    Attributes:
        ipu: The virtual device; -1: no block is active.
        stage: The stage of the execution strategy.
        phase: The phase of the execution strategy.
    """

    ipu: int = 0
    stage: int = 0
    phase: int = 0


@dataclass
class Node:
    """One call of an operator.

    Attributes:
        name: The operator with namespace, without overload, such as `aten::add_`.
        overload: The overload, such as `Tensor`.
        arguments: Its arguments by the names of its schema, defaults filled in. Tensors are the
            meta tensors of the trace.
        written: The names of the arguments that it writes.
        outputs: The tensors that it returned, flattened.
        requires_grad: For each output, whether torch would differentiate it.
        from_grad: Whether an argument was one that torch differentiates.
        scope: The names of the modules and of the `NameScope`s around it, joined by `/`.
        placement: Where it runs.
        location: The file and line of the user's program.
        grad_enabled: Whether torch differentiated at this point of the program.
        is_loss: Whether a loss function of torch returned its result.
        block: The number of the call of a repeated module that it is in; -1: none.
    """

    name: str
    overload: str
    arguments: dict[str, Any]
    written: tuple[str, ...]
    outputs: list[torch.Tensor]
    requires_grad: list[bool]
    from_grad: bool
    scope: str
    placement: Placement
    location: str
    grad_enabled: bool = True
    is_loss: bool = False
    block: int = -1


@dataclass
class Recording:
    """A traced forward pass. It holds all meta tensors, so that their identity means something.

    Attributes:
        nodes: The calls in program order.
        constants: The values of tensors that stand for data of the host, by `id` of the tensor.
        unsupported: The names of operators that nothing lowers, in order of first use.
        host_layers: What `poptorch.CPU` wraps, by its ID.
        blocks: For each call of a repeated module, in order, the path of what it is repeated in.
    """

    nodes: list[Node] = field(default_factory=list)
    constants: dict[int, tuple[torch.Tensor, torch.Tensor]] = field(default_factory=dict)
    unsupported: dict[str, str] = field(default_factory=dict)
    host_layers: dict[str, Callable[..., Any]] = field(default_factory=dict)
    blocks: list[str] = field(default_factory=list)

    def constant(self, data: torch.Tensor) -> torch.Tensor:
        """Make the tensor of the trace that stands for data of the host.

        Args:
            data: A tensor on the CPU; it is copied.

        Returns:
            A meta tensor of its shape, dtype and strides.
        """
        twin = torch.empty_like(data, device="meta")
        self.constants[id(twin)] = (twin, data.detach().clone())
        return twin

    def mark_loss(self, result: torch.Tensor) -> None:
        """Note that a call computed a loss whose operators do not tell.

        Args:
            result: The loss, which a call of the recording returned.
        """
        if (node := self.maker_of(result)) is not None:
            node.is_loss = True

    def makers_of(self, tensor: torch.Tensor) -> Iterator[Node]:
        """Find the calls that returned a tensor.

        Args:
            tensor: A meta tensor.

        Yields:
            The calls, the last one first.
        """
        for node in reversed(self.nodes):
            if any(output is tensor for output in node.outputs):
                yield node

    def maker_of(self, tensor: torch.Tensor) -> Node | None:
        """Find the call that returned a tensor.

        Args:
            tensor: A meta tensor.

        Returns:
            The last such call; None where the tensor is an input, a weight or a constant.
        """
        return next(self.makers_of(tensor), None)

    def replace(self, tensor: torch.Tensor, by: torch.Tensor) -> None:
        """Let another tensor stand in all calls so far, because this one becomes a view of it.

        Args:
            tensor: The tensor that changes its shape in place.
            by: A tensor of the same memory with the shape until now.
        """
        for node in self.nodes:
            node.outputs = [by if one is tensor else one for one in node.outputs]
            if any(one is tensor for one in tensors_in(node.arguments)):
                node.arguments = _replaced(node.arguments, tensor, by)
        if id(tensor) in self.constants:
            self.constants[id(by)] = (by, self.constants.pop(id(tensor))[1])

    def data_of(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """The data of the host that a tensor of the trace stands for.

        Args:
            tensor: The meta tensor.

        Returns:
            The data; None where it stands for none.
        """
        found = self.constants.get(id(tensor))
        return None if found is None else found[1]

    def check_supported(self) -> None:
        """Check that every operator of the recording is supported.

        Raises:
            Error: Some are not; all of them are named, with the line that called each first.
        """
        if not self.unsupported:
            return
        names = ", ".join(self.unsupported)
        places = "".join(f"\n  {name}: {where}" for name, where in self.unsupported.items())
        raise createPoptorchError(
            f"Unsupported ops found in compiled model: [{names}]. Not all operations are supported "
            f"yet by Graphcore's PyTorch compiler. If you believe any of these should be, please "
            f"report this message to support@graphcore.ai.{places}"
        )


def check_not_empty(tensors: Iterable[torch.Tensor]) -> None:
    """Refuse tensors that a program cannot have.

    Args:
        tensors: The tensors.

    Raises:
        Error: One has no elements.
    """
    for tensor in tensors:
        if tensor.numel() == 0:
            raise createPoptorchError(
                f"Zero-sized tensors are unsupported (Got shape {list(tensor.shape)})"
            )


def _replaced(value: Any, tensor: torch.Tensor, by: torch.Tensor) -> Any:
    if isinstance(value, torch.Tensor):
        return by if value is tensor else value
    if isinstance(value, (list, tuple)):
        return type(value)(_replaced(item, tensor, by) for item in value)
    if isinstance(value, dict):
        return {key: _replaced(item, tensor, by) for key, item in value.items()}
    return value


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Find the tensors in arguments or results of an operator.

    Args:
        value: A tensor, or lists, tuples and dictionaries of values; others hold none.

    Yields:
        The tensors, in order.
    """
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item)
