"""Reductions over tensors on the virtual devices of one replica."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from popart import popart_exception
from popxl.context import create_op, get_current_graph
from popxl.errors import UndefinedValue
from popxl.ops.collectives.collectives import CollectiveOps, to_collective_op
from popxl.ops.utils import check_in_graph, outputs_of
from popxl.tensor_base import Tensor


def _check(
    ts: Iterable[Tensor], ipus: Sequence[int] | None, op: str
) -> tuple[list[Tensor], list[int]]:
    tensors = list(ts)
    to_collective_op(op)
    check_in_graph(get_current_graph(), **{f"ts_{i}": t for i, t in enumerate(tensors)})
    if ipus is None:
        try:
            ipus = [t.ipu for t in tensors]
        except UndefinedValue as error:
            raise ValueError(
                "Could not automatically infer the IPU of all input Tensors `ts`. Please specify "
                "the `ipus` parameter."
            ) from error
    if len(ipus) != len(tensors):
        raise ValueError(
            f"all_reduce: wanted one ipu per tensor ({len(tensors)}); given {len(ipus)}: {ipus}"
        )
    for t in tensors[1:]:
        if t.shape != tensors[0].shape or t.dtype != tensors[0].dtype:
            raise popart_exception(
                f"all_reduce: wanted tensors of one shape and dtype; given {tensors}"
            )
    return tensors, list(ipus)


def _make(ts: Iterable[Tensor], ipus: Sequence[int] | None, op: str, form: str) -> list[Tensor]:
    tensors, devices = _check(ts, ipus, op)
    made = create_op(
        "AllReduce",
        tensors,
        {"op": op, "devices": devices, "form": form},
        names=[f"all_reduce_out_{i}" for i in range(len(tensors))],
        settings_name="all_reduce",
    )
    return list(outputs_of(made))


def all_reduce(
    ts: Iterable[Tensor], ipus: Sequence[int] | None = None, op: CollectiveOps = "add"
) -> list[Tensor]:
    """Reduce tensors over the virtual devices of a replica; each device gets the result.

    The gradients are reduced too. Only `add` has a gradient.

    Args:
        ts: Tensors of one shape and dtype, each on its own device.
        ipus: The virtual device of each tensor. None: `Tensor.ipu` of each.
        op: `add`, `mean`, `mul`, `min`, `max`, `and`, `or`, or `square_add`, which adds squares.

    Returns:
        A list of new tensors, result i on device i.

    Raises:
        TypeError: An element of `ts` is not a tensor.
        ValueError: `op` is unknown, a tensor is not in the current graph, or the devices are
            unknown or not one for each tensor.
        popart_exception: The shapes or dtypes differ.
    """
    return _make(ts, ipus, op, "plain")


def all_reduce_identical_inputs(
    ts: Iterable[Tensor], ipus: Sequence[int] | None = None, op: CollectiveOps = "add"
) -> list[Tensor]:
    """Pass on equal tensors as they are, and reduce their gradients.

    Args:
        ts: Tensors of one shape, dtype and value, each on its own device.
        ipus: The virtual device of each tensor. None: `Tensor.ipu` of each.
        op: How the gradients are reduced. Only `add` has a gradient; `all_reduce` lists the others.

    Returns:
        A list of new tensors with the values of `ts`.

    Raises:
        TypeError: An element of `ts` is not a tensor.
        ValueError: `op` is unknown, a tensor is not in the current graph, or the devices are
            unknown or not one for each tensor.
        popart_exception: The shapes or dtypes differ.
    """
    return _make(ts, ipus, op, "identical_inputs")


def all_reduce_identical_grad_inputs(
    ts: Iterable[Tensor], ipus: Sequence[int] | None = None, op: CollectiveOps = "add"
) -> list[Tensor]:
    """Reduce tensors as `all_reduce` does, and pass on their gradients, which are equal.

    Args:
        ts: Tensors of one shape and dtype, each on its own device.
        ipus: The virtual device of each tensor. None: `Tensor.ipu` of each.
        op: How the tensors are reduced, as in `all_reduce`. Only `add` has a gradient.

    Returns:
        A list of new tensors, result i on device i.

    Raises:
        TypeError: An element of `ts` is not a tensor.
        ValueError: `op` is unknown, a tensor is not in the current graph, or the devices are
            unknown or not one for each tensor.
        popart_exception: The shapes or dtypes differ.
    """
    return _make(ts, ipus, op, "identical_grads")
