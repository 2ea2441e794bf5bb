"""Records which operators of torch.ops.poptorch a piece of Python calls while tracing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch.fx.experimental.proxy_tensor import ProxyTorchDispatchMode

from poptorch import _impl
from poptorch._ops import trace_state
from poptorch._strategies import ExecutionStrategy


class _Marks(ProxyTorchDispatchMode):
    def __init__(self) -> None:
        torch.utils._python_dispatch.TorchDispatchMode.__init__(
            self, torch._C.DispatchKey.PreDispatch
        )
        self._mode_key = torch._C._TorchDispatchModeKey.PROXY
        self.pre_dispatch = True
        self.enter_stack = []
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        namespace, _, name = func.name().partition("::")
        self.calls.append((name if namespace == "poptorch" else f"{namespace}::{name}", args))
        return func(*args, **(kwargs or {}))


@contextmanager
def recorded(
    strategy: ExecutionStrategy | None = None, training: bool = False
) -> Iterator[list[tuple[str, tuple[Any, ...]]]]:
    """Yields the list of calls (name, arguments) of ops, in order."""
    mode = _Marks()
    with enable_python_dispatcher(), trace_state.tracing(strategy, training, nullcontext):
        _impl.set_dispatch_tracing(True)
        try:
            with mode:
                yield mode.calls
        finally:
            _impl.set_dispatch_tracing(False)
