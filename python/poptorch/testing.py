"""Comparison of results."""

from __future__ import annotations

from typing import Any

import torch


def allclose(ref: Any, other: Any) -> bool:
    """Compare two tensors, or tuples and lists of them, with the tolerances of `torch.allclose`.

    Args:
        ref: A tensor, or a tuple or list of tensors, tuples and lists.
        other: What is compared with it.

    Returns:
        Whether the containers are of the same kinds and lengths and their tensors close.
    """
    if isinstance(ref, (tuple, list)):
        if type(ref) is not type(other) or len(ref) != len(other):
            return False
        return all(allclose(one, two) for one, two in zip(ref, other, strict=True))
    return isinstance(other, torch.Tensor) and torch.allclose(other, ref)
