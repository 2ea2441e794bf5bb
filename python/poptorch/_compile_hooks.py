"""Functions of the user's that are called around every trace."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from torch.utils.hooks import RemovableHandle

_Hooks = OrderedDict[int, Callable[[], Any]]
_before: _Hooks = OrderedDict()
_after: _Hooks = OrderedDict()


def _register(hooks: _Hooks, kind: str, fn: Callable[[], Any]) -> RemovableHandle:
    if not callable(fn):
        raise RuntimeError(f"{kind} hook must be callable")
    handle = RemovableHandle(hooks)
    hooks[handle.id] = fn
    return handle


def registerPreCompileHook(fn: Callable[[], Any]) -> RemovableHandle:
    """Have a function called at the begin of every trace, when `isRunningOnIpu` is True.

    Args:
        fn: The function, which takes no arguments.

    Returns:
        A handle whose `remove()` ends that.

    Raises:
        RuntimeError: It is no function.
    """
    return _register(_before, "Pre-compile", fn)


def registerPostCompileHook(fn: Callable[[], Any]) -> RemovableHandle:
    """Have a function called at the end of every trace, before what was traced is compiled.

    Args:
        fn: The function, which takes no arguments; it is also called when the trace failed.

    Returns:
        A handle whose `remove()` ends that.

    Raises:
        RuntimeError: It is no function.
    """
    return _register(_after, "Post-compile", fn)


def call_pre_compile_hooks() -> None:
    """Call the functions for the begin of a trace, in the order of registration."""
    for hook in list(_before.values()):
        hook()


def call_post_compile_hooks() -> None:
    """Call the functions for the end of a trace, in the order of registration."""
    for hook in list(_after.values()):
        hook()
