"""The private functions and classes of torch that are used. No other file imports any."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import ModuleType
from typing import Any

import torch
from torch.utils.data import DataLoader

KNOWN_VERSIONS = ("2.13",)
_COMPILER = "torch._dynamo"


def check_version(version: str) -> None:
    """Check that these names are those of a version of torch.

    Args:
        version: As torch gives its own.

    Raises:
        ImportError: Nobody has tried this version.
    """
    if not version.startswith(tuple(f"{known}." for known in KNOWN_VERSIONS)):
        raise ImportError(
            f"poptorch records with private names of torch and knows those of torch "
            f"{', '.join(KNOWN_VERSIONS)}; torch {version} is installed. Install "
            f"torch=={KNOWN_VERSIONS[-1]}.0"
        )


check_version(torch.__version__)

# Imported after the check (E402), because other versions may not have these.
from torch._decomp import decomposition_table  # noqa: E402
from torch._dispatch.python import enable_python_dispatcher  # noqa: E402
from torch.fx.experimental.proxy_tensor import (  # noqa: E402
    ProxyTorchDispatchMode,
    PythonKeyTracer,
)
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase  # noqa: E402
from torch.utils._python_dispatch import (  # noqa: E402
    TorchDispatchMode,
    _disable_current_modes,
)
from torch.utils.data._utils.collate import (  # noqa: E402
    collate,
    collate_int_fn,
    collate_tensor_fn,
    default_collate_fn_map,
)

__all__ = [
    "BatchNorm",
    "Operator",
    "RecordingMode",
    "StatisticsNorm",
    "as_compiled",
    "call_batched",
    "calls_within",
    "check_version",
    "collate",
    "collate_int_fn",
    "collate_tensor_fn",
    "decomposition_table",
    "default_collate_fn_map",
    "end_persistent_workers",
    "enable_python_dispatcher",
    "full_name",
    "is_differentiated",
    "is_for_vmap",
    "mark_as_stepped",
    "plain_functions",
    "with_compiler_on_demand",
    "without_modes",
    "without_validation",
]

Operator = torch._ops.OpOverload
# What all batch norms have in common, and all norms that may keep statistics.
BatchNorm = _BatchNorm
StatisticsNorm = _NormBase


class RecordingMode(ProxyTorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode whose `__torch_dispatch__` sees the calls of operators above autograd."""

    def __init__(self) -> None:
        # That of the base class would import torch's compiler, for an option that only it reads.
        TorchDispatchMode.__init__(  # type: ignore[no-untyped-call]
            self, torch._C.DispatchKey.PreDispatch
        )
        self._mode_key = torch._C._TorchDispatchModeKey.PROXY
        self.pre_dispatch = True
        self.tracer = PythonKeyTracer()
        self.tracing_mode = "real"
        self.enter_stack = []
        self.decomposition_table = {}
        self.decomp_layers = 0
        self.emulate_precision_casts = False
        self._decomposition_table_stack = []
        self._allow_fake_constant = False
        self._error_on_data_dependent_ops = True
        self._invoke_subgraph_names = set()
        self._invoke_subgraph_cache = {}


class _CompilerOnDemand(ModuleType):
    """Stands for torch's compiler while nobody needs more of it than not to compile a function."""

    def disable(self, function: Any, recursive: bool = True, wrapping: bool = True) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            compiler = sys.modules.get(_COMPILER)
            if compiler is None or isinstance(compiler, _CompilerOnDemand):
                return function(*args, **kwargs)
            disabled = compiler.disable(function, recursive, wrapping=wrapping)
            # Where torch itself keeps it, so that this is asked once.
            setattr(function, "__dynamo_disable", disabled)
            return disabled(*args, **kwargs)

        return call

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(_COMPILER) is self:
            del sys.modules[_COMPILER]
        return getattr(importlib.import_module(_COMPILER), name)


@contextmanager
def with_compiler_on_demand() -> Iterator[None]:
    """Let torch call functions that it never compiles without importing its compiler.

    Its rules for meta tensors are such functions, and the import takes longer than most traces.
    What needs more of the compiler imports it as ever.

    Yields:
        Nothing; they do until the context ends.
    """
    if _COMPILER in sys.modules:
        yield
        return
    sys.modules[_COMPILER] = _CompilerOnDemand(_COMPILER)
    try:
        yield
    finally:
        if isinstance(sys.modules.get(_COMPILER), _CompilerOnDemand):
            del sys.modules[_COMPILER]


def as_compiled() -> AbstractContextManager[None]:
    """Let `torch.compiler.is_compiling()` say that a program is made of what runs.

    Models ask it before they look at values of tensors only to check or to warn.

    Returns:
        The context in which it does.
    """
    context: AbstractContextManager[None] = torch.compiler._compile_session_context()
    return context


