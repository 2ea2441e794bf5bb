"""Graphs as Graphviz text."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pando import _core

if TYPE_CHECKING:
    from popart._internal.options import SessionOptions
    from popxl.ir import Ir


def checkpoint(ir: Ir, check: str, save_dir: Any) -> None:
    """Write the graphs of an Ir as Graphviz files if a checkpoint is active.

    Active are those in the session option `dotChecks` and in the environment variable
    `POPART_DOT_CHECKS`, separated by colons; `ALL` stands for all.

    Args:
        ir: The Ir.
        check: The name of the checkpoint; upper and lower case are equal.
        save_dir: The folder, which is made and becomes the session option `logDir`. If nothing
            names checkpoints, all are active from then on. None: the folder of `logDir`.
    """
    options = ir._options
    if save_dir is not None:
        Path(save_dir).mkdir(parents=True, exist_ok=True)
        options.logDir = str(save_dir)
        if "POPART_DOT_CHECKS" not in os.environ and not options.dotChecks:
            options.dotChecks = {"ALL"}
    active = {str(name).upper() for name in options.dotChecks}
    active |= {name.upper() for name in os.environ.get("POPART_DOT_CHECKS", "").split(":") if name}
    if "ALL" not in active and check.upper() not in active:
        return
    directory = Path(options.logDir or ".")
    graphs = list(ir._pb.graphs)
    parts = {"all": graphs}
    if options.separateCallOpPdfs:
        parts = {_file_part(graph.id): [graph] for graph in graphs}
    for part, members in parts.items():
        text = dot_text(members, options)
        (directory / f"{check}_{part}.dot").write_text(text, encoding="utf-8")


def _file_part(graph_id: str) -> str:
    if not graph_id:
        return "r"
    number = re.search(r"\(([^)]*)\)", graph_id)
    return number.group(1) if number else graph_id.replace("/", "_")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def dot_text(graphs: list[_core.Graph], options: SessionOptions) -> str:
    """Draw ops and the tensors between them.

    Args:
        graphs: The graphs.
        options: The session options: `firstDotOp` and `finalDotOp` bound the positions of the ops
            that are drawn, and with `dotOpNames` their names are shown too.

    Returns:
        The text of a Graphviz file.
    """
    lines = ["digraph net {"]
    ops = [op for graph in graphs for op in graph.ops][options.firstDotOp : options.finalDotOp]
    for op in ops:
        node = f"op{op.id}"
        label = f"{op.kind}.{op.id}"
        if options.dotOpNames and op.context.name:
            label += f" ({op.context.name})"
        lines.append(f"  {node} [shape=box, label={_quoted(label)}];")
        for tensor in op.inputs:
            if tensor is not None:
                lines.append(f"  {_quoted(tensor.id)} -> {node};")
        for tensor in op.outputs:
            lines.append(f"  {node} -> {_quoted(tensor.id)};")
    return "\n".join([*lines, "}", ""])
