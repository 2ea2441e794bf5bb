"""Annotations and functions for models (`poptorch.ops`); `poptorch` exports all of them."""

from __future__ import annotations

from poptorch._ops.blocks import BeginBlock, Block, BlockFunction, removeBlocks
from poptorch._ops.control import CPU, cond, for_loop
from poptorch._ops.functions import (
    accessAttributes,
    ctc_beam_search_decoder,
    custom_op,
    dynamic_slice,
    dynamic_update,
    fps,
    nearest,
)
from poptorch._ops.identities import (
    identity_loss,
    ipu_print_tensor,
    nop,
    recomputationCheckpoint,
    serializedMatMul,
    set_available_memory,
    set_overlap_for_input,
    set_overlap_for_output,
)
from poptorch._ops.scopes import Attribute, MultiConv, NameScope
from poptorch._trace import library as _library  # noqa: F401  registers torch.ops.poptorch

__all__ = [
    "accessAttributes",
    "Attribute",
    "BeginBlock",
    "Block",
    "BlockFunction",
    "CPU",
    "MultiConv",
    "NameScope",
    "cond",
    "ctc_beam_search_decoder",
    "custom_op",
    "dynamic_slice",
    "dynamic_update",
    "for_loop",
    "fps",
    "identity_loss",
    "ipu_print_tensor",
    "nearest",
    "nop",
    "recomputationCheckpoint",
    "removeBlocks",
    "serializedMatMul",
    "set_available_memory",
    "set_overlap_for_input",
    "set_overlap_for_output",
]
