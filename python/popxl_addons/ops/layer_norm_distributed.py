"""Layer normalisation of an axis that is split over replicas."""

from __future__ import annotations

import popxl
from popxl import ops
from popxl_addons.ops.replicated_all_reduce_TP import replicated_all_reduce

__all__ = ["layer_norm_distributed"]


def layer_norm_distributed(
    t: popxl.Tensor,
    w: popxl.Tensor,
    b: popxl.Tensor,
    epsilon: float = 1e-5,
    group: popxl.ReplicaGrouping | None = None,
) -> popxl.Tensor:
    """Normalises rows whose features are split over replicas.

    The result is (t - mean) / sqrt(var + epsilon) * w + b. Mean and (biased) variance are those of
    whole rows, in float32.

    Args:
        t: This member's part of the rows, (n, features / members), float.
        w: The scale of this member's features, (features / members,).
        b: The shift, likewise.
        epsilon: Added to the variance.
        group: The replicas that share rows; None means all.

    Returns:
        This member's part of the result, of the shape and dtype of `t`.

    Raises:
        AssertionError: The shapes are others.
    """
    assert t.rank == 2, f"layer_norm_distributed: wanted a tensor of rank 2; given {t}"
    for name, parameter in (("w", w), ("b", b)):
        assert parameter.shape == t.shape[1:], (
            f"layer_norm_distributed: wanted {name} of shape {t.shape[1:]}; given {parameter}"
        )
    grouping = t.ir.replica_grouping() if group is None else group
    features = t.shape[1] * grouping.group_size

    def row_mean(values: popxl.Tensor) -> popxl.Tensor:
        total = replicated_all_reduce(ops.sum(values, axis=1, keepdims=True), group=grouping)
        return total * (1.0 / features)

    x = ops.cast(t, popxl.float32)
    centred = x - row_mean(x)
    deviation = ops.sqrt(row_mean(centred * centred) + epsilon)
    return ops.cast(centred / deviation, t.dtype) * w + b
