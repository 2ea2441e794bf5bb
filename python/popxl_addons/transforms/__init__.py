"""Transforms of graphs."""

from popxl_addons.transforms.autodiff import autodiff, autodiff_with_accumulation, remap_grad_info
from popxl_addons.transforms.recomputation import add_recompute_inputs, recompute_graph
from popxl_addons.utils import suffix_graph_name

__all__ = [
    "add_recompute_inputs",
    "autodiff",
    "autodiff_with_accumulation",
    "recompute_graph",
    "remap_grad_info",
    "suffix_graph_name",
]
