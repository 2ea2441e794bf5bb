"""Reductions over tensors on the virtual devices of one replica."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce

from popart import popart_exception
from popxl.context import ipu
from popxl.errors import UndefinedValue
from popxl.ops.binary import add, div, maximum, mul, sub
from popxl.ops.collectives.collectives import CollectiveOps, to_collective_op
from popxl.ops.logic import logical_and, logical_or
from popxl.ops.unary import detach, identity, negate
from popxl.ops.utils import check_in_graph, make
from popxl.context import get_current_graph
from popxl.tensor import Tensor, constant


def _sum(ts: Sequence[Tensor]) -> Tensor:
    return make("Sum", ts, name="all_reduce", settings="all_reduce")


def _minimum(ts: Sequence[Tensor]) -> Tensor:
    return negate(maximum(*(negate(t) for t in ts)))


_REDUCTIONS = {
    "add": _sum,
    "mean": lambda ts: div(_sum(ts), constant(len(ts), ts[0].dtype)),
    "mul": lambda ts: reduce(mul, ts),
    "min": _minimum,
    "max": lambda ts: maximum(*ts),
    "and": lambda ts: reduce(logical_and, ts),
    "or": lambda ts: reduce(logical_or, ts),
    "square_add": lambda ts: _sum([mul(t, t) for t in ts]),
}