@contextmanager
def calls_within(
    module: torch.nn.Module, context: Callable[[], AbstractContextManager[None]]
) -> Iterator[None]:
    """Let each call of a module, with its hooks, run in a context.

    Hooks that also run after an error are for that, but not `as_compiled`.

    Args:
        module: The module.
        context: Makes the context of a call.

    Yields:
        Nothing; they do until this ends.
    """
    attribute = "_compiled_call_impl"
    before = module.__dict__.get(attribute)
    call_module = before or module._call_impl

    def call(*args: Any, **kwargs: Any) -> Any:
        with context():
            return call_module(*args, **kwargs)

    module.__dict__[attribute] = call
    try:
        yield
    finally:
        if before is None:
            del module.__dict__[attribute]
        else:
            module.__dict__[attribute] = before


def full_name(function: Operator) -> str:
    """Name an operator with its overload.

    Args:
        function: The operator.

    Returns:
        Such as `aten::add.Tensor`; the default overload has no name.
    """
    overload = function._schema.overload_name
    name = str(function._schema.name)
    return f"{name}.{overload}" if overload else name


def is_for_vmap(function: Operator, given: list[torch.Tensor]) -> bool:
    """Tell whether an operator is one that `torch.vmap` applies to several tensors at once.

    Args:
        function: The operator.
        given: The tensors that it is called with.

    Returns:
        Whether it is; `call_batched` calls it then.
    """
    if any(map(torch._C._functorch.is_batchedtensor, given)):
        return True
    if torch.Tag.nondeterministic_seeded not in function.tags:
        return False
    excluded = torch._C._dispatch_tls_local_exclude_set()
    included = torch._C._dispatch_tls_local_include_set()
    key = torch._C.DispatchKey
    keys = (key.FuncTorchDynamicLayerFrontMode, key.FuncTorchVmapMode)
    return any(included.has(one) and not excluded.has(one) for one in keys)


def is_differentiated(tensor: torch.Tensor) -> bool:
    """Tell whether a tensor belongs to `torch.func.grad`, `jvp` or a function made of them.

    Args:
        tensor: The tensor.

    Returns:
        Whether it does.
    """
    functorch = torch._C._functorch
    return functorch.is_functorch_wrapped_tensor(tensor) and not functorch.is_batchedtensor(tensor)


def call_batched(
    mode: RecordingMode,
    function: Operator,
    given: list[torch.Tensor],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Call an operator within `torch.vmap`, below the mode that records.

    Rules of torch then call operators on tensors that are not batched, which the mode sees again.

    Args:
        mode: The mode.
        function: The operator.
        given: The tensors among its arguments.
        args: Its arguments by position.
        kwargs: Its arguments by name.

    Returns:
        Its result, which is batched.
    """
    key = torch._C.DispatchKey
    keys = torch._C._dispatch_tls_local_include_set().add(key.BackendSelect)
    for tensor in given:
        keys = keys | torch._C._dispatch_keys(tensor)
    keys = keys - torch._C._dispatch_tls_local_exclude_set()
    keys = keys & torch._C._dispatch_keyset_full_after(key.PreDispatch)
    keys = keys.remove(key.PythonDispatcher)
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    if not has_kernel(full_name(function), "FuncTorchVmapMode"):
        keys = keys.remove(key.FuncTorchVmapMode)
    types = [argument.type for argument in function._schema.arguments]
    filled = [_as_declared(*pair, given) for pair in zip(types, args, strict=False)]
    with mode:
        return function.redispatch(keys, *filled, **kwargs)


def _as_declared(declared: Any, value: Any, beside: list[torch.Tensor]) -> Any:
    """A number as a tensor where an operator declares one, which decides the dtype as before."""
    if not isinstance(value, (int, float, complex)) or str(declared) != "Tensor":
        return value
    return torch.scalar_tensor(value, dtype=torch.result_type(beside[0], value), device="cpu")


def plain_functions() -> AbstractContextManager[None]:
    """Let functions of torch pass over what classes of tensors make of them.

    Returns:
        The context in which they do.
    """
    context: AbstractContextManager[None] = torch._C.DisableTorchFunctionSubclass()
    return context


@contextmanager
def without_modes() -> Iterator[None]:
    """Let functions of torch run as if no mode were active, a recording one among them.

    Yields:
        Nothing; they do until the context ends.
    """
    with _disable_current_modes(), torch._C.DisableTorchFunction():
        yield


@contextmanager
def without_validation() -> Iterator[None]:
    """Let distributions take arguments without looking at their values.

    Yields:
        Nothing; they do until the context ends.
    """
    validates = torch.distributions.Distribution._validate_args
    torch.distributions.Distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        torch.distributions.Distribution.set_default_validate_args(validates)


def mark_as_stepped(optimizer: torch.optim.Optimizer) -> None:
    """Tell torch's schedules that an optimizer steps, though nobody calls its `step`.

    Args:
        optimizer: The optimizer of a program.
    """
    vars(optimizer)["_opt_called"] = True


def end_persistent_workers(loader: DataLoader[Any]) -> None:
    """End the workers that a loader keeps for its next epoch, as the end of an epoch ends others.

    Args:
        loader: The loader, which nobody iterates over any more.
    """
    loader._iterator = None
