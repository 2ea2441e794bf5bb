"""Reductions over tensors on the virtual devices of one replica."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce

from popart import popart_exception
from popxl import dtypes
from popxl.context import get_current_graph, ipu
from popxl.errors import UndefinedValue
from popxl.ops.collectives.collectives import CollectiveOps, to_collective_op
from popxl.ops.utils import cast_if_needed, check_in_graph, make
from popxl.tensor import Tensor, constant

Reduction = Callable[[Sequence[Tensor]], Tensor]


def _op(kind: str, *ts: Tensor) -> Tensor:
    # Not the op functions: their operands are on one device.
    return make(kind, ts, name="all_reduce", settings="all_reduce")


def _logical(kind: str) -> Reduction:
    def reduction(ts: Sequence[Tensor]) -> Tensor:
        flags = [cast_if_needed(t, dtypes.bool) for t in ts]
        return cast_if_needed(reduce(lambda a, b: _op(kind, a, b), flags), ts[0].dtype)

    return reduction


_REDUCTIONS: dict[str, Reduction] = {
    "add": lambda ts: _op("Sum", *ts),
    "mean": lambda ts: _op("Div", _op("Sum", *ts), constant(len(ts), ts[0].dtype)),
    "mul": lambda ts: reduce(lambda a, b: _op("Mul", a, b), ts),
    "min": lambda ts: _op("Neg", _op("Max", *(_op("Neg", t) for t in ts))),
    "max": lambda ts: _op("Max", *ts),
    "and": _logical("And"),
    "or": _logical("Or"),
    "square_add": lambda ts: _op("Sum", *(_op("Mul", t, t) for t in ts)),
}


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


def _make_outputs(
    tensors: Sequence[Tensor], ipus: Sequence[int], value: Callable[[int], Tensor]
) -> list[Tensor]:
    outputs = []
    for i, device in enumerate(ipus[: len(tensors)]):
        with ipu(device):
            name = f"all_reduce_out_{i}"
            outputs.append(make("Identity", [value(i)], name=name, settings="all_reduce"))
    return outputs


def all_reduce(
    ts: Iterable[Tensor], ipus: Sequence[int] | None = None, op: CollectiveOps = "add"
) -> list[Tensor]:
    """The reduction of all tensors, on the device of each."""
    tensors, devices = _check(ts, ipus, op)
    return _make_outputs(tensors, devices, lambda i: _REDUCTIONS[op](tensors))


def all_reduce_identical_inputs(
    ts: Iterable[Tensor], ipus: Sequence[int] | None = None, op: CollectiveOps = "add"
) -> list[Tensor]:
    """The tensors, which are equal, as they are; their gradients are reduced."""
    tensors, devices = _check(ts, ipus, op)
    _check_add("all_reduce_identical_inputs", op)

    def value(i: int) -> Tensor:
        # t - detach(t) is 0 (NaN where t is not finite) and lets the gradient through.
        others = [t for j, t in enumerate(tensors) if j != i]
        zeros = [_op("Sub", t, _op("Detach", t)) for t in others]
        return _op("Sum", tensors[i], *zeros)

    return _make_outputs(tensors, devices, value)


def all_reduce_identical_grad_inputs(
    ts: Iterable[Tensor], ipus: Sequence[int] | None = None, op: CollectiveOps = "add"
) -> list[Tensor]:
    """The reduction of all tensors; their gradients, which are equal, stay as they are."""
    tensors, devices = _check(ts, ipus, op)
    _check_add("all_reduce_identical_grad_inputs", op)

    def value(i: int) -> Tensor:
        parts = [t if j == i else _op("Detach", t) for j, t in enumerate(tensors)]
        return _op("Sum", *parts)

    return _make_outputs(tensors, devices, value)


def _check_add(name: str, op: str) -> None:
    if op != "add":
        raise NotImplementedError(f"{name}: only op 'add' is supported; given {op!r}")
