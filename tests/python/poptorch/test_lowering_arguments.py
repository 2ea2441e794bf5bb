"""Lowerings take the arguments that torch's operators have."""

from __future__ import annotations

import inspect
from typing import Any

import torch

from poptorch._lower.lowering import IGNORED_ARGUMENTS
from poptorch._lower.registry import find, lowered_names

# Torch makes these of another overload, which is what is traced.
_UNREACHED = {"aten::repeat_interleave.self_Tensor", "aten::repeat_interleave.self_int"}


def _takes_all(name: str, overload: str, function: Any) -> bool:
    namespace, operator = name.split("::")
    schema = getattr(getattr(getattr(torch.ops, namespace), operator), overload)._schema
    arguments = [a.name for a in schema.arguments if not a.is_out]
    if not any("Tensor" in str(a.type) for a in schema.arguments):
        return True
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return True
    return {*arguments} - IGNORED_ARGUMENTS <= {p.name for p in parameters}


def test_lowerings_take_the_arguments_of_every_overload() -> None:
    refused = set()
    for name in sorted(lowered_names()):
        namespace, operator = name.split("::")
        packet = getattr(getattr(torch.ops, namespace), operator, None)
        for overload in packet.overloads() if packet is not None else []:
            full = name if overload == "default" else f"{name}.{overload}"
            is_known = torch._C._dispatch_has_kernel(full)
            if is_known and not _takes_all(name, overload, find(name)):
                refused.add(full)
    assert refused == _UNREACHED
