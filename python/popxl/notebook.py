"""Graphs and Irs as tables of HTML, which notebooks show."""

from __future__ import annotations

import html
import math
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pando import _core

if TYPE_CHECKING:
    from popxl.graph import Graph
    from popxl.ir import Ir

# A table has at most so many rows; a last line says how many there are more.
MOST_ROWS = 100
# A list of tensors in a cell has at most so many.
_MOST_TENSORS = 8


def byte_text(count: int) -> str:
    """Write a number of bytes with a unit.

    Args:
        count: The number.

    Returns:
        Such as `1.5 KiB`.
    """
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"


def counted(count: int, what: str) -> str:
    """Write a number of things.

    Args:
        count: The number.
        what: One of them, in words.

    Returns:
        Such as `1 op` or `2 ops`.
    """
    return f"{count} {what}{'' if count == 1 else 's'}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], total: int, what: str) -> str:
    """`rows` have cells that are HTML already; they are the first of `total`."""
    first = "".join(f"<th>{html.escape(title)}</th>" for title in head)
    lines = [f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows]
    if total > len(lines):
        more = f"and {counted(total - len(lines), f'more {what}')}"
        lines.append(f'<tr><td colspan="{len(head)}">{more}</td></tr>')
    return f"<table><thead><tr>{first}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _tensors(tensors: Sequence[_core.Tensor | None]) -> str:
    shown = [
        f"{html.escape(t.name)} <small>{tuple(t.shape)} {t.dtype.name}</small>"
        for t in tensors[:_MOST_TENSORS]
        if t is not None
    ]
    if len(tensors) > _MOST_TENSORS:
        shown.append(f"and {len(tensors) - _MOST_TENSORS} more")
    return "<br>".join(shown)


def _op_row(op: _core.Op) -> list[str]:
    kind = html.escape(f"{op.kind}.{op.id}")
    for callee in op.called_graphs:
        kind += f"<br><small>{html.escape(callee.id)}</small>"
    file, line = op.context.file, op.context.line
    place = html.escape(f"{os.path.basename(file)}:{line}") if file else ""
    return [
        kind,
        _tensors(op.inputs),
        _tensors(op.outputs),
        f'<span title="{html.escape(f"{file}:{line}")}">{place}</span>',
    ]


def _graph_name(graph: _core.Graph) -> str:
    return html.escape(graph.id) if graph.id else "main graph"


def graph_html(graph: Graph) -> str:
    """Show a graph: a heading and its first ops in the order in which they were made.

    Args:
        graph: The graph.

    Returns:
        HTML with a table of at most MOST_ROWS ops.
    """
    core = graph._pb
    ops = core.ops
    heading = (
        f"<b>{_graph_name(core)}</b>: {counted(len(core.inputs), 'input')}, "
        f"{counted(len(core.outputs), 'output')}, {counted(len(ops), 'op')}"
    )
    rows = [_op_row(op) for op in ops[:MOST_ROWS]]
    return f"{heading}{_table(['op', 'inputs', 'outputs', 'line'], rows, len(ops), 'op')}"


def ir_html(ir: Ir) -> str:
    """Show an Ir: a heading and its first graphs in the order in which they were made.

    Args:
        ir: The Ir.

    Returns:
        HTML with a table of at most MOST_ROWS graphs.
    """
    graphs = ir._pb.graphs
    # A variable's bytes on one replica.
    variables = [t for t in ir._pb.main_graph.tensors if t.kind == _core.TensorKind.Variable]
    size = sum(int(_core.dtype_bytes(t.dtype)) * math.prod(t.shape) for t in variables)
    heading = (
        f"<b>Ir {ir.id}</b>: {counted(ir.replication_factor, 'replica')}, "
        f"{counted(ir.num_host_transfers, 'host transfer')} a run, "
        f"{counted(len(graphs), 'graph')}, "
        f"{counted(sum(len(graph.ops) for graph in graphs), 'op')}, "
        f"{counted(len(variables), 'variable')} of {byte_text(size)}, "
        f"{counted(len(ir._pb.remote_buffers), 'remote buffer')}"
    )
    rows = [
        [
            _graph_name(graph),
            _tensors(graph.inputs),
            _tensors(graph.outputs),
            str(len(graph.ops)),
            "<br>".join(html.escape(callee.id) for callee in graph.called_graphs),
        ]
        for graph in graphs[:MOST_ROWS]
    ]
    head = ["graph", "inputs", "outputs", "ops", "calls"]
    return f"{heading}{_table(head, rows, len(graphs), 'graph')}"
