"""Collectives over the replicas of a group, whose members are ordered by replica."""

from __future__ import annotations

from typing import Any

from popxl.context import get_current_graph
from popxl.ops.collectives.collectives import CollectiveOps, to_collective_op
from popxl.ops.utils import check_inputs, handle_negative_axis, make
from popxl.replica_grouping import ReplicaGrouping
from popxl.tensor_base import Tensor

_OUTPUT_SHAPES = ("auto", "new_axis", "concat", "meta_shape")


def _check(name: str, t: Tensor, group: ReplicaGrouping | None) -> dict[str, object]:
    """Checks the tensor; returns the attributes of the group."""
    check_inputs(t=t)
    grouping = group if group is not None else get_current_graph().ir.replica_grouping()
    if not isinstance(grouping, ReplicaGrouping):
        raise TypeError(f"{name}: wanted a ReplicaGrouping; given {grouping!r}")
    if not grouping.is_const:
        raise NotImplementedError(f"{name}: {grouping!r} has no constant stride")
    internal = grouping._pb_replica_grouping
    return {"stride": internal.getStride(), "group_size": internal.getGroupSize()}


def _reshape(t: Tensor, shape: tuple[int, ...], name: str, settings: str) -> Tensor:
    attributes: dict[str, object] = {"shape": list(shape)}
    return make("Reshape", [t], attributes, name=name, settings=settings)


def _swap_axes(t: Tensor, axis: int, name: str, settings: str) -> Tensor:
    """`t` with `axis` and axis 0 exchanged; itself for axis 0."""
    if axis == 0:
        return t
    permutation = list(range(t.rank))
    permutation[0], permutation[axis] = axis, 0
    return make("Transpose", [t], {"permutation": permutation}, name=name, settings=settings)


def _check_axis(name: str, t: Tensor, axis: Any) -> int:
    if not isinstance(axis, int) or isinstance(axis, bool):
        raise ValueError(f"{name}: wanted an int axis; given {axis!r}")
    positive = handle_negative_axis(t, axis)
    if not 0 <= positive < max(t.rank, 1):
        raise ValueError(f"{name}: axis {axis} is out of range for {t!r}")
    return positive


def replicated_all_reduce(
    t: Tensor, op: CollectiveOps = "add", group: ReplicaGrouping | None = None
) -> Tensor:
    """Reduce a tensor over the replicas of each group; every replica gets the result.

    There is no gradient.

    Args:
        t: The tensor of each replica; float32, float16, bfloat16, int32 or uint32.
        op: `add`, `mean`, `mul`, `min`, `max`, `and`, `or`, or `square_add`, which adds squares.
        group: The groups. None: one group of all replicas.

    Returns:
        A new tensor with the shape and dtype of `t`.

    Raises:
        TypeError: `t` is not a tensor; `group` is not a replica grouping.
        ValueError: `t` is not in the current graph; `op` is unknown.
        NotImplementedError: `group` has no constant stride.
    """
    to_collective_op(op)
    attributes = {"op": op, **_check("replicated_all_reduce", t, group)}
    name = f"{t.name}_all_reduce"
    return make("ReplicatedAllReduce", [t], attributes, name=name, settings="replicated_all_reduce")


def replicated_all_reduce_(
    t: Tensor, op: CollectiveOps = "add", group: ReplicaGrouping | None = None
) -> Tensor:
    """Reduce a tensor over the replicas of each group in place: `t` becomes the result.

    Args:
        t: The tensor of each replica, which is overwritten; float32, float16, bfloat16, int32 or
            uint32.
        op: `add`, `mean`, `mul`, `min`, `max`, `and`, `or`, or `square_add`, which adds squares.
        group: The groups. None: one group of all replicas.

    Returns:
        An alias of `t`, which then holds the result.

    Raises:
        TypeError: `t` is not a tensor; `group` is not a replica grouping.
        ValueError: `t` is not in the current graph; `op` is unknown.
        NotImplementedError: `group` has no constant stride.
    """
    to_collective_op(op)
    attributes = {"op": op, **_check("replicated_all_reduce_", t, group)}
    name = f"{t.name}_all_reduce"
    return make(
        "ReplicatedAllReduceInplace", [t], attributes, name=name, settings="replicated_all_reduce_"
    )


def replicated_reduce_scatter(
    t: Tensor,
    op: CollectiveOps = "add",
    group: ReplicaGrouping | None = None,
    configure_output_for_replicated_tensor_sharding: bool = False,
) -> Tensor:
    """Reduce a tensor over each group and give every replica one part of the flattened result.

    The result is padded with zeros to equal parts; part i goes to member i. There is no gradient.

    Args:
        t: The tensor of each replica, of n elements; float32, float16, bfloat16, int32 or uint32.
        op: `add`, `mean`, `mul`, `min`, `max`, `and`, `or`, or `square_add`, which adds squares.
        group: The groups. None: one group of all replicas.
        configure_output_for_replicated_tensor_sharding: Whether the result keeps the shape of `t`
            as its meta shape, as shards do.

    Returns:
        A new tensor of shape (ceil(n / group size),) with the dtype of `t`.

    Raises:
        TypeError: `t` is not a tensor; `group` is not a replica grouping.
        ValueError: `t` is not in the current graph; `op` is unknown.
        NotImplementedError: `group` has no constant stride.
    """
    to_collective_op(op)
    attributes = {
        "op": op,
        "sharded": bool(configure_output_for_replicated_tensor_sharding),
        **_check("replicated_reduce_scatter", t, group),
    }
    name = f"{t.name}_reduce_scattered"
    return make(
        "ReplicatedReduceScatter", [t], attributes, name=name, settings="replicated_reduce_scatter"
    )


