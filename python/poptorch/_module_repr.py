"""Representations of modules with their forward pre-hooks, such as those of `BeginBlock`."""

from __future__ import annotations

import builtins
from typing import Any

import torch


def _shown(module: torch.nn.Module) -> torch.nn.Module:
    """A stand-in that torch represents as the module, with hooks before it and everything in it.

    It shares the module's attributes, so nothing of the module itself changes.
    """
    if isinstance(module, torch.jit.ScriptModule):
        return module
    kind = type(module)
    hooks = [repr(hook) for hook in module._forward_pre_hooks.values()]

    def represent(self: torch.nn.Module) -> str:
        return " ".join([*hooks, kind.__repr__(self)])

    shown_kind = type(kind.__name__, (kind,), {"__repr__": represent})
    stand_in: torch.nn.Module = object.__new__(shown_kind)
    stand_in.__dict__.update(module.__dict__)
    children = {
        name: child if child is None else _shown(child) for name, child in module._modules.items()
    }
    stand_in.__dict__["_modules"] = children
    return stand_in


def module_repr(m: torch.nn.Module) -> str:
    """Represent a module as torch does, with the forward pre-hooks of modules before them.

    Args:
        m: The module.

    Returns:
        A text such as `BeginBlock(user_id=None, ipu_id=1) Linear(in_features=10, ...)`.
    """
    return repr(_shown(m))


def print(x: Any, *args: Any, **kwargs: Any) -> None:
    """Print as the builtin function does, and before a module what `module_repr` returns.

    Args:
        x: What is printed.
        *args: More of it, as the builtin function takes it.
        **kwargs: Its options.
    """
    if isinstance(x, torch.nn.Module):
        builtins.print(module_repr(x), **kwargs)
    builtins.print(x, *args, **kwargs)
