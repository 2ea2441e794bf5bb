"""Modules, named variables and graph transforms over popxl."""

from typing import TYPE_CHECKING

from pando.missing_names import missing_names
from popxl_addons import (
    array_munging,
    debugging,
    dot_tree,
    graph,
    graph_cache,
    graph_common,
    module,
    named_replica_grouping,
    named_tensors,
    ops,
    performance_utils,
    remote,
    route_tensor,
    rts,
    streams,
    task_session,
    transforms,
    utils,
    variable_factory,
)
from popxl_addons.array_munging import (
    handle_negative_axis,
    pad_axis,
    repeat,
    repeat_axis,
    repeat_shard,
    shard,
    shard2D,
    split2D,
    squeeze_safe,
    tensor_parallel_input,
    unshard,
    unshard2D,
    unshard_arrays,
)
from popxl_addons.build_grad import create_grad_graph_info
from popxl_addons.debugging import print_tensor, print_text
from popxl_addons.graph import BoundGraph, GraphWithNamedArgs
from popxl_addons.graph_cache import (
    GraphCache,
    argument_hash,
    bound_arguments,
    function,
    get_function_hash,
    tensor_hash,
)
from popxl_addons.module import Module, NameScopeMeta
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.ops import (
    cross_entropy,
    cross_entropy_with_grad,
    fp8_amax_scale,
    host_load,
    host_store,
)
from popxl_addons.performance_utils import (
    evaluate_FLOPs,
    evaluate_ir_FLOPs,
    format_flops_scientific,
    print_FLOPs,
    total_FLOPs,
)
from popxl_addons.remote import (
    create_remote_buffer,
    load_remote_graph,
    named_buffers,
    named_variable_buffers,
    store_remote_graph,
)
from popxl_addons.route_tensor import is_subgraph, route_tensor_into_graph
from popxl_addons.seed_variable import seed_variable
from popxl_addons.streams import InputStreams, OutputStreams
from popxl_addons.task_session import TaskSession, write_variables_pb
from popxl_addons.transforms import (
    RemoteHandle,
    add_recompute_inputs,
    autodiff,
    autodiff_with_accumulation,
    batch_serial_buffer,
    batch_serialise,
    batch_serialise_fwd_and_grad,
    disable_fc_pass,
    enable_fc_pass,
    pipelined_execution,
    recompute_graph,
    set_available_memory_proportion_by_ipu,
    set_graph_available_memory_proportion_by_ipu,
    suffix_graph_name,
)
from popxl_addons.utils import OrderedDict, WeightsDict, timer
from popxl_addons.variable_factory import (
    NamedVariableFactories,
    VariableFactory,
    add_replica_sharded_variable_input,
    add_variable_input,
)

GIT_COMMIT: str | None = None

__all__ = [
    "BoundGraph",
    "GIT_COMMIT",
    "GraphCache",
    "GraphWithNamedArgs",
    "InputStreams",
    "Module",
    "NameScopeMeta",
    "NamedTensors",
    "NamedVariableFactories",
    "OrderedDict",
    "OutputStreams",
    "RemoteHandle",
    "TaskSession",
    "VariableFactory",
    "WeightsDict",
    "add_recompute_inputs",
    "add_replica_sharded_variable_input",
    "add_variable_input",
    "argument_hash",
    "array_munging",
    "autodiff",
    "autodiff_with_accumulation",
    "batch_serial_buffer",
    "batch_serialise",
    "batch_serialise_fwd_and_grad",
    "bound_arguments",
    "create_grad_graph_info",
    "create_remote_buffer",
    "cross_entropy",
    "cross_entropy_with_grad",
    "debugging",
    "disable_fc_pass",
    "dot_tree",
    "enable_fc_pass",
    "evaluate_FLOPs",
    "evaluate_ir_FLOPs",
    "fp8_amax_scale",
    "format_flops_scientific",
    "function",
    "get_function_hash",
    "graph",
    "graph_cache",
    "graph_common",
    "handle_negative_axis",
    "host_load",
    "host_store",
    "is_subgraph",
    "load_remote_graph",
    "module",
    "named_buffers",
    "named_replica_grouping",
    "named_tensors",
    "named_variable_buffers",
    "ops",
    "pad_axis",
    "performance_utils",
    "pipelined_execution",
    "print_FLOPs",
    "print_tensor",
    "print_text",
    "recompute_graph",
    "remote",
    "repeat",
    "repeat_axis",
    "repeat_shard",
    "route_tensor",
    "route_tensor_into_graph",
    "rts",
    "seed_variable",
    "set_available_memory_proportion_by_ipu",
    "set_graph_available_memory_proportion_by_ipu",
    "shard",
    "shard2D",
    "split2D",
    "squeeze_safe",
    "store_remote_graph",
    "streams",
    "suffix_graph_name",
    "task_session",
    "tensor_hash",
    "tensor_parallel_input",
    "timer",
    "total_FLOPs",
    "transforms",
    "unshard",
    "unshard2D",
    "unshard_arrays",
    "utils",
    "variable_factory",
    "write_variables_pb",
]

# Names that other releases were said to have, and names of submodules.
_INSTEAD = {
    "InputFactory": "it is popxl_addons.VariableFactory",
    "NamedInputFactories": "it is popxl_addons.NamedVariableFactories",
    "ModuleList": "Module.from_list makes a container of modules",
    "call_with_metadata": "graphs have call_with_info",
    "load_remote": "it is popxl_addons.remote.load_remote",
    "store_remote": "it is popxl_addons.remote.store_remote",
    "NamedRemoteBuffers": "it is popxl_addons.remote.NamedRemoteBuffers",
    "Linear": "layers are in popxl_addons.layers",
    "LayerNorm": "layers are in popxl_addons.layers",
    "Embedding": "layers are in popxl_addons.layers",
    "Adam": "it is popxl_addons.optimizers.AdamOptimizerStep",
}

if not TYPE_CHECKING:
    __getattr__ = missing_names(__name__, _INSTEAD)
