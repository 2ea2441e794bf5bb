"""Whether matrix products of training use one plan: kept with the Ir, without effect."""

from __future__ import annotations

import popxl

__all__ = ["disable_fc_pass", "enable_fc_pass"]


def disable_fc_pass(ir: popxl.Ir) -> None:
    """Sets the session option enableFullyConnectedPass to False; layouts are the compiler's.

    Args:
        ir: The program.
    """
    ir._pb_ir.getSessionOptions().enableFullyConnectedPass = False


def enable_fc_pass(ir: popxl.Ir) -> None:
    """Sets the session option enableFullyConnectedPass to True; layouts are the compiler's.

    Args:
        ir: The program.
    """
    ir._pb_ir.getSessionOptions().enableFullyConnectedPass = True
