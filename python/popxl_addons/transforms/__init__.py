"""Transforms of graphs."""

from popxl_addons.transforms.autodiff import autodiff, autodiff_with_accumulation, remap_grad_info
from popxl_addons.transforms.available_memory_proportion import (
    set_available_memory_proportion_by_ipu,
    set_graph_available_memory_proportion_by_ipu,
)
from popxl_addons.transforms.batch_serialisation import (
    BatchSerialResult,
    RemoteHandle,
    batch_serial_buffer,
    batch_serialise,
    batch_serialise_fwd_and_grad,
    batch_serialise_non_overlapped,
    batch_serialise_overlapped,
)
from popxl_addons.transforms.pipelining import Pipelining, pipelined_execution
from popxl_addons.transforms.recomputation import add_recompute_inputs, recompute_graph
from popxl_addons.transforms.use_fc_pass import disable_fc_pass, enable_fc_pass
from popxl_addons.utils import suffix_graph_name

__all__ = [
    "BatchSerialResult",
    "Pipelining",
    "RemoteHandle",
    "add_recompute_inputs",
    "autodiff",
    "autodiff_with_accumulation",
    "batch_serial_buffer",
    "batch_serialise",
    "batch_serialise_fwd_and_grad",
    "batch_serialise_non_overlapped",
    "batch_serialise_overlapped",
    "disable_fc_pass",
    "enable_fc_pass",
    "pipelined_execution",
    "recompute_graph",
    "remap_grad_info",
    "set_available_memory_proportion_by_ipu",
    "set_graph_available_memory_proportion_by_ipu",
    "suffix_graph_name",
]
