"""Graph simplifications by level."""

from __future__ import annotations

import popxl
from popart._internal.patterns import Patterns, PatternsLevel

__all__ = ["apply_pre_alias_patterns", "patterns_level"]

patterns_level = {
    "no_patterns": PatternsLevel.NoPatterns,
    "minimal": PatternsLevel.Minimal,
    "default": PatternsLevel.Default,
    "all": PatternsLevel.All,
}


def apply_pre_alias_patterns(ir: popxl.Ir, level: str = "default") -> None:
    """Simplifies every graph without a change to its results.

    The compiler does so by itself for every session, whatever the level.

    Args:
        ir: The Ir whose graphs are simplified.
        level: "no_patterns", "minimal", "default" or "all".

    Raises:
        KeyError: The level is none of them.
    """
    pb_ir = ir._pb_ir
    pb_ir.setPatterns(Patterns(patterns_level[level]))
    for graph in pb_ir.getAllGraphs():
        pb_ir.applyPreAliasPatterns(graph)
