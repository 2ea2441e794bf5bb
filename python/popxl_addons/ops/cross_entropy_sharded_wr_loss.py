"""Cross entropy over classes that are split over the virtual devices of one replica."""

from __future__ import annotations

from collections.abc import Sequence

import popxl
from popxl import ops
from popxl.errors import UndefinedValue
from popxl_addons.ops.cross_entropy_sharded_loss import check_logits, picked_logit

__all__ = ["cross_entropy_sharded_wr_loss"]


def _devices(tensors: Sequence[popxl.Tensor]) -> list[int]:
    try:
        return [t.ipu for t in tensors]
    except UndefinedValue as error:
        raise ValueError(
            "cross_entropy_sharded_wr_loss: the devices of the tensors are not known; give `ipus`"
        ) from error


def cross_entropy_sharded_wr_loss(
    logits: Sequence[popxl.Tensor],
    indices: Sequence[popxl.Tensor],
    ipus: Sequence[int] | None = None,
) -> popxl.Tensor:
    """The negative log likelihood of class labels where the classes are split over virtual devices.

    Computed in float32, differentiable in all logits.

    Args:
        logits: For each device the scores of its classes, (n, its classes); consecutive ranges.
        indices: For each device the labels (n,), counted over all classes.
        ipus: The devices; None means those that the tensors are on.

    Returns:
        The losses (n,) on the first device, in the dtype of its logits.

    Raises:
        ValueError: The lists differ in length, or logits and indices are on different or unknown
            devices.
        popart_exception: The shapes are others.
    """
    if not logits or len(logits) != len(indices):
        raise ValueError(
            f"cross_entropy_sharded_wr_loss: wanted as many logits as indices, at least one; "
            f"given {len(logits)} and {len(indices)}"
        )
    if ipus is None:
        ipus = _devices(logits)
        if _devices(indices) != ipus:
            raise ValueError(
                f"cross_entropy_sharded_wr_loss: logits are on the devices {ipus}, indices on "
                f"{_devices(indices)}: wanted the same ones"
            )
    if len(ipus) != len(logits):
        raise ValueError(
            f"cross_entropy_sharded_wr_loss: wanted a device for each of the {len(logits)} logits; "
            f"given {list(ipus)}"
        )
    for shard, labels in zip(logits, indices, strict=True):
        check_logits("cross_entropy_sharded_wr_loss", shard, labels)

    wide, largest = [], []
    for device, shard in zip(ipus, logits, strict=True):
        with popxl.ipu(device):
            wide.append(ops.cast(shard, popxl.float32))
            largest.append(ops.max(ops.detach(wide[-1]), axis=1, keepdims=True))
    largest = ops.collectives.all_reduce(largest, ipus, "max")
    totals, picks, offset = [], [], 0
    for device, x, labels, most in zip(ipus, wide, indices, largest, strict=True):
        with popxl.ipu(device):
            shifted = x - ops.detach(most)
            totals.append(ops.sum(ops.exp(shifted), axis=1))
            own = ops.cast(labels, popxl.int32) - popxl.constant(offset, popxl.int32)
            picks.append(picked_logit(shifted, own))
            offset += x.shape[1]
    total = ops.collectives.all_reduce(totals, ipus)[0]
    picked = ops.collectives.all_reduce(picks, ipus)[0]
    with popxl.ipu(ipus[0]):
        return ops.cast(ops.log(total) - picked, logits[0].dtype)
