"""Blocks: parts of a model that run on one virtual device."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

import torch

from poptorch._impl import createPoptorchError
from poptorch._ops.trace_state import TraceState, current_trace

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Layer = TypeVar("_Layer", bound=Callable[..., Any])


def _check_ids(user_id: str | None, ipu_id: int | str | None) -> int | None:
    """The device as an int."""
    if user_id is not None and not isinstance(user_id, str):
        raise AssertionError(f"A block's user_id must be a string; given {user_id!r}")
    if ipu_id is None:
        return None
    is_number = isinstance(ipu_id, int) and not isinstance(ipu_id, bool) and ipu_id >= 0
    if not is_number and not (isinstance(ipu_id, str) and ipu_id.isdecimal()):
        raise AssertionError(f"A block's ipu_id must be a number of 0 or more; given {ipu_id!r}")
    return int(ipu_id)


def _begin(trace: TraceState, block_id: str, ipu_id: int | None) -> None:
    place = trace.place(block_id, ipu_id)
    torch.ops.poptorch.begin_ipu_block(place.stage, place.phase, place.ipu)


class Block(torch.nn.Module):
    """A context whose ops are a block; outside of a trace it does nothing.

    Behind the context no block is active until the next one begins; an outer block is not
    restored.
    """

    def __init__(self, user_id: str | None = None, ipu_id: int | None = None) -> None:
        """Describe a block.

        Args:
            user_id: The id by which strategies name the block; None: the next of "0", "1", ...
            ipu_id: The virtual device of the block; None: that of its stage.
        """
        super().__init__()
        self._ipu_id = _check_ids(user_id, ipu_id)
        self._user_id = user_id

    def __enter__(self) -> Block:
        Block.start(self._user_id, self._ipu_id)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if current_trace() is not None:
            torch.ops.poptorch.end_ipu_block()

    @staticmethod
    def useAutoId() -> None:
        """Start the automatic ids from "0" again: call it where `forward` begins."""
        trace = current_trace()
        if trace is not None:
            trace.next_auto_id = 0

    @staticmethod
    def start(user_id: str | None = None, ipu_id: int | None = None) -> None:
        """Begin a block that lasts until another one begins.

        Args:
            user_id: The id by which strategies name the block; None: the next of "0", "1", ...
            ipu_id: The virtual device of the block; None: that of its stage.

        Raises:
            AssertionError: An id is no string or no number, or the strategy has no place for the
                block.
        """
        device = _check_ids(user_id, ipu_id)
        trace = current_trace()
        if trace is not None:
            _begin(trace, trace.take_auto_id() if user_id is None else user_id, device)

    def extra_repr(self) -> str:
        """Describe the block for the representation of the module.

        Returns:
            Its ids.
        """
        return f"user_id={self._user_id}, ipu_id={self._ipu_id}"


class BeginBlockHook:
    """The forward pre-hook of a module with which a block begins.

    Args:
        user_id: The id of the block; None: it draws the next one when it first begins.
        ipu_id: The virtual device of the block; None: that of its stage.
    """

    def __init__(self, user_id: str | None, ipu_id: int | None) -> None:
        self._user_id = user_id
        self._ipu_id = ipu_id

    def __call__(self, module: torch.nn.Module, inputs: tuple[Any, ...]) -> None:
        self.begin()

    def begin(self) -> None:
        """Begin the block, with an id that stays the same from now on."""
        trace = current_trace()
        if trace is None:
            return
        if self._user_id is None:
            self._user_id = trace.take_auto_id()
        _begin(trace, self._user_id, self._ipu_id)

    def __repr__(self) -> str:
        return f"BeginBlock(user_id={self._user_id}, ipu_id={self._ipu_id})"


def _block_hooks(module: torch.nn.Module) -> list[int]:
    hooks = module._forward_pre_hooks.items()
    return [key for key, hook in hooks if isinstance(hook, BeginBlockHook)]


def BeginBlock(
    layer_to_call: _Layer, user_id: str | None = None, ipu_id: int | None = None
) -> _Layer:
    """Let a block begin where a layer is called; it lasts until another one begins.

    Args:
        layer_to_call: A module, which gets a forward pre-hook, or a function.
        user_id: The id by which strategies name the block; None: the next of "0", "1", ..., drawn
            when the layer is traced for the first time.
        ipu_id: The virtual device of the block; None: that of its stage.

    Returns:
        The same module, or a function that begins the block and calls the given one.

    Raises:
        Error: The module has a block already, or the layer is neither a module nor a function.
        AssertionError: An id is no string or no number.
    """
    device = _check_ids(user_id, ipu_id)
    if isinstance(layer_to_call, torch.nn.Module):
        if _block_hooks(layer_to_call):
            raise createPoptorchError("module has already been assigned to a block.")
        layer_to_call.register_forward_pre_hook(BeginBlockHook(user_id, device))
        return layer_to_call
    if isinstance(layer_to_call, type) or not callable(layer_to_call):
        raise createPoptorchError("module is not an instance of torch.nn.Module or function.")
    hook = BeginBlockHook(user_id, device)

    @functools.wraps(layer_to_call)
    def begin_and_call(*args: Any, **kwargs: Any) -> Any:
        hook.begin()
        return layer_to_call(*args, **kwargs)

    return begin_and_call  # type: ignore[return-value]


def BlockFunction(
    user_id: str | None = None, ipu_id: int | None = None
) -> Callable[[_Function], _Function]:
    """Make a decorator that runs a function inside a `Block`.

    Args:
        user_id: The id by which strategies name the block; None: the next of "0", "1", ...
        ipu_id: The virtual device of the block; None: that of its stage.

    Returns:
        The decorator.

    Raises:
        AssertionError: An id is no string or no number.
    """
    _check_ids(user_id, ipu_id)

    def decorate(function: _Function) -> _Function:
        @functools.wraps(function)
        def run_in_block(*args: Any, **kwargs: Any) -> Any:
            with Block(user_id, ipu_id):
                return function(*args, **kwargs)

        return run_in_block  # type: ignore[return-value]

    return decorate


def removeBlocks(module: torch.nn.Module) -> None:
    """Take the blocks of `BeginBlock` from a module and all modules in it; other hooks stay.

    Args:
        module: The module.

    Raises:
        Error: The argument is not a module.
    """
    if not isinstance(module, torch.nn.Module):
        raise createPoptorchError(
            f"module is not an instance of torch.nn.Module; given {type(module).__name__}"
        )
    for part in module.modules():
        for key in _block_hooks(part):
            del part._forward_pre_hooks[key]