def replica_sharded_slice(t: Tensor, group: ReplicaGrouping | None = None) -> Tensor:
    """Take the part of its own flattened tensor that a replica holds as a shard.

    Nothing is exchanged. The tensor is padded with zeros to equal parts; part i is that of member i
    of the group. `replicated_all_gather` with the same group is the inverse, and the gradient.

    Args:
        t: The tensor of each replica, of n elements and any dtype.
        group: The groups. None: one group of all replicas.

    Returns:
        A new tensor of shape (ceil(n / group size),) with the dtype of `t` and its shape as meta
        shape.

    Raises:
        TypeError: `t` is not a tensor; `group` is not a replica grouping.
        ValueError: `t` is not in the current graph.
        NotImplementedError: `group` has no constant stride.
    """
    attributes = {"op": "local", "sharded": True, **_check("replica_sharded_slice", t, group)}
    name = f"{t.name}_sharded_slice"
    return make(
        "ReplicatedReduceScatter", [t], attributes, name=name, settings="replica_sharded_slice"
    )


def replicated_slice(t: Tensor, axis: int = 0, group: ReplicaGrouping | None = None) -> Tensor:
    """Take an equal part, along an axis, of its own tensor on every replica.

    Nothing is exchanged; part i is that of member i of the group. The gradient is gathered.

    Args:
        t: The tensor of each replica, of any dtype.
        axis: The axis; a negative one counts from the end.
        group: The groups. None: one group of all replicas.

    Returns:
        A new tensor; the size along `axis` is divided by that of the group, and the axis goes if it
        is 1.

    Raises:
        TypeError: `t` is not a tensor; `group` is not a replica grouping.
        ValueError: `t` is not in the current graph; the axis is out of range, or its size is not
            divisible by that of the group.
        NotImplementedError: `group` has no constant stride.
    """
    settings = "replicated_slice"
    attributes = {"op": "local", "sharded": False, **_check(settings, t, group)}
    size = attributes["group_size"]
    assert isinstance(size, int)
    axis = _check_axis(settings, t, axis)
    if t.rank == 0 or t.shape[axis] % size != 0:
        raise ValueError(
            f"Replicated slice must equally divide axis. Axis {axis} of {t!r} cannot be divided by "
            f"the {size} replicas of the group."
        )
    name = f"{t.name}_replicated_slice"
    front = _swap_axes(t, axis, name, settings)
    flat = _reshape(front, (t.nelms,), name, settings)
    part = make("ReplicatedReduceScatter", [flat], attributes, name=name, settings=settings)
    length = front.shape[0] // size
    if length > 1:
        shaped = _reshape(part, (length, *front.shape[1:]), name, settings)
        return _swap_axes(shaped, axis, name, settings)
    # The axis goes. Axis 0 lies where the sliced one was: it moves back to the front.
    shaped = _reshape(part, front.shape[1:], name, settings)
    if axis <= 1:
        return shaped
    others = [i for i in range(shaped.rank) if i != axis - 1]
    permutation = [axis - 1, *others]
    return make("Transpose", [shaped], {"permutation": permutation}, name=name, settings=settings)


def replicated_all_gather(
    t: Tensor,
    axis: Any = 0,
    group: ReplicaGrouping | None = None,
    output_shape: str = "auto",
) -> Tensor:
    """Join the tensors of the replicas of each group, in order, on every replica.

    Args:
        t: The tensor of each replica, of any dtype.
        axis: The axis to join along, negative from the end. A grouping may take its place.
        group: The groups. None: one group of all replicas.
        output_shape: `concat` joins along `axis`, `new_axis` along a new axis 0, `meta_shape` joins
            shards, and `auto` is `meta_shape` for shards, else `concat`.

    Returns:
        A new tensor with the dtype of `t`. Its gradient is cut, not summed over the replicas.

    Raises:
        TypeError: `t` is not a tensor; `group` is not a replica grouping.
        ValueError: `t` is not in the current graph; `axis` or `output_shape` does not suit it.
        NotImplementedError: `group` has no constant stride.
        popart_exception: `group` does not have the size of the number of shards.
    """
    settings = "replicated_all_gather"
    if isinstance(axis, ReplicaGrouping):
        axis, group = 0, axis
    attributes = _check(settings, t, group)
    axis = _check_axis(settings, t, axis)
    if output_shape not in _OUTPUT_SHAPES:
        raise ValueError(
            f"replicated_all_gather: output_shape must be one of {', '.join(_OUTPUT_SHAPES)}; "
            f"given {output_shape!r}"
        )
    if output_shape == "auto":
        output_shape = "meta_shape" if t.meta_shape else "concat"
    size = attributes["group_size"]
    assert isinstance(size, int)

    def gather(part: Tensor, shape: tuple[int, ...]) -> Tensor:
        return make(
            "ReplicatedAllGather",
            [part],
            {**attributes, "shape": list(shape)},
            name=f"{part.name}_all_gathered",
            settings=settings,
        )

    if output_shape == "meta_shape":
        if not t.meta_shape and t.rank > 0:
            raise ValueError(f"replicated_all_gather: {t!r} has no meta_shape to gather to")
        return gather(t, t.meta_shape)
    name = f"{t.name}_replicated_all_gather"
    joined = output_shape == "concat" and t.rank > 0
    front = _swap_axes(t, axis, name, settings) if joined else t
    whole = gather(_reshape(front, (t.nelms,), name, settings), (size * t.nelms,))
    if not joined:
        return _reshape(whole, (size, *t.shape), name, settings)
    shaped = _reshape(whole, (size * front.shape[0], *front.shape[1:]), name, settings)
    return _swap_axes(shaped, axis, name, settings)
