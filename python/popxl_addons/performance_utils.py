"""Counting floating-point operations."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import popxl
from popxl.utils import table_to_string
from popxl_addons.graph_common import GraphLike, plain_graph

Breakdown = dict[str, Any]
TOTAL = "TOT"

_ELEMENTWISE = ("Add", "Sub", "Mul", "Div")
_EXPONENTS = {"K": 3, "M": 6, "G": 9, "T": 12}


def _size(tensor: Any) -> int:
    return math.prod(tensor.info.shape())


def _op_flops(op: Any) -> int | None:
    """The operations of one op; None for a kind that is not counted."""
    kind = op.opType()
    if kind in _ELEMENTWISE:
        return _size(op.outTensor(0))
    if kind == "MatMul":
        return int(2 * op.inTensor(0).info.shape()[-1] * _size(op.outTensor(0)))
    if kind == "GroupNormalization":
        # Mean and variance (3), normalisation (2), scale and shift (2).
        return 7 * _size(op.inTensor(0))
    return None


def evaluate_FLOPs(graph: GraphLike) -> Breakdown:
    """Counts the floating-point operations of a graph.

    Counted are sums, differences, products and quotients (one per element of the result), matrix
    products (2 k per element) and group normalisation (7 per element).

    Args:
        graph: The graph or a wrapper of it.

    Returns:
        Op type -> {op id: operations}; called graphs nested, times the iterations of loops; and the
        sum under "TOT".
    """
    result: Breakdown = {}
    total = 0
    internal: Any = plain_graph(graph)._pb_graph
    for op in internal.getOpSchedule(True):
        if hasattr(op, "getCalledGraph"):
            callee = popxl.Graph._from_pb(op.getCalledGraph())
            trips = op.getTripCountValue() if op.opType() == "Loop" else 1
            nested = _multiplied(evaluate_FLOPs(callee), trips)
            result[f"{op.opType()}_{op.id}({callee.name})"] = nested
            total += nested[TOTAL]
        elif (flops := _op_flops(op)) is not None:
            result.setdefault(op.opType(), {})[op.id] = flops
            total += flops
    result[TOTAL] = total
    return result


def _multiplied(breakdown: Mapping[Any, Any], factor: int) -> Breakdown:
    return {
        key: _multiplied(value, factor) if isinstance(value, dict) else value * factor
        for key, value in breakdown.items()
    }


def evaluate_ir_FLOPs(ir: popxl.Ir) -> Breakdown:
    """Counts the floating-point operations of one run.

    Args:
        ir: The program.

    Returns:
        `evaluate_FLOPs` of the main graph, times the number of replicas.
    """
    return _multiplied(evaluate_FLOPs(ir.main_graph), ir.replication_factor)


def total_FLOPs(ir: popxl.Ir) -> int:
    """The floating-point operations of one run on all replicas.

    Args:
        ir: The program.

    Returns:
        Their number.
    """
    return int(evaluate_ir_FLOPs(ir)[TOTAL])


def format_flops_scientific(value: float, format: str = "nearest3") -> str:
    """A number as a mantissa with three decimals and an exponent of ten.

    Args:
        value: The number.
        format: "K", "M", "G" or "T" fix the exponent at 3, 6, 9 or 12; "nearest3" takes the
            multiple of three nearest to the value's own.

    Returns:
        Text such as `64.000E+00`.

    Raises:
        ValueError: The format is none of them.
    """
    if format in _EXPONENTS:
        exponent = _EXPONENTS[format]
    elif format == "nearest3":
        own = math.floor(math.log10(abs(value))) if value else 0
        exponent = 3 * round(own / 3)
    else:
        raise ValueError(f"Unknown format {format!r}; choose from {[*_EXPONENTS, 'nearest3']}.")
    return f"{value / 10.0**exponent:.3f}E{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def _flat(breakdown: Mapping[Any, Any], path: str = "") -> list[tuple[str, int, str]]:
    """(op type, operations, op name) of every op, called graphs' included."""
    rows: list[tuple[str, int, str]] = []
    for key, value in breakdown.items():
        if key == TOTAL:
            continue
        if TOTAL in value:
            rows += _flat(value, f"{path}{key}/")
        else:
            rows += [(key, flops, f"{path}{key}_{op_id}") for op_id, flops in value.items()]
    return rows


def print_FLOPs(
    breakdown: Mapping[Any, Any], mode: str = "type", numerical_format: str = "nearest3"
) -> None:
    """Prints a table of operations, the largest numbers first.

    Args:
        breakdown: What `evaluate_FLOPs` gave.
        mode: "type" for a row per op type with its share, "flat" for a row per op.
        numerical_format: As `format` of `format_flops_scientific`.

    Raises:
        ValueError: The mode or the format is none of those.
    """
    if mode not in ("type", "flat"):
        raise ValueError(f"mode must be 'type' or 'flat'; got {mode!r}.")
    total = breakdown[TOTAL]
    rows = _flat(breakdown)
    if mode == "flat":
        rows.sort(key=lambda row: -row[1])
        rows.append((TOTAL, total, ""))
        table = [["Op Type", "FLOPs", "Op Name"]]
        table += [
            [kind, format_flops_scientific(flops, numerical_format), name]
            for kind, flops, name in rows
        ]
    else:
        sums: dict[str, int] = {}
        for kind, flops, _ in rows:
            sums[kind] = sums.get(kind, 0) + flops
        table = [["Op Type", "FLOPs", "%"]]
        table += [
            [kind, format_flops_scientific(flops, numerical_format), f"{100 * flops / total:.1f}"]
            for kind, flops in sorted(sums.items(), key=lambda item: -item[1])
        ]
    print(table_to_string(table))
