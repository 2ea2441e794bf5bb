"""Whether gradients may be used."""

from __future__ import annotations

from collections.abc import Iterable

import popxl
from popxl import ops

__all__ = ["all_finite"]


def all_finite(tensors: Iterable[popxl.Tensor]) -> popxl.Tensor:
    """Tell whether no element of any tensor is infinite or NaN, on any replica.

    Args:
        tensors: Tensors of any shapes and dtypes but bool and float8, on one virtual device; at
            least one.

    Returns:
        A bool scalar, the same on all replicas.

    Raises:
        TypeError: One is not a tensor.
        ValueError: There are none, or one is not in the current graph.
    """
    # A NaN in a tensor is both its maximum and its minimum.
    extremes: dict[popxl.dtype, list[popxl.Tensor]] = {}
    for t in tensors:
        found = extremes.setdefault(t.dtype, [])
        if 0 not in t.shape:
            found += [ops.reshape(reduce(t), (1,)) for reduce in (ops.max, ops.min)]
    if not extremes:
        raise ValueError("all_finite: wanted at least one tensor; given none")
    finite: popxl.Tensor = popxl.constant(True, popxl.bool)
    for of_dtype in extremes.values():
        if of_dtype:
            flags = ops.cast(ops.isfinite(ops.concat(of_dtype)), popxl.int32)
            finite = ops.logical_and(finite, ops.min(flags))
    if popxl.gcg().ir.replication_factor == 1:
        return finite
    everywhere = ops.collectives.replicated_all_reduce(ops.cast(finite, popxl.int32), "min")
    return ops.cast(everywhere, popxl.bool)
