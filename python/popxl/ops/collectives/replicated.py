"""Collectives over the replicas of a group.

Within a group of one replica they are copies and reshapes. Larger groups are not supported yet.
"""

from __future__ import annotations

from typing import Any

from popxl import dtypes
from popxl.context import get_current_graph
from popxl.ops.binary import mul
from popxl.ops.collectives.collectives import CollectiveOps, to_collective_op
from popxl.ops.utils import check_inputs, handle_negative_axis, make
from popxl.ops.var_updates import copy_var_update_
from popxl.replica_grouping import ReplicaGrouping
from popxl.tensor import Tensor

_DTYPES = (dtypes.float32, dtypes.float16, dtypes.int32, dtypes.uint32)
_OUTPUT_SHAPES = ("auto", "new_axis", "concat", "meta_shape")


def _check(name: str, t: Tensor, group: ReplicaGrouping | None) -> None:
    check_inputs(t=t)
    if t.dtype not in _DTYPES:
        raise NotImplementedError(
            f"{name}: wanted one of {', '.join(d.name for d in _DTYPES)}; given {t!r}"
        )
    grouping = group if group is not None else get_current_graph().ir.replica_grouping()
    if not grouping.is_const:
        raise NotImplementedError(f"{name}: {grouping!r} has no constant stride")
    if grouping.group_size > 1:
        raise NotImplementedError(
            f"{name} over {grouping.group_size} replicas is not supported: groups have one replica"
        )


def _reshape(t: Tensor, shape: tuple[int, ...], name: str, settings: str) -> Tensor:
    attributes: dict[str, object] = {"shape": list(shape)}
    return make("Reshape", [t], attributes, name=name, settings=settings)


def _shard(t: Tensor, meta_shape: tuple[int, ...], name: str, settings: str) -> Tensor:
    """All elements of `t` as the only shard of a tensor."""
    result = _reshape(t, (t.nelms,), name, settings)
    result._pb.meta_shape = list(meta_shape)
    return result


def replicated_all_reduce(
    t: Tensor, op: CollectiveOps = "add", group: ReplicaGrouping | None = None
) -> Tensor:
    """The reduction of `t` over the group, on every replica of it."""
    to_collective_op(op)
    _check("replicated_all_reduce", t, group)
    if op == "square_add":
        return mul(t, t)
    name = f"{t.name}_all_reduce"
    return make("Identity", [t], name=name, settings="replicated_all_reduce")


def replicated_all_reduce_(
    t: Tensor, op: CollectiveOps = "add", group: ReplicaGrouping | None = None
) -> Tensor:
    """`replicated_all_reduce`, written to `t`."""
    to_collective_op(op)
    _check("replicated_all_reduce_", t, group)
    if op == "square_add":
        return copy_var_update_(t, mul(t, t))
    attributes: dict[str, object] = {"shape": list(t.shape)}
    name = f"{t.name}_all_reduce"
    return make("ReshapeInplace", [t], attributes, name=name, settings="replicated_all_reduce_")


def replicated_reduce_scatter(
    t: Tensor,
    op: CollectiveOps = "add",
    group: ReplicaGrouping | None = None,
    configure_output_for_replicated_tensor_sharding: bool = False,
) -> Tensor:
    """Each replica's part of the reduction of the flattened tensor over the group."""
    to_collective_op(op)
    _check("replicated_reduce_scatter", t, group)
    value = mul(t, t) if op == "square_add" else t
    meta_shape = t.shape if configure_output_for_replicated_tensor_sharding else ()
    name = f"{t.name}_reduce_scattered"
    return _shard(value, meta_shape, name, "replicated_reduce_scatter")


def replica_sharded_slice(t: Tensor, group: ReplicaGrouping | None = None) -> Tensor:
    """Each replica's part of its own flattened tensor."""
    _check("replica_sharded_slice", t, group)
    return _shard(t, t.shape, f"{t.name}_sharded_slice", "replica_sharded_slice")


def replicated_slice(t: Tensor, axis: int = 0, group: ReplicaGrouping | None = None) -> Tensor:
    """Each replica's equal part of its own tensor along `axis`, which goes if its size is 1."""
    _check("replicated_slice", t, group)
    axis = handle_negative_axis(t, axis)
    if not 0 <= axis < t.rank:
        raise ValueError(f"replicated_slice: axis {axis} is out of range for {t!r}")
    shape = list(t.shape)
    if shape[axis] == 1:
        del shape[axis]
    return _reshape(t, tuple(shape), f"{t.name}_replicated_slice", "replicated_slice")


def replicated_all_gather(
    t: Tensor,
    axis: Any = 0,
    group: ReplicaGrouping | None = None,
    output_shape: str = "auto",
) -> Tensor:
    """The tensors of the group, joined along `axis`, along a new axis, or as one sharded tensor.

    A grouping may take the place of `axis`.
    """
    if isinstance(axis, ReplicaGrouping):
        axis, group = 0, axis
    if not isinstance(axis, int):
        raise ValueError(f"replicated_all_gather: wanted an int axis; given {axis!r}")
    if output_shape not in _OUTPUT_SHAPES:
        raise ValueError(
            f"replicated_all_gather: output_shape must be one of {', '.join(_OUTPUT_SHAPES)}; "
            f"given {output_shape!r}"
        )
    _check("replicated_all_gather", t, group)
    if output_shape == "auto":
        output_shape = "meta_shape" if t.meta_shape else "concat"
    shapes = {"concat": t.shape, "new_axis": (1, *t.shape), "meta_shape": t.meta_shape}
    name = f"{t.name}_all_gathered"
    result = _reshape(t, shapes[output_shape], name, "replicated_all_gather")
    result._pb.meta_shape = []
    return result
