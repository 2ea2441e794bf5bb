"""The reductions of collectives."""

from __future__ import annotations

from typing import Literal

from popart._internal import ir as _ir

CollectiveOps = Literal["add", "mean", "mul", "min", "max", "and", "or", "square_add"]

OP_MAP: dict[str, _ir.CollectiveOperator] = {
    "add": _ir.CollectiveOperator.Add,
    "mean": _ir.CollectiveOperator.Mean,
    "mul": _ir.CollectiveOperator.Mul,
    "min": _ir.CollectiveOperator.Min,
    "max": _ir.CollectiveOperator.Max,
    "and": _ir.CollectiveOperator.LogicalAnd,
    "or": _ir.CollectiveOperator.LogicalOr,
    "square_add": _ir.CollectiveOperator.SquareAdd,
}


def to_collective_op(op: str) -> _ir.CollectiveOperator:
    """The operator that `op` names."""
    if op not in OP_MAP:
        raise ValueError(f"Not a valid op: {op}. Must choose from: {', '.join(OP_MAP)}")
    return OP_MAP[op]
