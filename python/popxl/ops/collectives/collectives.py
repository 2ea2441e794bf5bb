"""The reductions of collectives."""

from __future__ import annotations

from typing import Literal

from popart._internal.op_arguments import CollectiveOperator

CollectiveOps = Literal["add", "mean", "mul", "min", "max", "and", "or", "square_add"]

OP_MAP: dict[str, CollectiveOperator] = {
    "add": CollectiveOperator.Add,
    "mean": CollectiveOperator.Mean,
    "mul": CollectiveOperator.Mul,
    "min": CollectiveOperator.Min,
    "max": CollectiveOperator.Max,
    "and": CollectiveOperator.LogicalAnd,
    "or": CollectiveOperator.LogicalOr,
    "square_add": CollectiveOperator.SquareAdd,
}


def to_collective_op(op: str) -> CollectiveOperator:
    """Find the operator that a word names.

    Args:
        op: `add`, `mean`, `mul`, `min`, `max`, `and`, `or` or `square_add`.

    Returns:
        The internal operator.

    Raises:
        ValueError: The word is unknown.
    """
    if op not in OP_MAP:
        raise ValueError(f"Not a valid op: {op}. Must choose from: {', '.join(OP_MAP)}")
    return OP_MAP[op]
