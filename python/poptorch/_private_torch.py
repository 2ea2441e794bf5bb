"""The private functions and classes of torch that are used. No other file imports any."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import torch

KNOWN_VERSIONS = ("2.13",)


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
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase  # noqa: E402
from torch.utils._python_dispatch import _disable_current_modes  # noqa: E402
from torch.utils.data._utils.collate import collate, default_collate_fn_map  # noqa: E402

__all__ = [
    "BatchNorm",
    "Operator",
    "StatisticsNorm",
    "check_version",
    "collate",
    "decomposition_table",
    "default_collate_fn_map",
    "enable_python_dispatcher",
    "mark_as_stepped",
    "plain_functions",
    "without_modes",
    "without_validation",
]

Operator = torch._ops.OpOverload
# What all batch norms have in common, and all norms that may keep statistics.
BatchNorm = _BatchNorm
StatisticsNorm = _NormBase


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
