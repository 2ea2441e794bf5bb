"""Reductions over tensors on the virtual devices of one replica."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from popart import popart_exception
from popxl.context import create_op, get_current_graph
from popxl.errors import UndefinedValue
from popxl.ops.collectives.collectives import CollectiveOps, to_collective_op
from popxl.ops.utils import check_in_graph, outputs_of
from popxl.tensor import Tensor


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
        {"op": op, "ipus": devices, "form": form},
        names=[f"all_reduce_out_{i}" for i in range(len(tensors))],
        settings_name="all_reduce",
    )
    return list(outputs_of(made))


def all_reduce(
    ts: Iterable[Tensor], ipus: Sequence[int] | None = None, op: CollectiveOps = "add"
) -> list[Tensor]:
    """The reduction of all tensors, on the device of each."""
    return _make(ts, ipus, op, "plain")


def all_reduce_identical_inputs(
    ts: Iterable[Tensor], ipus: Sequence[int] | None = None, op: CollectiveOps = "add"
) -> list[Tensor]:
    """The tensors, which are equal, as they are; their gradients are reduced."""
    return _make(ts, ipus, op, "identical_inputs")


def all_reduce_identical_grad_inputs(
    ts: Iterable[Tensor], ipus: Sequence[int] | None = None, op: CollectiveOps = "add"
) -> list[Tensor]:
    """The reduction of all tensors; their gradients, which are equal, stay as they are."""
    return _make(ts, ipus, op, "identical_grads")
