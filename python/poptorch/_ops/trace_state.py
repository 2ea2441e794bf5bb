"""What the annotations of a model know of the trace that is going on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from poptorch._impl import createPoptorchError, isDispatchTracing
from poptorch._stages import Placement
from poptorch._strategies import ExecutionStrategy


@dataclass
class TraceState:
    """One trace of a model.

    Attributes:
        strategy: What says where blocks run.
        training: Whether the program trains.
        paused: Makes a context in which torch runs on the host, unseen by the trace.
        host_layers: What `CPU` wraps, by id.
        attributes: The values of `Attribute` by group and key.
        next_auto_id: The id of the next block without one.
        in_multi_conv: Whether a `MultiConv` is open.
    """

    strategy: ExecutionStrategy | None
    training: bool
    paused: Callable[[], AbstractContextManager[Any]]
    host_layers: dict[str, Callable[..., Any]] = field(default_factory=dict)
    attributes: dict[tuple[str, str], str] = field(default_factory=dict)
    next_auto_id: int = 0
    in_multi_conv: bool = False

    def take_auto_id(self) -> str:
        """Draw an id for a block without one.

        Returns:
            The next automatic id.
        """
        taken = str(self.next_auto_id)
        self.next_auto_id += 1
        return taken

    def place(self, block_id: str, ipu_id: int | None) -> Placement:
        """Ask the strategy about a block.

        Args:
            block_id: The id of the block.
            ipu_id: The device that the block asks for; None: none.

        Returns:
            Where it runs.
        """
        if self.strategy is None:
            return Placement(ipu_id or 0, 0, ipu_id or 0)
        return self.strategy.place(block_id, ipu_id)


_current: TraceState | None = None


@contextmanager
def tracing(
    strategy: ExecutionStrategy | None = None,
    training: bool = False,
    paused: Callable[[], AbstractContextManager[Any]] = nullcontext,
) -> Iterator[TraceState]:
    """Give annotations a new state, which ends with the context.

    Args:
        strategy: What says where blocks run; None: blocks run on the device that they ask for, or
            on device 0.
        training: Whether the program trains.
        paused: Makes a context in which torch runs on the host, unseen by the trace.

    Yields:
        The state.
    """
    global _current
    outer = _current
    if strategy is not None:
        strategy.start_trace()
    _current = TraceState(strategy, training, paused)
    try:
        yield _current
    finally:
        _current = outer


def current_trace() -> TraceState | None:
    """Find the trace that is going on.

    Returns:
        Its state; None outside of one.
    """
    return _current if isDispatchTracing() else None


def check_inference(trace: TraceState, name: str) -> None:
    """Raise if a program that trains uses what only inference supports.

    Args:
        trace: The trace that is going on.
        name: What is used.
    """
    if trace.training:
        raise createPoptorchError(f"{name} is only supported in inference.")
