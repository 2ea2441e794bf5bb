"""Whether matrix products of training use one plan: kept with the Ir, without effect."""

from __future__ import annotations

import popxl
from popart._internal import ir as internal

__all__ = ["disable_fc_pass", "enable_fc_pass"]


def disable_fc_pass(ir: popxl.Ir) -> None:
    """Sets `useFullyConnectedPass` of every matrix product to False; it has no effect.

    Layouts are the compiler's. The session option enableFullyConnectedPass is set too.

    Args:
        ir: The program.
    """
    _use_fc_pass(ir, False)


def enable_fc_pass(ir: popxl.Ir) -> None:
    """Sets `useFullyConnectedPass` of every matrix product to True; it has no effect.

    Layouts are the compiler's. The session option enableFullyConnectedPass is set too.

    Args:
        ir: The program.
    """
    _use_fc_pass(ir, True)


def _use_fc_pass(ir: popxl.Ir, use: bool) -> None:
    ir._pb_ir.getSessionOptions().enableFullyConnectedPass = use
    for graph in ir._pb_ir.getAllGraphs():
        for op in graph.getOps():
            if isinstance(op, internal.op.MatMulOp):
                op.setUseFullyConnectedPass(use)
